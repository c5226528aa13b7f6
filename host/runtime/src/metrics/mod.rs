//! The host's metrics, in the text form of OpenMetrics.
//!
//! Names and labels are kube-controller-manager's (`workqueue_*`, `rest_client_*`) and controller-runtime's
//! (`controller_runtime_*`) for metrics of the same meaning, so that dashboards keep working; all others have the prefix
//! `pintle_`.
//!
//! Invariant: everything that a plugin chooses (label values of declared metrics) is bounded in number and size.
//!
//! Not here: metrics that plugins declare (`declared`), metrics of requests (`requests`), the HTTP endpoint.

mod declared;
mod requests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use pintle_core::contract::manifest::Manifest;
use pintle_core::ports::guest::FaultKind;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub(crate) use declared::{DeclaredError, DeclaredMetrics, DeclaredRegistry};

type Labels<const N: usize> = [(&'static str, String); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Gauges<const N: usize> = Family<Labels<N>, Gauge>;
type Seconds<const N: usize> = Family<Labels<N>, Gauge<f64, AtomicU64>>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram>;

/// All metrics of one host.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    declared: Mutex<DeclaredRegistry>,
    client: requests::RequestMetrics,
    depth: Gauges<1>,
    adds: Counters<1>,
    queue_duration: Histograms<1>,
    work_duration: Histograms<1>,
    unfinished: Seconds<1>,
    longest: Seconds<1>,
    retries: Counters<1>,
    reconciles: Counters<2>,
    reconcile_time: Histograms<1>,
    max_concurrent: Gauges<1>,
    active: Gauges<1>,
    faults: Counters<2>,
    mutations: Counters<4>,
    write_duration: Histograms<2>,
    stale_waits: Counters<1>,
    stale_timeouts: Counters<1>,
    stale_held: Gauges<1>,
    held_bytes: Gauges<1>,
    dropped_changes: Counters<1>,
    dropped_keys: Counters<2>,
    events: Counters<2>,
    host_calls: Counters<1>,
    bytes_read: Counters<1>,
    cached_bytes: Gauges<1>,
    instances: Gauges<1>,
    swaps: Counters<2>,
    swap_pause: Histograms<1>,
    quarantined: Gauges<1>,
    quarantines: Counters<1>,
    shadow_runs: Counters<2>,
    task_panics: Counters<1>,
    leads: Gauges<1>,
    slow_renewals: Counters<1>,
}

/// The buckets of the `workqueue_*` histograms: powers of ten from 10 ns.
fn queue_buckets() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 10))
}

/// client-go's buckets of `rest_client_request_duration_seconds`.
fn request_buckets() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0])
}

/// From 50 us (a run without reads) to a minute.
fn reconcile_buckets() -> Histogram {
    Histogram::new([
        0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        10.0, 30.0, 60.0,
    ])
}

/// From a microsecond to a second.
fn pause_buckets() -> Histogram {
    Histogram::new([1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0])
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        macro_rules! register {
            ($name:literal, $help:literal, $metric:expr) => {{
                let metric = $metric;
                registry.register($name, $help, metric.clone());
                metric
            }};
        }
        Arc::new(Self {
            client: requests::RequestMetrics::new(&mut registry),
            depth: register!("workqueue_depth", "Current depth of workqueue", Gauges::default()),
            adds: register!("workqueue_adds", "Total number of adds handled by workqueue", Counters::default()),
            queue_duration: register!(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
                Histograms::new_with_constructor(queue_buckets)
            ),
            work_duration: register!(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes",
                Histograms::new_with_constructor(queue_buckets)
            ),
            unfinished: register!(
                "workqueue_unfinished_work_seconds",
                "Seconds of work in progress that work_duration has not observed yet; large values mean stuck runs",
                Seconds::default()
            ),
            longest: register!(
                "workqueue_longest_running_processor_seconds",
                "How many seconds the longest run in progress has taken",
                Seconds::default()
            ),
            retries: register!(
                "workqueue_retries",
                "Total number of retries handled by workqueue",
                Counters::default()
            ),
            reconciles: register!(
                "controller_runtime_reconcile",
                "Reconciles by result: success, requeue_after, error, terminal_error, fault",
                Counters::default()
            ),
            reconcile_time: register!(
                "controller_runtime_reconcile_time_seconds",
                "Time of a reconcile, needs and writes included",
                Histograms::new_with_constructor(reconcile_buckets)
            ),
            max_concurrent: register!(
                "controller_runtime_max_concurrent_reconciles",
                "Reconciles that may run at once",
                Gauges::default()
            ),
            active: register!("controller_runtime_active_workers", "Reconciles that run", Gauges::default()),
            faults: register!("pintle_plugin_faults", "Faults of plugins by kind", Counters::default()),
            mutations: register!("pintle_mutations", "Mutations by result", Counters::default()),
            write_duration: register!(
                "pintle_write_duration_seconds",
                "Time of a write request, waiting for the client's rate limit included",
                Histograms::new_with_constructor(request_buckets)
            ),
            stale_waits: register!(
                "pintle_stale_cache_waits",
                "Runs after which the key had to wait for the caches to show its writes",
                Counters::default()
            ),
            stale_timeouts: register!(
                "pintle_stale_cache_wait_timeouts",
                "Keys whose writes the caches did not show within the bound; they stay held",
                Counters::default()
            ),
            held_bytes: register!(
                "pintle_plugin_held_bytes",
                "Bytes that the host holds for the runs of a plugin: needs, answers, failures, keys of its mapping",
                Gauges::default()
            ),
            stale_held: register!(
                "pintle_stale_cache_held_keys",
                "Keys that are held for longer than the bound, because the caches do not show their writes",
                Gauges::default()
            ),
            dropped_changes: register!(
                "pintle_dropped_changes",
                "Changes that were merged because a plugin's rules could not keep up; every key then runs",
                Counters::default()
            ),
            dropped_keys: register!(
                "pintle_dropped_keys",
                "Keys dropped until their next change, by reason: terminal, max_retries",
                Counters::default()
            ),
            events: register!(
                "pintle_events",
                "Events by result: created, counted, filtered, dropped, failed",
                Counters::default()
            ),
            host_calls: register!("pintle_host_calls", "Calls of the lister by plugins", Counters::default()),
            bytes_read: register!("pintle_read_bytes", "Bytes that listers handed to plugins", Counters::default()),
            cached_bytes: register!(
                "pintle_plugin_cached_bytes",
                "Bytes in the caches that a plugin's watches keep there",
                Gauges::default()
            ),
            instances: register!(
                "pintle_plugin_instances",
                "Instances of a plugin's version that takes keys: running, interrupted and idle ones",
                Gauges::default()
            ),
            swaps: register!(
                "pintle_plugin_swaps",
                "Attempts to replace a version, by result: switched, refused, rolled_back, proven",
                Counters::default()
            ),
            swap_pause: register!(
                "pintle_plugin_swap_pause_seconds",
                "How long a swap kept a plugin from taking keys",
                Histograms::new_with_constructor(pause_buckets)
            ),
            quarantined: register!(
                "pintle_plugin_quarantined",
                "Whether the plugin pauses because of repeated faults",
                Gauges::default()
            ),
            quarantines: register!(
                "pintle_plugin_quarantines",
                "Pauses because of repeated faults",
                Counters::default()
            ),
            shadow_runs: register!(
                "pintle_shadow_runs",
                "Runs of new versions beside the present one, by result: same, differs, fault, skipped",
                Counters::default()
            ),
            task_panics: register!(
                "pintle_task_panics",
                "Panics of the host's own tasks, which then start again; several within ten minutes fail liveness",
                Counters::default()
            ),
            leads: register!(
                "leader_election_master_status",
                "Whether this process leads by the Lease of this name: 1, or 0 on standby",
                Gauges::default()
            ),
            slow_renewals: register!(
                "leader_election_slowpath",
                "Renewals of a Lease that needed a read first",
                Counters::default()
            ),
            registry: Mutex::new(registry),
            declared: Mutex::new(DeclaredRegistry::default()),
        })
    }

    /// Metrics of one plugin.
    pub(crate) fn plugin(self: &Arc<Self>, plugin: &str) -> PluginMetrics {
        let controller = || [("controller", plugin.to_owned())];
        let label = || [("plugin", plugin.to_owned())];
        PluginMetrics {
            reconcile_time: self.reconcile_time.get_or_create_owned(&controller()),
            active: self.active.get_or_create_owned(&controller()),
            max_concurrent: self.max_concurrent.get_or_create_owned(&controller()),
            stale_waits: self.stale_waits.get_or_create_owned(&label()),
            stale_timeouts: self.stale_timeouts.get_or_create_owned(&label()),
            stale_held: self.stale_held.get_or_create_owned(&label()),
            held_bytes: self.held_bytes.get_or_create_owned(&label()),
            dropped_changes: self.dropped_changes.get_or_create_owned(&label()),
            host_calls: self.host_calls.get_or_create_owned(&label()),
            bytes_read: self.bytes_read.get_or_create_owned(&label()),
            cached_bytes: self.cached_bytes.get_or_create_owned(&label()),
            instances: self.instances.get_or_create_owned(&label()),
            pause: self.swap_pause.get_or_create_owned(&label()),
            plugin: plugin.to_owned(),
            all: self.clone(),
        }
    }

    /// Metrics of one work queue.
    pub(crate) fn queue(&self, name: &str) -> QueueMetrics {
        let name = [("name", name.to_owned())];
        QueueMetrics {
            depth: self.depth.get_or_create_owned(&name),
            adds: self.adds.get_or_create_owned(&name),
            queue_duration: self.queue_duration.get_or_create_owned(&name),
            work_duration: self.work_duration.get_or_create_owned(&name),
            unfinished: self.unfinished.get_or_create_owned(&name),
            longest: self.longest.get_or_create_owned(&name),
            retries: self.retries.get_or_create_owned(&name),
        }
    }

    /// Declares the metrics of a version. `shares`: whether other plugins that share theirs may have the same metrics.
    ///
    /// # Errors
    /// [`DeclaredError`]; nothing was declared.
    pub(crate) fn declare(&self, manifest: &Manifest, shares: bool) -> Result<DeclaredMetrics, DeclaredError> {
        self.declared.lock().declare(&manifest.name, shares, &manifest.metrics)
    }

    /// Sets the numbers of panics so far.
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.leads.get_or_create_owned(&[("name", lease.to_owned())]).set(leads.into());
    }

    pub(crate) fn renewed_slowly(&self, lease: &str, n: u64) {
        if n > 0 {
            self.slow_renewals.get_or_create_owned(&[("name", lease.to_owned())]).inc_by(n);
        }
    }

    pub(crate) fn count_panics(&self, panics: &[(&'static str, u64)]) {
        for (task, n) in panics {
            let counter = self.task_panics.get_or_create_owned(&[("task", (*task).to_owned())]);
            counter.inc_by(n.saturating_sub(counter.get()));
        }
    }

    /// All metrics in the text form of OpenMetrics.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail; a failing encoder would leave out the end marker.
        let encoded = text::encode_registry(&mut out, &self.registry.lock())
            .and_then(|()| self.declared.lock().encode(&mut out))
            .and_then(|()| text::encode_eof(&mut out));
        if encoded.is_err() {
            tracing::error!("metrics could not be encoded");
        }
        out
    }
}

/// Metrics of one work queue; cheap handles.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
    pub(crate) unfinished: Gauge<f64, AtomicU64>,
    pub(crate) longest: Gauge<f64, AtomicU64>,
    pub(crate) retries: Counter,
}

/// Metrics of one plugin.
#[derive(Clone, Debug)]
pub(crate) struct PluginMetrics {
    plugin: String,
    all: Arc<Metrics>,
    pub(crate) reconcile_time: Histogram,
    pub(crate) active: Gauge,
    pub(crate) max_concurrent: Gauge,
    pub(crate) stale_waits: Counter,
    pub(crate) stale_timeouts: Counter,
    pub(crate) stale_held: Gauge,
    pub(crate) held_bytes: Gauge,
    pub(crate) dropped_changes: Counter,
    pub(crate) host_calls: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) cached_bytes: Gauge,
    pub(crate) instances: Gauge,
    pub(crate) pause: Histogram,
}

impl PluginMetrics {
    pub(crate) fn reconciled(&self, result: &'static str) {
        let labels = [("controller", self.plugin.clone()), ("result", result.to_owned())];
        self.all.reconciles.get_or_create(&labels).inc();
    }

    pub(crate) fn fault(&self, kind: FaultKind) {
        self.all.faults.get_or_create(&[("plugin", self.plugin.clone()), ("kind", kind.as_str().to_owned())]).inc();
    }

    /// `kind` must be a kind of the API server: invented kinds would create series without bound.
    pub(crate) fn mutation(&self, verb: &'static str, kind: &str, result: &'static str) {
        let labels = [
            ("plugin", self.plugin.clone()),
            ("verb", verb.to_owned()),
            ("kind", kind.to_owned()),
            ("result", result.to_owned()),
        ];
        self.all.mutations.get_or_create(&labels).inc();
    }

    pub(crate) fn write_duration(&self, verb: &'static str, took: std::time::Duration) {
        let labels = [("plugin", self.plugin.clone()), ("verb", verb.to_owned())];
        self.all.write_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn swapped(&self, result: &'static str) {
        self.all.swaps.get_or_create(&[("plugin", self.plugin.clone()), ("result", result.to_owned())]).inc();
    }

    pub(crate) fn quarantined(&self, begins: bool) {
        let label = [("plugin", self.plugin.clone())];
        self.all.quarantined.get_or_create(&label).set(begins.into());
        if begins {
            self.all.quarantines.get_or_create(&label).inc();
        }
    }

    pub(crate) fn shadowed(&self, result: &'static str) {
        self.all.shadow_runs.get_or_create(&[("plugin", self.plugin.clone()), ("result", result.to_owned())]).inc();
    }

    pub(crate) fn dropped_key(&self, reason: &'static str) {
        self.all.dropped_keys.get_or_create(&[("plugin", self.plugin.clone()), ("reason", reason.to_owned())]).inc();
    }

    pub(crate) fn event(&self, result: &'static str) {
        self.all.events.get_or_create(&[("plugin", self.plugin.clone()), ("result", result.to_owned())]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_existing_dashboards() {
        let metrics = Metrics::new();
        let queue = metrics.queue("team");
        queue.adds.inc();
        queue.retries.inc();
        queue.depth.set(3);
        queue.queue_duration.observe(0.5);
        let plugin = metrics.plugin("team-controller");
        plugin.reconciled("success");
        plugin.fault(FaultKind::Trap);
        plugin.mutation("create", "v1/Pod", "ok");
        let text = metrics.text();
        for line in [
            "workqueue_adds_total{name=\"team\"} 1",
            "workqueue_retries_total{name=\"team\"} 1",
            "workqueue_depth{name=\"team\"} 3",
            "workqueue_queue_duration_seconds_count{name=\"team\"} 1",
            "controller_runtime_reconcile_total{controller=\"team-controller\",result=\"success\"} 1",
            "pintle_plugin_faults_total{plugin=\"team-controller\",kind=\"trap\"} 1",
            "pintle_mutations_total{plugin=\"team-controller\",verb=\"create\",kind=\"v1/Pod\",result=\"ok\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
