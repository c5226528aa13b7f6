//! What a run wants: the host's own form of the contract's outcome. `wit/controller.wit` documents each item.

use std::sync::Arc;
use std::time::Duration;

use crate::object::id::{Kind, ObjectKey};

/// What one run wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Reads that the cache cannot answer; if not empty, nothing else is carried out and the run starts again with the answers.
    pub needs: Vec<Need>,
    /// Carried out in order; a failed step stops those after it that are not `always`.
    pub steps: Vec<Step>,
    /// Run the key again after this time.
    pub requeue_after: Option<Duration>,
    /// New values of the plugin's keyed state; `None` forgets.
    pub state: Vec<(String, Option<String>)>,
    /// Samples for metrics that the manifest declares.
    pub observations: Vec<Observation>,
}

/// A sample for a metric of the plugin's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Name as declared in the manifest.
    pub metric: String,
    /// Label values in declared order.
    pub labels: Vec<String>,
    /// Added, set or observed, by the metric's type.
    pub value: f64,
}

/// An error that the plugin declares.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReconcileError {
    /// May pass; `after` replaces the queue's own backoff.
    #[error("{message}")]
    Retry {
        /// Untrusted text.
        message: String,
        /// When to try again, if the plugin knows better than the queue.
        after: Option<Duration>,
    },
    /// Trying again is useless until the world changes.
    #[error("{0}")]
    Terminal(String),
}

/// Mutations that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// How they are carried out.
    pub order: Order,
    /// In the order of the plugin.
    pub mutations: Vec<Mutation>,
    /// Carried out even if an earlier step failed.
    pub always: bool,
}

/// How the mutations of a step are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other, stopping at the first failure.
    Sequential,
    /// All at once; all are tried.
    Parallel,
    /// In batches of 1, 2, 4, ...; the first batch with a failure is the last.
    SlowStart,
}

/// One write, and what to do with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The write.
    pub action: Action,
    /// Recorded on success, `{name}` filled in.
    pub on_success: Option<Event>,
    /// Recorded on failure, `{name}` and `{error}` filled in.
    pub on_failure: Option<Event>,
    /// Refusals that count as success.
    pub tolerate: Vec<Refusal>,
}

/// How the API server refuses, as far as controllers tell refusals apart.
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
        /// The whole object; names its target by its metadata.
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
        /// Which patch language.
        patch_type: PatchType,
        /// The patch.
        body: String,
        /// Written into the patch by the host.
        preconditions: Preconditions,
    },
    /// DELETE.
    Delete {
        /// Kind of the object.
        kind: Kind,
        /// Its name.
        object: ObjectKey,
        /// Sent along.
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
        /// All if absent.
        label_selector: Option<String>,
        /// The kind's default if absent.
        propagation: Option<Propagation>,
    },
    /// An event on its own.
    Event(Event),
}

/// What must hold when the write arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the API server's own")]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// Languages of patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own.
    StrategicMerge,
    /// Server-side apply.
    Apply {
        /// Who owns the fields.
        field_manager: String,
        /// Take over fields of others.
        force: bool,
    },
}

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the API server's own")]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    /// As the API server spells it.
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
    /// Kind of the object that it is about.
    pub regarding_kind: Kind,
    /// Its name.
    pub regarding: ObjectKey,
    /// Its uid; empty if not known.
    pub regarding_uid: String,
    /// `Warning` instead of `Normal`.
    pub warning: bool,
    /// In CamelCase.
    pub reason: String,
    /// For humans.
    pub message: String,
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
    },
    /// Metadata of objects.
    LiveList {
        /// Their kind.
        kind: Kind,
        /// Empty for all.
        namespace: String,
        /// All if absent.
        label_selector: Option<String>,
        /// At most so many.
        limit: u32,
    },
    /// GET of a path.
    RawPath(String),
    /// Discovery, now.
    Discovery,
}

/// The API server's refusal to answer a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedError {
    /// HTTP status code; 0 if no answer came.
    pub code: u16,
    /// Of the server's Status, or `Transport`, `NotGranted`.
    pub reason: String,
    /// For humans.
    pub message: String,
}

/// Answers to needs, kept for the next round of the same run.
pub type Answers = Vec<(Need, Result<Arc<str>, NeedError>)>;

/// A mutation of the previous run that was neither carried out nor tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutationFailure {
    /// Place of the step in the outcome.
    pub step: u32,
    /// Place of the mutation in the step.
    pub position: u32,
    /// `create`, `update`, `patch`, `delete` or `delete-collection`.
    pub verb: &'static str,
    /// Kind of the target.
    pub kind: Kind,
    /// The target; the name is empty if it was to be generated.
    pub object: ObjectKey,
    /// For example `status`.
    pub subresource: Option<String>,
    /// HTTP status code; 0 if no answer came.
    pub code: u16,
    /// Of the server's Status, or `Transport`, `NotGranted`.
    pub reason: String,
    /// For humans.
    pub message: String,
    /// Reasons of the causes in the Status' details.
    pub causes: Vec<String>,
}
