//! The CustomResourceDefinitions of a project: the files of its folder `crds`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use pintle_core::contract::manifest::{Manifest, ManifestError, WrongPath, WrongPaths};
use pintle_core::object::id::Kind;
use pintle_core::object::schema::KindSchema;
use pintle_core::text::several;
use serde::Deserialize as _;
use serde_json::Value;

mod generate;

pub(crate) use generate::source_files;
pub use generate::{Generated, advice, generate, has_generator};

/// The folder, inside a plugin's own.
pub const FOLDER: &str = "crds";

/// The folder of definitions of a plugin: in its own folder, or next to its component.
pub fn beside(plugin: &Path) -> PathBuf {
    let folder = if plugin.is_dir() { plugin } else { plugin.parent().unwrap_or(plugin) };
    folder.join(FOLDER)
}

/// Largest file. The limit of an API server is lower.
const MAX_FILE_BYTES: u64 = 3 << 20;

/// The YAML and JSON files of a folder, in the order of their names; none if the folder does not exist.
///
/// # Errors
/// The folder cannot be read.
pub fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|path| {
        let is_text =
            path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known));
        // Editors keep hidden files next to those that they write. Reading a pipe would block.
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        is_text && !is_hidden && path.is_file()
    });
    files.sort();
    Ok(files)
}

/// Reads a file of definitions.
///
/// # Errors
/// It cannot be read, or exceeds the limit of an API server.
pub fn read(file: &Path) -> anyhow::Result<String> {
    let n_bytes = fs::metadata(file)?.len();
    ensure!(n_bytes <= MAX_FILE_BYTES, "it has {n_bytes} bytes; at most {MAX_FILE_BYTES} are read");
    Ok(fs::read_to_string(file)?)
}

/// The documents of a YAML or JSON text, without empty ones.
///
/// # Errors
/// It is not YAML.
pub fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = serde_norway::Deserializer::from_str(text).map(Value::deserialize);
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Whether an object is a CustomResourceDefinition.
pub fn is_definition(object: &Value) -> bool {
    object["apiVersion"] == "apiextensions.k8s.io/v1" && object["kind"] == "CustomResourceDefinition"
}

/// A path in messages: relative to the current folder, if it is below it.
pub fn shown(path: &Path) -> String {
    let current = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(current).unwrap_or(path).display().to_string()
}

/// A YAML or JSON file of a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectFile {
    /// Its path, which begins with that of the folder.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
    /// The objects of its documents, in order.
    pub objects: Vec<Value>,
}

/// Reads the [`files`] of a folder.
///
/// # Errors
/// The folder or a file cannot be read, or a file is not YAML; the message has its path.
pub fn read_folder(folder: &Path) -> anyhow::Result<Vec<ObjectFile>> {
    let files = files(folder).with_context(|| format!("read {}", shown(folder)))?;
    let read = |path: PathBuf| {
        let text = read(&path).with_context(|| format!("read {}", shown(&path)))?;
        let objects = documents(&text).with_context(|| shown(&path))?;
        Ok(ObjectFile { path, text, objects })
    };
    files.into_iter().map(read).collect()
}

/// The schemas of all kinds in the CustomResourceDefinitions of a folder's YAML and JSON files. None if the folder does
/// not exist.
///
/// # Errors
/// A file cannot be read or is not YAML.
pub fn schemas(folder: &Path) -> anyhow::Result<Vec<(Kind, KindSchema)>> {
    let files = read_folder(folder)?;
    Ok(files.iter().flat_map(|file| &file.objects).flat_map(KindSchema::of_object).collect())
}

/// The CustomResourceDefinitions in a folder, as [`schemas`] reads them.
///
/// # Errors
/// As for [`schemas`].
pub fn definitions(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let files = read_folder(folder)?;
    Ok(files.into_iter().flat_map(|file| file.objects).filter(is_definition).collect())
}

/// Checks the kinds and the field paths of a component's manifest, those of custom kinds against the definitions in a folder.
///
/// # Errors
/// Unknown kinds, and impossible paths; or a definition that cannot be read.
pub fn check_paths(manifest: &Manifest, folder: &Path) -> anyhow::Result<()> {
    let wrong = wrong(manifest, folder)?;
    if wrong.is_empty() { Ok(()) } else { Err(ManifestError::Path(WrongPaths(wrong)).into()) }
}

fn wrong(manifest: &Manifest, folder: &Path) -> anyhow::Result<Vec<WrongPath>> {
    let schemas = schemas(folder)?;
    let defined = |kind: &Kind| schemas.iter().find(|(defined, _)| defined == kind).map(|(_, schema)| schema.clone());
    let of = |kind: &Kind| defined(kind).or_else(|| KindSchema::of_kubernetes(kind));
    let checked = [manifest.check_kinds(), manifest.check_paths(of)];
    Ok(checked.into_iter().filter_map(Result::err).flat_map(|wrong| wrong.0).collect())
}

/// Checks the kinds and the field paths of a manifest, also with the definitions of its project. `text` is the content
/// of `manifest.yaml`, and `in_file` its name.
///
/// # Errors
/// The errors of [`check_paths`], with their locations; or a definition that cannot be read.
pub(crate) fn check(
    manifest: &Manifest,
    folder: &Path,
    text: &str,
    in_file: impl Fn() -> String,
) -> anyhow::Result<()> {
    let wrong = wrong(manifest, &folder.join(FOLDER))?;
    if wrong.is_empty() {
        return Ok(());
    }
    let placed = |wrong: &WrongPath| match line_and_column(text, wrong) {
        Some((line, column)) => format!("{wrong} at line {line} column {column}"),
        None => wrong.to_string(),
    };
    let wrong: Vec<String> = wrong.iter().map(placed).collect();
    Err(ManifestError::Invalid(several(&wrong))).with_context(in_file)
}

/// The location of the path in the text: after the watch of its kind, which has this index.
fn line_and_column(text: &str, wrong: &WrongPath) -> Option<(usize, usize)> {
    let n_watch: usize = wrong.place.strip_prefix("watches[")?.split(']').next()?.parse().ok()?;
    let is_part = |c: char| c.is_alphanumeric() || "._-[]'/".contains(c);
    let mut n_seen = 0;
    let mut in_watches = false;
    for (i, line) in text.lines().enumerate() {
        let content = line.split(" #").next().unwrap_or_default();
        let trimmed = content.trim_start();
        if trimmed.starts_with('#') {
            continue;
        }
        if !content.starts_with([' ', '-']) && !trimmed.is_empty() {
            in_watches = content.starts_with("watches:");
        }
        let is_watch = ["- kind:", "- {kind:", "- every:", "- {every:"].iter().any(|start| trimmed.starts_with(start));
        n_seen += usize::from(in_watches && is_watch);
        if n_seen <= n_watch {
            continue;
        }
        let mut from = 0;
        while let Some(at) = content[from..].find(&wrong.path).map(|at| from + at) {
            let end = at + wrong.path.len();
            // A list in brackets ends with one, and a quoted path with its quote.
            let before = content[..at].chars().next_back().is_none_or(|c| !is_part(c) || "['\"".contains(c));
            let after = content[end..].chars().next().is_none_or(|c| !is_part(c) || "]'\"".contains(c));
            if before && after {
                return Some((i + 1, content[..at].chars().count() + 1));
            }
            from = end;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::component::manifest_json;

    use super::*;

    const MANIFEST: &str = "name: p
version: 1.0.0
contract: \"0.2\"
watches:
  - kind: v1/Pod
    fields: [spec.nodeName, status.phase]
  # Not metadata.labls.
  - kind: v1/Namespace
    fields:
      - metadata.labels.x
      - metadata.labls
  - kind: example.org/v1/Team
    fields: [spec, spec.membrs]
queues: [{name: p}]
";
    const TEAM: &str = "kind: ConfigMap
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: example.org
  names: {kind: Team}
  versions:
    - name: v1
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {members: {type: array, items: {type: string}}}}
";

    /// The error of a project with this manifest and this file of definitions.
    fn error(manifest: &str, definition: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.yaml");
        fs::write(&path, manifest).unwrap();
        if let Some(definition) = definition {
            fs::create_dir(folder.path().join(FOLDER)).unwrap();
            fs::write(folder.path().join(FOLDER).join("team.yaml"), definition).unwrap();
        }
        match manifest_json(&path) {
            Ok(_) => "ok".to_owned(),
            Err(why) => format!("{why:#}").replace(&folder.path().display().to_string(), "."),
        }
    }

    #[test]
    fn a_path_that_a_built_in_kind_does_not_have_is_an_error_with_its_place() {
        assert_eq!(
            error(MANIFEST, None),
            "./manifest.yaml: the manifest is not valid: watches[1].fields[1]: metadata.labls: v1/Namespace has no such field; did \
             you mean metadata.labels? at line 11 column 9"
        );
        assert_eq!(error(&MANIFEST.replace("- metadata.labls", "- metadata.labels"), None), "ok");
    }

    #[test]
    fn a_wrong_kind_and_all_wrong_paths_are_told_at_once() {
        let manifest = MANIFEST.replace("status.phase", "status.phas");
        let manifest =
            manifest.replace("queues:", "grants:\n  - {verbs: [patch], kinds: [apps/v1/Deploymnt]}\nqueues:");
        let expected = [
            "./manifest.yaml: the manifest is not valid: 4 errors: ",
            "grants[0].kinds[0]: apps/v1/Deploymnt: Kubernetes has no such kind; did you mean apps/v1/Deployment?; ",
            "watches[0].fields[1]: status.phas: v1/Pod has no such field; did you mean status.phase? at line 6 column 29; ",
            "watches[1].fields[1]: metadata.labls: v1/Namespace has no such field; did you mean metadata.labels? at line 11 column 9; ",
            "watches[2].fields[1]: spec.membrs: example.org/v1/Team has no such field; did you mean spec.members? at line 13 column 20",
        ];
        assert_eq!(error(&manifest, Some(TEAM)), expected.concat());
    }

    #[test]
    fn a_path_that_a_definition_of_the_project_does_not_have_is_an_error() {
        let manifest = MANIFEST.replace("- metadata.labls", "- metadata.labels");
        assert_eq!(
            error(&manifest, Some(TEAM)),
            "./manifest.yaml: the manifest is not valid: watches[2].fields[1]: spec.membrs: example.org/v1/Team has no such field; \
             did you mean spec.members? at line 13 column 20"
        );
        assert_eq!(error(&manifest.replace("membrs", "members"), Some(TEAM)), "ok");
        assert_eq!(error(&manifest, Some(&TEAM.replace("name: v1", "name: v2"))), "ok", "another version");
        assert!(error(&manifest, Some("a: [")).starts_with("./crds/team.yaml: "));
    }
}
