//! The API server as the runtime sees it: the port between `pintle-runtime` and `pintle-kube`.
//!
//! Objects are JSON text all the way: nothing is parsed into a tree on behalf of somebody who may not need it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::contract::outcome::{PatchType, Preconditions, Propagation, Refusal};
use crate::object::id::{Kind, ObjectKey};

/// A resource that the API server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The kind of its objects.
    pub kind: Kind,
    /// Name in paths, for example `deployments`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// For example `list`, `watch`, `delete`, `deletecollection`.
    pub verbs: Vec<String>,
    /// For example `status`, `scale`.
    pub subresources: Vec<String>,
    /// Whether the server prefers this version for the group.
    pub preferred: bool,
}

/// What discovery found. Groups that could not be asked (an aggregated API that is down) are named, not dropped silently.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// All resources of all versions.
    pub resources: Vec<ApiResource>,
    /// Group versions that did not answer.
    pub failed: Vec<String>,
}

/// How much of each object to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// `PartialObjectMetadata`.
    Metadata,
    /// Whole objects.
    Full,
}

/// What an informer reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Kind of the objects.
    pub kind: Kind,
    /// Name in paths.
    pub plural: String,
    /// All namespaces if absent, or cluster-scoped.
    pub namespace: Option<String>,
    /// All objects if absent.
    pub label_selector: Option<String>,
    /// All objects if absent.
    pub field_selector: Option<String>,
    /// How much of each object.
    pub detail: Detail,
}

/// One page of a list.
#[derive(Debug)]
pub struct ListPage {
    /// One JSON text per object; `apiVersion` and `kind` may be missing.
    pub items: Vec<Box<str>>,
    /// Of the whole list.
    pub resource_version: String,
    /// Token of the next page.
    pub next: Option<String>,
}

/// How long a watch lasts: readers ask the server to end it then, so that a hidden limit of a load balancer never does.
/// kube-controller-manager asks for five to ten minutes as well.
pub const WATCH_DURATION: Duration = Duration::from_secs(290);
/// A connection on which nothing has arrived for so long is dead: an idle watch has a bookmark about once a minute, and ends after
/// [`WATCH_DURATION`]. Readers give a request up then, informers a watch.
pub const READ_TIMEOUT: Duration = Duration::from_secs(WATCH_DURATION.as_secs() + 40);

/// How to start a watch.
#[derive(Clone, Debug)]
pub enum WatchStart {
    /// After this version.
    After(String),
    /// Streaming list: all objects first (as `Added`), then a bookmark with `initial_events_end`, then changes.
    InitialEvents,
}

/// One line of a watch.
#[derive(Debug)]
pub enum WatchFrame {
    /// New, or newly matching the selector. The JSON text of the object.
    Added(Box<str>),
    /// Changed.
    Modified(Box<str>),
    /// Gone, or no longer matching. The last state.
    Deleted(Box<str>),
    /// Nothing up to this version that has not been sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// The streaming list is complete.
        initial_events_end: bool,
    },
}

/// Frames until the server ends the watch (an ordinary event) or an error.
pub type WatchStream = BoxStream<'static, Result<WatchFrame, ApiError>>;

/// Reads for informers, discovery and needs.
pub trait ApiReader: Send + Sync {
    /// Asks the server for its resources.
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>>;
    /// One page of at most `limit` objects; `page` is the token of the page before. `resource_version=0` is never used.
    fn list<'a>(
        &'a self,
        target: &'a Target,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>>;
    /// A watch with bookmarks.
    fn watch<'a>(&'a self, target: &'a Target, start: WatchStart) -> BoxFuture<'a, Result<WatchStream, ApiError>>;
    /// The object as the server has it now (quorum read).
    fn get<'a>(&'a self, resource: &'a ApiResource, object: &'a ObjectKey)
    -> BoxFuture<'a, Result<Box<str>, ApiError>>;
    /// GET of a path (beginning with `/`), at most `limit_bytes` of body.
    fn raw<'a>(&'a self, path: &'a str, limit_bytes: usize) -> BoxFuture<'a, Result<Box<str>, ApiError>>;
}

/// A write request, checked against grants already.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// Where.
    pub resource: Arc<ApiResource>,
    /// Empty for cluster-scoped.
    pub namespace: String,
    /// Empty for create and delete-collection.
    pub name: String,
    /// For example `status`.
    pub subresource: Option<String>,
    /// What.
    pub verb: WriteVerb,
}

/// What a write does. Bodies are JSON text.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `outcome::Action`")]
pub enum WriteVerb {
    Create { body: String },
    Update { body: String },
    Patch { patch_type: PatchType, body: String },
    Delete { preconditions: Preconditions, propagation: Option<Propagation>, grace_period_seconds: Option<u32> },
    DeleteCollection { label_selector: Option<String>, propagation: Option<Propagation> },
}

/// What the server answered to a write: only the metadata that the host needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Name of the object (which may have been generated); empty for collections.
    pub name: String,
    /// Uid of the object; empty if the answer did not say.
    pub uid: String,
    /// Version after the write; empty when an object was removed.
    pub resource_version: String,
    /// The object is being deleted, but still there.
    pub terminating: bool,
}

/// Writes of one identity (one plugin): a connection pool, a rate limit and a user agent of its own.
pub trait ApiWriter: Send + Sync {
    /// Carries out one write. Waits for the rate limit first. Not retried here, but for 429 and 503 with `Retry-After`
    /// where nothing was written.
    ///
    /// # Cancel safety
    /// Dropping it after the first poll leaves open whether the write happened.
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>>;
}

/// Who writes.
#[derive(Clone, Debug)]
pub struct WriterIdentity {
    /// Appears in the user agent, as with kube-controller-manager: `pintle/VERSION NAME`; also the default field manager.
    pub name: String,
    /// Requests per second; no limit if absent.
    pub qps: Option<f32>,
    /// Requests at once.
    pub burst: u32,
    /// Its service account in [`account::NAMESPACE`](crate::policy::account::NAMESPACE). Absent: it writes as the host.
    pub account: Option<String>,
}

/// Makes writers.
pub trait ApiWriters: Send + Sync {
    /// A writer for this identity.
    fn writer(&self, identity: &WriterIdentity) -> Arc<dyn ApiWriter>;
    /// A reader for this identity's live reads. Absent: they are the host's own, as those of informers always are.
    fn live_reader(&self, _identity: &WriterIdentity) -> Option<Arc<dyn ApiReader>> {
        None
    }
}

/// Hears of every request to the API server, for metrics. Called on the way of the request: it must be quick and never block.
pub trait RequestObserver: Send + Sync {
    /// One attempt was answered with this status code, or by nothing. `sent_bytes` is the length of its body; absent for a
    /// request that is answered by a stream.
    fn attempted(&self, method: &'static str, host: &str, code: Option<u16>, sent_bytes: Option<usize>);
    /// A request waited so long for its client's rate limit before an attempt.
    fn delayed(&self, method: &'static str, host: &str, waited: Duration);
    /// A request is over, with all its attempts and delays; not called for streams. `received_bytes` is absent if no answer came.
    fn finished(&self, method: &'static str, host: &str, took: Duration, received_bytes: Option<usize>);
}

/// Why a request failed, classified once.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of failure.
    pub class: ApiErrorClass,
    /// HTTP status code; 0 if no answer came.
    pub code: u16,
    /// `reason` of the server's Status, or `Transport`.
    pub reason: String,
    /// The server's message, or what went wrong on the way.
    pub message: String,
    /// Reasons of the causes in the Status' details.
    pub causes: Vec<String>,
}

/// Classes of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiErrorClass {
    /// 404.
    NotFound,
    /// 409 of a create.
    AlreadyExists,
    /// 409 otherwise: read again, then decide again.
    Conflict,
    /// 410, or a resourceVersion that is too old: list again.
    Gone,
    /// 422, 400: the request is wrong.
    Invalid,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 429, 503: try again after this time, or with backoff.
    Throttled(Option<Duration>),
    /// 5xx.
    Server,
    /// The server gave up waiting, or we did: the write may have happened.
    Timeout,
    /// No answer: connection refused or broken. The write may have happened.
    Transport,
    /// The answer could not be understood.
    Malformed,
}

impl ApiError {
    /// An error without an answer from the server.
    pub fn transport(message: impl Into<String>) -> Self {
        Self {
            class: ApiErrorClass::Transport,
            code: 0,
            reason: "Transport".into(),
            message: message.into(),
            causes: Vec::new(),
        }
    }

    /// How long the server asks to wait before another try; the usual backoff if absent. Another try may help after every
    /// failure: what makes a request wrong today (a schema, a missing namespace) may change.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.class {
            ApiErrorClass::Throttled(after) => after,
            _ => None,
        }
    }

    /// Whether it is this refusal.
    pub fn is(&self, refusal: Refusal) -> bool {
        match refusal {
            Refusal::NotFound => self.class == ApiErrorClass::NotFound,
            Refusal::AlreadyExists => self.class == ApiErrorClass::AlreadyExists,
            Refusal::Conflict => self.class == ApiErrorClass::Conflict,
            Refusal::Invalid => self.class == ApiErrorClass::Invalid,
            Refusal::Forbidden => self.class == ApiErrorClass::Forbidden,
            Refusal::NamespaceTerminating => {
                self.class == ApiErrorClass::Forbidden
                    && self.causes.iter().any(|cause| cause == "NamespaceTerminating")
            }
        }
    }
}
