//! `pintle new`: a small plugin that works, with cases and the SDK that it is written against.
//!
//! Templates are `scaffold/common` and `scaffold/<language>`; `{{name}}` and the like stand for the fields of [`Scaffold`]. With a custom
//! kind, `scaffold/kind` has more of them, which replace those of the same name; with the example, `scaffold/example` as well.

mod kind;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

pub use self::kind::CustomKind;

use crate::language::{NPM_INSTALL, PIP_INSTALL};
use crate::{Language, contract};

/// Path and content of every template, of the contract and of the SDKs.
static EMBEDDED: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Names that Rust's compiler has taken.
const TAKEN_IN_RUST: [&str; 9] = ["alloc", "core", "crate", "self", "std", "super", "test", "proc-macro", "pintle-sdk"];

/// A plugin that does not exist yet.
#[derive(Clone, Debug)]
pub struct Scaffold<'a> {
    /// Name of the plugin.
    pub name: &'a str,
    /// What it shall be written in.
    pub language: Language,
    /// Where it shall lie. The folder is made; one that is there must be empty.
    pub folder: &'a Path,
    /// A kind that it defines and reconciles; without it, the plugin reconciles Services.
    pub kind: Option<&'a CustomKind>,
    /// Whether the kind is that of the documentation, with a list, a choice and a mistake to report, instead of a text.
    pub example: bool,
    /// JSON Schemas of its YAML files, by name, which editors find in [`SCHEMAS`].
    pub schemas: &'a [(&'a str, Value)],
}

/// Folder of the schemas, inside the plugin's own.
const SCHEMAS: &str = ".pintle/schemas";

impl Scaffold<'_> {
    /// Writes the folder.
    ///
    /// # Errors
    /// If the name cannot be one, there is something in the folder already, or it cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        check_name(self.name, self.language)?;
        if let Some(kind) = self.kind {
            kind.check_language(self.language)?;
        }
        let shown = self.folder.display();
        match fs::read_dir(self.folder) {
            Ok(mut entries) => ensure!(
                entries.next().is_none(),
                "{shown} is not empty: nothing is written over; name another folder with --dir"
            ),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => bail!("{shown} cannot be made: {why}"),
        }
        for (path, content) in self.files()? {
            let path = self.folder.join(path);
            let parent = path.parent().unwrap_or(self.folder);
            fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
            fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    /// What to type next, one command a line.
    pub fn next_steps(&self) -> Vec<String> {
        let mut steps: Vec<String> = commands(self.language).iter().map(|command| (*command).to_owned()).collect();
        if self.kind.is_some() {
            // After the libraries of the language.
            let i = steps.iter().position(|step| step.contains(" # ")).unwrap_or(0);
            steps.insert(i, "pintle crds            # crds/ from the types".to_owned());
        }
        steps
    }

    /// Path -> content.
    fn files(&self) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let language = format!("scaffold/{}/", self.language.word());
        let sdk = format!("sdk/{}/", self.language.sdk());
        // Path of a template -> its text; the later ones replace the earlier ones.
        let mut templates: BTreeMap<&str, &str> = BTreeMap::new();
        let mut sets = vec!["scaffold/common/".to_owned(), language];
        if self.kind.is_some() {
            let folders = ["kind", "example"].into_iter().take(if self.example { 2 } else { 1 });
            sets.extend(
                folders.flat_map(|folder| {
                    ["common", self.language.word()].map(|part| format!("scaffold/{folder}/{part}/"))
                }),
            );
        }
        for set in &sets {
            if set.ends_with("/common/") {
                // Cases of other fields.
                templates.retain(|name, _| !name.starts_with("cases/"));
            }
            for (path, content) in EMBEDDED {
                if let Some(name) = path.strip_prefix(set) {
                    templates.insert(name, std::str::from_utf8(content).with_context(|| format!("template {path}"))?);
                }
            }
        }
        let (_, contract_file) = contract::of(self.language);
        let mut files = Vec::new();
        for (name, text) in templates {
            let name = if name == "gitignore" { ".gitignore".to_owned() } else { self.filled_in(name) };
            files.push((name.into(), self.filled_in(text).into_bytes()));
        }
        for (path, content) in EMBEDDED {
            if path.starts_with(&sdk) && !path.contains("/examples/") {
                files.push((Path::new(".pintle").join(path), content.to_vec()));
            } else if *path == contract_file {
                files.push((Path::new(".pintle/wit").join(contract::FILE), content.to_vec()));
            } else if path.starts_with("sdk/vectors/") && self.language == Language::Rust {
                // The SDK's own tests read them.
                files.push((Path::new(".pintle").join(path), content.to_vec()));
            }
        }
        for (name, schema) in self.schemas {
            let text = format!("{}\n", serde_json::to_string_pretty(schema)?);
            files.push((Path::new(SCHEMAS).join(format!("{name}.json")), text.into_bytes()));
        }
        if self.language == Language::Go {
            files.extend(self.go_module()?);
        }
        Ok(files)
    }

    fn filled_in(&self, template: &str) -> String {
        let commands = self.next_steps().join("\n");
        let (source, instances) = match self.language {
            Language::Rust => ("src/lib.rs", ""),
            Language::Go => ("main.go", POOLED),
            Language::JavaScript => ("controller.js", POOLED),
            Language::TypeScript => ("controller.ts", POOLED),
            Language::Python => ("app.py", POOLED),
        };
        let sdk = match self.language {
            Language::Rust => "rust/src/lib.rs",
            Language::Go => "go/doc.go",
            Language::JavaScript | Language::TypeScript => "js/README.md",
            Language::Python => "python/README.md",
        };
        let mut text = template.to_owned();
        if let Some(kind) = self.kind {
            text = self.with_kind(kind, text);
        }
        [
            ("{{name}}", self.name),
            ("{{ident}}", &self.name.replace('-', "_")),
            ("{{language}}", &self.language.to_string()),
            ("{{tutorial}}", &self.language.tutorial()),
            ("{{source}}", source),
            ("{{sdk}}", &format!(".pintle/sdk/{sdk}")),
            ("{{contract}}", contract::short(contract::version(contract::of(self.language).0))),
            ("{{instances}}\n", instances),
            ("{{crds}}", ""),
            ("{{commands}}", &format!("```sh\n{commands}\n```")),
        ]
        .iter()
        .fold(text, |text, (mark, value)| text.replace(mark, value))
    }

    /// Fills in what templates of a custom kind have besides.
    fn with_kind(&self, kind: &CustomKind, text: String) -> String {
        let (singular, plural, group) = (kind.singular(), &kind.plural, &kind.group);
        let types = match self.language {
            Language::Rust => "src/api.rs".to_owned(),
            Language::Go => format!("api/{singular}.go"),
            Language::JavaScript => "api.js".to_owned(),
            Language::TypeScript => "api.ts".to_owned(),
            Language::Python => "api.py".to_owned(),
        };
        let in_no_namespace = kind.is_cluster_scoped;
        let if_cluster = |text: &'static str| if in_no_namespace { text } else { "" };
        let if_namespaced = |text: &'static str| if in_no_namespace { "" } else { text };
        [
            ("{{Kind}}", kind.kind.as_str()),
            ("{{singular}}", &singular),
            ("{{plural}}", plural),
            ("{{group}}", group),
            ("{{version}}", &kind.version),
            ("{{apiVersion}}", &format!("{group}/{}", kind.version)),
            ("{{apiKind}}", &kind.api_kind()),
            ("{{scope}}", if in_no_namespace { "Cluster" } else { "Namespaced" }),
            ("{{rustScope}}", if_namespaced("\n        namespaced,")),
            ("{{inNamespace}}", if_namespaced("namespace: default, ")),
            ("{{namespaced}}", if_namespaced("default/")),
            // A child of an object in no namespace needs one.
            ("{{childNamespaces}}", if_cluster(", namespaces: [default]")),
            ("{{goNamespace}}", if_cluster(", \"namespace\": \"default\"")),
            ("{{jsonNamespace}}", if_cluster(", \"namespace\": \"default\"")),
            ("{{jsNamespace}}", if_cluster(", namespace: \"default\"")),
            ("{{types}}", &types),
            // What Python's `pintle crds` needs.
            ("{{crds}}", ",crds"),
            ("{{contents}}", if self.example { "members" } else { "text" }),
        ]
        .iter()
        .fold(text, |text, (mark, value)| text.replace(mark, value))
    }

    /// The module file of an example, whose list of libraries is complete.
    fn go_module(&self) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let of_example = |file: &str| {
            let found = EMBEDDED.iter().find(|(path, _)| *path == format!("sdk/go/examples/webapp/{file}"));
            let (_, content) = found.with_context(|| format!("this program was built without {file}"))?;
            anyhow::Ok(std::str::from_utf8(content)?)
        };
        let module = of_example("go.mod")?
            .replace("module example.com/webapp", &format!("module example.com/{}", self.name))
            .replace("=> ../..", "=> ./.pintle/sdk/go");
        let sums = of_example("go.sum")?;
        Ok(vec![("go.mod".into(), module.into_bytes()), ("go.sum".into(), sums.as_bytes().to_vec())])
    }
}

/// For languages that are slow to start.
const POOLED: &str = "# An instance serves many runs, because it takes a while to start.\ninstances: pooled\n";

fn commands(language: Language) -> &'static [&'static str] {
    const TEST: &str = "pintle test            # the cases, in the component";
    const DEV: &str = "pintle dev --plugin .  # an embedded cluster; each save is swapped in";
    match language {
        Language::Rust => &["cargo test             # the cases, natively", TEST, DEV],
        Language::Go => &[TEST, DEV],
        Language::JavaScript | Language::TypeScript => &[NPM_INSTALL, TEST, DEV],
        Language::Python => &[PIP_INSTALL, TEST, DEV],
    }
}

/// A name that is good for the plugin, and for a package of the language.
fn check_name(name: &str, language: Language) -> anyhow::Result<()> {
    let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    ensure!(
        !name.is_empty()
            && name.len() <= 63
            && name.chars().all(letters)
            && name.starts_with(|first: char| first.is_ascii_lowercase())
            && !name.ends_with('-'),
        "{name:?} is not a plugin name: lowercase letters, digits and -, at most 63, a letter first and no - last"
    );
    ensure!(
        language != Language::Rust || !TAKEN_IN_RUST.contains(&name),
        "{name:?} is taken in Rust; choose another name"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Project;

    #[test]
    fn every_language_gets_a_folder_that_is_a_plugin() {
        for language in Language::ALL {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("deep/web-ports");
            Scaffold { name: "web-ports", language, folder: &folder, kind: None, example: false, schemas: &[] }
                .write()
                .unwrap();
            let project = Project::open(&folder, None).unwrap();
            assert_eq!((project.name.as_str(), project.language), ("web-ports", language));
            let own = folder.canonicalize().unwrap().join(".pintle");
            assert_eq!(project.contract().unwrap().path(), own.join("wit"), "{language}");
            assert_eq!(project.sdk().unwrap(), own.join("sdk").join(language.sdk()), "{language}");
            for file in ["README.md", ".gitignore", "cases/made.yaml"] {
                let text = fs::read_to_string(folder.join(file)).unwrap();
                assert!(!text.contains("{{"), "{language}: {file}: {text}");
            }
            let readme = fs::read_to_string(folder.join("README.md")).unwrap();
            let links: Vec<&str> = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
            assert!(!links.is_empty() && links.iter().all(|link| folder.join(link).is_file()), "{language}: {links:?}");
        }
    }

    #[test]
    fn every_language_gets_a_plugin_of_a_custom_kind() {
        for language in Language::ALL {
            for (is_cluster_scoped, example) in [(false, false), (true, false), (false, true), (true, true)] {
                let root = tempfile::tempdir().unwrap();
                let folder = root.path().join("people");
                let kind = CustomKind::parse("example.org/v1beta1/Person", Some("people"), is_cluster_scoped).unwrap();
                Scaffold { name: "people", language, folder: &folder, kind: Some(&kind), example, schemas: &[] }
                    .write()
                    .unwrap();
                let project = Project::open(&folder, None).unwrap();
                assert_eq!((project.name.as_str(), project.language), ("people", language));
                let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
                let manifest = read("manifest.yaml");
                assert!(manifest.contains("kind: example.org/v1beta1/Person\n"), "{manifest}");
                assert_eq!(manifest.contains("namespaces: [default]"), is_cluster_scoped, "{manifest}");
                assert_eq!(read("cases/new.yaml").contains("namespace: default, name: blue"), !is_cluster_scoped);
                assert!(read("samples/person.yaml").contains("kind: Person\n"));
                assert!(!folder.join("cases/made.yaml").exists(), "a case of a Service");
                assert_eq!(folder.join("cases/invalid.yaml").exists(), example);
                assert_eq!(manifest.contains("with the members of each"), example, "{manifest}");
                assert!(crate::crds::has_generator(&project).unwrap(), "{language}");
                for file in walk(&folder).into_iter().filter(|file| !file.starts_with(folder.join(".pintle"))) {
                    let text = fs::read_to_string(&file).unwrap();
                    assert!(
                        !text.contains("{{") && !file.display().to_string().contains("{{"),
                        "{}: {text}",
                        file.display()
                    );
                    assert!(!text.contains("Service"), "{}: {text}", file.display());
                }
            }
        }
    }

    fn walk(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn a_kind_whose_name_is_taken_writes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let kind = CustomKind::parse("example.org/v1/Self", None, false).unwrap();
        let folder = root.path().join("x");
        let scaffold = Scaffold {
            name: "x",
            language: Language::Rust,
            folder: &folder,
            kind: Some(&kind),
            example: false,
            schemas: &[],
        };
        assert!(scaffold.write().unwrap_err().to_string().contains("is taken in a project in Rust"));
        assert!(!folder.exists());
    }

    #[test]
    fn what_tools_and_tests_leave_behind_is_not_embedded() {
        for (path, _) in EMBEDDED {
            for part in path.split('/') {
                assert!(!["target", "node_modules", "__pycache__", ".pintle"].contains(&part), "{path}");
            }
        }
        assert!(EMBEDDED.iter().any(|(path, _)| *path == "wit/controller.wit"));
        for language in Language::ALL {
            let sdk = format!("sdk/{}/", language.sdk());
            assert!(EMBEDDED.iter().any(|(path, _)| path.starts_with(&sdk)), "no {sdk}");
        }
    }

    #[test]
    fn nothing_is_written_over() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("notes"), "mine").unwrap();
        let scaffold = Scaffold {
            name: "web",
            language: Language::Go,
            folder: root.path(),
            kind: None,
            example: false,
            schemas: &[],
        };
        let why = scaffold.write().unwrap_err().to_string();
        assert!(why.ends_with("is not empty: nothing is written over; name another folder with --dir"), "{why}");
        let file = Scaffold { folder: &root.path().join("notes"), ..scaffold };
        assert!(file.write().unwrap_err().to_string().contains("cannot be made"));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(root.path().join("notes")).unwrap(), "mine");
    }

    #[test]
    fn names_are_those_of_plugins_and_packages() {
        for good in ["a", "web", "web-2", "a1"] {
            check_name(good, Language::Rust).unwrap();
        }
        for bad in ["", "Web", "-web", "web-", "1web", "we_b", "wéb", "a b", &"x".repeat(64)] {
            assert!(check_name(bad, Language::Go).is_err(), "{bad:?}");
        }
        assert!(check_name("core", Language::Rust).unwrap_err().to_string().contains("taken in Rust"));
        check_name("core", Language::Go).unwrap();
    }
}
