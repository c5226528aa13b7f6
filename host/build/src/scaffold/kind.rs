//! A custom kind that does not exist yet: its names, and whether Kubernetes and a language take them.

use anyhow::{bail, ensure};

use pintle_core::object::id::guessed_plural;

use crate::Language;

/// Groups that belong to Kubernetes have these endings; API servers require an approval in their definitions.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];

/// A custom kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomKind {
    /// API group, for example `example.org`.
    pub group: String,
    /// Version, for example `v1`.
    pub version: String,
    /// Name of the kind, for example `Team`.
    pub kind: String,
    /// Name in URLs, for example `teams`.
    pub plural: String,
    /// Whether its objects are in no namespace.
    pub is_cluster_scoped: bool,
}

impl CustomKind {
    /// Reads `GROUP/VERSION/KIND`. The plural is guessed as Kubernetes' tools do, unless it is given.
    ///
    /// # Errors
    /// It has another form, or Kubernetes would not take it; the text says what is wrong with which part.
    pub fn parse(text: &str, plural: Option<&str>, is_cluster_scoped: bool) -> anyhow::Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [group, version, kind] = parts[..] else {
            if let ["v1", kind] = parts[..] {
                bail!(
                    "--kind {text}: {kind} of v1 is a kind of Kubernetes; your own has a group: example.org/v1/{kind}"
                );
            }
            bail!("--kind {text:?} is not GROUP/VERSION/KIND, for example example.org/v1/Team");
        };
        check_group(group, text)?;
        ensure!(
            is_version(version),
            "--kind {text}: {version:?} is not a version: v1, v2, v1beta1, v1alpha1 and so on"
        );
        let letters = |letter: char| letter.is_ascii_alphanumeric();
        ensure!(
            kind.len() <= 63 && kind.chars().all(letters) && kind.starts_with(|first: char| first.is_ascii_uppercase()),
            "--kind {text}: {kind:?} is not the name of a kind: letters and digits, at most 63, an uppercase letter first, in the \
             singular"
        );
        let plural = plural.map_or_else(|| guessed_plural(kind), str::to_owned);
        let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        ensure!(
            !plural.is_empty()
                && plural.len() <= 63
                && plural.chars().all(letters)
                && plural.starts_with(|first: char| first.is_ascii_lowercase())
                && !plural.ends_with('-'),
            "--plural {plural:?} is not a name in URLs: lowercase letters, digits and -, at most 63, a letter first and no - last"
        );
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural,
            is_cluster_scoped,
        })
    }

    /// The name of the kind in lower case.
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// As a manifest names it: `example.org/v1/Team`.
    pub fn api_kind(&self) -> String {
        format!("{}/{}/{}", self.group, self.version, self.kind)
    }

    /// Whether the language, and what the templates in it import, leave the names free that the types get.
    ///
    /// # Errors
    /// One is taken.
    pub(super) fn check_language(&self, language: Language) -> anyhow::Result<()> {
        // Whatever an uppercase letter begins.
        let taken: &[&str] = match language {
            Language::Rust => &[
                "Self",
                "Box",
                "Children",
                "Clone",
                "Condition",
                "Debug",
                "Default",
                "Deserialize",
                "Err",
                "Error",
                "Format",
                "Key",
                "Kind",
                "Lister",
                "None",
                "ObjectMeta",
                "Ok",
                "Option",
                "Outcome",
                "Resource",
                "Result",
                "Serialize",
                "Some",
                "Step",
                "String",
                "ToString",
                "Value",
                "Vec",
            ],
            // The package `api` has these; other names are qualified.
            Language::Go => &["Commas", "Format", "Lines"],
            Language::JavaScript | Language::TypeScript => &[
                "Array",
                "Children",
                "Condition",
                "Key",
                "KubernetesObject",
                "Lister",
                "Object",
                "Outcome",
                "Static",
                "Step",
                "String",
                "Type",
            ],
            Language::Python => &[
                "Annotated",
                "Children",
                "Column",
                "Conditions",
                "False",
                "Key",
                "Lister",
                "Literal",
                "Name",
                "None",
                "NotRequired",
                "Object",
                "Outcome",
                "Schema",
                "Step",
                "True",
                "TypedDict",
            ],
        };
        ensure!(
            !taken.contains(&self.kind.as_str()),
            "--kind {}: {} is taken in a project in {language}; choose another name",
            self.api_kind(),
            self.kind
        );
        Ok(())
    }
}

fn check_group(group: &str, text: &str) -> anyhow::Result<()> {
    let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(letters)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if ["apps", "autoscaling", "batch", "policy", "extensions"].contains(&group) {
        bail!("--kind {text}: the group {group} belongs to Kubernetes; use a domain of yours, for example example.org");
    }
    ensure!(
        group.contains('.') && group.len() <= 253 && group.split('.').all(is_label),
        "--kind {text}: {group:?} is not a group: a domain of yours in lowercase letters, for example example.org"
    );
    let is_in = |domain: &str| group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    if let Some(domain) = PROTECTED.into_iter().find(|domain| is_in(domain)) {
        bail!("--kind {text}: groups of {domain} belong to Kubernetes; use a domain of yours, for example example.org");
    }
    ensure!(!is_in("pintle.dev"), "--kind {text}: groups of pintle.dev belong to Pintle; use a domain of yours");
    Ok(())
}

/// A version in the order that Kubernetes knows: `v1`, `v2beta3`.
fn is_version(version: &str) -> bool {
    let is_number = |digits: &str| {
        !digits.is_empty() && !digits.starts_with('0') && digits.chars().all(|digit| digit.is_ascii_digit())
    };
    let Some(rest) = version.strip_prefix('v') else { return false };
    version.len() <= 63
        && ["alpha", "beta"]
            .into_iter()
            .find_map(|stage| rest.split_once(stage))
            .map_or_else(|| is_number(rest), |(major, minor)| is_number(major) && is_number(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        CustomKind::parse(text, None, false).unwrap_err().to_string()
    }

    #[test]
    fn a_kind_has_a_group_a_version_and_a_plural() {
        let team = CustomKind::parse("example.org/v1/Team", None, false).unwrap();
        assert_eq!((team.plural.as_str(), team.singular().as_str()), ("teams", "team"));
        assert_eq!(team.api_kind(), "example.org/v1/Team");
        for (kind, plural) in [("Policy", "policies"), ("Class", "classes"), ("HTTPRoute", "httproutes")] {
            let parsed = CustomKind::parse(&format!("a.b-c.io/v2beta1/{kind}"), None, true).unwrap();
            assert_eq!((parsed.plural.as_str(), parsed.is_cluster_scoped), (plural, true));
        }
        let given = CustomKind::parse("example.org/v1/Person", Some("people"), false).unwrap();
        assert_eq!(given.plural, "people");
    }

    #[test]
    fn what_is_not_a_kind_is_refused_with_the_part_that_is_wrong() {
        for text in ["", "Team", "example.org/Team", "a.org/v1/Team/x", "example.org/v1/"] {
            let why = error(text);
            assert!(
                why.contains("is not GROUP/VERSION/KIND") || why.contains("is not the name of a kind"),
                "{text}: {why}"
            );
        }
        for (text, expected) in [
            ("v1/Pod", "Pod of v1 is a kind of Kubernetes; your own has a group: example.org/v1/Pod"),
            ("apps/v1/Deployment", "the group apps belongs to Kubernetes"),
            ("networking.k8s.io/v1/Ingress", "groups of k8s.io belong to Kubernetes"),
            ("kubernetes.io/v1/A", "groups of kubernetes.io belong to Kubernetes"),
            ("pintle.dev/v1alpha1/ControllerPlugin", "groups of pintle.dev belong to Pintle"),
            ("example/v1/Team", "\"example\" is not a group: a domain of yours"),
            ("Example.org/v1/Team", "is not a group"),
            ("example..org/v1/Team", "is not a group"),
            ("-a.org/v1/Team", "is not a group"),
            ("example.org/1/Team", "\"1\" is not a version: v1, v2, v1beta1"),
            ("example.org/v0/Team", "is not a version"),
            ("example.org/v1rc1/Team", "is not a version"),
            ("example.org/v1beta/Team", "is not a version"),
            ("example.org/v1/team", "\"team\" is not the name of a kind"),
            ("example.org/v1/Te-am", "is not the name of a kind"),
            ("example.org/v1/Täm", "is not the name of a kind"),
        ] {
            let why = error(text);
            assert!(why.starts_with("--kind ") && why.contains(expected), "{text}: {why}");
        }
        // Not of Kubernetes, although the letters are.
        CustomKind::parse("myk8s.io/v1/Team", None, false).unwrap();
        for plural in ["", "Teams", "te ams", "teams-", "1teams", &"x".repeat(64)] {
            let why = CustomKind::parse("example.org/v1/Team", Some(plural), false).unwrap_err().to_string();
            assert!(why.starts_with("--plural "), "{why}");
        }
    }

    #[test]
    fn names_that_a_language_has_taken_are_refused() {
        let check = |kind: &str, language| {
            CustomKind::parse(&format!("example.org/v1/{kind}"), None, false).unwrap().check_language(language)
        };
        for (kind, language, other) in [
            ("Self", Language::Rust, Language::Go),
            ("None", Language::Python, Language::Go),
            ("Format", Language::Go, Language::Python),
            ("Object", Language::TypeScript, Language::Go),
            ("Children", Language::JavaScript, Language::Go),
        ] {
            let why = check(kind, language).unwrap_err().to_string();
            assert_eq!(
                why,
                format!(
                    "--kind example.org/v1/{kind}: {kind} is taken in a project in {language}; choose another name"
                )
            );
            check(kind, other).unwrap();
        }
        for language in Language::ALL {
            check("Team", language).unwrap();
        }
    }
}
