//! A plugin's folder, and its dependencies: its manifest, the contract, its SDK.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use pintle_core::contract::manifest::{Manifest, To};
use tempfile::TempDir;

use crate::component::manifest_json;
use crate::{Language, contract};

/// Folder inside a plugin's own for files copied by `pintle new`, and for intermediate files.
const OURS: &str = ".pintle";

/// A plugin's folder.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its path, absolute.
    pub folder: PathBuf,
    /// Name of the plugin.
    pub name: String,
    /// Its manifest as JSON.
    pub manifest: Vec<u8>,
    /// The version of the contract that the manifest declares, for example `0.2`.
    pub contract_version: String,
    /// Its language.
    pub language: Language,
    /// The WIT world of its component.
    pub world: &'static str,
}

impl Project {
    /// Reads the manifest of a folder, and detects its language unless it is given.
    ///
    /// # Errors
    /// The folder is not a plugin, or its manifest is invalid.
    pub fn open(folder: &Path, language: Option<Language>) -> anyhow::Result<Self> {
        let folder = folder.canonicalize().with_context(|| format!("read {}", folder.display()))?;
        ensure!(folder.is_dir(), "{} is not a directory", folder.display());
        let path = folder.join("manifest.yaml");
        ensure!(
            path.is_file(),
            "{} has no manifest.yaml, which says what the plugin watches and writes (`pintle new` makes a folder to begin with)",
            folder.display()
        );
        let (manifest, _) = manifest_json(&path)?;
        let parsed = Manifest::parse(&manifest).with_context(|| path.display().to_string())?;
        let language = language.map_or_else(|| Language::of(&folder), Ok)?;
        let contract_version = parsed.contract.clone();
        Ok(Self { folder, world: world(&parsed), name: parsed.name, manifest, contract_version, language })
    }

    /// The folder of the contract: the project's own copy, that of the enclosing repository, or the embedded one,
    /// written to a folder that is removed when the result is dropped.
    ///
    /// # Errors
    /// If that folder cannot be written.
    pub fn contract(&self) -> anyhow::Result<Contract> {
        let own = self.folder.join(OURS).join("wit");
        if own.is_dir() {
            return Ok(Contract::There(own));
        }
        let (text, file) = contract::of(self.language);
        let of_language = Path::new(file).parent().unwrap_or(Path::new(""));
        let above = self.folder.ancestors().map(|folder| folder.join(of_language));
        if let Some(folder) = above.into_iter().find(|folder| contract::is_in(folder)) {
            return Ok(Contract::There(folder));
        }
        let folder = TempDir::new().context("make a folder for the contract")?;
        fs::write(folder.path().join(contract::FILE), text).context("write the contract")?;
        Ok(Contract::Written(folder))
    }

    /// The folder of the SDK of the project's language: its own copy, or that of the enclosing repository.
    ///
    /// # Errors
    /// If there is neither.
    pub fn sdk(&self) -> anyhow::Result<PathBuf> {
        let name = self.language.sdk();
        let own = self.folder.join(OURS).join("sdk").join(name);
        let above = self.folder.ancestors().map(|folder| folder.join("sdk").join(name));
        std::iter::once(own).chain(above).find(|folder| folder.is_dir()).with_context(|| {
            format!(
                "{} has no SDK for {}: it belongs into {OURS}/sdk/{name}, where `pintle new` puts it",
                self.folder.display(),
                self.language
            )
        })
    }

    /// The folder for intermediate files.
    pub(crate) fn intermediate(&self) -> PathBuf {
        self.folder.join(OURS).join("build")
    }

    /// A temporary folder inside the project, removed when the result is dropped. It is inside because tools look for
    /// libraries in the parent folders of a source.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn work(&self) -> anyhow::Result<TempDir> {
        let parent = self.intermediate();
        fs::create_dir_all(&parent).with_context(|| format!("create {}", parent.display()))?;
        TempDir::new_in(&parent).with_context(|| format!("create a folder in {}", parent.display()))
    }
}

/// A folder with the contract.
#[derive(Debug)]
pub enum Contract {
    /// An existing one.
    There(PathBuf),
    /// One for this build.
    Written(TempDir),
}

impl Contract {
    /// Its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::There(path) => path,
            Self::Written(folder) => folder.path(),
        }
    }

    /// Its version, for example `0.2.0`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        let file = self.path().join(contract::FILE);
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        Ok(contract::version(&text).to_owned())
    }
}

/// The WIT world of a manifest.
fn world(manifest: &Manifest) -> &'static str {
    let mut rules = manifest.watches.iter().flat_map(|watch| &watch.enqueue);
    if rules.any(|rule| rule.to == To::Plugin) { contract::MAPPING_CONTROLLER } else { contract::CONTROLLER }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "name: web\nversion: 0.1.0\ncontract: \"0.2\"\nwatches: [{kind: v1/Pod, enqueue: [{to: RULE}]}]\nqueues: [{name: web}]\n";

    fn project(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_manifest_chooses_the_world() {
        for (rule, world) in [("self", "controller"), ("plugin", "mapping-controller")] {
            let manifest = MANIFEST.replace("RULE", rule);
            let folder = project(&[("manifest.yaml", &manifest), ("go.mod", "")]);
            let project = Project::open(folder.path(), None).unwrap();
            assert_eq!((project.world, project.name.as_str(), project.language), (world, "web", Language::Go));
        }
    }

    #[test]
    fn a_language_that_is_given_is_not_looked_for() {
        let manifest = MANIFEST.replace("RULE", "self");
        let folder = project(&[("manifest.yaml", &manifest), ("go.mod", ""), ("pyproject.toml", "")]);
        assert_eq!(Project::open(folder.path(), Some(Language::Python)).unwrap().language, Language::Python);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let why = |files: &[(&str, &str)]| {
            let folder = project(files);
            let shown = folder.path().canonicalize().unwrap().display().to_string();
            format!("{:#}", Project::open(folder.path(), None).unwrap_err()).replace(&shown, "$DIR")
        };
        assert!(why(&[("go.mod", "")]).starts_with("$DIR has no manifest.yaml, which says what the plugin watches"));
        assert!(why(&[("go.mod", ""), ("manifest.yaml", "name: web")]).starts_with("$DIR/manifest.yaml: "));
        let number = MANIFEST.replace("RULE", "self").replace("\"0.2\"", "0.2");
        assert_eq!(
            why(&[("go.mod", ""), ("manifest.yaml", &number)]),
            "$DIR/manifest.yaml: contract: invalid type: floating point `0.2`, expected a string; text that looks like a number needs quotes"
        );
        let manifest = MANIFEST.replace("RULE", "self");
        assert!(why(&[("manifest.yaml", &manifest)]).starts_with("$DIR is not a plugin in a language"));
    }

    #[test]
    fn the_contract_and_the_sdk_are_the_projects_own_or_those_above_it() {
        let manifest = MANIFEST.replace("RULE", "self");
        let folder = project(&[
            ("wit/controller.wit", contract::of(Language::Go).0),
            ("sdk/go/go.mod", ""),
            ("sdk/go/examples/web/manifest.yaml", &manifest),
            ("sdk/go/examples/web/go.mod", ""),
            // Another package's contract is ignored.
            ("sdk/go/examples/web/wit/other.wit", "package acme:other@0.1.0;\n"),
        ]);
        let root = folder.path().canonicalize().unwrap();
        let example = root.join("sdk/go/examples/web");
        let open = || Project::open(&example, None).unwrap();
        assert_eq!(open().contract().unwrap().path(), root.join("wit"));
        assert_eq!(open().sdk().unwrap(), root.join("sdk/go"));
        fs::create_dir_all(example.join(".pintle/wit")).unwrap();
        fs::create_dir_all(example.join(".pintle/sdk/go")).unwrap();
        assert_eq!(open().contract().unwrap().path(), example.join(".pintle/wit"));
        assert_eq!(open().sdk().unwrap(), example.join(".pintle/sdk/go"));
    }

    #[test]
    fn a_folder_on_its_own_gets_the_contract_of_this_program_but_no_sdk() {
        let folder = project(&[("manifest.yaml", &MANIFEST.replace("RULE", "self")), ("go.mod", "")]);
        let project = Project::open(folder.path(), None).unwrap();
        let contract = project.contract().unwrap();
        assert!(contract::is_in(contract.path()));
        contract::parse(contract.path(), project.world).unwrap();
        let why = project.sdk().unwrap_err().to_string();
        assert!(why.contains("has no SDK for Go: it belongs into .pintle/sdk/go"), "{why}");
    }
}
