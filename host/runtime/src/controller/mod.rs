//! One plugin at work: its queues, its runs, its state.
//!
//! ```text
//! caches ──changes──> Controller ──> dispatch ──> run ──> writer
//! ```
//!
//! Invariants:
//! 1. Each plugin has queues, tasks and a lock of its own: its rules, mapping and runs cost other plugins nothing but their share of
//!    the processors. Plugins share the caches, whose lock is held to change a store and to take a snapshot, never while rules or
//!    a plugin run.
//! 2. The lock is never held across an await, and nothing is called under it that waits.
//!
//! Not here: which plugins there are (`manager`), the caches (`caches`), writes (`writer`).

mod changes;
mod dispatch;
mod health;
mod lane;
mod mapping;
mod needs;
mod run;
mod settle;
mod shadow;
mod state;
mod status;
mod swap;
mod version;
mod world;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use pintle_cache::Delta;
use pintle_core::api::ApiReader;
use pintle_core::id::{Key, Kind};
use pintle_core::lifecycle::ShadowReport;
use pintle_core::outcome::MutationFailure;
use pintle_core::pending::Pending;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failures::Failures;
use crate::metrics::PluginMetrics;
use crate::recorder::WallClock;
use crate::writer::Writer;

pub(crate) use changes::ChangeSink;
pub use status::{PluginStatus, QueueStatus};
pub(crate) use swap::Reason;
pub(crate) use version::{LaneParts, Share, Version, VersionParts};
#[cfg(test)]
pub(crate) use world::Mappable;
pub(crate) use world::{Subscribed, World};

/// What a controller is made of, besides its first version.
pub(crate) struct ControllerParts {
    /// Reads as the host does.
    pub(crate) reader: Arc<dyn ApiReader>,
    /// Reads as the plugin, for its needs.
    pub(crate) live: Arc<dyn ApiReader>,
    pub(crate) writer: Writer,
    pub(crate) metrics: PluginMetrics,
    pub(crate) clock: WallClock,
    /// How long a key waits for the caches to show its writes.
    pub(crate) stale_bound: Duration,
    /// Keeps runs that failed.
    pub(crate) failures: Arc<Failures>,
    /// Told whenever something may have come to rest.
    pub(crate) activity: Arc<Notify>,
    /// Counts changes of substance of any plugin.
    pub(crate) changes: watch::Sender<u64>,
}

/// One plugin at work.
pub(crate) struct Controller {
    name: Arc<str>,
    /// Changed by [`Controller::switch`] only.
    current: RwLock<Arc<Version>>,
    /// Counts switches, for tasks that wait for something of a version.
    switches: watch::Sender<u64>,
    shadowing: RwLock<Option<Arc<shadow::Shadowing>>>,
    last_shadow: Mutex<Option<ShadowReport>>,
    /// Of the plugin's resource, if there is one; empty otherwise. For events.
    resource_uid: Mutex<String>,
    reader: Arc<dyn ApiReader>,
    live: Arc<dyn ApiReader>,
    writer: Writer,
    metrics: PluginMetrics,
    clock: WallClock,
    stale_bound: Duration,
    failures: Arc<Failures>,
    inner: Mutex<Inner>,
    mapping: mapping::Mapping,
    /// Bounds the questions about lost writes.
    asking: Semaphore,
    /// Wakes the task that takes changes; sinks hold the other end.
    changes_arrived: Arc<Notify>,
    /// Wakes the dispatcher.
    wake: Notify,
    activity: Arc<Notify>,
    changes: watch::Sender<u64>,
    stopped: CancellationToken,
    /// The dispatcher, the task that takes changes, the mapping and the workers.
    tasks: TaskTracker,
}

/// What changes, under one lock.
struct Inner {
    lanes: Vec<lane::Lane>,
    pending: Pending<Key>,
    /// Of each key's last outcome, until it succeeds.
    failures: HashMap<Key, Vec<MutationFailure>>,
    state: state::KeyedState,
    health: health::Health,
    history: swap::History,
    stopping: bool,
    /// When the dispatcher will look again by itself.
    planned: Option<Instant>,
    n_runs: u64,
    last_error: Option<String>,
}

impl Controller {
    pub(crate) fn new(parts: ControllerParts, version: Arc<Version>) -> Arc<Self> {
        let manifest = version.manifest().clone();
        let queues = manifest.queues.iter().zip(&version.queues);
        let lanes = queues.map(|(queue, parts)| lane::Lane::new(queue, parts)).collect();
        let controller = Self {
            name: manifest.name.as_str().into(),
            reader: parts.reader,
            live: parts.live,
            writer: parts.writer,
            metrics: parts.metrics,
            inner: Mutex::new(Inner {
                lanes,
                pending: Pending::new(),
                failures: HashMap::new(),
                state: state::KeyedState::default(),
                health: health::Health::new(version.spec.failure_policy),
                history: swap::History::new(timestamp(&parts.clock)),
                stopping: false,
                planned: None,
                n_runs: 0,
                last_error: None,
            }),
            current: RwLock::new(version),
            switches: watch::Sender::new(0),
            shadowing: RwLock::new(None),
            last_shadow: Mutex::new(None),
            resource_uid: Mutex::default(),
            clock: parts.clock,
            stale_bound: parts.stale_bound,
            failures: parts.failures,
            mapping: mapping::Mapping::default(),
            asking: Semaphore::new(settle::MAX_ASKING),
            changes_arrived: Arc::new(Notify::new()),
            wake: Notify::new(),
            activity: parts.activity,
            changes: parts.changes,
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        controller.count_workers();
        Arc::new(controller)
    }

    /// Begins to work with the first version. To be called once, within a tokio runtime.
    pub(crate) fn start(self: &Arc<Self>, share: Share) {
        self.version().attach(share.clone());
        share.handler.activate();
        self.tasks.spawn(self.clone().take_changes());
        self.tasks.spawn(self.clone().dispatch());
        self.tasks.spawn(self.clone().map_changes());
        self.bump();
    }

    pub(crate) fn has_started(&self) -> bool {
        self.version().share().is_some()
    }

    /// The uid of the plugin's resource, for events about the plugin; empty if there is none.
    pub(crate) fn set_resource_uid(&self, uid: String) {
        *self.resource_uid.lock() = uid;
    }

    fn wall_time(&self) -> String {
        timestamp(&self.clock)
    }

    fn count_workers(&self) {
        let lanes = &self.inner.lock().lanes;
        let workers: usize = lanes.iter().filter(|lane| !lane.retired).map(|lane| lane.concurrency).sum();
        self.metrics.max_concurrent.set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    /// The present version's share of the caches.
    fn world(&self) -> Arc<dyn World> {
        // The first version has it before the first task of the controller starts, later ones before they take over.
        self.version().world().expect("the controller has not started")
    }

    /// Takes no more keys, and waits for the runs in flight and their writes.
    ///
    /// # Cancel safety
    /// The controller stops all the same.
    pub(crate) async fn stop(&self) {
        self.inner.lock().stopping = true;
        self.stopped.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.writer.recorder.close();
    }

    /// Whether nothing runs, is ready, is held, is mapped, or is delayed for less than `quiet`, and all events are written.
    pub(crate) fn is_idle(&self, quiet: Duration) -> bool {
        let until = dispatch::now() + quiet;
        let rests = self.inner.lock().lanes.iter().filter(|lane| !lane.retired).all(|lane| {
            let queue = &lane.queue;
            queue.n_dirty() + queue.n_running() + queue.n_held() == 0 && queue.n_waiting_until(until) == 0
        });
        rests
            && self.mapping.is_idle()
            && self.writer.recorder.is_idle()
            && self.version().share().is_some_and(|share| share.world.is_synced() && share.handler.is_idle())
    }

    /// Brings those metrics up to date that are of the moment.
    pub(crate) fn refresh_metrics(&self) {
        let now = dispatch::now();
        for lane in &self.inner.lock().lanes {
            let unfinished = lane.queue.unfinished(now);
            lane.metrics.unfinished.set(unfinished.total.as_secs_f64());
            lane.metrics.longest.set(unfinished.longest.as_secs_f64());
        }
        let version = self.version();
        self.metrics.instances.set(i64::try_from(version.guest.n_instances()).unwrap_or(i64::MAX));
        if let Some(world) = version.world() {
            self.metrics.cached_bytes.set(i64::try_from(world.cached_bytes()).unwrap_or(i64::MAX));
        }
    }

    /// Changes become keys by the rules of this world.
    fn changed(&self, world: &dyn World, batch: &[Delta]) {
        let keys = world.keys(batch);
        let now = dispatch::now();
        if !keys.is_empty() {
            let mut inner = self.inner.lock();
            for enqueued in keys {
                inner.add(enqueued.key, enqueued.delay, enqueued.priority, now);
            }
            self.wake_if_due(inner);
        }
        if self.version().guest.maps() {
            self.mapping.push(world.mappable(batch));
        }
    }

    /// The caches of a kind have moved on: keys that waited for it may run.
    fn progressed(&self, kind: &Kind) {
        let Some(world) = self.version().world() else { return };
        let mut inner = self.inner.lock();
        let free = inner.pending.recheck(kind, |write| world.sees(write));
        for key in &free {
            inner.release(key);
        }
        if !free.is_empty() {
            self.wake_if_due(inner);
            self.activity.notify_waiters();
        }
    }
}

/// The wall clock: RFC 3339 with microseconds, UTC.
pub(crate) fn timestamp(clock: &WallClock) -> String {
    clock().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests;
