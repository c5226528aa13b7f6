//! The read half of an API server: objects, a log of changes, and failure modes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use pintle_core::object::id::ObjectKey;
use pintle_core::object::selector::Selector;
use pintle_core::ports::api::{
    ApiError, ApiErrorClass, ApiReader, ApiResource, Detail, Discovery, ListPage, ListWatchTarget, Room, WatchFrame,
    WatchStart, WatchStream,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::refusal;

/// A message of a watch.
pub type Frame = Result<WatchFrame, ApiError>;
type Lists = dyn Fn(&ListWatchTarget, u32, Option<&str>) -> Result<ListPage, ApiError> + Send + Sync;
type Gets = dyn Fn(&ApiResource, &ObjectKey) -> Result<Box<str>, ApiError> + Send + Sync;

/// A fake API server for reads. Closures can replace the responses of single verbs.
#[derive(Default)]
pub struct FakeServer {
    state: Mutex<State>,
    list: Option<Box<Lists>>,
    get: Option<Box<Gets>>,
}

/// Objects and behaviour of a [`FakeServer`].
#[derive(Default)]
pub struct State {
    /// The newest resourceVersion.
    pub version: u64,
    objects: BTreeMap<(String, String, String), Value>,
    log: Vec<(u64, String, &'static str, Value)>,
    compacted: u64,
    watches: Vec<(ListWatchTarget, mpsc::Sender<Frame>)>,
    /// The resources of discovery.
    pub resources: Vec<ApiResource>,
    /// Group versions whose discovery fails.
    pub failed_groups: Vec<String>,
    /// Whether streaming lists are supported.
    pub streams: bool,
    /// Whether streaming lists are treated as watches: objects arrive, but no list ends.
    pub endless: bool,
    /// Delay between the lines of a watch.
    pub late: Duration,
    /// Whether the server never responds.
    pub down: bool,
    /// Whether raw paths get no response.
    pub stuck: bool,
    /// Errors for the next lists and watches, by plural.
    pub failures: BTreeMap<String, VecDeque<ApiError>>,
    /// Errors for all lists and watches, by plural.
    pub refusals: BTreeMap<String, ApiError>,
    /// Requests, in order.
    pub requests: Vec<String>,
    /// Invalid responses for objects by name, or for raw paths, which are otherwise echoed.
    pub garbage: BTreeMap<String, String>,
}

/// An error of the API server without reason and causes.
pub fn error(class: ApiErrorClass, code: u16) -> ApiError {
    ApiError { class, code, reason: String::new(), message: format!("{code}"), causes: Vec::new() }
}

/// A namespaced resource that can be listed, watched and deleted.
pub fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        kind: kind.parse().unwrap(),
        plural: plural.into(),
        namespaced: true,
        verbs: ["list", "watch", "delete"].map(String::from).into(),
        subresources: Vec::new(),
        preferred: true,
    }
}

impl FakeServer {
    /// A server with the resources Pods, ReplicaSets and Deployments, and no objects.
    pub fn new() -> Arc<Self> {
        let resources = vec![
            resource("v1/Pod", "pods"),
            resource("apps/v1/ReplicaSet", "replicasets"),
            resource("apps/v1/Deployment", "deployments"),
        ];
        let state = Mutex::new(State { version: 10, resources, streams: true, ..State::default() });
        Arc::new(Self { state, ..Self::default() })
    }

    /// A server like [`FakeServer::new`], whose lists and gets are answered by closures; only its watches show objects.
    pub fn answering(
        list: impl Fn(&ListWatchTarget, u32, Option<&str>) -> Result<ListPage, ApiError> + Send + Sync + 'static,
        get: impl Fn(&ApiResource, &ObjectKey) -> Result<Box<str>, ApiError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let server = Arc::into_inner(Self::new()).unwrap();
        Arc::new(Self { list: Some(Box::new(list)), get: Some(Box::new(get)), ..server })
    }

    /// A server whose lists are answered by a closure, each in one page.
    pub fn listing(list: impl Fn(&ListWatchTarget) -> Result<ListPage, ApiError> + Send + Sync + 'static) -> Arc<Self> {
        Self::answering(move |target, _, _| list(target), |_, _| Err(refusal(404)))
    }

    /// A server for needs: five objects of every kind in pages of two, a live object with every name except `gone`.
    pub fn answering_needs() -> Arc<Self> {
        Self::answering(five_in_pages_of_two, |_, object| match &*object.name {
            "gone" => Err(refusal(404)),
            name => Ok(format!(r#"{{"live":"{name}"}}"#).into()),
        })
    }

    /// The server's state, under its lock.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Creates or changes an object; `more` is merged into it at the top level. Returns its resourceVersion.
    pub fn put(&self, plural: &str, namespace: &str, name: &str, more: Value) -> u64 {
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

    /// Deletes an object. Returns the resourceVersion of its deletion.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) -> u64 {
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
    pub fn bookmark(&self) {
        let mut state = self.state();
        let resource_version = state.version.to_string();
        let frame =
            || Ok(WatchFrame::Bookmark { resource_version: resource_version.clone(), initial_events_end: false });
        state.watches.retain(|(_, watch)| watch.try_send(frame()).is_ok());
    }

    /// Sends these frames to all watches of the resource.
    pub fn send(&self, plural: &str, frame: impl Fn() -> Frame) {
        let state = self.state();
        for (_, watch) in state.watches.iter().filter(|(target, _)| target.plural == plural) {
            watch.try_send(frame()).unwrap();
        }
    }

    /// Ends all watches.
    pub fn end_watches(&self) {
        self.state().watches.clear();
    }

    /// Drops old changes: watches cannot start from them any more.
    pub fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.version;
        state.log.clear();
    }

    /// Stops responding, or resumes.
    pub fn set_down(&self, down: bool) {
        let mut state = self.state();
        state.down = down;
        if down {
            state.watches.clear();
        }
    }

    /// Number of objects of a resource.
    pub fn n_objects(&self, plural: &str) -> usize {
        self.state().objects.keys().filter(|(other, ..)| other == plural).count()
    }

    /// `KIND NAMESPACE` of each open watch.
    pub fn watched(&self) -> BTreeSet<String> {
        let watched = |(target, _): &(ListWatchTarget, _)| {
            format!("{} {}", target.kind, target.namespace.as_deref().unwrap_or_default())
        };
        self.state().watches.iter().map(watched).collect()
    }

    /// Number of open watches.
    pub fn n_watches(&self) -> usize {
        self.state().watches.iter().filter(|(_, watch)| !watch.is_closed()).count()
    }

    /// Takes the requests since the last call, in order.
    pub fn requests(&self) -> Vec<String> {
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

    fn answer(&mut self, target: &ListWatchTarget, what: &str) -> Result<(), ApiError> {
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

    fn items(&self, target: &ListWatchTarget) -> Vec<String> {
        let objects = self.objects.iter().filter(|((plural, ..), object)| covers(target, plural, object));
        objects.map(|(_, object)| self.text(object)).collect()
    }
}

fn covers(target: &ListWatchTarget, plural: &str, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let selected = |text: &String| Selector::parse(text).unwrap().matches(|label| labels[label].as_str());
    target.plural == plural
        && target.label_selector.as_ref().is_none_or(selected)
        && target.namespace.as_ref().is_none_or(|ours| object["metadata"]["namespace"] == json!(ours))
}

fn frame(event: &str, text: &str) -> WatchFrame {
    match event {
        "added" => WatchFrame::Added(text.into()),
        "modified" => WatchFrame::Modified(text.into()),
        _ => WatchFrame::Deleted(text.into()),
    }
}

impl ApiReader for FakeServer {
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
        target: &'a ListWatchTarget,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        async move {
            if let Some(list) = &self.list {
                return list(target, limit, page);
            }
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

    fn watch<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        start: WatchStart,
    ) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
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

    fn get<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: &'a ObjectKey,
        subresource: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        async move {
            if let Some(subresource) = subresource {
                let (plural, key) = (&resource.plural, object);
                return Ok(json!({"subresource": subresource, "of": format!("{plural} {key}")}).to_string().into());
            }
            if let Some(get) = &self.get {
                return get(resource, object);
            }
            let state = self.state();
            let key = (resource.plural.clone(), object.namespace.to_string(), object.name.to_string());
            state.objects.get(&key).map(|object| object.to_string().into()).ok_or_else(|| refusal(404))
        }
        .boxed()
    }

    /// The review, allowed.
    fn review<'a>(
        &'a self,
        resource: &'a ApiResource,
        namespace: &'a str,
        body: &'a str,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        self.state().requests.push(format!("review {} {namespace:?}", resource.plural));
        let mut review: Value = serde_json::from_str(body).unwrap();
        review["status"] = json!({"allowed": true});
        std::future::ready(Ok(review.to_string().into())).boxed()
    }

    /// The path itself.
    fn raw<'a>(&'a self, path: &'a str, room: &'a Room<'a>) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        let state = self.state();
        if state.stuck {
            return futures::future::pending().boxed();
        }
        let text = state.garbage.get(path).cloned().unwrap_or_else(|| path.to_owned());
        let answer = match room(text.len()) {
            Ok(()) => Ok(text.into()),
            Err(why) => Err(ApiError { reason: "TooLarge".into(), message: why, ..crate::refusal(0) }),
        };
        std::future::ready(answer).boxed()
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        let mut state = self.state();
        state.requests.push("turn".to_owned());
        if state.stuck { futures::future::pending().boxed() } else { std::future::ready(()).boxed() }
    }
}

fn five_in_pages_of_two(target: &ListWatchTarget, limit: u32, page: Option<&str>) -> Result<ListPage, ApiError> {
    let from: u32 = page.map_or(0, |page| page.parse().unwrap());
    let item = |i| {
        format!(
            r#"{{"kind":"PartialObjectMetadata","metadata":{{"name":"{}{i}","managedFields":[{{}}]}}}}"#,
            target.plural
        )
    };
    let to = (from + limit.min(2)).min(5);
    Ok(ListPage {
        items: (from..to).map(|i| item(i).into()).collect(),
        resource_version: "7".into(),
        next: (to < 5).then(|| to.to_string()),
    })
}

/// Runs everything that needs no time.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
