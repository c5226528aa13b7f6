//! The table of metrics.

use super::MetricKind::{Counter, Gauge, Histogram};
use super::{MetricDef, MetricInfo, NotServed, Origin};

/// Defines each metric as a constant, and all of them as `ALL`.
macro_rules! metrics {
    ($($name:ident: $text:literal $kind:expr, [$($label:literal),*], $origin:ident, $help:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`: ", $help, ".")]
            pub const $name: MetricDef<{ <[&str]>::len(&[$($label),*]) }> = MetricDef {
                info: MetricInfo {
                    name: $text,
                    kind: $kind,
                    labels: &[$($label),*],
                    origin: Origin::$origin,
                    help: $help,
                },
                labels: [$($label),*],
            };
        )*

        /// Every metric of a host, by group.
        pub const ALL: &[MetricInfo] = &[$($name.info),*];
    };
}

/// Powers of ten from 10 ns, with the rounding errors of upstream's multiplication.
const QUEUE_SECONDS: &[f64] =
    &[1e-8, 1e-7, 1e-6, 9.999_999_999_999_999e-6, 9.999_999_999_999_999e-5, 0.001, 0.01, 0.1, 1.0, 10.0];
const REQUEST_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// 64 bytes to 16 MiB.
const REQUEST_BYTES: &[f64] =
    &[64.0, 256.0, 512.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];
/// From 50 us (a run without reads) to a minute.
const RUN_SECONDS: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0,
];
/// From a microsecond to a second.
const PAUSE_SECONDS: &[f64] = &[1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0];
/// From a swap of a small component to one with large caches, or with a shadow phase.
const SWAP_SECONDS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
/// From a watch as fast as the response to a silent one.
const WAIT_SECONDS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0];
const SHARES: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];

// Sources: `metrics/prometheus/{workqueue,restclient,controllers,clientgo/leaderelection}` of k8s.io/component-base;
// sigs.k8s.io/controller-runtime `pkg/internal/controller/metrics`.
metrics! {
    WORKQUEUE_DEPTH: "workqueue_depth" Gauge, ["name"], Kubernetes,
        "Current depth of workqueue";
    WORKQUEUE_ADDS: "workqueue_adds_total" Counter, ["name"], Kubernetes,
        "Total number of adds handled by workqueue";
    WORKQUEUE_QUEUE_DURATION: "workqueue_queue_duration_seconds" Histogram(QUEUE_SECONDS), ["name"], Kubernetes,
        "How long in seconds an item stays in workqueue before being requested";
    WORKQUEUE_WORK_DURATION: "workqueue_work_duration_seconds" Histogram(QUEUE_SECONDS), ["name"], Kubernetes,
        "How long in seconds processing an item from workqueue takes";
    WORKQUEUE_UNFINISHED: "workqueue_unfinished_work_seconds" Gauge, ["name"], Kubernetes,
        "Seconds of work in progress that work_duration has not observed yet; large values mean stuck runs";
    WORKQUEUE_LONGEST: "workqueue_longest_running_processor_seconds" Gauge, ["name"], Kubernetes,
        "How many seconds the longest run in progress has taken";
    WORKQUEUE_RETRIES: "workqueue_retries_total" Counter, ["name"], Kubernetes,
        "Total number of retries handled by workqueue";

    REST_REQUESTS: "rest_client_requests_total" Counter, ["code", "method", "host"], Kubernetes,
        "Number of HTTP requests, partitioned by status code, method, and host";
    REST_DURATION: "rest_client_request_duration_seconds" Histogram(REQUEST_SECONDS), ["verb", "host"], Kubernetes,
        "Request latency in seconds. Broken down by verb, and host";
    REST_RATE_LIMITER: "rest_client_rate_limiter_duration_seconds" Histogram(REQUEST_SECONDS), ["verb", "host"], Kubernetes,
        "Client side rate limiter latency in seconds. Broken down by verb, and host";
    REST_REQUEST_SIZE: "rest_client_request_size_bytes" Histogram(REQUEST_BYTES), ["verb", "host"], Kubernetes,
        "Request size in bytes. Broken down by verb and host";
    REST_RESPONSE_SIZE: "rest_client_response_size_bytes" Histogram(REQUEST_BYTES), ["verb", "host"], Kubernetes,
        "Response size in bytes. Broken down by verb and host";
    REST_RETRIES: "rest_client_request_retries_total" Counter, ["code", "verb", "host"], Kubernetes,
        "Number of request retries, partitioned by status code, verb, and host";

    LEADS: "leader_election_master_status" Gauge, ["name"], Kubernetes,
        "Whether this process leads by the Lease of this name: 1, or 0 on standby";
    LEADS_SLOWLY: "leader_election_slowpath_total" Counter, ["name"], Kubernetes,
        "Renewals of a Lease that needed a read first";
    RUNNING: "running_managed_controllers" Gauge, ["name", "manager"], Kubernetes,
        "Whether a controller runs in this process: 1, or 0 if it is disabled, or on standby";
    FEATURES: "kubernetes_feature_enabled" Gauge, ["name", "stage"], Kubernetes,
        "Whether a feature gate that a built-in controller reads is on";

    RECONCILES: "controller_runtime_reconcile_total" Counter, ["controller", "result"], ControllerRuntime,
        "Runs by result: success, requeue_after, error, terminal_error, fault";
    RECONCILE_ERRORS: "controller_runtime_reconcile_errors_total" Counter, ["controller"], ControllerRuntime,
        "Runs that failed: errors, terminal errors and faults";
    RECONCILE_TIME: "controller_runtime_reconcile_time_seconds" Histogram(RUN_SECONDS), ["controller"], ControllerRuntime,
        "Time of a run, needs and writes included";
    RECONCILES_MAX: "controller_runtime_max_concurrent_reconciles" Gauge, ["controller"], ControllerRuntime,
        "Runs that may be in progress at once";
    RECONCILES_ACTIVE: "controller_runtime_active_workers" Gauge, ["controller"], ControllerRuntime,
        "Runs in progress";

    PROCESS_CPU: "process_cpu_seconds_total" Counter, [], Process,
        "Total user and system CPU time spent in seconds";
    PROCESS_RESIDENT: "process_resident_memory_bytes" Gauge, [], Process,
        "Resident memory size in bytes";
    PROCESS_VIRTUAL: "process_virtual_memory_bytes" Gauge, [], Process,
        "Virtual memory size in bytes";
    PROCESS_START: "process_start_time_seconds" Gauge, [], Process,
        "Start time of the process since unix epoch in seconds";
    PROCESS_OPEN_FDS: "process_open_fds" Gauge, [], Process,
        "Number of open file descriptors";
    PROCESS_MAX_FDS: "process_max_fds" Gauge, [], Process,
        "Maximum number of open file descriptors";

    BUILD_INFO: "pintle_build_info" Gauge, ["version", "kubernetes", "api_server"], Pintle,
        "1, with the version of the host, the version of Kubernetes that it follows, and the version of the API server at the start; empty if that is not known";
    PLUGIN_INFO: "pintle_plugin_info" Gauge, ["plugin", "version", "digest"], Pintle,
        "1, with the present version of a plugin, and the SHA-256 of its component";
    PLUGIN_READY: "pintle_plugin_ready" Gauge, ["plugin"], Pintle,
        "Whether the condition Ready of the plugin is true; 0 also on standby";
    PLUGIN_HEALTHY: "pintle_plugin_healthy" Gauge, ["plugin"], Pintle,
        "Whether the condition Healthy of the plugin is not false";
    RUN_DURATION: "pintle_run_duration_seconds" Histogram(RUN_SECONDS), ["plugin", "outcome"], Pintle,
        "Time of a run, needs and writes included, by outcome: success, requeue_after, error, terminal_error, fault";
    RUN_LIMITS: "pintle_run_limit_used_ratio" Histogram(SHARES), ["plugin", "limit"], Pintle,
        "Part of a limit that a call of the plugin used, by limit: deadline, memory, host_calls, read_bytes";
    FAULTS: "pintle_plugin_faults_total" Counter, ["plugin", "kind"], Pintle,
        "Faults of plugins by kind: trap, deadline, memory, output, grant, host_call, instantiate";
    QUARANTINED: "pintle_plugin_quarantined" Gauge, ["plugin"], Pintle,
        "Whether the plugin pauses because of repeated faults";
    QUARANTINES: "pintle_plugin_quarantines_total" Counter, ["plugin"], Pintle,
        "Pauses because of repeated faults";
    INSTANCES: "pintle_plugin_instances" Gauge, ["plugin"], Pintle,
        "Instances of a plugin's version that takes keys: running, interrupted and idle ones";
    HOST_CALLS: "pintle_host_calls_total" Counter, ["plugin"], Pintle,
        "Calls of the lister by plugins";
    READ_BYTES: "pintle_read_bytes_total" Counter, ["plugin"], Pintle,
        "Bytes that listers handed to plugins";
    HELD_BYTES: "pintle_plugin_held_bytes" Gauge, ["plugin"], Pintle,
        "Bytes that the host holds for the runs of a plugin: needs, answers, outcomes, logs of reads, events, failures, keys of its mapping";

    MUTATIONS: "pintle_mutations_total" Counter, ["plugin", "verb", "kind", "result"], Pintle,
        "Mutations by kind of object and class of the answer: ok, gone, tolerated, not_granted, conflict, not_found, already_exists, invalid, forbidden, unauthorized, throttled, server_error, timeout, transport, malformed, not_leading";
    WRITE_DURATION: "pintle_write_duration_seconds" Histogram(REQUEST_SECONDS), ["plugin", "verb"], Pintle,
        "Time of a write request, waiting for the client's rate limit included";
    EVENTS: "pintle_events_total" Counter, ["plugin", "result"], Pintle,
        "Events by result: created, counted, filtered, dropped, failed, not_granted";

    WRITE_LOOPS: "pintle_write_loops_total" Counter, ["plugin"], Pintle,
        "Keys that ran 100 times in a row because of nothing but their own writes";
    STALE_WAITS: "pintle_stale_cache_waits_total" Counter, ["plugin"], Pintle,
        "Runs after which the key had to wait for the caches to show its writes";
    STALE_WAIT_DURATION: "pintle_stale_cache_wait_duration_seconds" Histogram(WAIT_SECONDS), ["plugin"], Pintle,
        "How long keys waited for the caches to show their writes";
    STALE_TIMEOUTS: "pintle_stale_cache_wait_timeouts_total" Counter, ["plugin"], Pintle,
        "Keys whose writes the caches did not show within the bound; they stay held";
    STALE_HELD: "pintle_stale_cache_held_keys" Gauge, ["plugin"], Pintle,
        "Keys that are held for longer than the bound, because the caches do not show their writes";
    DROPPED_CHANGES: "pintle_dropped_changes_total" Counter, ["plugin"], Pintle,
        "Changes that were merged because a plugin's rules could not keep up; every key then runs";
    DROPPED_KEYS: "pintle_dropped_keys_total" Counter, ["plugin", "reason"], Pintle,
        "Keys dropped until their next change, by reason: terminal, max_retries";
    DROPPED_SAMPLES: "pintle_dropped_samples_total" Counter, ["plugin"], Pintle,
        "Samples of a plugin's own metrics that found no room: too many combinations of labels, or bytes";

    CACHE_BYTES: "pintle_cache_bytes" Gauge, ["kind"], Pintle,
        "Bytes of a kind in the caches that all plugins share (estimated)";
    CACHE_OBJECTS: "pintle_cache_objects" Gauge, ["kind"], Pintle,
        "Objects of a kind in the caches that all plugins share";
    CACHED_BYTES: "pintle_plugin_cached_bytes" Gauge, ["plugin"], Pintle,
        "Bytes in the caches that a plugin's watches keep there; what it shares with others counts in full";
    CACHED_OBJECTS: "pintle_plugin_cached_objects" Gauge, ["plugin"], Pintle,
        "Objects in the caches that a plugin's watches keep there";
    INFORMER_LISTS: "pintle_informer_lists_total" Counter, ["kind"], Pintle,
        "Lists that informers began, streaming ones included";
    INFORMER_WATCHES: "pintle_informer_watches_total" Counter, ["kind"], Pintle,
        "Watches that informers opened after a list";
    INFORMER_FAILURES: "pintle_informer_failures_total" Counter, ["kind"], Pintle,
        "Lists and watches of informers that failed";

    SWAPS: "pintle_plugin_swaps_total" Counter, ["plugin", "result"], Pintle,
        "Attempts to replace a version, by result: switched, refused, rolled_back, proven";
    SWAP_DURATION: "pintle_plugin_swap_duration_seconds" Histogram(SWAP_SECONDS), ["plugin"], Pintle,
        "Time from the arrival of a new version until it takes keys: compiling, syncing caches and shadow mode included";
    SWAP_PAUSE: "pintle_plugin_swap_pause_seconds" Histogram(PAUSE_SECONDS), ["plugin"], Pintle,
        "How long a swap kept a plugin from taking keys";
    SHADOW_RUNS: "pintle_shadow_runs_total" Counter, ["plugin", "result"], Pintle,
        "Runs of new versions beside the present one, by result: same, differs, fault, skipped";
    FOLLOWED_FILE_ERRORS: "pintle_followed_file_errors_total" Counter, ["plugin", "setting"], Pintle,
        "Looks at the file of a setting that found it missing, unreadable or not valid; the last good content stays";
    TASK_PANICS: "pintle_task_panics_total" Counter, ["task"], Pintle,
        "Panics of the host's own tasks, which then start again; several within ten minutes fail liveness";
    TRACE_SPANS_EXPORTED: "pintle_trace_spans_exported_total" Counter, [], Pintle,
        "Spans of traced runs that the collector accepted";
    TRACE_SPANS_DROPPED: "pintle_trace_spans_dropped_total" Counter, ["reason"], Pintle,
        "Spans of traced runs that never reached the collector, by reason: queue_full, export_failed";
}

/// Metrics of kube-controller-manager 1.37 that a host does not serve.
pub const NOT_SERVED: &[NotServed] = &[
    NotServed {
        name: "garbagecollector_controller_resources_sync_error_total",
        reason: "The host's informers follow the kinds of the API server for all plugins: `pintle_informer_failures_total`, and the condition Ready of the plugin",
    },
    NotServed {
        name: "*_controller_stale_sync_skips_total",
        reason: "No run is skipped: a key waits until the caches show its writes. `pintle_stale_cache_waits_total`, `pintle_stale_cache_wait_duration_seconds`",
    },
    NotServed {
        name: "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
        reason: "A run sees one instant, so it cannot measure its parts: `horizontal_pod_autoscaler_controller_reconciliation_duration_seconds` has the whole, with the requests for metrics",
    },
    NotServed {
        name: "node_collector_update_node_health_duration_seconds",
        reason: "A run sees one instant, so it cannot measure its part for one Node: `node_collector_update_all_nodes_health_duration_seconds` has the whole",
    },
    NotServed {
        name: "informer_*",
        reason: "Of client-go's queue between an informer and its handlers. Changes that wait for a plugin are bounded: `pintle_dropped_changes_total`",
    },
    NotServed {
        name: "kubernetes_build_info",
        reason: "Alerts compare its version across the components of a cluster, and this program has another one: `pintle_build_info`",
    },
    NotServed { name: "version_info", reason: "Versions that Go programs emulate: `pintle_build_info`" },
    NotServed {
        name: "rest_client_exec_plugin_*",
        reason: "Facts about client-go's runs of credential plugins; the log has their failures",
    },
    NotServed {
        name: "rest_client_transport_*",
        reason: "Facts about client-go's cache of connections, which a host does not have",
    },
    NotServed {
        name: "rest_client_dns_*",
        reason: "Facts about client-go's look-ups of names; part of `rest_client_request_duration_seconds` here",
    },
    NotServed {
        name: "process_network_*",
        reason: "Counters of a network namespace, not of a process: node-exporter and cAdvisor have them",
    },
    NotServed {
        name: "process_virtual_memory_max_bytes",
        reason: "A limit on address space, which nothing here sets: sandboxes reserve much more than they use",
    },
    NotServed { name: "go_*", reason: "Facts about Go's runtime" },
    NotServed { name: "apiserver_*", reason: "Of libraries of the API server that kube-controller-manager contains" },
    NotServed { name: "aggregator_*", reason: "Of libraries of the API server that kube-controller-manager contains" },
    NotServed {
        name: "authentication_*",
        reason: "Of the library that serves the port there. The API server counts the reviews of clients",
    },
    NotServed {
        name: "authenticated_*",
        reason: "Of the library that serves the port there. The API server counts the reviews of clients",
    },
    NotServed {
        name: "authorization_*",
        reason: "Of the library that serves the port there. The API server counts the reviews of clients",
    },
    NotServed { name: "registered_metrics_total", reason: "Facts about the library of metrics" },
    NotServed { name: "disabled_metrics_total", reason: "Facts about the library of metrics" },
    NotServed { name: "hidden_metrics_total", reason: "Facts about the library of metrics" },
    NotServed { name: "cardinality_enforcement_*", reason: "Facts about the library of metrics" },
];
