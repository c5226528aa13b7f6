//! Watches: initial objects, events, bookmarks, and how they end.
//!
//! *Flow*: a watch holds a cursor in its kind's log; each poll of the response body takes the new events, as one chunk.
//!
//! *Invariants*: 1. events come in the order of their resourceVersions, each once unless a fault script duplicates it;
//! 2. a bookmark's version is never newer than the sent events; 3. a watch that falls out of the log ends.
//!
//! *Not here*: the log (`store`), faults (`faults`).
//!
//! *Source*: the watch cache of the API server; KEP-3157 for the initial events.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::objects::metadata_mut;
use super::query::Query;
use super::reply::{Format, Reply, Shape};
use super::selector::Selector;
use super::shape::{in_version, object_bytes, schema_of};
use super::status::ApiError;
use super::{Api, Call, options, strategy};
use crate::cause::Cause;
use crate::discovery::Resource;
use crate::faults::{WatchEnd, WatchOrder};
use crate::schema;
use crate::store::{Cursor, Event, EventType, Read, Version};

/// Most events in one chunk of the response; a longer backlog is sent in several.
const EVENTS_PER_CHUNK: usize = 256;
/// Default duration of a watch, in seconds: upstream's `--min-request-timeout`, up to twice that.
const DEFAULT_TIMEOUT_SECONDS: std::ops::Range<u64> = 1800..3600;

impl Api {
    pub(crate) fn watch(self: &Arc<Self>, call: &Call) -> Result<Reply, ApiError> {
        let query = &call.query;
        let mut selector = Selector::parse(&call.resource, query.get("labelSelector"), query.get("fieldSelector"))?;
        if let Some(name) = &call.path.name {
            selector.require_name(name);
        }
        let bookmarks = query.flag("allowWatchBookmarks");
        let initial = query.all("sendInitialEvents").next().map(|_| query.flag("sendInitialEvents"));
        check_options(query)?;
        // Upstream's watch cache fails here, where a list rejects the request.
        let rv = query.resource_version().map_err(|error| ApiError::new(500, "", error.message))?;
        let seconds = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        let seconds = seconds.unwrap_or_else(|| self.random(DEFAULT_TIMEOUT_SECONDS));
        let storage = &call.resource.storage;
        let namespace = call.namespace();
        let send_state = initial == Some(true) || (initial.is_none() && rv.unwrap_or(0) == 0);
        let mut watcher = Watcher {
            api: Arc::clone(self),
            resource: Arc::clone(&call.resource),
            namespace_prefix: namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default(),
            selector,
            shape: call.accept.shape,
            include_object: call.query.get("includeObject").map(str::to_owned),
            user_agent: call.user_agent.clone(),
            bookmarks,
            columns_sent: false,
            ready: VecDeque::new(),
            cursor: None,
            seen: 0,
            deadline: Instant::now() + Duration::from_secs(seconds),
            next_bookmark: Instant::now() + self.config.bookmark_interval,
            orders: self.faults.subscribe_orders(),
            ended: false,
        };
        if send_state {
            if let Some(rv) = rv
                && rv > self.store.rv()
            {
                return Err(ApiError::too_large(rv, self.store.rv()));
            }
            let (cursor, rv, items) =
                self.store.watch_from_now(storage, namespace, |version| watcher.selector.matches(version))?;
            watcher.cursor = Some(cursor);
            watcher.seen = rv;
            for chunk in items.chunks(EVENTS_PER_CHUNK) {
                let mut out = BytesMut::new();
                for item in chunk {
                    watcher.encode(&mut out, "ADDED", item);
                }
                watcher.ready.push_back(out.freeze());
            }
            if initial == Some(true) && bookmarks {
                let bookmark = watcher.bookmark(true);
                watcher.ready.push_back(bookmark);
            }
        } else {
            match self.store.watch_from(storage, rv.unwrap_or_else(|| self.store.rv())) {
                Ok(cursor) => watcher.cursor = Some(cursor),
                // The stream is opened first, and its only event contains the error.
                Err(error) if error.code == 410 => {
                    let event = watcher.error(&error);
                    watcher.ready.push_back(event);
                    watcher.ended = true;
                }
                Err(error) => return Err(error),
            }
            watcher.seen = rv.unwrap_or(0);
        }
        let content_type = match call.accept.format {
            Format::Yaml => return Err(ApiError::not_acceptable()),
            Format::Json | Format::Pretty => "application/json",
        };
        let frames = stream::unfold(watcher, |mut watcher| async move {
            let chunk = watcher.next().await?;
            Some((chunk.map(Frame::data), watcher))
        });
        Ok(Reply {
            code: 200,
            content_type,
            body: StreamBody::new(frames).boxed_unsync(),
            retry_after_seconds: None,
            warnings: Vec::new(),
        })
    }
}

fn check_options(query: &Query) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let initial = query.all("sendInitialEvents").next().is_some();
    let matching = query.get("resourceVersionMatch");
    let field = "resourceVersionMatch";
    if initial && matching != Some("NotOlderThan") {
        causes.push(Cause::forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if let Some(matching) = matching {
        if !initial {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden(field, why));
        }
        if matching != "NotOlderThan" {
            causes.push(Cause::unsupported(field, &matching.into(), &["NotOlderThan"]));
        }
        if query.get("continue").is_some() {
            causes.push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    options::refuse("ListOptions", causes)
}

struct Watcher {
    api: Arc<Api>,
    resource: Arc<Resource>,
    /// Empty for all namespaces.
    namespace_prefix: String,
    selector: Selector,
    shape: Shape,
    include_object: Option<String>,
    user_agent: String,
    bookmarks: bool,
    /// Only the first table of a watch describes its columns.
    columns_sent: bool,
    /// Chunks to send before reading the log.
    ready: VecDeque<Bytes>,
    /// `None` when the watch never started.
    cursor: Option<Cursor>,
    /// Everything up to here was sent or filtered out.
    seen: u64,
    deadline: Instant,
    next_bookmark: Instant,
    /// The fault script holds the other end.
    orders: broadcast::Receiver<WatchOrder>,
    ended: bool,
}

impl Watcher {
    /// The next chunk of the response; none at its end.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                self.api.travel().await;
                if let Some(delay) = self.api.faults.watch_delay(&self.resource.plural) {
                    tokio::time::sleep(delay).await;
                }
                if self.api.faults.is_killed(&self.user_agent) {
                    return Some(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                return Some(Ok(chunk));
            }
            if self.ended {
                return None;
            }
            self.take_events();
            if !self.ready.is_empty() || self.ended {
                continue;
            }
            let cursor = self.cursor.as_mut()?;
            tokio::select! {
                biased;
                order = self.orders.recv() => if let Some(error) = self.obey(order) {
                    return Some(Err(error));
                },
                alive = cursor.changed() => self.ended = !alive,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + self.api.config.bookmark_interval;
                    self.take_events();
                    let bookmark = self.bookmark(false);
                    self.ready.push_back(bookmark);
                }
                () = tokio::time::sleep_until(self.deadline) => {
                    if self.bookmarks {
                        self.take_events();
                    let bookmark = self.bookmark(false);
                        self.ready.push_back(bookmark);
                    }
                    self.ended = true;
                }
            }
        }
    }

    fn take_events(&mut self) {
        let Some(cursor) = self.cursor.as_mut() else { return };
        match self.api.store.read(cursor, EVENTS_PER_CHUNK) {
            (Read::Lagged | Read::Gone, _) => self.ended = true,
            (Read::Events(events), seen) => {
                let mut out = BytesMut::new();
                for event in &events {
                    self.encode_event(&mut out, event);
                    if self.api.faults.duplicates(&self.resource.plural) {
                        self.encode_event(&mut out, event);
                    }
                }
                self.seen = self.seen.max(seen);
                if !out.is_empty() {
                    self.ready.push_back(out.freeze());
                }
            }
        }
    }

    /// Follows the fault script; an error breaks the connection.
    fn obey(&mut self, order: Result<WatchOrder, broadcast::error::RecvError>) -> Option<io::Error> {
        let Ok(order) = order else {
            // Too many orders to determine which ones apply to this watch: the safe choice is to end it.
            self.ended = true;
            return None;
        };
        if order.resource.as_deref().is_some_and(|resource| resource != self.resource.plural) {
            return None;
        }
        self.ended = true;
        match order.end {
            WatchEnd::Close => None,
            WatchEnd::Drop => Some(io::ErrorKind::ConnectionAborted.into()),
            WatchEnd::Gone => {
                let event = self.error(&ApiError::too_old(self.seen, self.api.store.rv()));
                self.ready.push_back(event);
                None
            }
        }
    }

    fn wants(&self, version: &Version) -> bool {
        version.key.starts_with(&self.namespace_prefix) && self.selector.matches(version)
    }

    fn encode_event(&mut self, out: &mut BytesMut, event: &Event) {
        let before = event.previous.as_ref().is_some_and(|version| self.wants(version));
        let after = event.kind != EventType::Deleted && self.wants(&event.object);
        match (before, after) {
            (false, true) => self.encode(out, "ADDED", &event.object),
            (true, true) => self.encode(out, "MODIFIED", &event.object),
            (true, false) if event.kind == EventType::Deleted => self.encode(out, "DELETED", &event.object),
            // It left the selection: the client gets the last state that matched, at the version of the change.
            (true, false) => {
                if let Some(previous) = &event.previous {
                    let mut value = in_version(&self.resource, previous);
                    metadata_mut(&mut value).insert("resourceVersion".into(), json!(event.rv().to_string()));
                    self.encode_value(out, "DELETED", value);
                }
            }
            (false, false) => {}
        }
    }

    fn encode(&mut self, out: &mut BytesMut, kind: &str, version: &Version) {
        if self.shape == Shape::Table {
            let value = in_version(&self.resource, version);
            self.encode_value(out, kind, value);
        } else {
            frame(out, kind, &object_bytes(&self.resource, self.shape, version));
        }
    }

    fn encode_value(&mut self, out: &mut BytesMut, kind: &str, value: Value) {
        let shown = match self.shape {
            Shape::Partial => crate::store::partial_object(&value),
            Shape::Table => {
                let mut table = self.api.table(&self.resource, &[&value], self.include_object.as_deref());
                let rv = value["metadata"]["resourceVersion"].clone();
                metadata_mut(&mut table).insert("resourceVersion".into(), rv);
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
            Shape::Native | Shape::PartialList | Shape::Discovery(_) => value,
        };
        frame(out, kind, shown.to_string().as_bytes());
    }

    fn bookmark(&mut self, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.seen.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.shape {
            Shape::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Shape::Table => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": null, "rows": []})
            }
            // An empty object of the kind, as Go writes it.
            Shape::Native | Shape::PartialList | Shape::Discovery(_) => {
                let mut object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
                if self.resource.crd.is_none()
                    && let Some(schema) = schema_of(&self.resource)
                {
                    schema::canonicalize(&schema, &mut object);
                    schema::show_required(&schema, &mut object);
                    strategy::complete_empty(&self.resource, &mut object);
                }
                object
            }
        };
        let mut out = BytesMut::new();
        frame(&mut out, "BOOKMARK", object.to_string().as_bytes());
        out.freeze()
    }

    fn error(&self, error: &ApiError) -> Bytes {
        let mut out = BytesMut::new();
        frame(&mut out, "ERROR", error.status().to_string().as_bytes());
        out.freeze()
    }
}

fn frame(out: &mut BytesMut, kind: &str, object: &[u8]) {
    out.reserve(object.len() + 40);
    out.put(&b"{\"type\":\""[..]);
    out.put(kind.as_bytes());
    out.put(&b"\",\"object\":"[..]);
    out.put(object);
    out.put(&b"}\n"[..]);
}
