//! The files of a case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use pintle_core::contract::outcome::{MutationFailure, NeedError};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::api::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A case, as its files say.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) input: Input,
    /// `input.yaml`, merge keys resolved.
    pub(crate) raw: Value,
    /// `expected.yaml`; null if there is none yet.
    pub(crate) expected: Value,
}

/// What a run sees.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Input {
    pub(crate) key: InputKey,
    #[serde(default = "default_now")]
    pub(crate) now: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<InputFailure>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) config: Map<String, Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) state: BTreeMap<String, String>,
    /// What the caches hold.
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
    /// What the API server has; the same if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<Vec<Value>>,
    /// What the API server offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<InputResource>,
    /// Path -> body.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) raw: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "InputDiscovery::is_nothing")]
    pub(crate) discovery: InputDiscovery,
    /// A place for YAML anchors.
    #[serde(default, rename = "define", skip_serializing)]
    _define: Value,
}

/// The key of the run.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputKey {
    /// The manifest's first if absent.
    pub(crate) queue: Option<String>,
    pub(crate) kind: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What a discovery in the course of the run finds.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputDiscovery {
    /// The same as before if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resources: Option<Vec<InputResource>>,
    /// Group versions that do not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<InputError>,
}

impl InputDiscovery {
    fn is_nothing(&self) -> bool {
        self.resources.is_none() && self.failed.is_empty() && self.error.is_none()
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputError {
    pub(crate) code: u16,
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputResource {
    kind: Kind,
    plural: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<String>,
    #[serde(default)]
    preferred: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputFailure {
    #[serde(default)]
    step: u32,
    #[serde(default)]
    position: u32,
    verb: Verb,
    kind: Kind,
    object: InputObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    code: u16,
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct InputObject {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verb {
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn default_now() -> String {
    "2026-01-01T00:00:00Z".to_owned()
}

impl InputResource {
    pub(crate) fn resource(&self) -> ApiResource {
        let Self { kind, plural, namespaced, verbs, subresources, preferred } = self.clone();
        ApiResource { kind, plural, namespaced, verbs, subresources, preferred }
    }
}

impl InputError {
    pub(crate) fn error(&self) -> NeedError {
        let Self { code, reason, message } = self.clone();
        NeedError { code, reason, message }
    }
}

impl Input {
    /// Of a run that sees nothing but its key.
    pub(crate) fn of(key: &Key, now: &str) -> Self {
        let key = InputKey {
            queue: Some(key.queue.to_string()),
            kind: key.kind.clone(),
            namespace: key.object.namespace.to_string(),
            name: key.object.name.to_string(),
        };
        Self {
            key,
            now: now.to_owned(),
            attempt: 0,
            failures: Vec::new(),
            config: Map::new(),
            state: BTreeMap::new(),
            objects: Vec::new(),
            live: None,
            resources: Vec::new(),
            raw: BTreeMap::new(),
            discovery: InputDiscovery::default(),
            _define: Value::Null,
        }
    }
}

impl From<&ApiResource> for InputResource {
    fn from(resource: &ApiResource) -> Self {
        let ApiResource { kind, plural, namespaced, verbs, subresources, preferred } = resource.clone();
        Self { kind, plural, namespaced, verbs, subresources, preferred }
    }
}

impl From<&NeedError> for InputError {
    fn from(error: &NeedError) -> Self {
        let NeedError { code, reason, message } = error.clone();
        Self { code, reason, message }
    }
}

impl From<&MutationFailure> for InputFailure {
    fn from(failure: &MutationFailure) -> Self {
        let MutationFailure { step, position, verb, kind, object, subresource, code, reason, message, causes } =
            failure.clone();
        let verb = match verb {
            "create" => Verb::Create,
            "update" => Verb::Update,
            "delete" => Verb::Delete,
            "delete-collection" => Verb::DeleteCollection,
            _ => Verb::Patch,
        };
        let object = InputObject { namespace: object.namespace.to_string(), name: object.name.to_string() };
        Self { step, position, verb, kind, object, subresource, code, reason, message, causes }
    }
}

impl InputFailure {
    pub(crate) fn failure(&self) -> MutationFailure {
        let verb = match self.verb {
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "delete-collection",
        };
        let Self { step, position, kind, object, subresource, code, reason, message, causes, .. } = self.clone();
        let object = ObjectKey::new(&object.namespace, &object.name);
        MutationFailure { step, position, verb, kind, object, subresource, code, reason, message, causes }
    }
}

/// The cases of a folder whose names contain the filter, by name.
///
/// # Errors
/// There is none, or one does not parse.
pub(crate) fn read_all(folder: &Path, filter: Option<&str>) -> anyhow::Result<Vec<Case>> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("read {shown} (a case is a folder there, with input.yaml and expected.yaml)"))?;
    let mut cases = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("read {shown}"))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && filter.is_none_or(|filter| name.contains(filter)) {
            cases.push(read(name, path)?);
        }
    }
    ensure!(
        !cases.is_empty(),
        "no case in {shown}{}",
        filter.map(|filter| format!(" has {filter:?} in its name")).unwrap_or_default()
    );
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

fn read(name: String, folder: PathBuf) -> anyhow::Result<Case> {
    let file = folder.join("input.yaml");
    let raw = yaml(&file)?;
    let input = serde_path_to_error::deserialize(&raw).with_context(|| file.display().to_string())?;
    let file = folder.join("expected.yaml");
    // One that is still to be written is no mistake: --update writes it.
    let expected = if file.exists() { yaml(&file)? } else { Value::Null };
    Ok(Case { name, folder, input, raw, expected })
}

fn yaml(file: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let mut value: serde_norway::Value =
        serde_norway::from_str(&text).with_context(|| format!("{} is not YAML", file.display()))?;
    value.apply_merge().with_context(|| file.display().to_string())?;
    serde_json::to_value(value).with_context(|| format!("{}: keys must be text", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn why(files: &[(&str, &str)], filter: Option<&str>) -> String {
        let folder = folder(files);
        let why = format!("{:#}", read_all(folder.path(), filter).unwrap_err());
        why.replace(&folder.path().display().to_string(), "DIR")
    }

    #[test]
    fn cases_come_by_name_with_their_anchors_resolved() {
        let input = "define: {pod: &pod {kind: Pod, apiVersion: v1}}\nkey: {kind: v1/Pod, name: x}\n\
                     objects: [{<<: *pod, metadata: {name: x}}]\n";
        let folder = folder(&[("b/input.yaml", input), ("a/input.yaml", input), ("a/expected.yaml", "steps: []")]);
        let cases = read_all(folder.path(), None).unwrap();
        assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(cases[0].input.objects[0]["kind"], "Pod");
        assert_eq!((cases[0].expected.is_null(), cases[1].expected.is_null()), (false, true));
        assert_eq!(cases[0].input.now, "2026-01-01T00:00:00Z");
    }

    #[test]
    fn mistakes_name_the_file_and_the_field() {
        let cases = [
            (why(&[], None), "no case in DIR"),
            (why(&[("a/input.yaml", "key: {kind: v1/Pod, name: x}")], Some("zzz")), "has \"zzz\" in its name"),
            (why(&[("a/expected.yaml", "")], None), "read DIR/a/input.yaml"),
            (why(&[("a/input.yaml", "key: {kind: v1/Pod, name: x")], None), "DIR/a/input.yaml is not YAML"),
            (
                why(&[("a/input.yaml", "key: {kind: Pod, name: x}")], None),
                "DIR/a/input.yaml: key.kind: \"Pod\" is not a kind",
            ),
            (why(&[("a/input.yaml", "key: {kind: v1/Pod, name: x}\nobject: []")], None), "unknown field `object`"),
        ];
        for (why, expected) in cases {
            assert!(why.contains(expected), "{why}");
        }
    }
}
