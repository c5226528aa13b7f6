//! The outcome of a run, in the host's own form of the contract's type. `wit/controller.wit` documents each item.

use std::sync::Arc;
use std::time::Duration;

use crate::object::id::{Key, Kind, ObjectKey};

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Reads that the cache cannot answer. If there are any, nothing else is applied, and the run starts again with the
    /// answers.
    pub needs: Vec<Need>,
    /// Executed in order; after a failed step, only steps that are `always`.
    pub steps: Vec<Step>,
    /// Requeue the key after this time.
    pub requeue_after: Option<Duration>,
    /// New values of the plugin's keyed state; `None` removes a value.
    pub state: Vec<(String, Option<String>)>,
    /// Samples for metrics that the manifest declares.
    pub observations: Vec<Observation>,
    /// Other keys of the plugin to run.
    pub wake: Vec<Wake>,
    /// Label values for the metrics of runs, by label name.
    pub run_labels: Vec<(String, String)>,
    /// Fails the run nevertheless, after everything else was applied.
    pub error: Option<ReconcileError>,
}

/// Another key to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The key.
    pub key: Key,
    /// Delay; immediately if absent.
    pub after: Option<Duration>,
}

impl From<Key> for Wake {
    /// Without a delay.
    fn from(key: Key) -> Self {
        Self { key, after: None }
    }
}

/// Position of a mutation in an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the step.
    pub step: u32,
    /// Index of the mutation in the step.
    pub position: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "steps[{}].mutations[{}]", self.step, self.position)
    }
}

/// When a sample counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// When the outcome is accepted.
    #[default]
    Now,
    /// When this mutation succeeded, or its refusal was tolerated.
    Done(Place),
    /// When this mutation failed or was not tried.
    Failed(Place),
}

/// A sample for one of the plugin's metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Name as declared in the manifest.
    pub metric: String,
    /// Label values in declared order.
    pub labels: Vec<String>,
    /// Added, set or observed, depending on the metric's type.
    pub value: f64,
    /// When it counts.
    pub at: Moment,
}

/// An error that the plugin declares.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReconcileError {
    /// Transient; `after` replaces the queue's backoff.
    #[error("{message}")]
    Retry {
        /// Untrusted text.
        message: String,
        /// Delay, if the plugin overrides the queue's backoff.
        after: Option<Duration>,
    },
    /// A retry does not help until the cluster changes.
    #[error("{0}")]
    Terminal(String),
}

impl ReconcileError {
    /// The delay that the plugin requests.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Self::Retry { after, .. } => *after,
            Self::Terminal(_) => None,
        }
    }
}

/// Mutations that are executed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Order of execution.
    pub order: Order,
    /// In the plugin's order.
    pub mutations: Vec<Mutation>,
    /// Whether it is executed even after a failed step.
    pub always: bool,
}

/// Order of execution of a step's mutations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One by one; stops at the first failure.
    Sequential,
    /// Concurrently; all are tried.
    Parallel,
    /// In batches of 1, 2, 4, ...; the first batch with a failure is the last.
    SlowStart,
}

/// One write, and its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The write.
    pub action: Action,
    /// Event recorded after success; `{name}` is replaced.
    pub on_success: Option<Event>,
    /// Event recorded after failure; `{name}` and `{error}` are replaced.
    pub on_failure: Option<Event>,
    /// Failures that count as success.
    pub tolerate: Vec<Refusal>,
}

/// Failures that controllers treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the API server's own")]
pub enum Refusal {
    NotFound,
    AlreadyExists,
    Conflict,
    Invalid,
    Forbidden,
    NamespaceTerminating,
}

/// One write. Objects and patch bodies are JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// POST.
    Create {
        /// Kind of the object (of the parent, for a subresource).
        kind: Kind,
        /// Empty for cluster-scoped kinds.
        namespace: String,
        /// The whole object.
        object: String,
        /// For example `eviction`.
        subresource: Option<String>,
    },
    /// PUT.
    Update {
        /// Kind of the object.
        kind: Kind,
        /// The whole object; its metadata identifies the target.
        object: String,
        /// For example `status`.
        subresource: Option<String>,
    },
    /// PATCH.
    Patch {
        /// Kind of the object.
        kind: Kind,
        /// Its name.
        object: ObjectKey,
        /// For example `status`.
        subresource: Option<String>,
        /// Patch format.
        patch_type: PatchType,
        /// The patch.
        body: String,
        /// Added to the patch by the host.
        preconditions: Preconditions,
    },
    /// DELETE.
    Delete {
        /// Kind of the object.
        kind: Kind,
        /// Its name.
        object: ObjectKey,
        /// Preconditions of the delete.
        preconditions: Preconditions,
        /// The kind's default if absent.
        propagation: Option<Propagation>,
        /// The kind's default if absent.
        grace_period_seconds: Option<u32>,
    },
    /// DELETE of a collection.
    DeleteCollection {
        /// Kind of the objects.
        kind: Kind,
        /// Their namespace.
        namespace: String,
        /// Label selector; all objects if absent.
        label_selector: Option<String>,
        /// The kind's default if absent.
        propagation: Option<Propagation>,
    },
    /// An event without a mutation.
    Event(Event),
}

/// Conditions that must hold when the write is executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the API server's own")]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// Patch formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Strategic merge patch.
    StrategicMerge,
    /// Server-side apply.
    Apply {
        /// Owner of the fields.
        field_manager: String,
        /// Take ownership of conflicting fields.
        force: bool,
    },
}

/// Deletion propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the API server's own")]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    /// The policy's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// A Kubernetes Event, before the host adds time, source, count and series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Kind of the regarding object.
    pub regarding_kind: Kind,
    /// Its name.
    pub regarding: ObjectKey,
    /// Its uid; empty if unknown.
    pub regarding_uid: String,
    /// `Warning` instead of `Normal`.
    pub warning: bool,
    /// In CamelCase.
    pub reason: String,
    /// For humans.
    pub message: String,
}

impl Event {
    /// Bytes of its texts.
    pub fn n_bytes(&self) -> usize {
        let texts = [&self.regarding_uid, &self.reason, &self.message];
        texts.map(String::len).iter().sum::<usize>() + self.regarding_kind.n_bytes() + self.regarding.n_bytes()
    }
}

/// A read that the cache cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// One object.
    LiveObject {
        /// Its kind.
        kind: Kind,
        /// Its name.
        object: ObjectKey,
        /// For example `scale`.
        subresource: Option<String>,
    },
    /// Objects.
    LiveList {
        /// Their kind.
        kind: Kind,
        /// Namespace; all namespaces if empty.
        namespace: String,
        /// Label selector; all objects if absent.
        label_selector: Option<String>,
        /// Field selector; all objects if absent.
        field_selector: Option<String>,
        /// Detail of each object.
        detail: LiveDetail,
        /// Maximum number of objects.
        limit: u32,
    },
    /// GET of a path.
    RawPath(String),
    /// Fresh discovery.
    Discovery,
    /// POST of a review.
    Review {
        /// Kind of the review.
        kind: Kind,
        /// Empty for cluster-scoped kinds.
        namespace: String,
        /// The review, in JSON.
        object: String,
    },
    /// A JSON Web Token.
    SignJwt {
        /// A setting of type `key`.
        key: String,
        /// A JSON object.
        claims: String,
    },
    /// A certificate.
    SignCertificate(CertificateRequest),
    /// An operation of a bound endpoint.
    Call {
        /// Name as declared in the manifest.
        endpoint: String,
        /// One of its operations.
        operation: String,
        /// JSON body.
        body: String,
        /// Timeout for the answer; the host's limit if absent.
        timeout: Option<Duration>,
    },
}

/// A certificate to sign.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateRequest {
    /// A setting of type `authority`.
    pub authority: String,
    /// PEM of the request.
    pub request: String,
    /// Names of usages, as in `certificates.k8s.io`.
    pub usages: Vec<String>,
    /// RFC 3339.
    pub not_before: String,
    /// RFC 3339.
    pub not_after: String,
}

/// Detail of the objects in the answer to a live list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveDetail {
    /// Metadata.
    #[default]
    Metadata,
    /// The projection of the plugin's watch.
    Projection,
    /// Everything but `managedFields`.
    Whole,
}

impl LiveDetail {
    /// The name in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Projection => "projection",
            Self::Whole => "whole",
        }
    }
}

impl Need {
    /// One object.
    pub fn live_object(kind: Kind, object: ObjectKey) -> Self {
        Self::LiveObject { kind, object, subresource: None }
    }

    /// The metadata of at most `limit` objects of a namespace, or of all namespaces if it is empty.
    pub fn live_list(kind: Kind, namespace: &str, limit: u32) -> Self {
        let (label_selector, field_selector, detail) = (None, None, LiveDetail::Metadata);
        Self::LiveList { kind, namespace: namespace.to_owned(), label_selector, field_selector, detail, limit }
    }

    /// Bytes of its texts.
    pub fn n_bytes(&self) -> usize {
        match self {
            Self::LiveObject { kind, object, subresource } => {
                kind.n_bytes() + object.n_bytes() + subresource.as_ref().map_or(0, String::len)
            }
            Self::LiveList { kind, namespace, label_selector, field_selector, detail: _, limit: _ } => {
                let selectors = label_selector.iter().chain(field_selector).map(String::len);
                kind.n_bytes() + namespace.len() + selectors.sum::<usize>()
            }
            Self::RawPath(path) => path.len(),
            Self::Discovery => 0,
            Self::Review { kind, namespace, object } => kind.n_bytes() + namespace.len() + object.len(),
            Self::SignJwt { key, claims } => key.len() + claims.len(),
            Self::SignCertificate(CertificateRequest { authority, request, usages, not_before, not_after }) => {
                let texts = [authority, request, not_before, not_after].into_iter().chain(usages);
                texts.map(String::len).sum()
            }
            Self::Call { endpoint, operation, body, timeout: _ } => endpoint.len() + operation.len() + body.len(),
        }
    }
}

/// The failed answer to a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedError {
    /// HTTP status code; 0 if no answer came.
    pub code: u16,
    /// Reason of the server's Status, or `Transport`, `NotGranted`.
    pub reason: String,
    /// For humans.
    pub message: String,
}

/// Answers to needs, in the next round of the same run.
pub type Answers = Vec<(Need, Result<Arc<str>, NeedError>)>;

/// A mutation of the previous run that failed and was not tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutationFailure {
    /// Index of the step in the outcome.
    pub step: u32,
    /// Index of the mutation in the step.
    pub position: u32,
    /// `create`, `update`, `patch`, `delete` or `delete-collection`.
    pub verb: &'static str,
    /// Kind of the target.
    pub kind: Kind,
    /// The target; the name is empty for a generated name.
    pub object: ObjectKey,
    /// For example `status`.
    pub subresource: Option<String>,
    /// HTTP status code; 0 if no answer came.
    pub code: u16,
    /// Reason of the server's Status, or `Transport`, `NotGranted`.
    pub reason: String,
    /// For humans.
    pub message: String,
    /// Reasons of the causes in the Status' details.
    pub causes: Vec<String>,
}

impl MutationFailure {
    /// Bytes that it uses.
    pub fn n_bytes(&self) -> usize {
        let texts = [&self.reason, &self.message].into_iter().chain(&self.subresource).chain(&self.causes);
        size_of::<Self>() + texts.map(String::len).sum::<usize>() + self.kind.n_bytes() + self.object.n_bytes()
    }
}
