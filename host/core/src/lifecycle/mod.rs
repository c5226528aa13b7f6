//! Life cycle of a plugin in a running host: the operator's spec, the takeover by a new version, and the status.
//!
//! ```text
//! spec + component ──> validate ──> compile ──> sync ──> shadow? ──> switch ──> probation ──> proven
//!                        └──────────┴───────────┴─────────┴─> rejected            └─> rolled back
//! ```
//!
//! These types define the `ControllerPlugin` resource, the files in a plugin folder, and the admin API.
//!
//! Not here: the execution (`pintle-runtime`), sources of components (`pintle-sources`).

pub mod comparison;
pub mod deletions;
pub mod fields;
pub mod kinds;
pub mod probation;
pub mod read_set;
pub mod rollout;
pub mod success;
pub mod supervisor;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::manifest::{Grant, Limits};
use crate::object::id::Kind;

/// The cluster-scoped resource that declares a plugin of the same name. Events about plugins refer to it, even if it
/// does not exist.
pub fn resource_kind() -> Kind {
    Kind::new("pintle.dev", "v1alpha1", "ControllerPlugin")
}

/// The operator's spec of one plugin, without the source of its component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Spec {
    /// SHA-256 of the component in hexadecimal, with or without the prefix `sha256:`. A different component is
    /// rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Settings: an object, or null for the defaults.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub config: serde_json::Value,
    /// The reads and writes that the plugin is granted. If absent, the requests of its manifest, but only if the host
    /// is configured to grant them (`ungranted` applies to requests that are not granted).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<Grant>>,
    /// The treatment of a component that requests more than it is granted.
    pub ungranted: Ungranted,
    /// Limits that replace the manifest's.
    pub limits: Limits,
    /// The takeover by a new version.
    pub strategy: Strategy,
    /// Reaction to repeated faults.
    pub failure_policy: FailurePolicy,
    /// Whether the plugin is stopped, but stays loaded.
    pub disabled: bool,
}

/// The treatment of a component that requests more than it is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ungranted {
    /// It is rejected.
    #[default]
    Refuse,
    /// It runs; each write that is not granted is denied. Watches must be granted in any case.
    Deny,
}

/// The takeover by a new version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Strategy {
    /// Runs the new version in shadow mode first: its outcomes are compared and never written. If absent, it takes over
    /// immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadow>,
    /// When the version is proven, and when it is rolled back.
    pub probation: Probation,
    /// Maximum wait for the caches of new watches, in milliseconds; then the new version is rejected. Default 60,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_timeout_ms: Option<u32>,
}

/// The old and the new version run on the same views; only the old one's outcomes are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Shadow {
    /// Number of runs to compare. Default 100.
    pub runs: u32,
    /// Maximum duration of shadow mode in milliseconds, regardless of the number of runs; 0 means no limit. Default
    /// 60,000.
    pub for_ms: u32,
    /// Maximum runs that may differ. More differences, or any fault of the new version, reject it. Default 0.
    pub max_differences: u32,
}

impl Default for Shadow {
    fn default() -> Self {
        Self { runs: 100, for_ms: 60_000, max_differences: 0 }
    }
}

/// The probation of a new version. The version is proven when both the number of runs and the time are reached; until
/// then the previous version stays compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Probation {
    /// Number of runs. Default 100.
    pub runs: u32,
    /// Duration in milliseconds. Default 60,000.
    pub for_ms: u32,
    /// Maximum keys that fault (ungranted and repeating writes included) but did not with the previous version. One
    /// more rolls the version back, if the keys are in at least two namespaces, unless the plugin has keys in only one.
    /// If the plugin has fewer keys, all of them must fault. Default 2.
    pub max_faults: u32,
    /// Maximum percentage of runs, of at least 20, that may fail for reasons other than conflicts, unless the previous
    /// version failed as often. Default 50.
    pub max_error_percent: u32,
    /// Maximum objects that the version deletes in a minute, or would delete in shadow mode where the old version does
    /// not. More deletions are held until an operator confirms them, unless they are a small share. Default 5.
    pub max_deletions: u32,
    /// Maximum percentage of the plugin's own objects that the version deletes in a minute, if that is more than
    /// `maxDeletions`. Default 20.
    pub max_deletion_percent: u32,
}

impl Default for Probation {
    fn default() -> Self {
        Self {
            runs: 100,
            for_ms: 60_000,
            max_faults: 2,
            max_error_percent: 50,
            max_deletions: 5,
            max_deletion_percent: 20,
        }
    }
}

/// Reaction to faults of most keys in most namespaces. In any case, each faulting key backs off separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// No further reaction.
    Retry,
    /// The plugin is paused, longer each time.
    #[default]
    Quarantine,
    /// The plugin is stopped until it is enabled.
    Disable,
}

/// Phase of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its caches are not synced yet.
    Starting,
    /// Its caches are synced, but it runs nothing, because another host is the leader.
    Standby,
    /// It runs.
    Running,
    /// It is paused because of repeated faults.
    Quarantined,
    /// It is stopped until it is enabled.
    Disabled,
}

/// Stage of a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Checks of contract, imports, manifest, grants and limits.
    Validating,
    /// Compilation.
    Compiling,
    /// The caches of its watches are syncing.
    Syncing,
    /// It runs in shadow mode.
    Shadowing,
    /// It runs on probation.
    Probation,
}

/// Progress of a new version in its stage, and what is pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StageProgress {
    /// Runs so far, in shadow mode or on probation.
    pub n_runs: u32,
    /// Runs required by the stage; 0 if it does not count runs.
    pub wanted_runs: u32,
    /// Time until the stage may end (probation) or must end (caches, shadow mode), in milliseconds; absent without a
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// Kinds whose caches are not synced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsynced: Vec<String>,
}

/// A version of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// Version in its manifest.
    pub version: String,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// Origin of the component: a path, `built-in NAME` and so on.
    pub origin: String,
    /// Time of the takeover: RFC 3339.
    pub since: String,
}

/// Result of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwapResult {
    /// The new version runs, and is on probation.
    Switched,
    /// The new version runs and is proven.
    Proven,
    /// The new version never ran.
    Refused,
    /// The new version ran, and the old one has taken over again.
    RolledBack,
}

/// An attempt to replace a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapReport {
    /// The previous version; absent if the plugin was new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<VersionInfo>,
    /// The new version; absent if the component could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<VersionInfo>,
    /// The result.
    pub result: SwapResult,
    /// Reason as one word in CamelCase: `Requested`, `FaultsInProbation`, `ShadowDiffers`, `NotGranted`,
    /// `DigestMismatch` and so on.
    pub reason: String,
    /// For humans.
    pub message: String,
    /// Time of its end: RFC 3339.
    pub at: String,
    /// Time during which no key of the plugin could start, in microseconds.
    pub pause_micros: u64,
}

/// A condition, like `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Ready` (runs, caches synced), `Healthy` (no recent fault), `Progressing` (a new version is being applied). The
    /// following appear only while they are true: `Overridden` (an operator has changed what its source declares),
    /// `FieldsMissing` (declared fields do not exist) and `DeletionsHeld` (a version on probation would delete many
    /// objects).
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason as one word in CamelCase.
    pub reason: String,
    /// For humans.
    pub message: String,
    /// Last transition time: RFC 3339.
    pub last_transition_time: String,
}

/// A run in which the outcomes of the old and the new version differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The key.
    pub key: String,
    /// Time: RFC 3339.
    pub at: String,
    /// Outcome of the old version.
    pub old: serde_json::Value,
    /// Outcome of the new version.
    pub new: serde_json::Value,
}

/// Result of shadow mode so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShadowReport {
    /// Compared runs.
    pub n_runs: u32,
    /// Distinct keys of these runs.
    pub n_keys: u32,
    /// Runs in which at least one version has a write. Runs without writes are weak evidence.
    pub n_with_writes: u32,
    /// Objects that the new version would have deleted but the old one would not.
    pub n_deletions: u32,
    /// Runs with differences.
    pub n_differences: u32,
    /// Runs that were not compared, because earlier comparisons were still in progress.
    pub n_skipped: u32,
    /// Some of the differences.
    pub differences: Vec<Difference>,
}

impl ShadowReport {
    /// Summary of the comparison in one line.
    pub fn summary(&self) -> String {
        let Self { n_runs, n_keys, n_with_writes, n_differences, n_skipped, .. } = self;
        let skipped = if *n_skipped > 0 { format!(", {n_skipped} not compared") } else { String::new() };
        format!("{n_runs} runs of {n_keys} keys compared, {n_with_writes} with writes, {n_differences} differ{skipped}")
    }
}

/// Faults by kind.
pub type Faults = BTreeMap<String, u64>;
