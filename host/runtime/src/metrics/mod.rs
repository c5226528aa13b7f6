//! The host's metrics, in the OpenMetrics text format.
//!
//! ```text
//! definitions (pintle-metrics) ──> families ──> series of a plugin, of a queue ──> text
//!                                                        └── end with the last handle
//! ```
//!
//! For metrics with the same meaning, names and labels are those of kube-controller-manager and controller-runtime, so
//! that dashboards keep working; all others have the prefix `pintle_`.
//!
//! *Invariants*:
//! 1. Everything that a plugin chooses (its name, its queues, its version, label values of declared metrics) is bounded
//!    in number and size, and ends with the plugin.
//! 2. The number of kinds used as labels is at most [`MAX_KINDS`].
//!
//! Not here: names and labels (`pintle_metrics`), metrics that plugins declare (`declared`), metrics of requests
//! (`requests`), the HTTP endpoint.

mod caches;
mod declared;
mod family;
mod owner;
mod per_key;
mod process;
mod queue;
mod requests;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, MutexGuard};
use pintle_cache::InformerStats;
use pintle_core::contract::manifest::Manifest;
use pintle_core::ports::trace::SpanCounts;
use pintle_core::text::cut;
use pintle_metrics::*;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use declared::SeriesLimits;
pub(crate) use declared::{DeclaredError, DeclaredMetrics, DeclaredRegistry};
use family::{Counters, Forget, Gauges, Histograms, Seconds};
pub(crate) use owner::{EventMetrics, PluginMetrics};
use owner::{Lease, Owner};
pub(crate) use per_key::KeyGauges;
use queue::QueueLabel;
pub(crate) use queue::QueueMetrics;

/// All metrics of one host.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    declared: Mutex<DeclaredRegistry>,
    /// Only one text is written at a time, because gauges are set before.
    writing: Mutex<()>,
    leases: Mutex<HashMap<Owner, Weak<Lease>>>,
    queue_labels: Mutex<HashMap<String, Weak<QueueLabel>>>,
    /// Host and port of the API server.
    api_server: OnceLock<String>,
    of_plugins: Vec<Box<dyn Forget>>,
    of_queues: Vec<Box<dyn Forget>>,
    client: requests::RequestMetrics,
    process: process::ProcessMetrics,
    caches: caches::CacheMetrics,
    depth: Gauges<1>,
    adds: Counters<1>,
    queue_duration: Histograms<1>,
    work_duration: Histograms<1>,
    unfinished: Seconds<1>,
    longest: Seconds<1>,
    retries: Counters<1>,
    reconciles: Counters<2>,
    reconcile_errors: Counters<1>,
    reconcile_time: Histograms<1>,
    max_concurrent: Gauges<1>,
    active: Gauges<1>,
    run_duration: Histograms<2>,
    run_limits: Histograms<2>,
    faults: Counters<2>,
    mutations: Counters<4>,
    write_duration: Histograms<2>,
    write_loops: Counters<1>,
    stale_waits: Counters<1>,
    stale_wait_duration: Histograms<1>,
    stale_timeouts: Counters<1>,
    stale_held: Gauges<1>,
    held_bytes: Gauges<1>,
    dropped_changes: Counters<1>,
    dropped_samples: Counters<1>,
    dropped_keys: Counters<2>,
    events: Counters<2>,
    host_calls: Counters<1>,
    bytes_read: Counters<1>,
    cached_bytes: Gauges<1>,
    cached_objects: Gauges<1>,
    instances: Gauges<1>,
    info: Gauges<3>,
    ready: Gauges<1>,
    healthy: Gauges<1>,
    running: Gauges<2>,
    swaps: Counters<2>,
    swap_duration: Histograms<1>,
    swap_pause: Histograms<1>,
    quarantined: Gauges<1>,
    quarantines: Counters<1>,
    shadow_runs: Counters<2>,
    followed_file_errors: Counters<2>,
    task_panics: Counters<1>,
    spans_exported: Counters<0>,
    spans_dropped: Counters<1>,
    leads: Gauges<1>,
    slow_renewals: Counters<1>,
    features: Gauges<2>,
    build: Gauges<3>,
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let mut of_plugins: Vec<Box<dyn Forget>> = Vec::new();
        let mut of_queues: Vec<Box<dyn Forget>> = Vec::new();
        // Registers a metric, and lists it with the owner of its series.
        macro_rules! made {
            ($type:ident, $def:ident) => {
                $type::new(&mut registry, &$def)
            };
            ($type:ident, $def:ident, $owner:ident) => {{
                let metric = made!($type, $def);
                $owner.push(Box::new(metric.clone()));
                metric
            }};
        }
        let build = made!(Gauges, BUILD_INFO);
        let client = requests::RequestMetrics::new(&mut registry);
        let process = process::ProcessMetrics::new(&mut registry);
        let caches = caches::CacheMetrics::new(&mut registry);
        Arc::new(Self {
            build,
            client,
            process,
            caches,
            leads: made!(Gauges, LEADS),
            slow_renewals: made!(Counters, LEADS_SLOWLY),
            features: made!(Gauges, FEATURES),
            followed_file_errors: made!(Counters, FOLLOWED_FILE_ERRORS, of_plugins),
            task_panics: made!(Counters, TASK_PANICS),
            spans_exported: made!(Counters, TRACE_SPANS_EXPORTED),
            spans_dropped: made!(Counters, TRACE_SPANS_DROPPED),
            depth: made!(Gauges, WORKQUEUE_DEPTH, of_queues),
            adds: made!(Counters, WORKQUEUE_ADDS, of_queues),
            queue_duration: made!(Histograms, WORKQUEUE_QUEUE_DURATION, of_queues),
            work_duration: made!(Histograms, WORKQUEUE_WORK_DURATION, of_queues),
            unfinished: made!(Seconds, WORKQUEUE_UNFINISHED, of_queues),
            longest: made!(Seconds, WORKQUEUE_LONGEST, of_queues),
            retries: made!(Counters, WORKQUEUE_RETRIES, of_queues),
            reconciles: made!(Counters, RECONCILES, of_plugins),
            reconcile_errors: made!(Counters, RECONCILE_ERRORS, of_plugins),
            reconcile_time: made!(Histograms, RECONCILE_TIME, of_plugins),
            max_concurrent: made!(Gauges, RECONCILES_MAX, of_plugins),
            active: made!(Gauges, RECONCILES_ACTIVE, of_plugins),
            info: made!(Gauges, PLUGIN_INFO, of_plugins),
            ready: made!(Gauges, PLUGIN_READY, of_plugins),
            healthy: made!(Gauges, PLUGIN_HEALTHY, of_plugins),
            running: made!(Gauges, RUNNING, of_plugins),
            run_duration: made!(Histograms, RUN_DURATION, of_plugins),
            run_limits: made!(Histograms, RUN_LIMITS, of_plugins),
            faults: made!(Counters, FAULTS, of_plugins),
            quarantined: made!(Gauges, QUARANTINED, of_plugins),
            quarantines: made!(Counters, QUARANTINES, of_plugins),
            instances: made!(Gauges, INSTANCES, of_plugins),
            host_calls: made!(Counters, HOST_CALLS, of_plugins),
            bytes_read: made!(Counters, READ_BYTES, of_plugins),
            held_bytes: made!(Gauges, HELD_BYTES, of_plugins),
            mutations: made!(Counters, MUTATIONS, of_plugins),
            write_duration: made!(Histograms, WRITE_DURATION, of_plugins),
            events: made!(Counters, EVENTS, of_plugins),
            write_loops: made!(Counters, WRITE_LOOPS, of_plugins),
            stale_waits: made!(Counters, STALE_WAITS, of_plugins),
            stale_wait_duration: made!(Histograms, STALE_WAIT_DURATION, of_plugins),
            stale_timeouts: made!(Counters, STALE_TIMEOUTS, of_plugins),
            stale_held: made!(Gauges, STALE_HELD, of_plugins),
            dropped_changes: made!(Counters, DROPPED_CHANGES, of_plugins),
            dropped_samples: made!(Counters, DROPPED_SAMPLES, of_plugins),
            dropped_keys: made!(Counters, DROPPED_KEYS, of_plugins),
            cached_bytes: made!(Gauges, CACHED_BYTES, of_plugins),
            cached_objects: made!(Gauges, CACHED_OBJECTS, of_plugins),
            swaps: made!(Counters, SWAPS, of_plugins),
            swap_duration: made!(Histograms, SWAP_DURATION, of_plugins),
            swap_pause: made!(Histograms, SWAP_PAUSE, of_plugins),
            shadow_runs: made!(Counters, SHADOW_RUNS, of_plugins),
            registry: Mutex::new(registry),
            declared: Mutex::default(),
            writing: Mutex::default(),
            leases: Mutex::default(),
            queue_labels: Mutex::default(),
            api_server: OnceLock::new(),
            of_plugins,
            of_queues,
        })
    }

    /// Sets the version of the host, the version of Kubernetes that it follows, and the version of the API server.
    pub(crate) fn report_build(&self, version: &str, kubernetes: &str, api_server: &str) {
        self.build.of([version, kubernetes, cut(api_server, owner::MAX_VERSION_BYTES)]).set(1);
    }

    /// Sets a feature gate that a controller reads. `stage` is upstream's word, empty for general availability.
    pub(crate) fn report_feature(&self, name: &str, stage: &str, is_on: bool) {
        self.features.of([name, stage]).set(is_on.into());
    }

    /// Declares the metrics of a version. `shares`: whether the metrics may be shared with other plugins that set it.
    /// `n_series`: the version's limit.
    ///
    /// # Errors
    /// [`DeclaredError`]; nothing was declared.
    pub(crate) fn declare(
        &self,
        manifest: &Manifest,
        shares: bool,
        n_series: u32,
    ) -> Result<DeclaredMetrics, DeclaredError> {
        let limits = SeriesLimits::new(n_series);
        self.declared.lock().declare(&manifest.name, shares, &manifest.metrics, limits)
    }

    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        self.leads.of([lease]).set(leads.into());
        // The counter starts at 0.
        self.slow_renewals.of([lease]);
    }

    pub(crate) fn renewed_slowly(&self, lease: &str, n: u64) {
        if n > 0 {
            self.slow_renewals.of([lease]).inc_by(n);
        }
    }

    /// Counts a read of a plugin's setting file that returned no valid content.
    pub(crate) fn followed_file_error(&self, plugin: &str, setting: &str) {
        self.followed_file_errors.of([plugin, setting]).inc();
    }

    /// Sets the numbers of panics so far.
    pub(crate) fn count_panics(&self, panics: &[(&'static str, u64)]) {
        for (task, n) in panics {
            let counter = self.task_panics.of([*task]);
            counter.inc_by(n.saturating_sub(counter.get()));
        }
    }

    /// Sets the numbers of spans so far.
    pub(crate) fn count_spans(&self, SpanCounts { exported, queue_full, export_failed }: SpanCounts) {
        for (counter, n) in [
            (self.spans_exported.of::<&str>([]), exported),
            (self.spans_dropped.of(["queue_full"]), queue_full),
            (self.spans_dropped.of(["export_failed"]), export_failed),
        ] {
            counter.inc_by(n.saturating_sub(counter.get()));
        }
    }

    /// Sets the gauges of the process and of the caches.
    pub(crate) fn refresh(&self, informers: &[InformerStats]) {
        self.process.refresh();
        self.caches.refresh(informers);
    }

    /// Resident memory of this process; `None` if the system does not report it.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        self.process.resident_bytes()
    }

    /// Must be held while gauges are set and the text is written.
    pub(crate) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// All metrics in the OpenMetrics text format.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pintle_core::policy::keys::QueueObserver as _;
    use pintle_core::ports::guest::FaultKind;

    use super::*;

    #[test]
    fn names_are_those_of_existing_dashboards() {
        let metrics = Metrics::new();
        let queue = metrics.queue("team");
        queue.queued(1, 3);
        queue.retried();
        queue.began(Duration::from_millis(500));
        let plugin = metrics.plugin("team-controller");
        plugin.reconciled("success", Duration::from_millis(1));
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

    #[test]
    fn the_series_of_a_plugin_and_its_queues_end_with_the_last_handle() {
        let metrics = Metrics::new();
        let (plugin, queue) = (metrics.plugin("team-controller"), metrics.queue("team"));
        plugin.reconciled("success", Duration::from_millis(1));
        plugin.fault(FaultKind::Trap);
        plugin.mutation("create", "v1/Pod", "ok");
        plugin.describe("1.0.0", "abc");
        queue.queued(1, 1);
        // Another plugin, and a second handle of the same plugin.
        let (other, again) = (metrics.plugin("other"), metrics.plugin("team-controller"));
        other.fault(FaultKind::Trap);
        drop(plugin);
        assert!(metrics.text().contains("pintle_plugin_faults_total{plugin=\"team-controller\""));
        drop((again, queue));
        let text = metrics.text();
        assert!(!text.contains("team") && text.contains("pintle_plugin_faults_total{plugin=\"other\""), "{text}");
        assert!(metrics.leases.lock().len() == 1, "{:?}", metrics.leases.lock());
        // The series of a new plugin with the same name restart.
        metrics.plugin("team-controller").fault(FaultKind::Trap);
    }

    #[test]
    fn a_version_of_a_plugin_replaces_the_one_before() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("widgets");
        plugin.describe("1.0.0", "abc");
        plugin.describe(&"2".repeat(1000), "def");
        let text = metrics.text();
        let infos: Vec<&str> = text.lines().filter(|line| line.starts_with("pintle_plugin_info{")).collect();
        assert_eq!(
            infos,
            [format!("pintle_plugin_info{{plugin=\"widgets\",version=\"{}\",digest=\"def\"}} 1", "2".repeat(128))]
        );
    }

    #[test]
    fn kinds_beyond_the_bound_are_counted_together() {
        let metrics = Metrics::new();
        let plugin = metrics.plugin("widgets");
        for n in 0..MAX_KINDS + 5 {
            plugin.mutation("create", &format!("example.org/v1/Kind{n}"), "ok");
        }
        plugin.mutation("delete", "example.org/v1/Kind0", "ok");
        let text = metrics.text();
        let series = text.lines().filter(|line| line.starts_with("pintle_mutations_total{")).count();
        assert_eq!(series, MAX_KINDS + 2);
        assert!(text.contains("kind=\"other\",result=\"ok\"} 5\n"), "{text}");
    }
}
