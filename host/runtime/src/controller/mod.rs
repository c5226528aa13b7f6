//! One plugin at work: its queues, its runs, its state.
//!
//! ```text
//! caches ──changes──> Controller ──> dispatch ──> run ──> writer
//! ```
//!
//! Invariants:
//! 1. What a plugin does costs other plugins nothing but their share of the processor: no lock, queue or task is shared.
//! 2. The lock is never held across an await, and nothing is called under it that waits.
//!
//! Not here: which plugins there are (`manager`), the caches (`caches`), writes (`writer`).

mod dispatch;
mod mapping;
mod needs;
mod run;
mod settle;
mod state;
mod world;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pintle_core::api::ApiReader;
use pintle_core::guest::{Guest, PluginFault};
use pintle_core::id::{Key, Kind};
use pintle_core::manifest::EffectiveLimits;
use pintle_core::outcome::MutationFailure;
use pintle_core::pending::Pending;
use pintle_core::queue::WorkQueue;
use pintle_core::ratelimit::RateLimiter;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caches::{ChangeHandler, Delta};
use crate::metrics::{DeclaredMetrics, PluginMetrics, QueueMetrics};
use crate::recorder::WallClock;
use crate::writer::Writer;

#[cfg(test)]
pub(crate) use world::Mappable;
pub(crate) use world::{Subscribed, World};

/// What a controller is made of.
pub(crate) struct ControllerParts {
    pub(crate) guest: Arc<dyn Guest>,
    /// The configuration as the plugin sees it.
    pub(crate) config: Arc<str>,
    pub(crate) reader: Arc<dyn ApiReader>,
    pub(crate) writer: Writer,
    pub(crate) declared: DeclaredMetrics,
    pub(crate) metrics: PluginMetrics,
    /// One for each queue of the manifest.
    pub(crate) queues: Vec<LaneParts>,
    pub(crate) clock: WallClock,
    /// How long a key waits for the caches to show its writes.
    pub(crate) stale_bound: Duration,
    /// Told whenever something may have come to rest.
    pub(crate) activity: Arc<Notify>,
}

/// What the operator has to say of a queue.
pub(crate) struct LaneParts {
    pub(crate) metrics: QueueMetrics,
    /// Its workers.
    pub(crate) concurrency: usize,
    /// How often every key of it is run again.
    pub(crate) resync: Option<Duration>,
}

/// One plugin at work.
pub(crate) struct Controller {
    name: Arc<str>,
    guest: Arc<dyn Guest>,
    limits: EffectiveLimits,
    config: Arc<str>,
    reader: Arc<dyn ApiReader>,
    writer: Writer,
    declared: DeclaredMetrics,
    metrics: PluginMetrics,
    clock: WallClock,
    stale_bound: Duration,
    /// Set once, by `start`.
    world: OnceLock<Arc<dyn World>>,
    /// Changes that came before the world was set.
    early: Mutex<Option<Vec<Delta>>>,
    inner: Mutex<Inner>,
    mapping: mapping::Mapping,
    /// Bounds the questions about lost writes.
    asking: Semaphore,
    /// Wakes the dispatcher.
    wake: Notify,
    activity: Arc<Notify>,
    stopped: CancellationToken,
    /// The dispatcher, the mapping and the workers.
    tasks: TaskTracker,
}

/// What changes, under one lock.
struct Inner {
    lanes: Vec<Lane>,
    pending: Pending<Key>,
    /// Of each key's last outcome, until it succeeds.
    failures: HashMap<Key, Vec<MutationFailure>>,
    state: state::KeyedState,
    stopping: bool,
    /// When the dispatcher will look again by itself.
    planned: Option<Instant>,
    n_runs: u64,
    n_faults: u64,
    last_error: Option<String>,
}

/// A queue and its limits.
struct Lane {
    name: Arc<str>,
    queue: WorkQueue<Key>,
    limiter: RateLimiter<Key>,
    concurrency: usize,
    max_retries: Option<u32>,
    tick: Option<Duration>,
    next_tick: Option<Instant>,
    resync: Option<Duration>,
    next_resync: Option<Instant>,
    metrics: QueueMetrics,
}

/// State of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Its name.
    pub name: String,
    /// Keys that must run.
    pub n_dirty: usize,
    /// Keys with a delay.
    pub n_waiting: usize,
    /// Keys that run.
    pub n_running: usize,
    /// Keys whose writes the caches have not shown yet.
    pub n_held: usize,
}

/// State of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether its caches are filled.
    pub synced: bool,
    /// Its queues.
    pub queues: Vec<QueueStatus>,
    /// Runs so far.
    pub n_runs: u64,
    /// Faults so far.
    pub n_faults: u64,
    /// The last fault, declared error or failed write.
    pub last_error: Option<String>,
    /// Bytes that its watches keep in the caches.
    pub cached_bytes: u64,
}

impl Controller {
    pub(crate) fn new(parts: ControllerParts) -> Arc<Self> {
        let manifest = parts.guest.manifest().clone();
        let millis = |ms: u32| Duration::from_millis(u64::from(ms).max(1));
        let lanes: Vec<Lane> = manifest
            .queues
            .iter()
            .zip(parts.queues)
            .map(|(queue, LaneParts { metrics, concurrency, resync })| Lane {
                name: queue.name.as_str().into(),
                queue: WorkQueue::new(),
                limiter: RateLimiter::new(&queue.backoff),
                concurrency,
                max_retries: queue.max_retries,
                tick: queue.tick_ms.map(millis),
                next_tick: None,
                resync,
                next_resync: None,
                metrics,
            })
            .collect();
        let concurrency: usize = lanes.iter().map(|lane| lane.concurrency).sum();
        parts.metrics.max_concurrent.set(i64::try_from(concurrency).unwrap_or(i64::MAX));
        Arc::new(Self {
            name: manifest.name.as_str().into(),
            guest: parts.guest,
            limits: manifest.limits.effective(),
            config: parts.config,
            reader: parts.reader,
            writer: parts.writer,
            declared: parts.declared,
            metrics: parts.metrics,
            clock: parts.clock,
            stale_bound: parts.stale_bound,
            world: OnceLock::new(),
            early: Mutex::new(Some(Vec::new())),
            inner: Mutex::new(Inner {
                lanes,
                pending: Pending::new(),
                failures: HashMap::new(),
                state: state::KeyedState::default(),
                stopping: false,
                planned: None,
                n_runs: 0,
                n_faults: 0,
                last_error: None,
            }),
            mapping: mapping::Mapping::default(),
            asking: Semaphore::new(settle::MAX_ASKING),
            wake: Notify::new(),
            activity: parts.activity,
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// The end that the caches hold. It does not keep the controller alive.
    pub(crate) fn handler(self: &Arc<Self>) -> Arc<dyn ChangeHandler> {
        Arc::new(Handler { controller: Arc::downgrade(self) })
    }

    /// Begins to work. To be called once, within a tokio runtime.
    pub(crate) fn start(self: &Arc<Self>, world: Arc<dyn World>) {
        if self.world.set(world).is_err() {
            return;
        }
        loop {
            let mut early = self.early.lock();
            match early.as_mut().map(std::mem::take) {
                Some(changes) if !changes.is_empty() => {
                    drop(early);
                    self.changed(&changes);
                }
                _ => {
                    *early = None;
                    break;
                }
            }
        }
        self.tasks.spawn(self.clone().dispatch());
        if self.guest.maps() {
            self.tasks.spawn(self.clone().map_changes());
        }
    }

    pub(crate) fn has_started(&self) -> bool {
        self.world.get().is_some()
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
        let rests = self.inner.lock().lanes.iter().all(|lane| {
            let queue = &lane.queue;
            queue.n_dirty() + queue.n_running() + queue.n_held() == 0 && queue.n_waiting_until(until) == 0
        });
        rests
            && self.mapping.is_idle()
            && self.writer.recorder.is_idle()
            && self.world.get().is_some_and(|world| world.is_synced())
            && self.early.lock().is_none()
    }

    pub(crate) fn status(&self) -> PluginStatus {
        let inner = self.inner.lock();
        let queues = inner.lanes.iter().map(|lane| QueueStatus {
            name: lane.name.to_string(),
            n_dirty: lane.queue.n_dirty(),
            n_waiting: lane.queue.n_waiting(),
            n_running: lane.queue.n_running(),
            n_held: lane.queue.n_held(),
        });
        let mut status = PluginStatus {
            name: self.name.to_string(),
            version: self.guest.manifest().version.clone(),
            synced: false,
            queues: queues.collect(),
            n_runs: inner.n_runs,
            n_faults: inner.n_faults,
            last_error: inner.last_error.clone(),
            cached_bytes: 0,
        };
        drop(inner);
        if let Some(world) = self.world.get() {
            status.synced = world.is_synced();
            status.cached_bytes = world.cached_bytes();
        }
        status
    }

    /// Brings those metrics up to date that are of the moment.
    pub(crate) fn refresh_metrics(&self) {
        let now = dispatch::now();
        for lane in &self.inner.lock().lanes {
            let unfinished = lane.queue.unfinished(now);
            lane.metrics.unfinished.set(unfinished.total.as_secs_f64());
            lane.metrics.longest.set(unfinished.longest.as_secs_f64());
        }
        if let Some(world) = self.world.get() {
            self.metrics.cached_bytes.set(i64::try_from(world.cached_bytes()).unwrap_or(i64::MAX));
        }
    }

    fn changed(&self, batch: &[Delta]) {
        let world = self.world();
        let keys = world.keys(batch);
        let now = dispatch::now();
        if !keys.is_empty() {
            let mut inner = self.inner.lock();
            for enqueued in keys {
                inner.add(enqueued.key, enqueued.delay, enqueued.priority, now);
            }
            self.wake_if_due(inner);
        }
        if self.guest.maps() {
            self.mapping.push(world.mappable(batch));
        }
    }

    /// The caches of a kind have moved on: keys that waited for it may run.
    fn progressed(&self, kind: &Kind) {
        let Some(world) = self.world.get() else { return };
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

    fn faulted(&self, fault: &PluginFault) {
        self.metrics.fault(fault.kind);
        let mut inner = self.inner.lock();
        inner.n_faults += 1;
        inner.last_error = Some(fault.to_string());
    }
}

struct Handler {
    controller: Weak<Controller>,
}

impl ChangeHandler for Handler {
    fn on_changes(&self, batch: &[Delta]) {
        let Some(controller) = self.controller.upgrade() else { return };
        if let Some(early) = controller.early.lock().as_mut() {
            early.extend_from_slice(batch);
            return;
        }
        controller.changed(batch);
    }

    fn on_progress(&self, kind: &Kind) {
        if let Some(controller) = self.controller.upgrade() {
            controller.progressed(kind);
        }
    }
}

#[cfg(test)]
mod tests;
