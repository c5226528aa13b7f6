//! The host at a glance: the current state and the last minutes, for `pintle top` and the web page.
//!
//! ```text
//! counters of plugins ──every SAMPLE_INTERVAL──> History (bounded) ──and counters now──> Overview
//! ```
//!
//! Invariants:
//! Invariants:
//! 1. Memory is bounded for any number of plugins and requests: [`MAX_PLUGINS`], [`MAX_POINTS`].
//! 2. The time to build an overview is proportional to the number of plugins, not of their keys or runs.
//! 3. Names and messages are untrusted text; the code that displays them escapes them.
//!
//! Not here: the source of the counters (`pintle-runtime`), and their display (`pintle-client`, `pintle-serve`).

mod history;
mod latency;

use serde::{Deserialize, Serialize};

use crate::lifecycle::Phase;

pub use self::history::{Gauges, History, MAX_POINTS, SAMPLE_INTERVAL};
pub use self::latency::{Latency, Quantiles};

/// Maximum plugins shown, in name order. kube-controller-manager has about fifty controllers.
pub const MAX_PLUGINS: usize = 250;
/// Maximum keys of each queue in the details of a plugin.
pub const MAX_DETAIL_KEYS: usize = 50;
/// Maximum bytes of a message.
pub const MAX_MESSAGE_BYTES: usize = 1_000;

/// A host at one instant, and its last minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overview {
    /// Time: RFC 3339.
    pub at: String,
    /// Facts about the host.
    pub host: HostOverview,
    /// At most [`MAX_PLUGINS`], in name order.
    pub plugins: Vec<PluginOverview>,
    /// Number of omitted plugins.
    #[serde(rename = "omitted")]
    pub n_omitted: usize,
    /// The last minutes of all plugins in total; the memory is that of the process.
    pub series: Series,
}

/// Facts about a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostOverview {
    /// Version of Pintle.
    pub version: String,
    /// Seconds since its start.
    pub up_seconds: u64,
    /// Resident memory of the process; absent if the system does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// A sentence with the time since which the API server has not answered; absent if it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server_problem: Option<String>,
    /// Whether plugins may run; always true without an election.
    pub leads: bool,
    /// The elections in which it takes part; empty without leader election.
    pub elections: Vec<ElectionOverview>,
}

/// A leader election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ElectionOverview {
    /// Namespace and name of the Lease.
    pub lease: String,
    /// Identity of this host.
    pub identity: String,
    /// Last seen holder of the Lease; empty if it is free, absent if the Lease was not read yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Whether this host is the leader.
    pub leads: bool,
}

/// Keys of a plugin's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueDepth {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Delayed keys.
    pub delayed: usize,
    /// Keys whose writes the caches do not show yet.
    pub held: usize,
    /// Keys in progress.
    pub running: usize,
}

/// Runs by result, since the plugin was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunCounts {
    /// All writes succeeded.
    pub success: u64,
    /// Like `success`, and the plugin requested another run.
    pub requeue_after: u64,
    /// A write failed, or the plugin returned an error; the key is retried.
    pub error: u64,
    /// The plugin returned an error for which a retry does not help.
    pub terminal_error: u64,
    /// The plugin violated the contract.
    pub fault: u64,
}

impl RunCounts {
    /// Counts a run by its result, in the words of `controller_runtime_reconcile_total`.
    pub fn count(&mut self, result: &str) {
        let counter = match result {
            "success" => &mut self.success,
            "requeue_after" => &mut self.requeue_after,
            "terminal_error" => &mut self.terminal_error,
            "fault" => &mut self.fault,
            _ => &mut self.error,
        };
        *counter += 1;
    }

    /// Runs with any result.
    pub fn total(&self) -> u64 {
        self.success + self.requeue_after + self.error + self.terminal_error + self.fault
    }

    /// Runs that did not end well.
    pub fn failed(&self) -> u64 {
        self.error + self.terminal_error + self.fault
    }
}

/// A plugin's counters since it was loaded, and its current state.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    /// Name of the plugin.
    pub name: String,
    /// Its phase.
    pub phase: Phase,
    /// Why it is not ready or not healthy: reason and message of the condition.
    pub problem: Option<String>,
    /// Version of the component.
    pub version: String,
    /// Total of its queues.
    pub queue: QueueDepth,
    /// Maximum concurrent runs.
    pub n_workers: usize,
    /// Its runs.
    pub runs: RunCounts,
    /// Its faults, in runs and mappings.
    pub n_faults: u64,
    /// Durations of its runs, including writes.
    pub latency: Latency,
    /// Number of instances: running, interrupted and idle.
    pub n_instances: usize,
    /// Memory of these instances.
    pub instance_bytes: u64,
    /// Bytes that its watches keep in the caches.
    pub cached_bytes: u64,
    /// Objects that its watches keep in the caches.
    pub n_cached: usize,
    /// Bytes that the host holds for its runs.
    pub held_bytes: u64,
    /// The last fault, declared error or failed write.
    pub last_error: Option<String>,
}

impl Counters {
    /// Memory of the plugin: instances, caches, and the bytes that the host holds for its runs.
    pub fn memory_bytes(&self) -> u64 {
        self.instance_bytes.saturating_add(self.cached_bytes).saturating_add(self.held_bytes)
    }
}

/// A plugin at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginOverview {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: Phase,
    /// Why it is not ready or not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Version of the component.
    #[serde(default)]
    pub version: String,
    /// Total of its queues.
    #[serde(default)]
    pub queue: QueueDepth,
    /// Maximum concurrent runs.
    #[serde(default, rename = "workers")]
    pub n_workers: usize,
    /// Runs since it was loaded.
    #[serde(default)]
    pub runs: RunCounts,
    /// Runs per second in the last ten seconds.
    #[serde(default)]
    pub runs_per_second: f64,
    /// Faults since it was loaded, in runs and mappings.
    #[serde(default, rename = "faults")]
    pub n_faults: u64,
    /// Durations of the runs of the last minute; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Quantiles>,
    /// Number of instances.
    #[serde(default, rename = "instances")]
    pub n_instances: usize,
    /// Memory of these instances.
    #[serde(default)]
    pub instance_bytes: u64,
    /// Bytes that its watches keep in the caches; shares with other plugins count in full.
    #[serde(default)]
    pub cached_bytes: u64,
    /// Objects that its watches keep in the caches.
    #[serde(default, rename = "cachedObjects")]
    pub n_cached: usize,
    /// Bytes that the host holds for its runs.
    #[serde(default)]
    pub held_bytes: u64,
    /// Sum of these bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// The last fault, declared error or failed write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Values of the last minutes, the oldest first, in lists of the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Series {
    /// Age of each value.
    pub seconds_ago: Vec<f64>,
    /// Runs per second since the previous value.
    pub runs_per_second: Vec<f64>,
    /// Faults per second since the previous value.
    pub faults_per_second: Vec<f64>,
    /// Keys that waited for a worker.
    pub ready: Vec<u32>,
    /// Keys in progress.
    pub running: Vec<u32>,
    /// Median duration of the runs since the previous value; absent if there were none.
    pub p50_seconds: Vec<Option<f64>>,
    /// 99th percentile of these runs.
    pub p99_seconds: Vec<Option<f64>>,
    /// Memory.
    pub memory_bytes: Vec<u64>,
}

/// Rounds to four significant digits, which keeps numbers short in text.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    // In range: a finite number has at most 308 digits.
    #[allow(clippy::cast_possible_truncation, reason = "the logarithm of a finite number is between -324 and 309")]
    let digits = 3 - value.abs().log10().floor() as i32;
    if digits > 300 {
        return 0.0;
    }
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// The first [`MAX_MESSAGE_BYTES`] of a message.
pub fn shortened(message: &str) -> String {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    format!("{}...", &message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_messages_end() {
        for (value, short) in
            [(0.0, 0.0), (1234.56, 1235.0), (0.000_123_456, 0.000_123_5), (f64::NAN, 0.0), (1e-320, 0.0)]
        {
            assert!((rounded(value) - short).abs() < 1e-12, "{value}: {}", rounded(value));
        }
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(MAX_MESSAGE_BYTES));
        assert!(long.len() <= MAX_MESSAGE_BYTES + 3 && long.ends_with("ä..."), "{}", long.len());
    }

    #[test]
    fn runs_are_counted_by_the_words_of_the_metric() {
        let mut runs = RunCounts::default();
        for result in ["success", "requeue_after", "error", "terminal_error", "fault", "fault"] {
            runs.count(result);
        }
        let expected = RunCounts { success: 1, requeue_after: 1, error: 1, terminal_error: 1, fault: 2 };
        assert_eq!((runs, runs.total(), runs.failed()), (expected, 6, 4));
    }

    #[test]
    fn a_client_reads_a_host_that_sends_other_fields() {
        let text = r#"{"plugins": [{"name": "a", "phase": "Running", "news": 1}], "more": {}}"#;
        let overview: Overview = serde_json::from_str(text).unwrap();
        assert_eq!(overview.plugins[0].name, "a");
        assert_eq!(overview.plugins[0].latency, None);
    }
}
