//! JSON types of the admin API, for server and client.
//!
//! *Invariant*: fields are added, never renamed, because command lines work with hosts of other versions.

use std::time::Duration;

use pintle_core::lifecycle::{ShadowReport, Spec};
pub use pintle_core::overview::Overview;
use pintle_oci::{Proof, Reason};
use pintle_runtime::manager::SwapError;
pub use pintle_runtime::manager::{FaultingKey, KeyContents, PluginStatus, QueueContents, QueueStatus};
pub use pintle_runtime::overview::PluginDetail;
use serde::{Deserialize, Serialize};

/// All plugins, and problems of sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listing {
    /// Plugins by name.
    pub items: Vec<PluginStatus>,
    /// Rejected requests of sources, including those for plugins that do not run.
    pub problems: Vec<Problem>,
    /// Built-in controllers that `--controllers` enables and the host does not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_started: Vec<NotStarted>,
}

/// A built-in controller that the host does not start, which is not an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotStarted {
    /// Name of the plugin.
    pub plugin: String,
    /// Reason as one word in CamelCase: `OffByDefault`, `Flag`, `FeatureGate`, `MissingSetting`, `MissingInput`.
    pub reason: String,
    /// What is missing, and how to provide it.
    pub message: String,
}

/// A request of a source that the host rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Name of the plugin.
    pub plugin: String,
    /// The source: a path, or `ControllerPlugin NAME`.
    pub source: String,
    /// Reason as one word in CamelCase.
    pub reason: String,
    /// Message for humans.
    pub message: String,
    /// First occurrence: RFC 3339.
    pub since: String,
}

/// One plugin, with the problems of its sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Absent if no plugin of this name runs, and there are only problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginStatus>,
    /// Rejected requests of sources.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// A component to load, or to swap in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApplyRequest {
    /// Origin at the client, for humans.
    pub origin: String,
    /// Its bytes, in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// Instead of bytes: the name of a built-in plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<String>,
    /// The operator's spec. If absent: that of the running version, or the defaults for a new plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Spec>,
    /// Overrides parts of the spec, for this swap only.
    #[serde(default)]
    pub overrides: Overrides,
    /// Proof of signatures, for hosts that require them.
    #[serde(default, skip_serializing_if = "Proof::is_empty")]
    pub proof: Proof,
}

/// Parts of a spec that apply to one swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "as in `lifecycle::Spec`")]
pub struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow_runs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow_for_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_differences: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probation_runs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probation_for_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_faults: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_error_percent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_deletions: Option<u32>,
}

impl Overrides {
    /// Whether nothing is overridden.
    pub const NONE: Self = Self {
        digest: None,
        shadow_runs: None,
        shadow_for_ms: None,
        max_differences: None,
        probation_runs: None,
        probation_for_ms: None,
        max_faults: None,
        max_error_percent: None,
        max_deletions: None,
    };

    /// Applies the overrides to this spec.
    pub fn put_over(&self, spec: &mut Spec) {
        if self.digest.is_some() {
            spec.digest.clone_from(&self.digest);
        }
        let strategy = &mut spec.strategy;
        if self.shadow_runs.is_some() || self.shadow_for_ms.is_some() || self.max_differences.is_some() {
            let shadow = strategy.shadow.get_or_insert_default();
            set(&mut shadow.runs, self.shadow_runs);
            set(&mut shadow.for_ms, self.shadow_for_ms);
            set(&mut shadow.max_differences, self.max_differences);
        }
        set(&mut strategy.probation.runs, self.probation_runs);
        set(&mut strategy.probation.for_ms, self.probation_for_ms);
        set(&mut strategy.probation.max_faults, self.max_faults);
        set(&mut strategy.probation.max_error_percent, self.max_error_percent);
        set(&mut strategy.probation.max_deletions, self.max_deletions);
    }
}

fn set(field: &mut u32, value: Option<u32>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// The reason to disable a plugin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct DisableRequest {
    /// Reason for humans.
    pub why: String,
}

/// Result of a shadow run; absent if there was none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiffAnswer {
    /// Report of the last or current shadow run.
    pub shadow: Option<ShadowReport>,
}

/// The last failed runs of a plugin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureList {
    /// The last one first.
    pub items: Vec<Failure>,
}

/// A failed run, and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Number of the failure, unique in this process of the host.
    pub id: u64,
    /// Key of the run.
    pub key: FailureKey,
    /// The kind of the fault, or `retry` or `terminal` for errors that the plugin declared.
    pub failure: String,
    /// Message for humans.
    pub message: String,
    /// Occurrences of this failure of the key, including the first.
    pub times: u64,
    /// Start time of the first run: RFC 3339.
    pub first: String,
    /// Start time of the last run.
    pub last: String,
    /// Consecutive failures of the key before the first run.
    #[serde(default)]
    pub attempt: u32,
    /// Version of the plugin.
    pub version: String,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// Number of objects that the run read.
    #[serde(default)]
    pub objects: usize,
}

/// A key of a work queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureKey {
    /// Its queue.
    pub queue: String,
    /// `apps/v1/Deployment`.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl FailureKey {
    /// Whether this is the key of the object `NAME`, or `NAMESPACE/NAME`.
    pub fn is(&self, wanted: &str) -> bool {
        match wanted.split_once('/') {
            Some((namespace, name)) => self.namespace == namespace && self.name == name,
            None => self.name == wanted,
        }
    }

    /// `NAMESPACE/NAME`, or `NAME` for a cluster-scoped object.
    pub fn object(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// A failed run, with everything that a replay needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedFailure {
    /// The failure.
    pub failure: Failure,
    /// The input of a case.
    pub input: serde_json::Value,
    /// The plugin's log; only the last lines of a long one.
    #[serde(default)]
    pub log: Vec<LoggedLine>,
    /// Number of masked values.
    #[serde(default)]
    pub masked: usize,
    /// Sentences: data that the run read and the input lacks.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// A line that a plugin logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggedLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Its text.
    pub message: String,
}

/// A rejected request. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Reason as one word in CamelCase.
    pub reason: String,
    /// Message for humans.
    pub message: String,
}

impl Refusal {
    /// Creates a refusal with this reason and message.
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    /// The delay after which the same request may succeed; `None` if it must change first.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.reason.as_str() {
            reason::BUSY => Some(Duration::from_secs(1)),
            // A permission of the host may be missing, or the server may be unavailable.
            reason::NOT_SYNCED | reason::NO_ANSWER => Some(Duration::from_secs(30)),
            reason => reason.parse::<Reason>().ok()?.retry_after(),
        }
    }

    /// Whether another swap of the plugin blocks this one; the request itself may be valid.
    pub fn is_busy(&self) -> bool {
        self.reason == reason::BUSY
    }
}

impl From<pintle_oci::Error> for Refusal {
    fn from(why: pintle_oci::Error) -> Self {
        Self::new(why.reason.as_str(), why.message)
    }
}

impl From<SwapError> for Refusal {
    fn from(error: SwapError) -> Self {
        Self::new(error.reason, error.message)
    }
}

/// Reasons of this crate; the manager and [`pintle_oci::Reason`] have more.
pub mod reason {
    use pintle_oci::Reason;

    /// Another swap of this plugin is in progress.
    pub const BUSY: &str = "Busy";
    /// The caches of new watches did not sync.
    pub const NOT_SYNCED: &str = "NotSynced";
    /// The file system does not respond.
    pub const NO_ANSWER: &str = "NoAnswer";
    /// The plugin, or its failure, does not exist.
    pub const NOT_FOUND: &str = "NotFound";
    /// A plugin with this name exists.
    pub const ALREADY_LOADED: &str = "AlreadyLoaded";
    /// Another source owns this name.
    pub const CLAIMED: &str = "Claimed";
    /// The command line of the host excludes this name.
    pub const EXCLUDED: &str = "Excluded";
    /// The plugin runs on another host, which leads.
    pub const STANDBY: &str = "Standby";
    /// The source may provide another component at any time, so the name does not identify a component.
    pub const UNPINNED: &str = "Unpinned";
    /// The component is older than the previous one, and only a signature admits it.
    pub const DOWNGRADE: &str = "Downgrade";
    /// The request is not valid.
    pub const INVALID: &str = "Invalid";
    /// The host cannot carry the request out.
    pub const INTERNAL: &str = "InternalError";
    /// The caller has no permission.
    pub const FORBIDDEN: &str = "Forbidden";
    /// The component exceeds the size limit.
    pub const TOO_LARGE: &str = Reason::TooLarge.as_str();
    /// The component is unreadable.
    pub const UNREADABLE: &str = Reason::Unreadable.as_str();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_delay_before_a_retry() {
        for (reason, seconds) in [
            ("Busy", Some(1)),
            ("NotSynced", Some(30)),
            ("NoAnswer", Some(30)),
            ("RegistryUnreachable", Some(30)),
            ("RegistryDenied", Some(300)),
            ("NoSuchArtifact", Some(300)),
            ("Unsigned", Some(300)),
            ("Untrusted", Some(300)),
            ("DigestMismatch", None),
            ("Claimed", None),
        ] {
            assert_eq!(Refusal::new(reason, "").retry_after(), seconds.map(Duration::from_secs), "{reason}");
        }
    }

    #[test]
    fn overrides_change_only_the_fields_that_they_set() {
        let mut spec = Spec { digest: Some("aa".into()), disabled: true, ..Spec::default() };
        spec.strategy.probation.runs = 7;
        let before = spec.clone();
        Overrides::default().put_over(&mut spec);
        assert_eq!(spec, before);
        Overrides { max_differences: Some(3), max_faults: Some(0), ..Overrides::default() }.put_over(&mut spec);
        let shadow = spec.strategy.shadow.clone().unwrap();
        assert_eq!((shadow.runs, shadow.for_ms, shadow.max_differences), (100, 60_000, 3));
        assert_eq!((spec.strategy.probation.runs, spec.strategy.probation.max_faults), (7, 0));
        assert_eq!((spec.digest.as_deref(), spec.disabled), (Some("aa"), true));
    }
}
