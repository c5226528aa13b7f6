//! The controller of one plugin: its queues, runs and state.
//!
//! ```text
//! caches ──changes──> Controller ──> dispatch ──> run ──> writer
//! ```
//!
//! Invariants:
//! 1. Each plugin has its own queues, tasks and lock: its rules, mapping and runs cost other plugins only their share
//!    of the processors. Plugins share the caches, whose lock is held to change a store and to take a snapshot, never
//!    while rules or a plugin run.
//! 2. The lock is never held across an await or a blocking call.
//!
//! Not here: the set of plugins (`manager`), the caches (`pintle-cache`), writes (`writer`).

mod changes;
mod contents;
mod dispatch;
mod ended;
mod fields;
mod health;
mod leading;
mod lost_writes;
mod mapping;
mod needs;
mod observers;
mod run;
mod shadow;
mod state;
mod status;
mod swap;
mod traced;
mod version;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pintle_cache::{Caches, Subscription};
use pintle_core::lifecycle::rollout::Rollout;
use pintle_core::object::id::Key;
use pintle_core::policy::election::LastWrites;
use pintle_core::policy::held::Account;
use pintle_core::policy::keys::KeyTable;
use pintle_core::ports::api::{ApiReader, WriteFence};
use pintle_core::ports::outside::Outside;
use pintle_core::ports::trace::RunTracer;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failures::Failures;
use crate::metrics::{KeyGauges, PluginMetrics, QueueMetrics};
use crate::recorder::WallClock;
use crate::writer::Writer;

pub(crate) use changes::ChangeSink;
pub use contents::{KeyContents, MAX_KEYS, QueueContents};
pub(crate) use fields::published;
use observers::{Observers, StaleWait};
pub use status::{FaultingKey, PluginStatus, QueueStatus};
pub(crate) use swap::Reason;
pub(crate) use version::{CacheSubscription, QueueConfig, Version, VersionParts};

/// Returns how long something has been running.
pub type Uptime = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The parts of a controller, without its first version.
pub(crate) struct ControllerParts {
    /// The account of the bytes that the host holds for the plugin's runs.
    pub(crate) held: Arc<Account>,
    /// Reads with the host's identity.
    pub(crate) reader: Arc<dyn ApiReader>,
    /// Live reads with the plugin's identity, for its needs.
    pub(crate) live: Arc<dyn ApiReader>,
    /// Keys, authorities and endpoints that the operator has bound.
    pub(crate) outside: Arc<dyn Outside>,
    /// Write fence for endpoint calls.
    pub(crate) fence: Option<Arc<dyn WriteFence>>,
    pub(crate) writer: Writer,
    pub(crate) metrics: PluginMetrics,
    pub(crate) clock: WallClock,
    /// Uptime of the host.
    pub(crate) uptime: Uptime,
    /// Time that a key waits for the caches to show its writes before the API server is asked.
    pub(crate) stale_bound: Duration,
    /// Records failed runs.
    pub(crate) failures: Arc<Failures>,
    pub(crate) last_writes: Arc<Mutex<LastWrites>>,
    /// Shared by all plugins; also supervises the tasks of the controller.
    pub(crate) caches: Arc<Caches>,
    /// Notified whenever work may have finished.
    pub(crate) idle_signal: Arc<Notify>,
    /// Records runs as traces, if tracing is enabled.
    pub(crate) tracer: Option<Arc<dyn RunTracer>>,
    /// Counts significant status changes of all plugins.
    pub(crate) changes: watch::Sender<u64>,
}

/// The controller of one plugin.
pub(crate) struct Controller {
    name: Arc<str>,
    /// The current version. Changed only by [`Controller::switch`].
    current: watch::Sender<Arc<Version>>,
    /// Mirrors `leads` of the state, for tasks that wait for it.
    leading: watch::Sender<bool>,
    attempted: Mutex<swap::Attempted>,
    shadows: shadow::Shadows,
    reads: Reads,
    writer: Writer,
    pub(crate) observers: Observers,
    uptime: Uptime,
    stale_bound: Duration,
    /// The account of the bytes that the host holds for the runs.
    held: Arc<Account>,
    caches: Arc<Caches>,
    inner: Mutex<ControllerState>,
    mapping: mapping::Mapping,
    tasks: Tasks,
}

/// Reads that bypass the caches, and access to the operator's bindings.
struct Reads {
    /// With the host's identity.
    host: Arc<dyn ApiReader>,
    /// With the plugin's identity.
    plugin: Arc<dyn ApiReader>,
    outside: Arc<dyn Outside>,
    fence: Option<Arc<dyn WriteFence>>,
    /// Bounds the pages of live lists that are read concurrently.
    pages: Semaphore,
    /// Bounds concurrent probes of lost writes.
    probing: Semaphore,
}

/// The tasks of a controller, with the signals that wake and end them.
struct Tasks {
    /// The dispatcher, the task that processes changes, the mapping and the workers.
    tracker: TaskTracker,
    stopped: CancellationToken,
    /// Wakes the task that processes changes; sinks hold the other end.
    changes_arrived: Arc<Notify>,
    /// Wakes the dispatcher.
    wake: Notify,
    /// Notified whenever work may have finished.
    idle_signal: Arc<Notify>,
}

/// Mutable state under one lock.
struct ControllerState {
    keys: KeyTable<QueueMetrics>,
    /// Keys that wait for the caches to show their writes.
    stale: HashMap<Key, StaleWait>,
    /// Metric values that belong to keys.
    key_gauges: KeyGauges,
    state: state::KeyedState,
    health: health::Health,
    rollout: Rollout<Version>,
    stopping: bool,
    /// Whether this host may run the plugin ([`Controller::lead`]).
    leads: bool,
    /// The dispatcher's next deadline.
    planned: Option<Instant>,
    last_error: Option<String>,
}

impl Controller {
    pub(crate) fn new(parts: ControllerParts, version: Arc<Version>) -> Arc<Self> {
        let manifest = version.manifest().clone();
        let held = parts.held;
        let name: Arc<str> = manifest.name.as_str().into();
        let observers = Observers {
            name: name.clone(),
            metrics: parts.metrics,
            recorder: parts.writer.recorder.clone(),
            clock: parts.clock.clone(),
            tracer: parts.tracer,
            failures: parts.failures,
            last_writes: parts.last_writes,
            changes: parts.changes,
            resource_uid: Mutex::default(),
            served: Mutex::default(),
            runs: Mutex::default(),
        };
        let controller = Self {
            name,
            observers,
            reads: Reads {
                host: parts.reader,
                plugin: parts.live,
                outside: parts.outside,
                fence: parts.fence,
                pages: Semaphore::new(needs::MAX_PAGES),
                probing: Semaphore::new(lost_writes::MAX_PROBES),
            },
            inner: Mutex::new(ControllerState {
                keys: KeyTable::new(version.declared_queues(), held.clone()),
                stale: HashMap::new(),
                key_gauges: KeyGauges::new(held.open()),
                state: state::KeyedState::default(),
                health: health::Health::new(version.spec.failure_policy),
                rollout: Rollout::new(timestamp(&parts.clock)),
                stopping: false,
                leads: true,
                planned: None,
                last_error: None,
            }),
            current: watch::Sender::new(version),
            leading: watch::Sender::new(true),
            attempted: Mutex::default(),
            shadows: shadow::Shadows::default(),
            tasks: Tasks {
                tracker: TaskTracker::new(),
                stopped: parts.writer.stopped.clone(),
                changes_arrived: Arc::new(Notify::new()),
                wake: Notify::new(),
                idle_signal: parts.idle_signal,
            },
            writer: parts.writer,
            uptime: parts.uptime,
            stale_bound: parts.stale_bound,
            held,
            caches: parts.caches,
            mapping: mapping::Mapping::default(),
        };
        controller.count_workers();
        Arc::new(controller)
    }

    /// Starts the controller with the first version. Call it once, within a tokio runtime.
    pub(crate) fn start(self: &Arc<Self>, subscription: CacheSubscription) {
        self.version().attach(subscription.clone());
        subscription.sink.activate();
        self.spawn_supervised("changes", |controller, is_restart| controller.take_changes(is_restart));
        self.spawn_supervised("dispatcher", |controller, is_restart| controller.dispatch(is_restart));
        self.spawn_supervised("mapping", |controller, _| controller.map_changes());
        self.observers.mark_changed();
    }

    /// Runs a task of the controller, and restarts it after each panic.
    fn spawn_supervised<F>(
        self: &Arc<Self>,
        task: &'static str,
        mut start: impl FnMut(Arc<Self>, bool) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let controller = self.clone();
        self.tasks.tracker.spawn(async move {
            controller.caches.supervisor().run(task, |is_restart| start(controller.clone(), is_restart)).await;
        });
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn has_started(&self) -> bool {
        self.version().subscription().is_some()
    }

    /// Sets the uid of the plugin's `ControllerPlugin`, for events about the plugin; empty if there is none.
    pub(crate) fn set_resource_uid(&self, uid: String) {
        *self.observers.resource_uid.lock() = uid;
    }

    fn wall_time(&self) -> String {
        timestamp(&self.observers.clock)
    }

    fn count_workers(&self) {
        let workers: usize = self.inner.lock().keys.queues().map(|queue| queue.concurrency).sum();
        self.observers.metrics.max_concurrent.set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    /// The current version's subscription to the caches.
    fn cache(&self) -> Arc<Subscription> {
        // The first version gets its subscription before the first task of the controller starts, later versions before
        // they take over.
        self.version().cache().expect("the controller has not started")
    }

    /// Starts no more runs, and waits for runs in flight and their writes.
    ///
    /// # Cancel safety
    /// The controller stops even if the future is dropped.
    pub(crate) async fn stop(&self) {
        self.inner.lock().stopping = true;
        self.tasks.stopped.cancel();
        self.tasks.tracker.close();
        self.tasks.tracker.wait().await;
        self.writer.recorder.close();
    }

    /// Whether no key runs, is ready, is held, is being mapped, or is delayed for less than `quiet`, and all events are
    /// written.
    pub(crate) fn is_idle(&self, quiet: Duration) -> bool {
        self.inner.lock().keys.is_idle(now() + quiet)
            && self.mapping.is_idle()
            && self.writer.recorder.is_idle()
            && self
                .version()
                .subscription()
                .is_some_and(|subscription| subscription.cache.is_synced() && subscription.sink.is_idle())
    }

    /// Updates the gauges.
    pub(crate) fn refresh_metrics(&self) {
        let now = now();
        let mut inner = self.inner.lock();
        inner.keys.count_bytes();
        self.observers.metrics.held_bytes.set(i64::try_from(self.held.n_bytes()).unwrap_or(i64::MAX));
        self.observers.metrics.stale_held.set(i64::try_from(inner.keys.n_overdue()).unwrap_or(i64::MAX));
        for queue in inner.keys.queues() {
            let unfinished = queue.work_queue.unfinished(now);
            if let Some(metrics) = queue.observer() {
                metrics.set_unfinished(unfinished.total.as_secs_f64(), unfinished.longest.as_secs_f64());
            }
        }
        inner.key_gauges.publish(&self.version().declared);
        let runs = inner.leads && !inner.health.supervisor.is_disabled();
        drop(inner);
        let status = self.status();
        let has = |kind: &str, status_of: &str| {
            status.conditions.iter().any(|condition| condition.kind == kind && condition.status == status_of)
        };
        self.observers.metrics.running.set((runs && self.has_started()).into());
        self.observers.metrics.ready.set(has("Ready", "True").into());
        self.observers.metrics.healthy.set((!has("Healthy", "False")).into());
        self.observers.metrics.describe(&status.current.version, &status.current.digest);
        let gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.observers.metrics.cached_bytes.set(gauge(status.cached_bytes));
        let version = self.version();
        self.observers.metrics.instances.set(i64::try_from(version.guest.n_instances()).unwrap_or(i64::MAX));
        if let Some(cache) = version.cache() {
            self.observers.metrics.cached_objects.set(gauge(cache.n_objects() as u64));
        }
    }
}

/// The clock of queues, limits and deadlines.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The wall-clock time: RFC 3339 with microseconds, UTC.
pub(crate) fn timestamp(clock: &WallClock) -> String {
    clock().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests;
