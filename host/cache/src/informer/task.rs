//! The informer's task: executes the steps of the state machine, and notifies the listeners.

use std::cmp::Ordering as Order;
use std::future::Future;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::StreamExt;
use futures::stream::ReadyChunks;
use pintle_core::object::Object;
use pintle_core::object::id::ObjectKey;
use pintle_core::object::ingest::{IngestPlan, Ingester};
use pintle_core::object::version::ResourceVersion;
use pintle_core::policy::rules::Delta;
use pintle_core::ports::api::{
    ApiError, Detail, ListPage, ListWatchTarget, READ_TIMEOUT, WatchFrame, WatchStart, WatchStream,
};
use serde::Deserialize;
use tracing::{debug, info, warn};

use super::machine::{FailureKind, Machine, Step};
use super::{Env, Listener, Shared};
use crate::backoff::Backoff;
use crate::store::Store;

/// Runs until it is aborted. After a restart it begins with a new list, and notifies listeners that changes may be
/// missing: the panic may have come between a change of the store and its delivery.
pub(super) async fn run(shared: Arc<Shared>, env: Arc<Env>, is_restart: bool) {
    if is_restart {
        let listeners = shared.state.lock().listeners.clone();
        for listener in listeners.iter().filter(|listener| listener.synced.load(Ordering::Acquire)) {
            listener.handler.on_gap(&shared.scope.kind);
        }
    }
    let config = &env.config;
    // Each informer has its own seed, so that they do not reconnect at the same time.
    let seed = config.seed ^ BuildHasherDefault::<DefaultHasher>::default().hash_one(&shared.scope);
    let backoff = Backoff::new(config.backoff_base, config.backoff_max, config.backoff_reset, seed);
    let (plan, generation) = shared.state.lock().demand.plan();
    let mut back = env.back.subscribe();
    let mut task = Task {
        machine: Machine::new(backoff),
        ingester: Ingester::default(),
        plan,
        generation,
        full_detail_only: false,
        page_size: 0,
        stream: None,
        building: None,
        complained: false,
        shared,
        env,
    };
    loop {
        task.serve();
        task.follow_plan();
        task.reopen();
        if task.generation == 0 {
            task.shared.changed.notified().await;
            continue;
        }
        match task.machine.step(now()) {
            Step::List(page) => task.list(page).await,
            Step::Watch(start) => task.open(start).await,
            Step::Read { initial } => task.read(initial).await,
            Step::Wait(until) => {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(until.into()) => {}
                    () = task.shared.changed.notified() => {}
                    // The sender lives as long as `env`.
                    _ = back.changed() => task.machine.wake_soon(now()),
                }
            }
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

struct Task {
    shared: Arc<Shared>,
    env: Arc<Env>,
    machine: Machine,
    ingester: Ingester,
    /// Plan under which the current list and watch ingest objects.
    plan: Arc<IngestPlan>,
    generation: u64,
    /// The server does not support metadata-only requests.
    full_detail_only: bool,
    /// Maximum number of objects in a page of the current list.
    page_size: u32,
    stream: Option<ReadyChunks<WatchStream>>,
    /// The list in progress.
    building: Option<Store>,
    /// A skipped object has already been logged.
    complained: bool,
}

/// The effect of a frame on the store.
enum Change {
    Put(Arc<Object>),
    Take(Object),
    /// The new state of an object does not parse. The older state is removed: as in a list, the object is absent until
    /// it parses.
    Lose(Unparsed),
    Reach(ResourceVersion),
}

/// The parts that are needed of an object that does not parse.
#[derive(Deserialize)]
struct Unparsed {
    metadata: UnparsedMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnparsedMeta {
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    resource_version: String,
}

impl Unparsed {
    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.metadata.namespace, &self.metadata.name)
    }
}

impl Task {
    /// Sends the current contents to new listeners.
    fn serve(&mut self) {
        let newcomers: Vec<Arc<Listener>> = {
            let state = self.shared.state.lock();
            let new = |l: &&Arc<Listener>| l.registered.load(Ordering::Acquire) && !l.synced.load(Ordering::Acquire);
            state.listeners.iter().filter(new).cloned().collect()
        };
        if newcomers.is_empty() {
            return;
        }
        let Some(store) = self.env.stores.store(self.shared.store) else { return };
        let ready = newcomers.iter().filter(|listener| {
            let filled = store.generation();
            filled > 0 && listener.generation <= filled
        });
        let mut initial: Option<Arc<[Delta]>> = None;
        for listener in ready {
            let initial = initial.get_or_insert_with(|| self.all_as_new(&store));
            if !initial.is_empty() {
                listener.handler.on_changes(initial);
            }
            listener.synced.store(true, Ordering::Release);
            (listener.on_ready)();
            listener.handler.on_progress(&self.shared.scope.kind);
        }
    }

    fn all_as_new(&self, store: &Store) -> Arc<[Delta]> {
        let kind = &self.shared.scope.kind;
        let delta =
            |object: &Arc<Object>| Delta { kind: kind.clone(), old: None, new: Some(object.clone()), initial: true };
        store.iter().map(delta).collect()
    }

    /// Begins a new list if a listener needs more fields than the cached objects have. The old objects stay readable
    /// meanwhile.
    fn follow_plan(&mut self) {
        let (plan, generation) = self.shared.state.lock().demand.plan();
        if generation != self.generation {
            self.plan = plan;
            self.generation = generation;
            self.machine.restart();
            self.stream = None;
            self.building = None;
        }
    }

    /// Reopens the watch at its last version if a listener misses a change that the watch should have delivered.
    fn reopen(&mut self) {
        if self.shared.reopen.swap(false, Ordering::AcqRel) && self.machine.reopen(now()) {
            info!(kind = %self.shared.scope.kind, "watch is silent or late; opening another one");
            self.stream = None;
        }
    }

    fn target(&self) -> ListWatchTarget {
        let scope = self.shared.scope.clone();
        let detail = if self.full_detail_only { Detail::Full } else { self.plan.detail() };
        ListWatchTarget {
            kind: scope.kind,
            plural: scope.plural,
            namespace: scope.namespace,
            label_selector: scope.label_selector,
            field_selector: scope.field_selector,
            detail,
        }
    }

    /// Waits for the answer, and serves new listeners meanwhile; `None` if the plan changed, which makes the answer
    /// useless.
    async fn answer<T>(&mut self, answer: impl Future<Output = T>) -> Option<T> {
        let mut answer = pin!(answer);
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Some(answer),
                () = shared.changed.notified() => {
                    self.serve();
                    if shared.state.lock().demand.plan().1 != self.generation {
                        return None;
                    }
                }
            }
        }
    }

    async fn list(&mut self, page: Option<String>) {
        let (env, target) = (self.env.clone(), self.target());
        if page.is_none() {
            self.page_size = self.machine.page_size(env.config.page_size);
        }
        let Some(answer) = self.answer(env.reader.list(&target, self.page_size, page.as_deref())).await else {
            return;
        };
        match answer {
            Ok(answer) => {
                if page.is_none() {
                    self.shared.counts.lists.fetch_add(1, Ordering::Relaxed);
                    self.building = None;
                }
                self.take_page(answer);
            }
            Err(error) => self.failed("list", &error),
        }
    }

    fn take_page(&mut self, page: ListPage) {
        let mut building = self.building.take().unwrap_or_else(|| Store::new(self.plan.clone(), self.generation));
        for item in &page.items {
            if let Some(object) = self.ingest(item) {
                building.insert(Arc::new(object));
            }
        }
        // A page that was too large was read with fewer objects; keep that limit for the next one.
        self.page_size = self.page_size.min(u32::try_from(page.items.len().max(1)).unwrap_or(u32::MAX));
        if self.machine.listed(&page.resource_version, page.next.as_deref(), now()) {
            self.complete(building, &page.resource_version);
        } else {
            self.building = Some(building);
        }
    }

    async fn open(&mut self, start: WatchStart) {
        let (env, target) = (self.env.clone(), self.target());
        let initial = matches!(start, WatchStart::InitialEvents);
        let Some(answer) = self.answer(env.reader.watch(&target, start)).await else { return };
        match answer {
            Ok(stream) => {
                let counts = &self.shared.counts;
                let counter = if initial { &counts.lists } else { &counts.watches };
                counter.fetch_add(1, Ordering::Relaxed);
                self.stream = Some(stream.ready_chunks(self.env.config.batch.max(1)));
                self.building = initial.then(|| Store::new(self.plan.clone(), self.generation));
                self.machine.opened(now());
            }
            Err(error) => self.failed("watch", &error),
        }
    }

    async fn read(&mut self, initial: bool) {
        let limit = if initial { self.env.config.stream_quiet_limit } else { READ_TIMEOUT };
        let Some(stream) = &mut self.stream else {
            self.machine.ended(now());
            return;
        };
        let frames = tokio::select! {
            biased;
            frames = stream.next() => frames,
            () = self.shared.changed.notified() => return,
            () = tokio::time::sleep(limit) => {
                self.stream = None;
                if initial {
                    info!(kind = %self.shared.scope.kind, "streaming list says nothing; listing in pages instead");
                    self.machine.stream_silent();
                } else {
                    self.machine.ended(now());
                }
                return;
            }
        };
        match frames {
            Some(frames) => self.take_frames(frames),
            None => {
                debug!(kind = %self.shared.scope.kind, "watch ended");
                self.stream = None;
                self.building = None;
                self.machine.ended(now());
            }
        }
    }

    fn take_frames(&mut self, frames: Vec<Result<WatchFrame, ApiError>>) {
        let mut changes = Vec::with_capacity(frames.len());
        self.shared.counts.frames.fetch_add(frames.len() as u64, Ordering::Relaxed);
        for frame in frames {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    self.apply(changes);
                    self.stream = None;
                    self.building = None;
                    self.shared.counts.failures.fetch_add(1, Ordering::Relaxed);
                    info!(kind = %self.shared.scope.kind, %error, "watch broke");
                    self.machine.broke(&error, now());
                    return;
                }
            };
            match (self.building.take(), frame) {
                (Some(building), WatchFrame::Bookmark { resource_version, initial_events_end: true }) => {
                    self.machine.streamed(&resource_version, now());
                    self.complete(building, &resource_version);
                }
                (Some(building), WatchFrame::Bookmark { .. }) => self.building = Some(building),
                (Some(mut building), WatchFrame::Added(json) | WatchFrame::Modified(json)) => {
                    match self.ingest(&json) {
                        Some(object) => drop(building.insert(Arc::new(object))),
                        None => drop(unparsed(&json).map(|object| building.remove(&object.key()))),
                    }
                    self.building = Some(building);
                }
                (Some(mut building), WatchFrame::Deleted(json)) => {
                    if let Some(key) =
                        self.ingest(&json).map(|object| object.meta.key).or_else(|| Some(unparsed(&json)?.key()))
                    {
                        building.remove(&key);
                    }
                    self.building = Some(building);
                }
                (None, WatchFrame::Added(json) | WatchFrame::Modified(json)) => {
                    let put = self.ingest(&json).map(|object| Change::Put(Arc::new(object)));
                    changes.extend(put.or_else(|| unparsed(&json).map(Change::Lose)));
                }
                (None, WatchFrame::Deleted(json)) => {
                    let taken = self.ingest(&json).map(Change::Take);
                    changes.extend(taken.or_else(|| unparsed(&json).map(Change::Lose)));
                }
                (None, WatchFrame::Bookmark { resource_version, .. }) => {
                    changes.push(Change::Reach(ResourceVersion::parse(&resource_version)));
                }
            }
        }
        self.apply(changes);
    }

    /// Applies changes to the store in one step, and notifies the listeners.
    fn apply(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let kind = &self.shared.scope.kind;
        let mut deltas = Vec::with_capacity(changes.len());
        let version = self.env.stores.change(self.shared.store, |store| {
            for change in changes {
                if let Some((old, new)) = apply(store, change) {
                    deltas.push(Delta { kind: kind.clone(), old, new, initial: false });
                }
            }
            store.version().clone()
        });
        if let Some(version) = version {
            self.machine.heard(&version.to_string());
        }
        self.notify(deltas, |listener| listener.synced.load(Ordering::Acquire));
    }

    /// Replaces the store with a complete list.
    fn complete(&mut self, mut list: Store, version: &str) {
        list.reach(&ResourceVersion::parse(version));
        self.building = None;
        *self.shared.refusal.lock() = None;
        debug!(kind = %self.shared.scope.kind, objects = list.len(), version, "list is complete");
        let Some(old) = self.env.stores.store(self.shared.store) else { return };
        let was_filled = old.generation() > 0;
        let new = list.clone();
        drop(self.env.stores.replace(self.shared.store, list));
        if was_filled {
            let deltas = difference(&old, &new).map(|(old, new)| Delta {
                kind: self.shared.scope.kind.clone(),
                old,
                new,
                initial: false,
            });
            self.notify(deltas.collect(), |listener| listener.synced.load(Ordering::Acquire));
        }
        self.serve();
    }

    fn notify(&self, deltas: Vec<Delta>, to: impl Fn(&Listener) -> bool) {
        let kind = &self.shared.scope.kind;
        if !deltas.is_empty() && matches!(&*kind.name, "CustomResourceDefinition" | "APIService") {
            self.env.requests.hint();
        }
        let listeners: Vec<Arc<Listener>> = self.shared.state.lock().listeners.clone();
        let deltas: Arc<[Delta]> = deltas.into();
        for listener in listeners.iter().filter(|listener| to(listener)) {
            if listener.cancelled.load(Ordering::Acquire) {
                continue;
            }
            if !deltas.is_empty() {
                listener.handler.on_changes(&deltas);
            }
            listener.handler.on_progress(kind);
        }
    }

    fn ingest(&mut self, json: &str) -> Option<Object> {
        match self.ingester.ingest(&self.plan, json) {
            Ok(object) => Some(object),
            Err(error) => {
                self.shared.counts.skipped.fetch_add(1, Ordering::Relaxed);
                let kind = &self.shared.scope.kind;
                if std::mem::replace(&mut self.complained, true) {
                    debug!(%kind, %error, "object skipped");
                } else {
                    warn!(%kind, %error, "object skipped; further ones are only counted");
                }
                None
            }
        }
    }

    fn failed(&mut self, what: &str, error: &ApiError) {
        self.shared.counts.failures.fetch_add(1, Ordering::Relaxed);
        let kind = &self.shared.scope.kind;
        // 406: the server does not support metadata-only lists of this kind; the objects may still exist.
        if error.code == 406 && !self.full_detail_only && self.plan.detail() == Detail::Metadata {
            info!(%kind, "server does not give metadata alone; reading whole objects");
            self.full_detail_only = true;
            self.machine.restart();
            return;
        }
        let failure_kind = self.machine.failed(error, now());
        if self.building.is_some() {
            self.building = None;
        }
        warn!(%kind, %error, code = error.code, "{what} failed");
        if failure_kind != FailureKind::Transient {
            if error.code == 404 {
                self.env.requests.hint();
            }
            let before = self.shared.refusal.lock().replace(error.message.clone());
            if before.as_ref() != Some(&error.message) {
                let listeners = self.shared.state.lock().listeners.clone();
                listeners.iter().for_each(|listener| listener.handler.on_kinds());
            }
        }
        if failure_kind == FailureKind::RefusedForLong {
            let listeners: Vec<Arc<Listener>> = self.shared.state.lock().listeners.clone();
            for listener in listeners.iter().filter(|listener| listener.optional && !listener.is_ready()) {
                listener.skipped.store(true, Ordering::Release);
                (listener.on_ready)();
            }
        }
    }
}

/// Old and new state of an object.
type States = (Option<Arc<Object>>, Option<Arc<Object>>);

/// Applies a change to the store; returns the old and new state if the object has changed.
fn apply(store: &mut Store, change: Change) -> Option<States> {
    match change {
        Change::Reach(version) => {
            store.reach(&version);
            None
        }
        Change::Put(object) => {
            let known = store.get(&object.meta.key.namespace, &object.meta.key.name);
            if is_late(store, known, &object) {
                return None;
            }
            store.reach(&object.meta.resource_version);
            let old = store.insert(object.clone());
            Some((old, Some(object)))
        }
        Change::Take(last) => take(store, &last.meta.key, &last.meta.resource_version),
        Change::Lose(last) => take(store, &last.key(), &ResourceVersion::parse(&last.metadata.resource_version)),
    }
}

fn take(store: &mut Store, key: &ObjectKey, version: &ResourceVersion) -> Option<States> {
    let known = store.get(&key.namespace, &key.name)?;
    // A stale event of a previous object with this name.
    if known.meta.resource_version.compare(version) == Some(Order::Greater) {
        return None;
    }
    store.reach(version);
    let old = store.remove(key);
    old.map(|old| (Some(old), None))
}

/// The name and version of an object that does not parse, if it has a name.
fn unparsed(json: &str) -> Option<Unparsed> {
    serde_json::from_str(json).ok()
}

/// Whether the store has this state of the object or a later one, or the object has been deleted since.
fn is_late(store: &Store, known: Option<&Arc<Object>>, object: &Object) -> bool {
    match known {
        Some(known) => {
            object.meta.resource_version != ResourceVersion::Unknown
                && known.meta.resource_version.reaches(&object.meta.resource_version)
        }
        None => {
            object.meta.resource_version != ResourceVersion::Unknown
                && store.version().reaches(&object.meta.resource_version)
        }
    }
}

/// Old and new state of each object that differs between two stores, in store order.
fn difference<'s>(old: &'s Store, new: &'s Store) -> impl Iterator<Item = States> + 's {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return None,
                (Some(_), None) => Order::Less,
                (None, Some(_)) => Order::Greater,
                (Some(old), Some(new)) => old.meta.key.cmp(&new.meta.key),
            };
            match order {
                Order::Less => return Some((old.next().cloned(), None)),
                Order::Greater => return Some((None, new.next().cloned())),
                Order::Equal => {
                    let (old, new) = (old.next(), new.next());
                    let same = old.zip(new).is_some_and(|(old, new)| {
                        let version = &old.meta.resource_version;
                        *version == new.meta.resource_version
                            && old.meta.uid == new.meta.uid
                            && *version != ResourceVersion::Unknown
                    });
                    if !same {
                        return Some((old.cloned(), new.cloned()));
                    }
                }
            }
        }
    })
}
