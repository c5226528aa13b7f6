//! Lists, watches and single reads.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{HeaderName, Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use pintle_core::object::id::ObjectKey;
use pintle_core::ports::api::{
    ApiError, ApiReader, ApiResource, Detail, Discovery, ListPage, ListWatchTarget, Room, WATCH_DURATION, WatchFrame,
    WatchStart, WatchStream, at_most,
};
use pintle_core::ports::trace::SpanRef;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::connect::{Connection, Renewed, Unanswered};
use crate::path::{self, Place};
use crate::{discover, error};

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Maximum size of the answer to a review (the request with a verdict), in bytes.
const MAX_REVIEW_BYTES: usize = 8 << 20;
/// Maximum size of a page of a list, in bytes. A page is read as a whole; a larger one is requested again with half as
/// many objects.
const MAX_PAGE_BYTES: usize = 32 << 20;
/// Maximum size of one object, in an answer or a watch frame, in bytes. By default, etcd stores at most 1.5 MiB.
pub(crate) const MAX_OBJECT_BYTES: usize = 16 << 20;
/// Maximum bytes read of an error body (a Status).
const MAX_ERROR_BYTES: usize = 1 << 20;

/// W3C Trace Context header.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// User agent of read requests.
const USER_AGENT: &str = concat!("pintle/", env!("CARGO_PKG_VERSION"), " informers");

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: ApiError,
    /// The server rejected the credentials, and they were replaced meanwhile: the same request may succeed.
    pub(crate) renewed: bool,
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Self { error, renewed: false }
    }
}

impl From<Failed> for ApiError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl Connection {
    pub(crate) async fn get_bytes(&self, url: &str, accept: &str, room: &Room<'_>) -> Result<Bytes, ApiError> {
        let started = Instant::now();
        let result = self.get_body(url, accept, room).await;
        let received = result.as_ref().map(Bytes::len).ok();
        self.report(|observer| observer.finished("GET", &self.host, started.elapsed(), received));
        result
    }

    async fn get_body(&self, url: &str, accept: &str, room: &Room<'_>) -> Result<Bytes, ApiError> {
        self.body_of("GET", || get(url, accept), 0, room).await
    }

    /// Sends a POST request that stores nothing, and reads the answer.
    async fn post_bytes(&self, url: &str, body: &str) -> Result<Bytes, ApiError> {
        let started = Instant::now();
        let result = self.body_of("POST", || post(url, body), body.len(), &at_most(MAX_REVIEW_BYTES)).await;
        let received = result.as_ref().map(Bytes::len).ok();
        self.report(|observer| observer.finished("POST", &self.host, started.elapsed(), received));
        result
    }

    async fn body_of(
        &self,
        method: &'static str,
        request: impl Fn() -> Result<Request<Body>, ApiError>,
        sent_bytes: usize,
        room: &Room<'_>,
    ) -> Result<Bytes, ApiError> {
        let body = match self.send(request()?, Some(sent_bytes)).await {
            Err(failed) if failed.renewed => {
                self.renewed(method);
                self.send(request()?, Some(sent_bytes)).await
            }
            result => result,
        };
        let body = match body {
            Ok(body) => body,
            Err(failed) => return Err(failed.error),
        };
        whole(body, room).await
    }

    /// Sends a request when its turn comes; returns the body of a 2xx answer, or the classified failure. `sent_bytes`
    /// is reported to the observer.
    pub(crate) async fn send(&self, mut request: Request<Body>, sent_bytes: Option<usize>) -> Result<Body, Failed> {
        let method = method_name(request.method());
        if let Some(span) = &self.traceparent {
            request.headers_mut().insert(TRACEPARENT, span.clone());
        }
        self.wait_for_turn(method).await;
        let answer = self.answer(request).await;
        if !matches!(answer, Err(Unanswered::NotSent(_))) {
            let code = answer.as_ref().map(|response| response.status().as_u16()).ok();
            self.report(|observer| observer.attempted(method, &self.host, code, sent_bytes));
        }
        let response = match answer {
            Ok(response) => response,
            Err(Unanswered::NotSent(why) | Unanswered::Lost(why)) => return Err(why.into()),
        };
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let (head, body) = response.into_parts();
        let body = whole(body, &at_most(MAX_ERROR_BYTES)).await.unwrap_or_default();
        let error = error::from_response(head.status, &head.headers, &body);
        Err(Failed { error, renewed: head.extensions.get::<Renewed>().is_some() })
    }

    async fn list_page(&self, target: &ListWatchTarget, limit: u32, page: Option<&str>) -> Result<ListPage, ApiError> {
        let mut url = Place::collection(target).url();
        path::selectors(&mut url, target);
        path::param(&mut url, "limit", &limit.to_string());
        if let Some(page) = page {
            path::param(&mut url, "continue", page);
        }
        let accept = match target.detail {
            Detail::Full => JSON,
            Detail::Metadata => METADATA_LIST,
        };
        let body = self.get_bytes(&url, accept, &at_most(MAX_PAGE_BYTES)).await?;
        beside_workers(body.len(), || parse_list(&body))
    }

    async fn open_watch(&self, target: &ListWatchTarget, start: WatchStart) -> Result<WatchStream, ApiError> {
        let mut url = Place::collection(target).url();
        path::selectors(&mut url, target);
        path::param(&mut url, "watch", "true");
        path::param(&mut url, "allowWatchBookmarks", "true");
        path::param(&mut url, "timeoutSeconds", &WATCH_DURATION.as_secs().to_string());
        match start {
            WatchStart::After(resource_version) => path::param(&mut url, "resourceVersion", &resource_version),
            WatchStart::InitialEvents => {
                path::param(&mut url, "sendInitialEvents", "true");
                path::param(&mut url, "resourceVersionMatch", "NotOlderThan");
            }
        }
        let accept = match target.detail {
            Detail::Full => JSON,
            Detail::Metadata => METADATA,
        };
        let body = match self.send(get(&url, accept)?, None).await {
            Err(failed) if failed.renewed => {
                self.renewed("GET");
                self.send(get(&url, accept)?, None).await?
            }
            result => result?,
        };
        Ok(frames(body).boxed())
    }
}

/// Reads the whole body of an answer, up to the size limit of `room`.
pub(crate) async fn whole(body: Body, room: &Room<'_>) -> Result<Bytes, ApiError> {
    let mut chunks = body.into_data_stream();
    let (mut parts, mut n_bytes) = (Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|why| error::from_body(&why))?;
        n_bytes += chunk.len();
        room(n_bytes).map_err(|why| error::too_large("answer", why))?;
        parts.push(chunk);
    }
    let mut whole = Vec::with_capacity(n_bytes);
    parts.into_iter().for_each(|part| whole.extend_from_slice(&part));
    Ok(whole.into())
}

fn get(url: &str, accept: &str) -> Result<Request<Body>, ApiError> {
    Request::get(url.trim_end_matches(['?', '&']))
        .header(header::ACCEPT, accept)
        .header(header::USER_AGENT, USER_AGENT)
        .body(Body::empty())
        .map_err(|why| error::malformed("address", why))
}

fn post(url: &str, body: &str) -> Result<Request<Body>, ApiError> {
    Request::post(url.trim_end_matches(['?', '&']))
        .header(header::ACCEPT, JSON)
        .header(header::CONTENT_TYPE, JSON)
        .header(header::USER_AGENT, USER_AGENT)
        .body(Body::from(body.as_bytes().to_vec()))
        .map_err(|why| error::malformed("address", why))
}

/// The metric label of a method; only these methods are used.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Splits the body into lines, one frame each.
fn frames(body: Body) -> impl futures::Stream<Item = Result<WatchFrame, ApiError>> + Send + 'static {
    async_stream::stream! {
        let mut chunks = body.into_data_stream();
        let mut lines = Lines::default();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => {
                    for line in lines.push(&chunk) {
                        yield parse_frame(&line);
                    }
                    if lines.partial.len() > MAX_OBJECT_BYTES {
                        let why = format!("it is larger than {MAX_OBJECT_BYTES} bytes");
                        yield Err(error::too_large("watch event", why));
                        return;
                    }
                }
                Err(why) => {
                    // The server closes idle watches. The next connection delivers what this one missed.
                    yield Err(error::from_body(&why));
                    return;
                }
            }
        }
    }
}

/// Splits chunks into lines.
#[derive(Default)]
struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    fn push(&mut self, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(&rest[..end]);
            if !line.is_empty() {
                lines.push(line);
            }
            rest = &rest[end + 1..];
        }
        self.partial.extend_from_slice(rest);
        lines
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: std::collections::BTreeMap<String, String>,
}

fn parse_frame(line: &[u8]) -> Result<WatchFrame, ApiError> {
    let bad = |why: serde_json::Error| error::malformed("watch event", why);
    let frame: Envelope<'_> = serde_json::from_slice(line).map_err(bad)?;
    let object = || Box::<str>::from(frame.object.get());
    match frame.kind.as_ref() {
        "ADDED" => Ok(WatchFrame::Added(object())),
        "MODIFIED" => Ok(WatchFrame::Modified(object())),
        "DELETED" => Ok(WatchFrame::Deleted(object())),
        "BOOKMARK" => {
            let mark: Bookmark = serde_json::from_str(frame.object.get()).map_err(bad)?;
            let end = mark.metadata.annotations.get("k8s.io/initial-events-end").is_some_and(|value| value == "true");
            Ok(WatchFrame::Bookmark { resource_version: mark.metadata.resource_version, initial_events_end: end })
        }
        "ERROR" => {
            let status: error::Status = serde_json::from_str(frame.object.get()).map_err(bad)?;
            Err(error::from_status(status, 500, None))
        }
        other => Err(error::malformed("watch event", format_args!("its type is {other:?}"))),
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Runs work on a text of `n_bytes` bytes; a large text is kept off the workers, which also answer probes. A
/// single-threaded runtime has no other workers, and a simulation cannot wait for another thread.
fn beside_workers<T>(n_bytes: usize, work: impl FnOnce() -> T) -> T {
    /// Size of a text that takes about a millisecond.
    const SMALL_BYTES: usize = 128 << 10;
    let has_workers = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if n_bytes > SMALL_BYTES && has_workers() { block_in_place(work) } else { work() }
}

fn parse_list(body: &[u8]) -> Result<ListPage, ApiError> {
    let list: List<'_> = serde_json::from_slice(body).map_err(|why| error::malformed("list", why))?;
    Ok(ListPage {
        items: list.items.unwrap_or_default().into_iter().map(|item| item.get().into()).collect(),
        resource_version: list.metadata.resource_version,
        next: list.metadata.next.filter(|next| !next.is_empty()),
    })
}

/// Reads a page of at most `limit` objects; halves the limit while the page is too large. A continue token works with
/// any limit.
async fn fitting<T, F: Future<Output = Result<T, ApiError>>>(
    mut limit: u32,
    page: impl Fn(u32) -> F,
) -> Result<T, ApiError> {
    loop {
        match page(limit).await {
            Err(error) if limit > 1 && error.code == 0 && error.reason == error::TOO_LARGE => limit /= 2,
            answer => return answer,
        }
    }
}

fn text(body: Bytes) -> Result<Box<str>, ApiError> {
    String::from_utf8(body.into()).map(Into::into).map_err(|why| error::malformed("answer", why))
}

impl ApiReader for Connection {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        Box::pin(discover::discover(self))
    }

    fn list<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        Box::pin(fitting(limit, move |limit| self.list_page(target, limit, page)))
    }

    fn watch<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        start: WatchStart,
    ) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        Box::pin(self.open_watch(target, start))
    }

    fn get<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: &'a ObjectKey,
        subresource: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async move {
            let place = Place { subresource, ..Place::object(resource, &object.namespace, &object.name) };
            text(self.get_bytes(&place.url(), JSON, &at_most(MAX_OBJECT_BYTES)).await?)
        })
    }

    fn review<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: &'a str,
        body: &'a str,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async move {
            let url = Place::object(resource, namespace, "").url();
            text(self.post_bytes(&url, body).await?)
        })
    }

    fn raw<'a>(&'a self, path: &'a str, room: &'a Room<'a>) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async move { text(self.get_bytes(path, JSON, room).await?) })
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.wait_for_turn("GET"))
    }

    fn traced(&self, span: SpanRef) -> Option<Arc<dyn ApiReader>> {
        Some(Arc::new(Connection::traced(self, span)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_core::ports::api::ApiErrorClass;

    #[test]
    fn lines_are_assembled_from_chunks() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"ab"), Vec::<Vec<u8>>::new());
        assert_eq!(lines.push(b"c\nd\n\ne"), [b"abc".to_vec(), b"d".to_vec()]);
        assert_eq!(lines.push(b"f\n"), [b"ef".to_vec()]);
    }

    #[tokio::test]
    async fn a_page_that_is_too_long_is_read_in_parts() {
        let asked = std::sync::Mutex::new(Vec::new());
        let most = async |n_objects: u32| {
            asked.lock().unwrap().clear();
            let page = |limit| {
                asked.lock().unwrap().push(limit);
                std::future::ready(if limit > n_objects {
                    Err(error::too_large("answer", "it is larger than 9 bytes"))
                } else {
                    Ok(limit)
                })
            };
            fitting(500, page).await
        };
        assert_eq!((most(500).await.unwrap(), asked.lock().unwrap().as_slice()), (500, &[500][..]));
        assert_eq!((most(40).await.unwrap(), asked.lock().unwrap().as_slice()), (31, &[500, 250, 125, 62, 31][..]));
        // One object is too large, or the server ignores the limit.
        assert_eq!(most(0).await.unwrap_err().message, "cannot read the server's answer: it is larger than 9 bytes");
        assert_eq!(asked.lock().unwrap().last(), Some(&1));
        // An error answer is not a page, whatever its code and message.
        let refusal = || ApiError { code: 413, ..error::too_large("answer", "it is larger than 9 bytes") };
        assert_eq!(fitting::<(), _>(500, |_| std::future::ready(Err(refusal()))).await.unwrap_err().code, 413);
    }

    #[tokio::test]
    async fn bodies_and_frames_are_bounded() {
        let body = |n_bytes: usize| Body::from(vec![b'x'; n_bytes]);
        assert_eq!(whole(body(7), &at_most(7)).await.unwrap().len(), 7);
        assert_eq!(whole(body(8), &at_most(7)).await.unwrap_err().reason, error::TOO_LARGE);
        let mut endless = std::pin::pin!(frames(body(MAX_OBJECT_BYTES + 1)));
        let error = endless.next().await.unwrap().unwrap_err();
        assert_eq!((error.reason.as_str(), endless.next().await.is_none()), (error::TOO_LARGE, true));
        let mut short = std::pin::pin!(frames(body(MAX_OBJECT_BYTES)));
        assert!(short.next().await.is_none());
    }

    #[test]
    fn frames_keep_the_objects_text() {
        let frame = parse_frame(br#"{"type":"ADDED","object":{"a": 1.50}}"#).unwrap();
        assert!(matches!(frame, WatchFrame::Added(text) if &*text == r#"{"a": 1.50}"#));
        let frame = parse_frame(
            br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        );
        assert!(matches!(
            frame.unwrap(),
            WatchFrame::Bookmark { resource_version, initial_events_end: true } if resource_version == "7"
        ));
        let error = parse_frame(br#"{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}"#);
        assert_eq!(error.unwrap_err().class, ApiErrorClass::Gone);
        assert_eq!(parse_frame(b"{").unwrap_err().class, ApiErrorClass::Malformed);
    }

    #[test]
    fn a_list_without_items_is_empty() {
        let page = parse_list(br#"{"metadata":{"resourceVersion":"5","continue":""},"items":null}"#).unwrap();
        assert_eq!((page.items.len(), page.resource_version.as_str(), page.next), (0, "5", None));
    }
}
