//! The input of a run, in the format of a case's file.

use std::collections::BTreeMap;

use pintle_core::contract::outcome::{MutationFailure, Need, NeedError};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::api::ApiResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A test case of a plugin: what one run sees, and how it is carried out. The expected outcome is the next document of the file, which
/// `pintle test --update` writes.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Case")]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Input<S = ()> {
    /// The key of the run.
    pub key: InputKey,
    /// The time of the run.
    #[serde(default = "default_now")]
    pub now: String,
    /// Seconds since the start of the host, by a monotonic clock.
    #[serde(default, skip_serializing_if = "is_at_start")]
    pub uptime: f64,
    /// Failures of this key in a row, before this run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Writes of the last run that were refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<InputFailure>,
    /// Settings of the plugin. Those of the manifest if absent.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Keyed state that earlier runs left.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, String>,
    /// The objects in the caches. A missing `uid` becomes `uid-NAME`, a missing `resourceVersion` becomes `1`.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// The objects that live reads find. The same as in the caches if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Vec<Value>>,
    /// The kinds that the API server serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<InputResource>,
    /// Answers to live reads of subresources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<InputSubresource>,
    /// Verdicts of the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reviews: Vec<InputReview>,
    /// Signatures by keys and authorities of the settings, which the configuration then shows as bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<InputSignature>,
    /// Answers of bound endpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<InputCall>,
    /// Answers to reads of raw paths: path -> body.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub raw: BTreeMap<String, Value>,
    /// What a discovery in the course of the run finds.
    #[serde(default, skip_serializing_if = "InputDiscovery::is_nothing")]
    pub discovery: InputDiscovery,
    /// Carries out the outcomes until the plugin writes nothing more. The end is the third document of the file.
    #[serde(skip_serializing)]
    pub settle: Option<S>,
    /// A place for YAML anchors.
    #[serde(default, rename = "define", skip_serializing)]
    _define: Value,
}

/// The key of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Key")]
#[serde(deny_unknown_fields)]
pub struct InputKey {
    /// Queue of the key. The first one of the manifest if absent.
    pub queue: Option<String>,
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace of the object, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// What a discovery in the course of the run finds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Discovery")]
#[serde(deny_unknown_fields)]
pub struct InputDiscovery {
    /// The kinds that are served then. The same as before if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<InputResource>>,
    /// Group versions that do not answer, such as `metrics.k8s.io/v1beta1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// The error of the discovery as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<InputError>,
}

impl InputDiscovery {
    /// Whether it returns the content of the caches, without an error.
    pub fn is_nothing(&self) -> bool {
        self.resources.is_none() && self.failed.is_empty() && self.error.is_none()
    }
}

/// An error that the API server answers.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Error")]
#[serde(deny_unknown_fields)]
pub struct InputError {
    /// HTTP status code.
    pub code: u16,
    /// Reason of the `Status`, such as `Forbidden`.
    pub reason: String,
    /// Message of the `Status`.
    #[serde(default)]
    pub message: String,
}

/// A kind that the API server serves.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Resource")]
#[serde(deny_unknown_fields)]
pub struct InputResource {
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
pub struct InputSubresource {
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
pub struct InputReview {
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
pub struct InputSignature {
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
pub struct InputCall {
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
pub struct InputFailure {
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
    /// Converts to the host's type.
    pub fn resource(&self) -> ApiResource {
        let Self { kind, plural, namespaced, verbs, subresources, preferred } = self.clone();
        ApiResource { kind, plural, namespaced, verbs, subresources, preferred }
    }
}

impl InputSubresource {
    /// A subresource, and the API server's response.
    pub fn new(kind: &Kind, object: &ObjectKey, subresource: &str, answer: Value) -> Self {
        Self {
            kind: kind.clone(),
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
            subresource: subresource.to_owned(),
            answer,
        }
    }

    /// Subresource and object, in the form of outcomes, and the answer.
    pub fn target_and_answer(&self) -> (String, Value) {
        let Self { kind, namespace, name, subresource, answer } = self;
        (format!("{kind}/{subresource} {}", ObjectKey::new(namespace, name)), answer.clone())
    }

    /// The answer, if it is for this subresource.
    pub fn answer(&self, kind: &Kind, object: &ObjectKey, subresource: &str) -> Option<&Value> {
        let is_asked = self.kind == *kind
            && self.subresource == subresource
            && (self.namespace.as_str(), self.name.as_str()) == (&*object.namespace, &*object.name);
        is_asked.then_some(&self.answer)
    }
}

impl InputReview {
    /// A review and the API server's response.
    pub fn new(kind: &Kind, namespace: &str, object: &str, answer: &Value) -> Self {
        let asked: Value = serde_json::from_str(object).unwrap_or_default();
        let (kind, namespace) = (kind.clone(), namespace.to_owned());
        Self { kind, namespace, spec: asked["spec"].clone(), status: answer["status"].clone() }
    }

    /// The status, if it is for this review.
    pub fn status(&self, kind: &Kind, namespace: &str, review: &Value) -> Option<&Value> {
        let fits = self.kind == *kind && self.namespace == namespace && contains(&review["spec"], &self.spec);
        fits.then_some(&self.status)
    }
}

impl InputSignature {
    /// A failed signature.
    pub fn refused(need: &Need, error: &NeedError) -> Option<Self> {
        let signature = Self::new(need, "")?;
        Some(Self { answer: None, error: Some(InputError::from(error)), ..signature })
    }

    /// A successful signature.
    pub fn new(need: &Need, answer: &str) -> Option<Self> {
        let (by, claims) = match need {
            Need::SignJwt { key, claims } => (key, serde_json::from_str(claims).unwrap_or_default()),
            Need::SignCertificate(request) => (&request.authority, Value::Null),
            _ => return None,
        };
        Some(Self { by: by.clone(), claims, answer: Some(answer.to_owned()), error: None })
    }

    /// The setting of type `key` or `authority` that is bound according to this signature. `None` if it is the refusal
    /// of one that is not bound.
    pub fn bound(&self) -> Option<&str> {
        let is_bound = self.error.as_ref().is_none_or(|error| error.reason != "NotGranted");
        is_bound.then_some(self.by.as_str())
    }

    /// The answer, if it is for this need.
    pub fn answer(&self, need: &Need) -> Option<Result<String, NeedError>> {
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
    /// A failed call.
    pub fn refused(endpoint: &str, operation: &str, body: &str, error: &NeedError) -> Self {
        let call = Self::new(endpoint, operation, body, Value::Null);
        Self { error: Some(InputError::from(error)), ..call }
    }

    /// A successful call.
    pub fn new(endpoint: &str, operation: &str, body: &str, answer: Value) -> Self {
        let (endpoint, operation) = (endpoint.to_owned(), operation.to_owned());
        Self { endpoint, operation, body: serde_json::from_str(body).unwrap_or_default(), answer, error: None }
    }

    /// The answer, if it is for this call.
    pub fn answer(&self, endpoint: &str, operation: &str, body: &str) -> Option<Result<String, NeedError>> {
        let fits = self.endpoint == endpoint
            && self.operation == operation
            && contains(&serde_json::from_str(body).unwrap_or_default(), &self.body);
        let answer = || self.answer.to_string();
        fits.then(|| self.error.as_ref().map_or_else(|| Ok(answer()), |error| Err(error.error())))
    }
}

/// Whether a value contains another one; null matches anything.
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
    /// Converts to the host's type.
    pub fn error(&self) -> NeedError {
        let Self { code, reason, message } = self.clone();
        NeedError { code, reason, message }
    }
}

impl<S> Input<S> {
    /// The input of a run with just its key.
    pub fn of(key: &Key, now: &str) -> Self {
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
    /// Converts to the host's type.
    pub fn failure(&self) -> MutationFailure {
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
