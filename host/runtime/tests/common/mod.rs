//! An API server for tests of the caches: objects, a log of changes, and ways to fail.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use pintle_core::api::{
    ApiError, ApiErrorClass, ApiReader, ApiResource, Detail, Discovery, ListPage, Target, WatchFrame, WatchStart,
    WatchStream,
};
use pintle_core::id::{Kind, ObjectKey};
use pintle_core::manifest::Manifest;
use pintle_runtime::caches::{Caches, CachesConfig, ChangeHandler, Delta, RunContext, Subscription};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Frame = Result<WatchFrame, ApiError>;

/// The server.
#[derive(Default)]
pub(crate) struct Fake(Mutex<State>);

#[derive(Default)]
pub(crate) struct State {
    version: u64,
    objects: BTreeMap<(String, String, String), Value>,
    log: Vec<(u64, String, &'static str, Value)>,
    compacted: u64,
    watches: Vec<(Target, mpsc::Sender<Frame>)>,
    pub(crate) resources: Vec<ApiResource>,
    pub(crate) failed_groups: Vec<String>,
    /// Streaming lists are offered.
    pub(crate) streams: bool,
    /// Streaming lists are taken for watches: objects come, but no list ends.
    pub(crate) endless: bool,
    /// So late does each line of a watch come after the one before.
    pub(crate) late: Duration,
    /// No answer to anything.
    pub(crate) down: bool,
    /// Answers to the next lists and watches, by plural.
    pub(crate) failures: BTreeMap<String, VecDeque<ApiError>>,
    /// Answers to all lists and watches, by plural.
    pub(crate) refusals: BTreeMap<String, ApiError>,
    /// What was asked, in order.
    pub(crate) requests: Vec<String>,
    /// Sent instead of the object of this name.
    pub(crate) garbage: BTreeMap<String, String>,
}

pub(crate) fn error(class: ApiErrorClass, code: u16) -> ApiError {
    ApiError { class, code, reason: String::new(), message: format!("{code}"), causes: Vec::new() }
}

pub(crate) fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        kind: kind.parse().unwrap(),
        plural: plural.into(),
        namespaced: true,
        verbs: ["list", "watch", "delete"].map(String::from).into(),
        subresources: Vec::new(),
        preferred: true,
    }
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        let resources = vec![
            resource("v1/Pod", "pods"),
            resource("apps/v1/ReplicaSet", "replicasets"),
            resource("apps/v1/Deployment", "deployments"),
        ];
        Arc::new(Self(Mutex::new(State { version: 10, resources, streams: true, ..State::default() })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Creates or changes an object; `more` is merged into it at the top level.
    pub(crate) fn put(&self, plural: &str, namespace: &str, name: &str, more: Value) -> u64 {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let event = if state.objects.contains_key(&key) { "modified" } else { "added" };
        let mut object = json!({"metadata": {
            "name": name, "namespace": namespace, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "test"}],
        }});
        for (field, value) in more.as_object().unwrap() {
            if field == "metadata" {
                object["metadata"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            } else {
                object[field] = value.clone();
            }
        }
        state.objects.insert(key, object.clone());
        state.publish(plural, event, object);
        version
    }

    pub(crate) fn delete(&self, plural: &str, namespace: &str, name: &str) -> u64 {
        let mut state = self.state();
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = state.objects.remove(&key).unwrap();
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        state.publish(plural, "deleted", object);
        version
    }

    /// Sends a bookmark to all watches.
    pub(crate) fn bookmark(&self) {
        let mut state = self.state();
        let resource_version = state.version.to_string();
        let frame =
            || Ok(WatchFrame::Bookmark { resource_version: resource_version.clone(), initial_events_end: false });
        state.watches.retain(|(_, watch)| watch.try_send(frame()).is_ok());
    }

    /// Sends these frames to all watches of the resource.
    pub(crate) fn send(&self, plural: &str, frame: impl Fn() -> Frame) {
        let state = self.state();
        for (_, watch) in state.watches.iter().filter(|(target, _)| target.plural == plural) {
            watch.try_send(frame()).unwrap();
        }
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&self) {
        self.state().watches.clear();
    }

    /// Forgets old changes: watches cannot start from them any more.
    pub(crate) fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.version;
        state.log.clear();
    }

    pub(crate) fn set_down(&self, down: bool) {
        let mut state = self.state();
        state.down = down;
        if down {
            state.watches.clear();
        }
    }

    pub(crate) fn n_watches(&self) -> usize {
        self.state().watches.iter().filter(|(_, watch)| !watch.is_closed()).count()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }
}

impl State {
    fn publish(&mut self, plural: &str, event: &'static str, object: Value) {
        self.log.push((self.version, plural.to_owned(), event, object.clone()));
        let text = self.text(&object);
        self.watches.retain(|(target, watch)| {
            !covers(target, plural, &object) || watch.try_send(Ok(frame(event, &text))).is_ok()
        });
    }

    fn text(&self, object: &Value) -> String {
        self.garbage.get(object["metadata"]["name"].as_str().unwrap()).cloned().unwrap_or_else(|| object.to_string())
    }

    fn answer(&mut self, target: &Target, what: &str) -> Result<(), ApiError> {
        let detail = if target.detail == Detail::Metadata { " metadata" } else { "" };
        self.requests.push(format!("{what} {}{detail}", target.plural));
        if self.down {
            return Err(ApiError::transport("connection refused"));
        }
        if let Some(error) = self.failures.get_mut(&target.plural).and_then(VecDeque::pop_front) {
            return Err(error);
        }
        self.refusals.get(&target.plural).cloned().map_or(Ok(()), Err)
    }

    fn items(&self, target: &Target) -> Vec<String> {
        let objects = self.objects.iter().filter(|((plural, ..), object)| covers(target, plural, object));
        objects.map(|(_, object)| self.text(object)).collect()
    }
}

fn covers(target: &Target, plural: &str, object: &Value) -> bool {
    target.plural == plural
        && target.namespace.as_ref().is_none_or(|ours| object["metadata"]["namespace"] == json!(ours))
}

fn frame(event: &str, text: &str) -> WatchFrame {
    match event {
        "added" => WatchFrame::Added(text.into()),
        "modified" => WatchFrame::Modified(text.into()),
        _ => WatchFrame::Deleted(text.into()),
    }
}

impl ApiReader for Fake {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        let state = self.state();
        let found = match state.down {
            true => Err(ApiError::transport("connection refused")),
            false => Ok(Discovery { resources: state.resources.clone(), failed: state.failed_groups.clone() }),
        };
        async move { found }.boxed()
    }

    fn list<'a>(
        &'a self,
        target: &'a Target,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        async move {
            let mut state = self.state();
            state.answer(target, &format!("list{}", page.map_or(String::new(), |page| format!("@{page}"))))?;
            let from: usize = page.map_or(0, |page| page.parse().unwrap());
            let items = state.items(target);
            let to = (from + limit as usize).min(items.len());
            Ok(ListPage {
                items: items[from..to].iter().map(|item| item.as_str().into()).collect(),
                resource_version: state.version.to_string(),
                next: (to < items.len()).then(|| to.to_string()),
            })
        }
        .boxed()
    }

    fn watch<'a>(&'a self, target: &'a Target, start: WatchStart) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        async move {
            let mut state = self.state();
            let (send, receive) = mpsc::channel(10_000);
            match start {
                WatchStart::InitialEvents => {
                    state.answer(target, "stream")?;
                    if !state.streams {
                        return Err(error(ApiErrorClass::Invalid, 422));
                    }
                    for item in state.items(target) {
                        send.try_send(Ok(WatchFrame::Added(item.as_str().into()))).unwrap();
                    }
                    if !state.endless {
                        let resource_version = state.version.to_string();
                        send.try_send(Ok(WatchFrame::Bookmark { resource_version, initial_events_end: true })).unwrap();
                    }
                }
                WatchStart::After(version) => {
                    state.answer(target, &format!("watch@{version}"))?;
                    let after: u64 = version.parse().unwrap();
                    if after < state.compacted {
                        return Err(error(ApiErrorClass::Gone, 410));
                    }
                    let later = state
                        .log
                        .iter()
                        .filter(|(at, plural, _, object)| *at > after && covers(target, plural, object));
                    for (_, _, event, object) in later {
                        send.try_send(Ok(frame(event, &state.text(object)))).unwrap();
                    }
                }
            }
            state.watches.push((target.clone(), send));
            let late = state.late;
            let stream = futures::stream::unfold(receive, move |mut receive| async move {
                let frame = receive.recv().await?;
                if !late.is_zero() {
                    tokio::time::sleep(late).await;
                }
                Some((frame, receive))
            });
            Ok(stream.boxed())
        }
        .boxed()
    }

    fn get<'a>(&'a self, _: &'a ApiResource, _: &'a ObjectKey) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        async { Err(error(ApiErrorClass::NotFound, 404)) }.boxed()
    }

    fn raw<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        async { Err(error(ApiErrorClass::NotFound, 404)) }.boxed()
    }
}

/// Writes down what it hears: `*ns/a@11` at first sight, `+`, `~`, `-` for changes, `.` for progress.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Heard {
    /// What was heard since the last call, progress left out.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

impl ChangeHandler for Heard {
    fn on_changes(&self, batch: &[Delta]) {
        let mut heard = self.0.lock().unwrap();
        for delta in batch {
            let sign = match (&delta.old, &delta.new) {
                _ if delta.initial => '*',
                (None, _) => '+',
                (_, None) => '-',
                _ => '~',
            };
            let state = delta.new.as_ref().or(delta.old.as_ref()).unwrap();
            heard.push(format!("{sign}{}@{}", state.meta.key, state.meta.resource_version));
        }
    }

    fn on_progress(&self, _: &Kind) {}
}

/// Waits, on the paused clock, until the condition holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 1,000 s: {what}");
}

/// Lets everything happen that needs no time.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

pub(crate) fn manifest(watches: Value) -> Arc<Manifest> {
    let manifest = json!({
        "name": "test", "version": "1", "contract": "0.1", "queues": [{"name": "q"}, {"name": "other"}], "watches": watches,
        "discovery": true,
    });
    Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap())
}

pub(crate) fn caches(server: &Arc<Fake>) -> Arc<Caches> {
    Caches::new(server.clone(), CachesConfig { page_size: 2, ..CachesConfig::default() })
}

pub(crate) fn context() -> RunContext {
    RunContext { now: "2026-01-01T00:00:00.000000Z".into(), ..RunContext::default() }
}

/// A subscription that is synced, and what it hears from then on.
pub(crate) async fn subscribe(caches: &Arc<Caches>, watches: Value) -> (Subscription, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let subscription = caches.subscribe(manifest(watches), heard.clone());
    subscription.synced().await;
    (subscription, heard)
}

/// Names of all objects of the kind, with their versions.
pub(crate) fn listed(subscription: &Subscription, kind: &str) -> String {
    let view = subscription.snapshot().view(context());
    let objects = view.list(&kind.parse().unwrap(), &Default::default()).unwrap();
    let names = objects.iter().map(|object| {
        let object: Value = serde_json::from_str(object).unwrap();
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or("").to_owned();
        format!("{}/{}@{}", text("namespace"), text("name"), text("resourceVersion"))
    });
    names.collect::<Vec<_>>().join(" ")
}
