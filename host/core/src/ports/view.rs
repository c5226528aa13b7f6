//! Port to the caches: the reads of a run, between `pintle-cache` and `pintle-wasm`.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::outcome::{MutationFailure, Need, NeedError};
use crate::lifecycle::read_set::ReadSet;
use crate::object::id::{Kind, ObjectKey};
use crate::object::{Meta, Object};
use crate::ports::api::ApiResource;

/// Selects by owner references; the strings are uids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBy {
    /// The controller reference has this uid.
    Controller(String),
    /// The controller reference has this uid, or is missing.
    ControllerOrOrphan(String),
    /// Any owner reference has this uid.
    Any(String),
}

impl OwnedBy {
    /// Returns the uid.
    pub fn uid(&self) -> &str {
        match self {
            Self::Controller(uid) | Self::ControllerOrOrphan(uid) | Self::Any(uid) => uid,
        }
    }
}

/// A query; all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Namespace; all namespaces if absent.
    pub namespace: Option<String>,
    /// Label selector in kubectl's syntax.
    pub label_selector: Option<String>,
    /// Condition on owner references.
    pub owner: Option<OwnedBy>,
    /// A declared index and its value.
    pub index: Option<(String, String)>,
    /// Whole objects instead of the projection.
    pub whole: bool,
}

/// A read that is a fault of the plugin.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The manifest has no watch of the kind (the message lists the declared watches).
    #[error(
        "kind {kind} is not watched by this plugin; its manifest watches {watched}. Add `- {{kind: {kind}, fields: [...]}}` with the fields \
         that are read to `watches`, or `whole: true`"
    )]
    NotWatched {
        /// The kind.
        kind: Kind,
        /// The declared watches, comma separated.
        watched: String,
    },
    /// The operator's grants do not allow the read.
    #[error("reading {0} is not granted to this plugin")]
    NotGranted(String),
    /// The label selector is invalid.
    #[error("label selector {0:?} is not valid: {1}")]
    BadSelector(String, String),
    /// The watch has no such index.
    #[error("watch of {kind} declares no index {index:?}")]
    NoSuchIndex {
        /// The kind.
        kind: Kind,
        /// The index.
        index: String,
    },
    /// Whole objects were requested from a watch that keeps only projections.
    #[error("watch of {0} does not declare `whole`")]
    NotWhole(Kind),
    /// The watch declares no `selects`.
    #[error("watch of {0} does not declare `selects`")]
    NoSelector(Kind),
    /// One call exceeded its work limit. Fewer objects (a namespace, an index, an owner) or a shorter selector help.
    #[error(
        "the call of the lister takes too much work: too many objects for so many requirements; ask for a namespace, an owner or an index"
    )]
    TooMuchWork,
    /// One call found more bytes than the run may read.
    #[error("the lister was asked for more than {0} bytes (limits.readBytes of the manifest)")]
    TooManyBytes(u64),
    /// The manifest does not declare discovery.
    #[error("the manifest does not declare `discovery: true`, or the operator does not grant it")]
    NoDiscovery,
}

/// A consistent snapshot of the cluster, for one run. `wit/controller.wit` documents each read.
///
/// Implementations are cheap to create and never wait: every read is served from memory.
#[allow(missing_docs, reason = "documented in wit/controller.wit")]
pub trait View: Send + Sync {
    /// The time of the run: RFC 3339 with microseconds, UTC.
    fn now(&self) -> &str;
    /// Time from the start of the host to the start of the run.
    fn uptime(&self) -> Duration;
    fn get(&self, kind: &Kind, object: &ObjectKey) -> Result<Option<Arc<str>>, ViewError>;
    fn list(&self, kind: &Kind, query: &Query) -> Result<Vec<Arc<str>>, ViewError>;
    fn count(&self, kind: &Kind, query: &Query) -> Result<usize, ViewError>;
    fn selecting(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError>;
    fn dependents(&self, uid: &str) -> Result<Vec<Arc<str>>, ViewError>;
    fn by_uid(&self, uid: &str) -> Result<Option<Arc<str>>, ViewError>;
    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError>;
    fn config(&self) -> Arc<str>;
    fn state(&self, name: &str) -> Option<Arc<str>>;
    fn attempt(&self) -> u32;
    fn failures(&self) -> &[MutationFailure];
    fn answer(&self, need: &Need) -> Option<Result<Arc<str>, NeedError>>;
    /// The cached metadata of an object in any watched version, for the host's own ownership check. Objects that are
    /// not watched count as not owned.
    fn object(&self, _kind: &Kind, _object: &ObjectKey) -> Option<Arc<Object>> {
        None
    }
    /// A kind whose objects may be missing in the answer to `dependents`, because it is not listed yet.
    fn incomplete_dependents(&self) -> Option<&Kind> {
        None
    }
    /// Whether the own selector of a cached object (`selects` of its watch) matches the labels of `selected`, for the
    /// host's own adoption check. A selector that is empty, missing or invalid matches nothing.
    fn selects(&self, _kind: &Kind, _object: &ObjectKey, _selected: &Meta) -> bool {
        false
    }
    /// Everything read so far, for a replay. Costs as much as the reads did.
    fn read_set(&self) -> ReadSet {
        ReadSet::default()
    }
}
