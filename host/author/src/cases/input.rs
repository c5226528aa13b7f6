//! The file of a case: two YAML documents, what a run sees and what is expected of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use pintle_core::contract::outcome::{MutationFailure, Need, NeedError};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::api::ApiResource;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::order;
use super::settle::Settle;
use super::table;

/// A case, as its file says.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) input: Input,
    /// The first document, merge keys resolved.
    pub(crate) raw: Value,
    /// The second document; null if there is none yet.
    pub(crate) expected: Value,
    /// The third document, of a case that settles; null if there is none yet.
    pub(crate) end: Value,
    /// How outcomes are shown, if the case is a row of a table.
    pub(super) shown: Option<table::Shown>,
}

/// A test case of a plugin: what one run sees, and how it is carried out. The expected outcome is the next document of the file, which
/// `pintle test --update` writes.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Case")]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Input {
    /// The key of the run.
    pub(crate) key: InputKey,
    /// The time of the run.
    #[serde(default = "default_now")]
    pub(crate) now: String,
    /// Seconds since the start of the host, by a monotonic clock.
    #[serde(default, skip_serializing_if = "is_at_start")]
    pub(crate) uptime: f64,
    /// Failures of this key in a row, before this run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
    /// Writes of the last run that were refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<InputFailure>,
    /// Settings of the plugin. Those of the manifest if absent.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) config: Map<String, Value>,
    /// Keyed state that earlier runs left.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) state: BTreeMap<String, String>,
    /// The objects in the caches. A missing `uid` becomes `uid-NAME`, a missing `resourceVersion` becomes `1`.
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
    /// The objects that live reads find. The same as in the caches if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<Vec<Value>>,
    /// The kinds that the API server serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<InputResource>,
    /// Answers to live reads of subresources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) subresources: Vec<InputSubresource>,
    /// Verdicts of the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) reviews: Vec<InputReview>,
    /// Signatures by keys and authorities of the settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) signatures: Vec<InputSignature>,
    /// Answers of bound endpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<InputCall>,
    /// Answers to reads of raw paths: path -> body.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) raw: BTreeMap<String, Value>,
    /// What a discovery in the course of the run finds.
    #[serde(default, skip_serializing_if = "InputDiscovery::is_nothing")]
    pub(crate) discovery: InputDiscovery,
    /// Carries out the outcomes until the plugin writes nothing more. The end is the third document of the file.
    #[serde(skip_serializing)]
    pub(crate) settle: Option<Settle>,
    /// A place for YAML anchors.
    #[serde(default, rename = "define", skip_serializing)]
    _define: Value,
}

/// The key of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Key")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputKey {
    /// Queue of the key. The first one of the manifest if absent.
    pub(crate) queue: Option<String>,
    /// Kind of the object.
    pub(crate) kind: Kind,
    /// Namespace of the object, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    /// Name of the object.
    pub(crate) name: String,
}

/// What a discovery in the course of the run finds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Discovery")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputDiscovery {
    /// The kinds that are served then. The same as before if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resources: Option<Vec<InputResource>>,
    /// Group versions that do not answer, such as `metrics.k8s.io/v1beta1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<String>,
    /// The error of the discovery as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<InputError>,
}

impl InputDiscovery {
    pub(crate) fn is_nothing(&self) -> bool {
        self.resources.is_none() && self.failed.is_empty() && self.error.is_none()
    }
}

/// An error that the API server answers.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Error")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputError {
    /// HTTP status code.
    pub(crate) code: u16,
    /// Reason of the `Status`, such as `Forbidden`.
    pub(crate) reason: String,
    /// Message of the `Status`.
    #[serde(default)]
    pub(crate) message: String,
}

/// A kind that the API server serves.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Resource")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputResource {
    /// The kind.
    kind: Kind,
    /// Its name in URLs, for example `pods`.
    plural: String,
    /// Whether its objects are in namespaces.
    #[serde(default)]
    namespaced: bool,
    /// Verbs that it supports.
    #[serde(default)]
    verbs: Vec<String>,
    /// Subresources, such as `status`.
    #[serde(default)]
    subresources: Vec<String>,
    /// Whether this is the preferred version of the group.
    #[serde(default)]
    preferred: bool,
}

/// A subresource that a live read finds.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Subresource")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputSubresource {
    /// Kind of the object.
    kind: Kind,
    /// Namespace of the object, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    /// Name of the object.
    name: String,
    /// Name of the subresource, such as `scale`.
    subresource: String,
    /// What the API server answers.
    answer: Value,
}

/// A verdict of the API server.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Review")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputReview {
    /// Kind of the review, such as `authorization.k8s.io/v1/SubjectAccessReview`.
    kind: Kind,
    /// Namespace of the review, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    /// Fields of the reviews that it is about; all if absent. The first verdict that fits counts.
    #[serde(default)]
    spec: Value,
    /// The verdict.
    status: Value,
}

/// A signature.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Signature")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputSignature {
    /// The setting of type `key` or `authority`.
    by: String,
    /// Claims of the tokens that it is about; all if absent. The first signature that fits counts.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    claims: Value,
    /// The token, or the certificate in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The refusal, instead of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<InputError>,
}

/// The answer to a call.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Call")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputCall {
    /// The endpoint, as the manifest declares it.
    endpoint: String,
    /// The operation.
    operation: String,
    /// Fields of the bodies that it is about; all if absent. The first answer that fits counts.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    body: Value,
    /// What the endpoint answers.
    #[serde(default)]
    answer: Value,
    /// The refusal, instead of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<InputError>,
}

/// A write of the last run that was refused.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Failure")]
#[serde(deny_unknown_fields)]
pub(crate) struct InputFailure {
    /// Number of the step in the outcome, from 0.
    #[serde(default)]
    step: u32,
    /// Number of the mutation in the step, from 0.
    #[serde(default)]
    position: u32,
    /// Verb of the mutation.
    verb: Verb,
    /// Kind of the object.
    kind: Kind,
    /// The object.
    object: InputObject,
    /// Subresource, if one was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    /// HTTP status code.
    code: u16,
    /// Reason of the `Status`, such as `Conflict`.
    reason: String,
    /// Message of the `Status`.
    #[serde(default)]
    message: String,
    /// Reasons of its `details.causes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

/// An object by its name.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Object")]
#[serde(deny_unknown_fields)]
struct InputObject {
    /// Its namespace, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
}

/// Verb of a mutation.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verb {
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// The JSON Schema of the first document of a case, in the dialect of that of manifests.
pub(crate) fn schema() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<Input>().to_value()
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_at_start(uptime: &f64) -> bool {
    *uptime == 0.0
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

impl InputSubresource {
    pub(crate) fn new(kind: &Kind, object: &ObjectKey, subresource: &str, answer: Value) -> Self {
        Self {
            kind: kind.clone(),
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
            subresource: subresource.to_owned(),
            answer,
        }
    }

    /// Subresource and object, as outcomes write them, and the answer.
    pub(super) fn target_and_answer(&self) -> (String, Value) {
        let Self { kind, namespace, name, subresource, answer } = self;
        (format!("{kind}/{subresource} {}", ObjectKey::new(namespace, name)), answer.clone())
    }

    /// The answer, if it is that of this subresource.
    pub(crate) fn answer(&self, kind: &Kind, object: &ObjectKey, subresource: &str) -> Option<&Value> {
        let is_asked = self.kind == *kind
            && self.subresource == subresource
            && (self.namespace.as_str(), self.name.as_str()) == (&*object.namespace, &*object.name);
        is_asked.then_some(&self.answer)
    }
}

impl InputReview {
    /// Of a review and the API server's answer.
    pub(crate) fn new(kind: &Kind, namespace: &str, object: &str, answer: &Value) -> Self {
        let asked: Value = serde_json::from_str(object).unwrap_or_default();
        let (kind, namespace) = (kind.clone(), namespace.to_owned());
        Self { kind, namespace, spec: asked["spec"].clone(), status: answer["status"].clone() }
    }

    /// The verdict, if it is about this review.
    pub(crate) fn status(&self, kind: &Kind, namespace: &str, review: &Value) -> Option<&Value> {
        let fits = self.kind == *kind && self.namespace == namespace && contains(&review["spec"], &self.spec);
        fits.then_some(&self.status)
    }
}

impl InputSignature {
    /// Of a signature that was refused.
    pub(crate) fn refused(need: &Need, error: &NeedError) -> Option<Self> {
        let signature = Self::new(need, "")?;
        Some(Self { answer: None, error: Some(InputError::from(error)), ..signature })
    }

    /// Of a signature that was made.
    pub(crate) fn new(need: &Need, answer: &str) -> Option<Self> {
        let (by, claims) = match need {
            Need::SignJwt { key, claims } => (key, serde_json::from_str(claims).unwrap_or_default()),
            Need::SignCertificate(request) => (&request.authority, Value::Null),
            _ => return None,
        };
        Some(Self { by: by.clone(), claims, answer: Some(answer.to_owned()), error: None })
    }

    /// The answer to a need, if it is about it.
    pub(crate) fn answer(&self, need: &Need) -> Option<Result<String, NeedError>> {
        let fits = match need {
            Need::SignJwt { key, claims } => {
                self.by == *key && contains(&serde_json::from_str(claims).unwrap_or_default(), &self.claims)
            }
            Need::SignCertificate(request) => self.by == request.authority,
            _ => false,
        };
        let answer = || self.answer.clone().unwrap_or_default();
        fits.then(|| self.error.as_ref().map_or_else(|| Ok(answer()), |error| Err(error.error())))
    }
}

impl InputCall {
    /// Of a call that was refused.
    pub(crate) fn refused(endpoint: &str, operation: &str, body: &str, error: &NeedError) -> Self {
        let call = Self::new(endpoint, operation, body, Value::Null);
        Self { error: Some(InputError::from(error)), ..call }
    }

    /// Of a call that was made.
    pub(crate) fn new(endpoint: &str, operation: &str, body: &str, answer: Value) -> Self {
        let (endpoint, operation) = (endpoint.to_owned(), operation.to_owned());
        Self { endpoint, operation, body: serde_json::from_str(body).unwrap_or_default(), answer, error: None }
    }

    /// The answer, if it is about this call.
    pub(crate) fn answer(&self, endpoint: &str, operation: &str, body: &str) -> Option<Result<String, NeedError>> {
        let fits = self.endpoint == endpoint
            && self.operation == operation
            && contains(&serde_json::from_str(body).unwrap_or_default(), &self.body);
        let answer = || self.answer.to_string();
        fits.then(|| self.error.as_ref().map_or_else(|| Ok(answer()), |error| Err(error.error())))
    }
}

/// Whether a value has all that another one has; null asks for nothing.
fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (_, Value::Null) => true,
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| contains(value, wanted)))
        }
        _ => value == wanted,
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
            uptime: 0.0,
            attempt: 0,
            failures: Vec::new(),
            config: Map::new(),
            state: BTreeMap::new(),
            objects: Vec::new(),
            live: None,
            resources: Vec::new(),
            subresources: Vec::new(),
            reviews: Vec::new(),
            signatures: Vec::new(),
            calls: Vec::new(),
            raw: BTreeMap::new(),
            discovery: InputDiscovery::default(),
            settle: None,
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
    let entries = std::fs::read_dir(folder).with_context(|| {
        format!("read {shown} (a case is a file NAME.yaml there: the input, a line `---`, the expected outcome)")
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("read {shown}"))?.path();
        ensure!(
            !path.join("input.yaml").exists(),
            "{0} is a folder, but a case is one file: write input.yaml, a line `---` and expected.yaml to {0}.yaml",
            path.display()
        );
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push((name, path));
        }
    }
    files.sort();
    let mut cases = Vec::new();
    for (name, path) in files {
        cases.extend(read(name, path)?);
    }
    cases.retain(|case| filter.is_none_or(|filter| case.name.contains(filter)));
    ensure!(
        !cases.is_empty(),
        "no case in {shown}{}",
        filter.map(|filter| format!(" has {filter:?} in its name")).unwrap_or_default()
    );
    Ok(cases)
}

fn read(name: String, file: PathBuf) -> anyhow::Result<Vec<Case>> {
    let shown = file.display();
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {shown}"))?;
    let mut documents = serde_norway::Deserializer::from_str(&text).map(|document| -> anyhow::Result<Value> {
        let mut value = serde_norway::Value::deserialize(document).with_context(|| format!("{shown} is not YAML"))?;
        value.apply_merge().with_context(|| shown.to_string())?;
        serde_json::to_value(value).with_context(|| format!("{shown}: keys must be text"))
    });
    let raw = documents.next().transpose()?.unwrap_or_default();
    ensure!(
        !raw.is_null(),
        "{shown} is empty: a case begins with the key of the run, `key: {{kind: v1/ConfigMap, name: web}}`"
    );
    if table::is_table(&raw) {
        ensure!(documents.next().is_none(), "{shown} is a table, which is one document");
        return table::read(&name, &file, &raw);
    }
    let input: Input = serde_path_to_error::deserialize(&raw).with_context(|| shown.to_string())?;
    // One that is still to be written is no mistake: --update writes it.
    let expected = documents.next().transpose()?.unwrap_or_default();
    let end = documents.next().transpose()?.unwrap_or_default();
    ensure!(
        end.is_null() || input.settle.is_some(),
        "{shown} has more than two documents: the input, and the expected outcome. A third one, the end, needs `settle: {{}}` in the input"
    );
    ensure!(
        documents.next().is_none(),
        "{shown} has more than three documents: the input, the expected outcome, and the end of a case that settles"
    );
    Ok(vec![Case { name, file, input, raw, expected, end, shown: None }])
}

impl Case {
    /// An outcome as the case shows it: as a document, or as the lines of a row.
    pub(crate) fn shown(&self, outcome: Value) -> Value {
        match &self.shown {
            Some(shown) => shown.text(&outcome).into(),
            None => order::like(&self.expected, outcome),
        }
    }

    /// Replaces the expected outcome in the file, and the end if the case settles. The rest of the file stays as it is.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn write_expected(&self, expected: Option<&Value>, end: Option<&Value>) -> anyhow::Result<()> {
        let shown = self.file.display();
        let text = std::fs::read_to_string(&self.file).with_context(|| format!("read {shown}"))?;
        if let (Some(row), Some(lines)) = (&self.shown, expected.and_then(Value::as_str)) {
            let new = table::rewrite(&text, row, lines).with_context(|| shown.to_string())?;
            return std::fs::write(&self.file, new).with_context(|| format!("write {shown}"));
        }
        let parts: Vec<&str> = text.split("\n---\n").collect();
        let n_there = 1 + usize::from(!self.expected.is_null()) + usize::from(!self.end.is_null());
        if parts.len() < n_there {
            bail!("{shown}: separate the documents by a line that is `---` and nothing else");
        }
        let mut documents = vec![parts[0].trim_end().trim_end_matches("\n---").to_owned()];
        for (at, new) in [(1, expected), (2, end)] {
            let old = parts.get(at).filter(|old| !old.trim().is_empty()).map(|old| old.trim_end().to_owned());
            let new = new.map(serde_norway::to_string).transpose().context("write YAML")?;
            documents.extend(new.map(|text| text.trim_end().to_owned()).or(old));
        }
        let text = format!("{}\n", documents.join("\n---\n"));
        std::fs::write(&self.file, text).with_context(|| format!("write {shown}"))
    }
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

    const INPUT: &str = "# A Pod.\ndefine: {pod: &pod {kind: Pod, apiVersion: v1}}\nkey: {kind: v1/Pod, name: x}\n\
                         objects: [{<<: *pod, metadata: {name: x}}]\n";

    #[test]
    fn cases_come_by_name_with_their_anchors_resolved() {
        let whole = format!("{INPUT}---\nsteps: []\n");
        let folder = folder(&[("b.yaml", INPUT), ("a.b.yaml", &whole), ("notes.txt", "")]);
        let cases = read_all(folder.path(), None).unwrap();
        assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a.b", "b"]);
        assert_eq!(cases[0].input.objects[0]["kind"], "Pod");
        assert_eq!((cases[0].expected.is_null(), cases[1].expected.is_null()), (false, true));
        assert_eq!(cases[0].input.now, "2026-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_expected_is_replaced_and_the_input_stays() {
        for old in ["", "---\n", "---\nsteps: [1]\n"] {
            let folder = folder(&[("a.yaml", &format!("{INPUT}{old}"))]);
            let case = || read_all(folder.path(), None).unwrap().remove(0);
            case().write_expected(Some(&serde_json::json!({"steps": []})), None).unwrap();
            let text = std::fs::read_to_string(folder.path().join("a.yaml")).unwrap();
            assert_eq!(text, format!("{INPUT}---\nsteps: []\n"), "{old:?}");
            assert_eq!(case().expected, serde_json::json!({"steps": []}));
        }
        let folder = folder(&[("a.yaml", &format!("{INPUT}--- # expected\nsteps: []\n"))]);
        let case = read_all(folder.path(), None).unwrap().remove(0);
        assert!(
            case.write_expected(Some(&Value::Null), None).unwrap_err().to_string().contains("a line that is `---`")
        );
    }

    #[test]
    fn mistakes_name_the_file_and_the_field() {
        let cases = [
            (why(&[], None), "no case in DIR"),
            (why(&[("a.yaml", "key: {kind: v1/Pod, name: x}")], Some("zzz")), "has \"zzz\" in its name"),
            (why(&[("a.yaml", "")], None), "DIR/a.yaml is empty"),
            (why(&[("a.yaml", "key: {kind: v1/Pod, name: x")], None), "DIR/a.yaml is not YAML"),
            (why(&[("a.yaml", "key: {kind: Pod, name: x}")], None), "DIR/a.yaml: key.kind: \"Pod\" is not a kind"),
            (why(&[("a.yaml", "key: {kind: v1/Pod, name: x}\nobject: []")], None), "unknown field `object`"),
            (why(&[("a.yaml", &format!("{INPUT}---\na: 1\n---\nb: 2\n"))], None), "more than two documents"),
            (
                why(&[("a.yaml", "# later\n")], None),
                "DIR/a.yaml is empty: a case begins with the key of the run, `key: {kind: v1/ConfigMap, name: web}`",
            ),
            (
                why(&[("a/input.yaml", INPUT), ("a/expected.yaml", "")], None),
                "DIR/a is a folder, but a case is one file: write input.yaml, a line `---` and expected.yaml to DIR/a.yaml",
            ),
        ];
        for (why, expected) in cases {
            assert!(why.contains(expected), "{why}");
        }
    }
}
