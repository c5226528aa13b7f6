//! Names: splitting into words, cases, and unique names.

use std::collections::HashSet;

/// The words of a name, in ASCII letters and digits: `pod`, `CIDRs` of `podCIDRs`. Other characters separate words.
pub(crate) fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (i, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            words.push(std::mem::take(&mut word));
            continue;
        }
        let before = i.checked_sub(1).map(|i| letters[i]);
        let ends_acronym = letters.get(i + 1).is_some_and(char::is_ascii_lowercase) && !is_plural(&letters[i + 1..]);
        let starts_word = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase() || before.is_ascii_digit() || before.is_ascii_uppercase() && ends_acronym
            });
        if starts_word {
            words.push(std::mem::take(&mut word));
        }
        word.push(letter);
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Whether an acronym is followed by a plural `s`: `IPs`, `CIDRs`.
fn is_plural(rest: &[char]) -> bool {
    rest[0] == 's' && rest.get(1).is_none_or(|next| next.is_ascii_uppercase() || !next.is_ascii_alphanumeric())
}

/// `pod_cidrs`; `otherwise` if the name has neither letters nor digits. With `_` before an initial digit.
pub(crate) fn snake(name: &str, otherwise: &str) -> String {
    begin(words(name).join("_").to_ascii_lowercase(), "_", otherwise)
}

/// `POD_CIDRS`.
pub(crate) fn screaming(name: &str, otherwise: &str) -> String {
    snake(name, otherwise).to_ascii_uppercase()
}

/// `PodCIDRs`: each word is capitalized, and otherwise unchanged. With `X` before an initial digit.
pub(crate) fn pascal(name: &str, otherwise: &str) -> String {
    begin(words(name).iter().map(|word| capital(word)).collect(), "X", otherwise)
}

/// Capitalizes a text.
pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

fn begin(name: String, before_digit: &str, otherwise: &str) -> String {
    match name.chars().next() {
        None => otherwise.to_owned(),
        Some(first) if first.is_ascii_digit() => format!("{before_digit}{name}"),
        Some(_) => name,
    }
}

/// A field name in serde's `camelCase`.
pub(crate) fn serde_camel(field: &str) -> String {
    let mut camel = String::new();
    let mut upper = false;
    for letter in field.chars() {
        if letter == '_' {
            upper = true;
        } else if std::mem::take(&mut upper) {
            camel.push(letter.to_ascii_uppercase());
        } else {
            camel.push(letter);
        }
    }
    let mut letters = camel.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}

/// Unique names that differ from the reserved words of the language.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    taken: HashSet<String>,
    reserved: &'static [&'static str],
    suffix: &'static str,
}

impl Scope {
    /// An empty scope. `suffix` is appended to a reserved word.
    pub(crate) fn new(reserved: &'static [&'static str], suffix: &'static str) -> Self {
        Self { taken: HashSet::new(), reserved, suffix }
    }

    /// The wanted name, or the next free one: `name2`, `name3`.
    pub(crate) fn take(&mut self, wanted: &str) -> String {
        self.take_group(wanted, |name| vec![name.to_owned()])
    }

    /// As [`Scope::take`], for a name that implies others, which must be free, too.
    pub(crate) fn take_group(&mut self, wanted: &str, group: impl Fn(&str) -> Vec<String>) -> String {
        let wanted =
            if self.reserved.contains(&wanted) { format!("{wanted}{}", self.suffix) } else { wanted.to_owned() };
        let mut name = wanted.clone();
        let mut n = 2;
        // Names in a scope must not differ in case only: some file systems and tools do not distinguish them.
        while group(&name).iter().any(|name| self.taken.contains(name) || self.reserved.contains(&name.as_str())) {
            name = format!("{wanted}{}{n}", if wanted.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" });
            n += 1;
        }
        self.taken.extend(group(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_in_the_case_of_the_place() {
        for (name, in_snake, in_pascal) in [
            ("nodeName", "node_name", "NodeName"),
            ("clusterIPs", "cluster_ips", "ClusterIPs"),
            ("podCIDRs", "pod_cidrs", "PodCIDRs"),
            ("externalIPsPolicy", "external_ips_policy", "ExternalIPsPolicy"),
            ("HTTPRoute", "http_route", "HTTPRoute"),
            ("$ref", "ref", "Ref"),
            ("x-kubernetes-map_type", "x_kubernetes_map_type", "XKubernetesMapType"),
            ("3scale", "_3scale", "X3scale"),
            ("caffè latte", "caff_latte", "CaffLatte"),
            ("日本", "field", "Field"),
            ("", "field", "Field"),
            ("a.b/c", "a_b_c", "ABC"),
        ] {
            assert_eq!(
                (snake(name, "field"), pascal(name, "Field")),
                (in_snake.to_owned(), in_pascal.to_owned()),
                "{name}"
            );
        }
        assert_eq!(screaming("podCIDRs", ""), "POD_CIDRS");
        assert_eq!((serde_camel("node_name").as_str(), serde_camel("_3scale").as_str()), ("nodeName", "3scale"));
    }

    #[test]
    fn a_name_that_is_taken_or_reserved_becomes_another() {
        let mut scope = Scope::new(&["type", "n_b"], "_");
        let mut take = |name: &str| scope.take(name);
        assert_eq!(["a", "a", "a2", "a", "type", "type"].map(&mut take), ["a", "a2", "a2_2", "a3", "type_", "type_2"]);
        let group = |name: &str| vec![name.to_owned(), format!("n_{name}")];
        assert_eq!(scope.take_group("b", group), "b2", "n_b is reserved");
        assert_eq!(scope.take("n_b2"), "n_b2_2");
    }

    proptest::proptest! {
        #[test]
        fn any_name_becomes_an_identifier_and_two_never_become_the_same(names in proptest::collection::vec(".{0,8}", 1..20)) {
            let mut fields = Scope::new(&["type", "self"], "_");
            let mut taken = HashSet::new();
            for name in &names {
                let field = fields.take(&snake(name, "field"));
                proptest::prop_assert!(field.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'), "{field}");
                proptest::prop_assert!(field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{field}");
                proptest::prop_assert!(!["type", "self"].contains(&field.as_str()));
                proptest::prop_assert!(taken.insert(field));
            }
        }
    }
}
