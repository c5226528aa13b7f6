//! Scans the plugin folder, and parses specs.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pintle_core::lifecycle::{Spec, resource_kind};
use pintle_oci::read;

use super::access::read_own;
use crate::wire::{Refusal, reason};

/// Largest spec: the limit of a ConfigMap.
const MAX_SPEC_BYTES: usize = 1 << 20;

/// Identity of a file's content: it changes when the file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    place: (u64, u64),
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            place: (file.dev(), file.ino()),
            len: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Whether it is the same file or folder, even if changed.
    pub fn same_place(&self, other: &Self) -> bool {
        self.place == other.place
    }

    /// The stamp of the file at this path; `None` if it does not exist.
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self::of(&file))
    }
}

/// The files of one plugin. A broken link counts as an existing file that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// `NAME.wasm`, if the entry exists.
    pub component: Option<(PathBuf, Option<Stamp>)>,
    /// `NAME.yaml`, if the entry exists.
    pub spec: Option<(PathBuf, Option<Stamp>)>,
    /// `NAME.wasm.sig`, if the entry exists and signatures are requested.
    pub signature: Option<(PathBuf, Option<Stamp>)>,
    /// `NAME.yml`, if the entry exists: a misnamed spec, which is not read.
    pub misnamed: Option<(PathBuf, Option<Stamp>)>,
}

/// Plugin names with their files; signatures only on request. Hidden and other files are ignored.
///
/// # Errors
/// The folder cannot be read.
pub fn scan(folder: &Path, with_signatures: bool) -> io::Result<BTreeMap<String, Files>> {
    let mut found: BTreeMap<String, Files> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let (Some(stem), Some(extension)) = (path.file_stem(), path.extension()) else { continue };
        let (Some(stem), Some(extension)) = (stem.to_str(), extension.to_str()) else { continue };
        if stem.starts_with('.') {
            continue;
        }
        let (name, place): (_, fn(&mut Files) -> &mut _) = match extension {
            "wasm" => (stem, |files| &mut files.component),
            "yaml" => (stem, |files| &mut files.spec),
            "yml" => (stem, |files| &mut files.misnamed),
            "sig" if with_signatures => match stem.strip_suffix(".wasm") {
                Some(name) => (name, |files| &mut files.signature),
                None => continue,
            },
            _ => continue,
        };
        let (name, stamp) = (name.to_owned(), Stamp::at(&path));
        *place(found.entry(name).or_default()) = Some((path, stamp));
    }
    Ok(found)
}

/// The plugins that the folder provides or disables: those with a component, and those disabled by their spec.
///
/// # Errors
/// The folder cannot be read.
pub fn claimed(folder: &Path) -> io::Result<Vec<String>> {
    let claims = |files: &Files| {
        let disables = |(path, _): &(PathBuf, _)| read_own_spec(path).is_ok_and(|spec| spec.disabled);
        files.component.is_some() || files.spec.as_ref().is_some_and(disables)
    };
    let found = scan(folder, false)?.into_iter().filter(|(_, files)| claims(files));
    Ok(found.map(|(name, _)| name).collect())
}

/// Reads a spec in YAML. An empty file is an empty spec.
///
/// # Errors
/// As [`read`]; also if it is not a valid spec: the message has the field.
pub fn read_spec(path: &Path) -> Result<Spec, Refusal> {
    spec_in(&read(path, MAX_SPEC_BYTES)?, path)
}

/// As [`read_spec`], for a file that only root and the host's user may change.
///
/// # Errors
/// As [`read_own`], and as [`read_spec`].
pub fn read_own_spec(path: &Path) -> Result<Spec, Refusal> {
    spec_in(&read_own(path, MAX_SPEC_BYTES)?, path)
}

fn spec_in(bytes: &[u8], path: &Path) -> Result<Spec, Refusal> {
    parse_spec(bytes).map_err(|why| Refusal::new(reason::INVALID, format!("{}: {why}", path.display())))
}

/// Parses a spec from the text of a file, which may also be the component's ControllerPlugin.
///
/// # Errors
/// The error, with the field.
pub fn parse_spec(yaml: &[u8]) -> Result<Spec, String> {
    let text = std::str::from_utf8(yaml).map_err(|_| "it is not UTF-8".to_owned())?;
    // Converts to JSON first, so that numbers, keys and duplicates are handled as in a resource.
    let mut value: serde_json::Value = serde_norway::from_str(text).map_err(|why| why.to_string())?;
    let kind = resource_kind();
    if value["apiVersion"] == kind.api_version() && value["kind"] == *kind.name {
        // The output of `pintle scaffold`; the component is given elsewhere.
        value = value["spec"].take();
        if let Some(spec) = value.as_object_mut() {
            spec.remove("source");
        }
    }
    if value.is_null() {
        return Ok(Spec::default());
    }
    from_value(value)
}

/// Parses a spec from JSON.
///
/// # Errors
/// The error, with the field.
pub fn from_value(value: serde_json::Value) -> Result<Spec, String> {
    // A list would be parsed as the fields in order.
    if !value.is_object() {
        return Err("it is not an object of fields such as config, grants, limits, strategy".to_owned());
    }
    serde_path_to_error::deserialize(value).map_err(|why| {
        let path = why.path().to_string();
        if path == "." { why.inner().to_string() } else { format!("{path}: {}", why.inner()) }
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(yaml: &str, expected: Expect) {
        let text = match parse_spec(yaml.as_bytes()) {
            Ok(spec) => serde_json::to_string(&spec).unwrap(),
            Err(why) => why,
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn a_spec_that_is_wrong_names_the_field() {
        assert_eq!(parse_spec(b"").unwrap(), Spec::default());
        // The output of `pintle scaffold`.
        let resource = "apiVersion: pintle.dev/v1alpha1\nkind: ControllerPlugin\nmetadata: {name: a}\nspec: {source: {file: a.wasm}, ";
        assert!(parse_spec(format!("{resource}disabled: true}}").as_bytes()).unwrap().disabled);
        let why = parse_spec(format!("{resource}disable: true}}").as_bytes()).unwrap_err();
        assert!(why.contains("unknown field `disable`"), "{why}");
        assert_eq!(parse_spec(b"# nothing yet\n").unwrap(), Spec::default());
        check(
            "strategy: {shadow: {runs: x}}",
            expect![[r#"strategy.shadow.runs: invalid type: string "x", expected u32"#]],
        );
        check(
            "limits: {deadlineMS: 5}",
            expect![
                "limits.deadlineMS: unknown field `deadlineMS`, expected one of `deadlineMs`, `memoryBytes`, `mutations`, `outcomeBytes`, `hostCalls`, `readBytes`, `answerBytes`, `logLines`, `stateBytes`, `series`"
            ],
        );
        check("- 1", expect!["it is not an object of fields such as config, grants, limits, strategy"]);
        check("a: [", expect!["did not find expected node content at line 2 column 1, while parsing a flow node"]);
        check("ungranted: Maybe", expect!["ungranted: unknown variant `Maybe`, expected `Refuse` or `Deny`"]);
    }

    #[test]
    fn a_folder_holds_components_and_specs_and_other_things() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a.wasm", "a.yaml", "b.yaml", ".c.wasm", "readme.md", "d.wasm.partial"] {
            fs::write(at(name), name).unwrap();
        }
        fs::create_dir(at("e.wasm")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("f.wasm")).unwrap();
        let found = scan(folder.path(), false).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|(name, files)| (name.as_str(), files.component.is_some(), files.spec.is_some()))
            .collect();
        assert_eq!(
            shown,
            [("a", true, true), ("b", false, true), ("e", true, false), ("f", true, false)],
            "a link without its file is there"
        );
        assert_eq!(found["f"].component.as_ref().unwrap().1, None);
        for name in ["a.wasm.sig", "a.sig", "g.wasm.sig"] {
            fs::write(at(name), name).unwrap();
        }
        assert_eq!(scan(folder.path(), false).unwrap(), found, "nobody asks for signatures");
        let signed = scan(folder.path(), true).unwrap();
        let signed: Vec<_> =
            signed.iter().filter(|(_, files)| files.signature.is_some()).map(|(name, _)| name).collect();
        assert_eq!(signed, ["a", "g"]);
    }

    #[test]
    fn a_replaced_file_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.wasm");
        fs::write(&file, "one").unwrap();
        let before = Stamp::at(&file);
        assert_eq!(Stamp::at(&file), before);
        fs::write(folder.path().join("new"), "two").unwrap();
        fs::rename(folder.path().join("new"), &file).unwrap();
        assert_ne!(Stamp::at(&file), before);
        fs::remove_file(&file).unwrap();
        assert_eq!(Stamp::at(&file), None);
    }
}
