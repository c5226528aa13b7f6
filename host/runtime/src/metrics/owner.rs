//! Handles to the series of one plugin. The series end when the last handle is dropped; so do those of queues
//! (`queue`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::manifest::EffectiveLimits;
use pintle_core::ports::api::RequestObserver as _;
use pintle_core::ports::guest::{FaultKind, Usage};
use pintle_core::text::cut;
use pintle_metrics::{MAX_KINDS, OTHER};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::Metrics;

/// The value of the label `manager` of `running_managed_controllers`.
const MANAGER: &str = "pintle";
/// Maximum bytes of a plugin version in a label; longer ones are truncated.
pub(super) const MAX_VERSION_BYTES: usize = 128;

/// Limits of a run whose usage is measured.
const LIMITS: [&str; 4] = ["deadline", "memory", "host_calls", "read_bytes"];

/// Results of swaps and shadow runs, and reasons of dropped keys. Their counters start at 0, because alert rules do not
/// detect an increase of a counter that starts at 1.
const SWAPS: [&str; 4] = ["switched", "refused", "rolled_back", "proven"];
const SHADOW_RUNS: [&str; 4] = ["same", "differs", "fault", "skipped"];
const DROPPED_KEYS: [&str; 2] = ["terminal", "max_retries"];
const RESULTS: [&str; 5] = ["success", "requeue_after", "error", "terminal_error", "fault"];

/// The owner of series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Plugin(String),
    Queue(String),
}

/// Keeps the series of its owner until it is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    all: Arc<Metrics>,
    owner: Owner,
}

impl Lease {
    pub(super) fn of(all: &Arc<Metrics>, owner: Owner) -> Arc<Self> {
        let mut leases = all.leases.lock();
        if let Some(lease) = leases.get(&owner).and_then(std::sync::Weak::upgrade) {
            return lease;
        }
        let lease = Arc::new(Self { all: all.clone(), owner: owner.clone() });
        leases.insert(owner, Arc::downgrade(&lease));
        lease
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut leases = self.all.leases.lock();
        // A new plugin with this name may exist meanwhile; then the series belong to it.
        if leases.get(&self.owner).is_some_and(|lease| lease.strong_count() > 0) {
            return;
        }
        leases.remove(&self.owner);
        let (families, name) = match &self.owner {
            Owner::Plugin(name) => (&self.all.of_plugins, name),
            Owner::Queue(name) => (&self.all.of_queues, name),
        };
        families.iter().for_each(|family| family.forget(name));
    }
}

impl Metrics {
    /// Metrics of one plugin.
    pub(crate) fn plugin(self: &Arc<Self>, plugin: &str) -> PluginMetrics {
        // This comes first: while it is held, no series of the plugin ends.
        let lease = Lease::of(self, Owner::Plugin(plugin.to_owned()));
        for kind in FaultKind::ALL {
            self.faults.of([plugin, kind.as_str()]);
        }
        SWAPS.iter().for_each(|result| drop(self.swaps.of([plugin, result])));
        SHADOW_RUNS.iter().for_each(|result| drop(self.shadow_runs.of([plugin, result])));
        DROPPED_KEYS.iter().for_each(|reason| drop(self.dropped_keys.of([plugin, reason])));
        RESULTS.iter().for_each(|result| drop(self.reconciles.of([plugin, result])));
        PluginMetrics {
            lease,
            kinds: Arc::default(),
            limits: LIMITS.map(|limit| self.run_limits.of([plugin, limit])),
            reconcile_time: self.reconcile_time.of([plugin]),
            active: self.active.of([plugin]),
            max_concurrent: self.max_concurrent.of([plugin]),
            write_loops: self.write_loops.of([plugin]),
            stale_waits: self.stale_waits.of([plugin]),
            stale_wait_duration: self.stale_wait_duration.of([plugin]),
            stale_timeouts: self.stale_timeouts.of([plugin]),
            stale_held: self.stale_held.of([plugin]),
            held_bytes: self.held_bytes.of([plugin]),
            dropped_changes: self.dropped_changes.of([plugin]),
            dropped_samples: self.dropped_samples.of([plugin]),
            host_calls: self.host_calls.of([plugin]),
            bytes_read: self.bytes_read.of([plugin]),
            cached_bytes: self.cached_bytes.of([plugin]),
            cached_objects: self.cached_objects.of([plugin]),
            instances: self.instances.of([plugin]),
            ready: self.ready.of([plugin]),
            healthy: self.healthy.of([plugin]),
            running: self.running.of([plugin, MANAGER]),
            quarantined: self.quarantined.of([plugin]),
            quarantines: self.quarantines.of([plugin]),
            swap_duration: self.swap_duration.of([plugin]),
            pause: self.swap_pause.of([plugin]),
            reconcile_errors: self.reconcile_errors.of([plugin]),
            plugin: plugin.to_owned(),
            all: self.clone(),
        }
    }

    /// Metrics of the events of a plugin, or of a part of the host.
    pub(crate) fn events(self: &Arc<Self>, source: &str) -> EventMetrics {
        let lease = Lease::of(self, Owner::Plugin(source.to_owned()));
        EventMetrics { _lease: lease, source: source.to_owned(), all: self.clone() }
    }

    /// Counts a request that is repeated because it was answered 429.
    fn repeated_after_429(&self, method: &'static str) {
        if let Some(host) = self.api_server.get() {
            self.repeated(method, host, 429);
        }
    }
}

/// Metrics of events; cheap handles.
#[derive(Clone, Debug)]
pub(crate) struct EventMetrics {
    _lease: Arc<Lease>,
    source: String,
    all: Arc<Metrics>,
}

impl EventMetrics {
    pub(crate) fn event(&self, result: &'static str) {
        self.all.events.of([&*self.source, result]).inc();
    }

    /// Counts a write that is repeated because the API server throttled it.
    pub(crate) fn repeated(&self, method: &'static str) {
        self.all.repeated_after_429(method);
    }
}

/// Metrics of one plugin; cheap handles.
#[derive(Clone, Debug)]
pub(crate) struct PluginMetrics {
    plugin: String,
    all: Arc<Metrics>,
    lease: Arc<Lease>,
    /// Kinds of its mutations.
    kinds: Arc<Mutex<HashSet<String>>>,
    /// In the order of [`LIMITS`].
    limits: [Histogram; LIMITS.len()],
    reconcile_errors: Counter,
    quarantined: Gauge,
    quarantines: Counter,
    pub(crate) reconcile_time: Histogram,
    pub(crate) active: Gauge,
    pub(crate) max_concurrent: Gauge,
    pub(crate) write_loops: Counter,
    pub(crate) stale_waits: Counter,
    pub(crate) stale_wait_duration: Histogram,
    pub(crate) stale_timeouts: Counter,
    pub(crate) stale_held: Gauge,
    pub(crate) held_bytes: Gauge,
    pub(crate) dropped_changes: Counter,
    pub(crate) dropped_samples: Counter,
    pub(crate) host_calls: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) cached_bytes: Gauge,
    pub(crate) cached_objects: Gauge,
    pub(crate) instances: Gauge,
    pub(crate) ready: Gauge,
    pub(crate) healthy: Gauge,
    pub(crate) running: Gauge,
    pub(crate) swap_duration: Histogram,
    pub(crate) pause: Histogram,
}

impl PluginMetrics {
    pub(crate) fn events(&self) -> EventMetrics {
        EventMetrics { _lease: self.lease.clone(), source: self.plugin.clone(), all: self.all.clone() }
    }

    pub(crate) fn reconciled(&self, result: &'static str, took: Duration) {
        self.all.reconciles.of([&*self.plugin, result]).inc();
        self.all.run_duration.of([&*self.plugin, result]).observe(took.as_secs_f64());
        if ["error", "terminal_error", "fault"].contains(&result) {
            self.reconcile_errors.inc();
        }
    }

    /// Records the share of its limits that a call used.
    pub(crate) fn used(&self, usage: Usage, limits: &EffectiveLimits) {
        self.host_calls.inc_by(usage.host_calls.into());
        self.bytes_read.inc_by(usage.bytes_read);
        let number = |n: u64| n as f64;
        let shares = [
            (usage.elapsed.as_secs_f64(), limits.deadline.as_secs_f64()),
            (number(usage.memory_bytes), number(limits.memory_bytes)),
            (usage.host_calls.into(), limits.host_calls.into()),
            (number(usage.bytes_read), number(limits.read_bytes)),
        ];
        for (histogram, (used, most)) in self.limits.iter().zip(shares) {
            // Any usage exhausts a limit of 0.
            histogram.observe(if most > 0.0 { used / most } else { 1.0 });
        }
    }

    pub(crate) fn fault(&self, kind: FaultKind) {
        self.all.faults.of([&*self.plugin, kind.as_str()]).inc();
    }

    pub(crate) fn mutation(&self, verb: &'static str, kind: &str, result: &'static str) {
        let kind = {
            let mut kinds = self.kinds.lock();
            let is_known = kinds.contains(kind) || (kinds.len() < MAX_KINDS && kinds.insert(kind.to_owned()));
            if is_known { kind } else { OTHER }
        };
        self.all.mutations.of([&*self.plugin, verb, kind, result]).inc();
    }

    pub(crate) fn write_duration(&self, verb: &'static str, took: Duration) {
        self.all.write_duration.of([&*self.plugin, verb]).observe(took.as_secs_f64());
    }

    /// Counts a request with this method that is repeated because the API server throttled it.
    pub(crate) fn repeated(&self, method: &'static str) {
        self.all.repeated_after_429(method);
    }

    pub(crate) fn swapped(&self, result: &'static str) {
        self.all.swaps.of([&*self.plugin, result]).inc();
    }

    /// Sets the current version.
    pub(crate) fn describe(&self, version: &str, digest: &str) {
        use super::Forget as _;
        self.all.info.forget(&self.plugin);
        self.all.info.of([&*self.plugin, cut(version, MAX_VERSION_BYTES), digest]).set(1);
    }

    pub(crate) fn quarantined(&self, begins: bool) {
        self.quarantined.set(begins.into());
        if begins {
            self.quarantines.inc();
        }
    }

    pub(crate) fn shadowed(&self, result: &'static str) {
        self.all.shadow_runs.of([&*self.plugin, result]).inc();
    }

    pub(crate) fn dropped_key(&self, reason: &'static str) {
        self.all.dropped_keys.of([&*self.plugin, reason]).inc();
    }

    pub(crate) fn event(&self, result: &'static str) {
        self.all.events.of([&*self.plugin, result]).inc();
    }
}
