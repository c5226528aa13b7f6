//! Fakes for the tests of this crate: a guest made of a closure, a scripted API server, a world without caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use pintle_core::api::{
    ApiError, ApiErrorClass, ApiReader, ApiResource, ApiWriter, Detail, Discovery, ListPage, Target, WatchStart,
    WatchStream, WriteRequest, WriteVerb, Written,
};
use pintle_core::guest::{Guest, PluginFault, Run};
use pintle_core::id::{Key, Kind, ObjectKey};
use pintle_core::manifest::Manifest;
use pintle_core::object::{Meta, Object, OwnerRef};
use pintle_core::outcome::{
    Action, Event, Mutation, MutationFailure, Need, NeedError, Order, Outcome, Preconditions, ReconcileError, Step,
};
use pintle_core::pending::PendingWrite;
use pintle_core::version::Uid;
use pintle_core::view::{Query, View, ViewError};
use tokio::sync::watch;

use crate::caches::{Delta, Enqueued, RunContext};
use crate::controller::{Mappable, World};

pub(crate) fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

pub(crate) fn resource(kind: &Kind) -> Arc<ApiResource> {
    Arc::new(ApiResource {
        kind: kind.clone(),
        plural: format!("{}s", kind.name.to_lowercase()),
        namespaced: &*kind.name != "Node",
        verbs: Vec::new(),
        subresources: Vec::new(),
        preferred: true,
    })
}

/// A manifest that may write Pods; `change` makes it another one.
pub(crate) fn manifest(change: impl FnOnce(&mut serde_json::Value)) -> Arc<Manifest> {
    let mut manifest = serde_json::json!({
        "name": "widgets", "version": "1.0.0", "contract": "0.1",
        "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self"}]}],
        "queues": [{"name": "widgets"}],
        "grants": [{"verbs": ["create", "patch", "delete", "get", "list"], "kinds": ["v1/Pod"]}],
    });
    change(&mut manifest);
    Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap())
}

pub(crate) fn key(name: &str) -> Key {
    Key { queue: "widgets".into(), kind: pod(), object: ObjectKey::new("ns", name) }
}

pub(crate) fn create(name: &str) -> Mutation {
    let action = Action::Create {
        kind: pod(),
        namespace: "ns".into(),
        object: format!(r#"{{"metadata":{{"name":"{name}"}}}}"#),
        subresource: None,
    };
    Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() }
}

pub(crate) fn delete(name: &str) -> Mutation {
    let action = Action::Delete {
        kind: pod(),
        object: ObjectKey::new("ns", name),
        preconditions: Preconditions::default(),
        propagation: None,
        grace_period_seconds: None,
    };
    Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() }
}

pub(crate) fn step(order: Order, mutations: Vec<Mutation>) -> Step {
    Step { order, mutations, always: false }
}

pub(crate) fn steps(steps: Vec<Step>) -> Outcome {
    Outcome { steps, ..Outcome::default() }
}

pub(crate) fn event(message: &str) -> Event {
    Event {
        regarding_kind: pod(),
        regarding: ObjectKey::new("ns", "a"),
        regarding_uid: "uid-a".into(),
        warning: false,
        reason: "Tested".into(),
        message: message.into(),
    }
}

pub(crate) fn refusal(code: u16) -> ApiError {
    let (class, reason) = match code {
        0 => return ApiError::transport("connection refused"),
        403 => (ApiErrorClass::Forbidden, "Forbidden"),
        404 => (ApiErrorClass::NotFound, "NotFound"),
        409 => (ApiErrorClass::Conflict, "Conflict"),
        422 => (ApiErrorClass::Invalid, "Invalid"),
        429 => (ApiErrorClass::Throttled(Some(Duration::from_secs(7))), "TooManyRequests"),
        _ => (ApiErrorClass::Server, "InternalError"),
    };
    ApiError { class, code, reason: reason.into(), message: format!("the server says {code}"), causes: Vec::new() }
}

pub(crate) type GuestResult = Result<Result<Outcome, ReconcileError>, PluginFault>;
type Reconcile = dyn Fn(Key, Arc<dyn View>) -> BoxFuture<'static, GuestResult> + Send + Sync;
type KeysOf = dyn Fn(Option<&str>, Option<&str>) -> Result<Vec<Key>, PluginFault> + Send + Sync;

/// A guest made of closures.
pub(crate) struct FakeGuest {
    manifest: Arc<Manifest>,
    reconcile: Box<Reconcile>,
    keys_of: Option<Box<KeysOf>>,
}

impl FakeGuest {
    pub(crate) fn new(
        manifest: Arc<Manifest>,
        reconcile: impl Fn(Key, Arc<dyn View>) -> GuestResult + Send + Sync + 'static,
    ) -> Self {
        Self::asynchronous(manifest, move |key, view| {
            let result = reconcile(key, view);
            Box::pin(async move { result })
        })
    }

    pub(crate) fn asynchronous(
        manifest: Arc<Manifest>,
        reconcile: impl Fn(Key, Arc<dyn View>) -> BoxFuture<'static, GuestResult> + Send + Sync + 'static,
    ) -> Self {
        Self { manifest, reconcile: Box::new(reconcile), keys_of: None }
    }

    pub(crate) fn mapping(
        self,
        keys_of: impl Fn(Option<&str>, Option<&str>) -> Result<Vec<Key>, PluginFault> + Send + Sync + 'static,
    ) -> Self {
        Self { keys_of: Some(Box::new(keys_of)), ..self }
    }
}

impl Guest for FakeGuest {
    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    fn maps(&self) -> bool {
        self.keys_of.is_some()
    }

    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run> {
        let result = (self.reconcile)(key.clone(), view);
        Box::pin(async move { Run::of(result.await) })
    }

    fn keys_of<'a>(
        &'a self,
        _: &'a Kind,
        old: Option<&'a str>,
        new: Option<&'a str>,
        _: Arc<dyn View>,
    ) -> BoxFuture<'a, Result<Vec<Key>, PluginFault>> {
        let result = self.keys_of.as_ref().map_or_else(|| Ok(Vec::new()), |keys_of| keys_of(old, new));
        Box::pin(async move { result })
    }
}

type Answer = dyn Fn(&str, &WriteRequest) -> Result<(), ApiError> + Send + Sync;

/// An API server for writes: a closure may refuse them, the rest succeeds with versions that count up from 101.
pub(crate) struct FakeWriter {
    answer: Box<Answer>,
    /// What came, in order, one line each.
    log: Mutex<Vec<String>>,
    bodies: Mutex<Vec<String>>,
    version: AtomicU64,
    /// Writes wait while this is true.
    pub(crate) paused: watch::Sender<bool>,
    pub(crate) n_open: Mutex<(usize, usize)>,
}

impl FakeWriter {
    pub(crate) fn new(
        answer: impl Fn(&str, &WriteRequest) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answer: Box::new(answer),
            log: Mutex::default(),
            bodies: Mutex::default(),
            version: AtomicU64::new(100),
            paused: watch::Sender::new(false),
            n_open: Mutex::default(),
        })
    }

    pub(crate) fn agreeable() -> Arc<Self> {
        Self::new(|_, _| Ok(()))
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    pub(crate) fn bodies(&self) -> Vec<serde_json::Value> {
        self.bodies.lock().iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

impl ApiWriter for FakeWriter {
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>> {
        Box::pin(async move {
            let preconditions_text;
            let (verb, body) = match &request.verb {
                WriteVerb::Create { body } => ("create", body.as_str()),
                WriteVerb::Update { body } => ("update", body.as_str()),
                WriteVerb::Patch { body, .. } => ("patch", body.as_str()),
                WriteVerb::Delete { preconditions, .. } => {
                    preconditions_text = serde_json::json!({"uid": preconditions.uid}).to_string();
                    ("delete", preconditions_text.as_str())
                }
                WriteVerb::DeleteCollection { .. } => ("deletecollection", "{}"),
            };
            let parsed: serde_json::Value = serde_json::from_str(body).unwrap();
            let name = match request.name.as_str() {
                "" => parsed["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                name => name.to_owned(),
            };
            let line = format!("{verb} {} {}/{name}", request.resource.plural, request.namespace);
            {
                let mut open = self.n_open.lock();
                open.0 += 1;
                open.1 = open.1.max(open.0);
            }
            self.bodies.lock().push(body.to_owned());
            self.log.lock().push(line.clone());
            let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
            tokio::task::yield_now().await;
            self.n_open.lock().0 -= 1;
            (self.answer)(&line, request)?;
            let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Written { name, uid: String::new(), resource_version: version.to_string(), terminating: false })
        })
    }
}

type Lists = dyn Fn(&Target, u32, Option<&str>) -> Result<ListPage, ApiError> + Send + Sync;
type Watches = dyn Fn() -> Result<WatchStream, ApiError> + Send + Sync;

/// An API server for reads. By default it answers needs only.
pub(crate) struct FakeReader {
    list: Box<Lists>,
    watch: Box<Watches>,
}

impl Default for FakeReader {
    fn default() -> Self {
        Self { list: Box::new(five_in_pages_of_two), watch: Box::new(|| Err(refusal(500))) }
    }
}

impl FakeReader {
    /// Lists what the closure says, in one page.
    pub(crate) fn listing(list: impl Fn(&Target) -> Result<ListPage, ApiError> + Send + Sync + 'static) -> Self {
        Self { list: Box::new(move |target, _, _| list(target)), ..Self::default() }
    }

    pub(crate) fn watching(watch: impl Fn() -> Result<WatchStream, ApiError> + Send + Sync + 'static) -> Self {
        Self { watch: Box::new(watch), ..Self::default() }
    }
}

fn five_in_pages_of_two(target: &Target, limit: u32, page: Option<&str>) -> Result<ListPage, ApiError> {
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

impl ApiReader for FakeReader {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        Box::pin(async { Err(refusal(500)) })
    }

    fn list<'a>(
        &'a self,
        target: &'a Target,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        Box::pin(async move { (self.list)(target, limit, page) })
    }

    fn watch<'a>(&'a self, _: &'a Target, _: WatchStart) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        Box::pin(async { (self.watch)() })
    }

    fn get<'a>(&'a self, _: &'a ApiResource, object: &'a ObjectKey) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async move {
            if &*object.name == "gone" {
                Err(refusal(404))
            } else {
                Ok(format!(r#"{{"live":"{}"}}"#, object.name).into())
            }
        })
    }

    fn raw<'a>(&'a self, path: &'a str, _: usize) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async move { Ok(path.into()) })
    }
}

/// A world without caches.
pub(crate) struct FakeWorld {
    pub(crate) synced: watch::Sender<bool>,
    /// The newest resourceVersion that the caches show.
    pub(crate) version: AtomicU64,
    pub(crate) all_keys: Mutex<Vec<Key>>,
    /// What was asked for, by `refreshed`; `Later` is known from the first of them on.
    pub(crate) refreshed: Mutex<Vec<Duration>>,
}

impl FakeWorld {
    /// Filled caches that show every write at once.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            synced: watch::Sender::new(true),
            version: AtomicU64::new(u64::MAX),
            all_keys: Mutex::default(),
            refreshed: Mutex::default(),
        })
    }
}

impl World for FakeWorld {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.synced.subscribe().wait_for(|synced| *synced).await) })
    }

    fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    fn view(&self, context: RunContext) -> Arc<dyn View> {
        Arc::new(FakeView { context, objects: Vec::new() })
    }

    fn uid(&self, _: &Kind, object: &ObjectKey) -> Option<String> {
        Some(format!("uid-{}", object.name))
    }

    fn keys(&self, _: &[Delta]) -> Vec<Enqueued> {
        Vec::new()
    }

    fn mappable(&self, batch: &[Delta]) -> Vec<Mappable> {
        let one = |delta: &Delta| Mappable {
            kind: delta.kind.clone(),
            object: ObjectKey::default(),
            old: None,
            new: Some("{}".into()),
            initial: delta.initial,
        };
        batch.iter().map(one).collect()
    }

    fn all_keys(&self) -> Vec<Key> {
        self.all_keys.lock().clone()
    }

    fn sees(&self, write: &PendingWrite) -> bool {
        write.resource_version.parse().unwrap_or(0) <= self.version.load(Ordering::Relaxed)
    }

    fn reading(&self, kind: &Kind, namespace: &str) -> Option<Target> {
        (*kind == pod()).then(|| Target {
            kind: pod(),
            plural: "pods".into(),
            namespace: Some(namespace.to_owned()),
            label_selector: None,
            field_selector: None,
            detail: Detail::Metadata,
        })
    }

    fn resource(&self, kind: &Kind) -> Option<Arc<ApiResource>> {
        let known = match &*kind.name {
            "Unknown" => false,
            "Later" => !self.refreshed.lock().is_empty(),
            _ => true,
        };
        known.then(|| resource(kind))
    }

    fn refreshed(&self, max_age: Duration) -> BoxFuture<'_, Result<Vec<String>, ApiError>> {
        self.refreshed.lock().push(max_age);
        Box::pin(async { Ok(vec!["example.com/v1".to_owned()]) })
    }

    fn cached_bytes(&self) -> u64 {
        0
    }
}

/// A view that shows nothing to guests, and these objects to the host.
pub(crate) struct FakeView {
    context: RunContext,
    objects: Vec<(Kind, Arc<Object>)>,
}

impl FakeView {
    pub(crate) fn showing(objects: Vec<(Kind, Arc<Object>)>) -> Self {
        Self { context: RunContext::default(), objects }
    }
}

/// An object of namespace `ns` with the uid `uid-NAME`, and the name of its controller (a Pod).
pub(crate) fn cached(name: &str, controller: Option<&str>) -> Arc<Object> {
    let owner = |name: &str| OwnerRef {
        kind: pod(),
        name: name.into(),
        uid: Uid::parse(&format!("uid-{name}")),
        controller: true,
    };
    let meta = Meta {
        key: ObjectKey::new("ns", name),
        uid: Uid::parse(&format!("uid-{name}")),
        owners: controller.into_iter().map(owner).collect(),
        ..Meta::default()
    };
    Arc::new(Object { meta, texts: Box::default(), index_values: Box::default(), selectors: Box::default() })
}

impl View for FakeView {
    fn now(&self) -> &str {
        &self.context.now
    }
    fn get(&self, _: &Kind, _: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        Ok(None)
    }
    fn list(&self, _: &Kind, _: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }
    fn count(&self, _: &Kind, _: &Query) -> Result<usize, ViewError> {
        Ok(0)
    }
    fn selecting(&self, _: &Kind, _: &str, _: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }
    fn dependents(&self, _: &str) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }
    fn by_uid(&self, _: &str) -> Result<Option<Arc<str>>, ViewError> {
        Ok(None)
    }
    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        Err(ViewError::NoDiscovery)
    }
    fn config(&self) -> Arc<str> {
        self.context.config.clone()
    }
    fn state(&self, name: &str) -> Option<Arc<str>> {
        self.context.state.get(name).cloned()
    }
    fn attempt(&self) -> u32 {
        self.context.attempt
    }
    fn failures(&self) -> &[MutationFailure] {
        &self.context.failures
    }
    fn answer(&self, need: &Need) -> Option<Result<Arc<str>, NeedError>> {
        self.context.answers.iter().find(|(other, _)| other == need).map(|(_, answer)| answer.clone())
    }
    fn object(&self, kind: &Kind, object: &ObjectKey) -> Option<Arc<Object>> {
        let found = self.objects.iter().find(|(other, cached)| other == kind && cached.meta.key == *object);
        found.map(|(_, cached)| cached.clone())
    }
}

/// 2027-01-15T08:00:00Z and whatever the paused clock has moved since `start`.
pub(crate) fn wall_clock() -> crate::recorder::WallClock {
    let start = tokio::time::Instant::now();
    Arc::new(move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed())
}
