//! Port to the API server, between `pintle-runtime` and `pintle-kube`.
//!
//! Objects stay JSON text: nothing is parsed into a tree that the caller may not need.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::contract::outcome::{PatchType, Preconditions, Propagation, Refusal};
use crate::object::id::{Kind, ObjectKey};
use crate::policy::election::{GroupId, Groups};
use crate::ports::trace::SpanRef;

/// A resource served by the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// Kind of its objects.
    pub kind: Kind,
    /// Name in paths, for example `deployments`.
    pub plural: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Its verbs, for example `list`, `watch`, `delete`, `deletecollection`.
    pub verbs: Vec<String>,
    /// Its subresources, for example `status`, `scale`.
    pub subresources: Vec<String>,
    /// Whether the server prefers this version for the group.
    pub preferred: bool,
}

/// The result of discovery. Groups without an answer (for example an aggregated API that is down) are listed in
/// `failed`.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// All resources of all versions.
    pub resources: Vec<ApiResource>,
    /// Group versions without an answer.
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

/// The objects that an informer reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "ListerWatcher")]
pub struct ListWatchTarget {
    /// Kind of the objects.
    pub kind: Kind,
    /// Name in paths.
    pub plural: String,
    /// One namespace; all namespaces, or cluster-scoped, if absent.
    pub namespace: Option<String>,
    /// Label selector; all objects if absent.
    pub label_selector: Option<String>,
    /// Field selector; all objects if absent.
    pub field_selector: Option<String>,
    /// Detail of each object.
    pub detail: Detail,
}

/// One page of a list.
#[derive(Debug)]
pub struct ListPage {
    /// One JSON text per object; `apiVersion` and `kind` may be missing.
    pub items: Vec<Box<str>>,
    /// Version of the whole list.
    pub resource_version: String,
    /// Token of the next page.
    pub next: Option<String>,
}

/// Requested duration of a watch. The watch ends before the timeout of a load balancer, which would end it silently.
/// kube-controller-manager also requests five to ten minutes.
pub const WATCH_DURATION: Duration = Duration::from_secs(290);
/// Read timeout: a connection or a watch without data for this long is dead, because an idle watch gets a bookmark
/// about once a minute, and the API server ends other requests after a minute. Readers then abandon a request,
/// informers a watch.
pub const READ_TIMEOUT: Duration = Duration::from_secs(150);
/// Longest delay that a server may request with `Retry-After`. Any proxy on the way can set this header.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Maximum repetitions of a throttled request; client-go's value.
pub const MAX_THROTTLED_RETRIES: u32 = 10;

/// The start of a watch.
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
    /// A new object, or one that newly matches the selector, as JSON text.
    Added(Box<str>),
    /// A changed object.
    Modified(Box<str>),
    /// The last state of an object that was deleted or no longer matches.
    Deleted(Box<str>),
    /// A bookmark: everything up to this version has been sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// Whether the streaming list is complete.
        initial_events_end: bool,
    },
}

/// Frames until the server ends the watch (which is normal) or an error.
pub type WatchStream = BoxStream<'static, Result<WatchFrame, ApiError>>;

/// Bounds the size of an answer: called with the total bytes so far, before more of them are kept. An error ends the
/// read, and contains the reason.
pub type Room<'a> = dyn Fn(usize) -> Result<(), String> + Send + Sync + 'a;

/// Room for at most `max_bytes` bytes.
pub fn at_most(max_bytes: usize) -> impl Fn(usize) -> Result<(), String> + Send + Sync {
    move |n_bytes| if n_bytes > max_bytes { Err(format!("it is larger than {max_bytes} bytes")) } else { Ok(()) }
}

/// Read access for informers, discovery and needs.
pub trait ApiReader: Send + Sync {
    /// Fetches the server's resources.
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>>;
    /// Lists one page of at most `limit` objects; `page` is the token of the previous page. Never uses
    /// `resource_version=0`.
    fn list<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>>;
    /// Opens a watch with bookmarks.
    fn watch<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        start: WatchStart,
    ) -> BoxFuture<'a, Result<WatchStream, ApiError>>;
    /// Reads the current object, or a subresource of it, from the server (quorum read).
    fn get<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: &'a ObjectKey,
        subresource: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>>;
    /// Creates a review, which the server answers but does not store. `body` is the review as JSON. The namespace is
    /// empty for cluster-scoped kinds.
    fn review<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: &'a str,
        body: &'a str,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>>;
    /// GET of a path that begins with `/`; reads the body up to the limit of `room`.
    fn raw<'a>(&'a self, path: &'a str, room: &'a Room<'a>) -> BoxFuture<'a, Result<Box<str>, ApiError>>;
    /// Waits until the client's rate limit admits a request that is sent for it by other means.
    fn turn(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Returns a reader whose requests belong to a span and carry `traceparent`; `None` if that is not supported.
    fn traced(&self, _span: SpanRef) -> Option<Arc<dyn ApiReader>> {
        None
    }
}

/// A write request that has passed the grants check.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// The resource.
    pub resource: Arc<ApiResource>,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Empty for create and delete-collection.
    pub name: String,
    /// The subresource, for example `status`.
    pub subresource: Option<String>,
    /// The verb and its body.
    pub verb: WriteVerb,
}

/// The verb of a write. Bodies are JSON text.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `outcome::Action`")]
pub enum WriteVerb {
    Create { body: String },
    Update { body: String },
    Patch { patch_type: PatchType, body: String },
    Delete { preconditions: Preconditions, propagation: Option<Propagation>, grace_period_seconds: Option<u32> },
    DeleteCollection { label_selector: Option<String>, propagation: Option<Propagation> },
}

/// The server's answer to a write: only the metadata that the host needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Name of the object, possibly generated; empty for collections.
    pub name: String,
    /// Uid of the object; empty if the answer did not contain it.
    pub uid: String,
    /// Version after the write; empty if the object was deleted.
    pub resource_version: String,
    /// Whether an update or a patch removed the object: it was terminating, and lost its last finalizer.
    pub removed: bool,
    /// Labels after the write; absent if the answer did not contain the object.
    pub labels: Option<BTreeMap<String, String>>,
}

/// Write access of one identity (one plugin), with its own connection pool, rate limit and user agent.
pub trait ApiWriter: Send + Sync {
    /// Sends one write, after waiting for the rate limit. It is repeated only with a new token after 401; all other
    /// retries are up to the caller. While the identity's fence is closed, nothing is sent
    /// ([`ApiErrorClass::NotLeading`]); a request in flight is abandoned when the fence closes
    /// ([`ApiErrorClass::Transport`]).
    ///
    /// # Cancel safety
    /// If the future is dropped after the first poll, the write may or may not have happened.
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>>;
    /// Returns a writer whose requests belong to a span and carry `traceparent`; `None` if that is not supported.
    fn traced(&self, _span: SpanRef) -> Option<Arc<dyn ApiWriter>> {
        None
    }
}

/// Allows writes to leave the process only while it is the leader. It is checked right before a request is sent.
pub trait WriteFence: Send + Sync {
    /// Whether a write may be sent now.
    fn is_open(&self) -> bool;
    /// Waits until writes may no longer be sent.
    ///
    /// # Cancel safety
    /// Safe.
    fn closed(&self) -> BoxFuture<'_, ()>;
}

/// The write fences of all plugins: plugins of one group share a fence.
#[derive(Clone)]
pub struct Fences {
    groups: Arc<Groups>,
    fences: Arc<[Arc<dyn WriteFence>]>,
}

impl Fences {
    /// One fence for all plugins.
    pub fn one(fence: Arc<dyn WriteFence>) -> Self {
        Self { groups: Arc::default(), fences: Arc::from([fence]) }
    }

    /// One fence per group.
    pub fn of_groups(groups: Groups, mut fence: impl FnMut(GroupId) -> Arc<dyn WriteFence>) -> Self {
        let fences = groups.ids().map(&mut fence).collect();
        Self { groups: Arc::new(groups), fences }
    }

    /// The groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The fence of a plugin.
    pub fn of(&self, plugin: &str) -> Arc<dyn WriteFence> {
        self.of_group(self.groups.of(plugin))
    }

    /// The fence of a group.
    pub fn of_group(&self, group: GroupId) -> Arc<dyn WriteFence> {
        self.fences[group.index()].clone()
    }
}

/// Identity of a writer.
#[derive(Clone)]
pub struct WriterIdentity {
    /// Part of the user agent, as in kube-controller-manager: `pintle/VERSION NAME`; also the default field manager.
    pub name: String,
    /// Requests per second; no limit if absent.
    pub qps: Option<f32>,
    /// Burst.
    pub burst: u32,
    /// Service account in [`account::NAMESPACE`](crate::policy::account::NAMESPACE). If absent, the host's identity is
    /// used.
    pub account: Option<String>,
    /// Fence for its writes; reads are always allowed. No fence if absent.
    pub fence: Option<Arc<dyn WriteFence>>,
}

/// Creates clients.
pub trait ApiWriters: Send + Sync {
    /// Creates a client for this identity. Its writes and live reads share one rate limit.
    fn client(&self, identity: &WriterIdentity) -> ApiClient;
}

/// A client of the API server with an identity and a rate limit.
pub struct ApiClient {
    /// Writes.
    pub writer: Arc<dyn ApiWriter>,
    /// Live reads. If absent, they use the host's identity without a limit, as informers always do.
    pub reader: Option<Arc<dyn ApiReader>>,
}

/// Observes every request to the API server, for metrics. It is called on the request path: it must be fast and never
/// block.
pub trait RequestObserver: Send + Sync {
    /// An attempt ended with this status code, or without an answer. `sent_bytes` is the length of the request body;
    /// absent for streams.
    fn attempted(&self, method: &'static str, host: &str, code: Option<u16>, sent_bytes: Option<usize>);
    /// A request waited this long for its client's rate limit before an attempt.
    fn delayed(&self, method: &'static str, host: &str, waited: Duration);
    /// A request is sent again because the previous attempt was answered with this status code.
    fn repeated(&self, method: &'static str, host: &str, code: u16);
    /// A request has ended, including all attempts and delays; not called for streams. `received_bytes` is absent
    /// without an answer.
    fn finished(&self, method: &'static str, host: &str, took: Duration, received_bytes: Option<usize>);
}

/// A failed request, classified once.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Class of the failure.
    pub class: ApiErrorClass,
    /// HTTP status code; 0 if no answer came.
    pub code: u16,
    /// `reason` of the server's Status, or `Transport`.
    pub reason: String,
    /// The server's message, or the transport error.
    pub message: String,
    /// Reasons of the causes in the Status' details.
    pub causes: Vec<String>,
}

/// Classes of API failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiErrorClass {
    /// 404.
    NotFound,
    /// 409 of a create.
    AlreadyExists,
    /// Other 409: read again, then decide again.
    Conflict,
    /// 410, or a resourceVersion that is too old: relist.
    Gone,
    /// 422, 400: the request is invalid.
    Invalid,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 429, 503: retry after this time, or with backoff.
    Throttled(Option<Duration>),
    /// 5xx.
    Server,
    /// Timeout of the server or the client: the write may have happened.
    Timeout,
    /// No answer: connection refused or broken. The write may have happened.
    Transport,
    /// The answer could not be parsed.
    Malformed,
    /// The host did not send the write, because it is not the leader ([`WriteFence`]).
    NotLeading,
}

impl ApiError {
    /// An error because there was no answer from the server.
    pub fn transport(message: impl Into<String>) -> Self {
        Self {
            class: ApiErrorClass::Transport,
            code: 0,
            reason: "Transport".into(),
            message: message.into(),
            causes: Vec::new(),
        }
    }

    /// A write that was not sent, because the host is not the leader.
    pub fn not_leading() -> Self {
        Self {
            class: ApiErrorClass::NotLeading,
            code: 0,
            reason: "NotLeading".into(),
            message: "not sent: this host does not hold the Lease of its leader election".into(),
            causes: Vec::new(),
        }
    }

    /// The delay that the server requests before a retry, at most [`MAX_RETRY_AFTER`]; the usual backoff if absent. A
    /// retry may help after every failure: the reason why a request is invalid (a schema, a missing namespace) may
    /// change.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.class {
            ApiErrorClass::Throttled(after) => after.map(|after| after.min(MAX_RETRY_AFTER)),
            _ => None,
        }
    }

    /// The delay after which the same request may be sent again without involving its caller: the server's priority and
    /// fairness queueing answers 429 before a handler processes the request.
    pub fn repeat_after(&self) -> Option<Duration> {
        self.retry_after().filter(|_| self.code == 429)
    }

    /// Whether it is the given kind of refusal.
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
