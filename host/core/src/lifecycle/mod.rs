//! The life of a plugin while the host runs: what an operator says of it, how a new version takes over, and what is told of it.
//!
//! ```text
//! spec + component ──> validate ──> compile ──> sync ──> shadow? ──> switch ──> probation ──> proven
//!                        └──────────┴───────────┴─────────┴─> refused             └─> rolled back
//! ```
//!
//! The shapes here are those of the `ControllerPlugin` resource, of files beside components in a plugin folder, and of the admin
//! API: three ways in, one vocabulary.
//!
//! Not here: carrying any of it out (`pintle-runtime`), where components come from (`pintle`).

pub mod comparison;
pub mod probation;
pub mod seen;
pub mod supervisor;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::manifest::{Grant, Limits};
use crate::object::id::Kind;

/// The resource by which a cluster says what a host runs, cluster-scoped; its name is the plugin's. Events about plugins are about
/// it, whether it is there or not.
pub fn resource_kind() -> Kind {
    Kind::new("pintle.dev", "v1alpha1", "ControllerPlugin")
}

/// What the operator says of one plugin, besides where its component comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Spec {
    /// SHA-256 of the component in hexadecimal, with or without `sha256:` before it. Another component is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its settings: an object, or null for the defaults.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub config: serde_json::Value,
    /// What it may read and write. Absent: what its manifest asks for, but only where the host was told to grant that
    /// (see `ungranted` for what is asked for and not given).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<Grant>>,
    /// What becomes of a component that asks for more than it is given.
    pub ungranted: Ungranted,
    /// Limits in place of the manifest's.
    pub limits: Limits,
    /// How a new version takes over.
    pub strategy: Strategy,
    /// What repeated faults lead to.
    pub failure_policy: FailurePolicy,
    /// Does not run, but stays loaded.
    pub disabled: bool,
}

/// What becomes of a component that asks for more than it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ungranted {
    /// It is not loaded.
    #[default]
    Refuse,
    /// It runs; each write that is not granted is refused when it comes. Watches must be granted all the same.
    Deny,
}

/// How a new version takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Strategy {
    /// Run it beside the old one first; what it wants is compared and never written. Absent: switch at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadow>,
    /// When it counts as proven, and when it is rolled back.
    pub probation: Probation,
    /// Longest wait for the caches of watches that the old version did not have, in milliseconds. Default 60,000. Then the new
    /// version is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_timeout_ms: Option<u32>,
}

/// Old and new version run on the same views; only what the old one wants is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Shadow {
    /// Runs that are compared. Default 100.
    pub runs: u32,
    /// Shadowing ends after so many milliseconds, however many runs there were; 0: it waits for the runs. Default 60,000.
    pub for_ms: u32,
    /// Runs that may differ. More of them, or any fault of the new version, and it is refused. Default 0.
    pub max_differences: u32,
}

impl Default for Shadow {
    fn default() -> Self {
        Self { runs: 100, for_ms: 60_000, max_differences: 0 }
    }
}

/// The time in which a new version is watched. It is proven when both the runs and the time are over; until then the version
/// before it stays compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Probation {
    /// Default 100.
    pub runs: u32,
    /// Default 60,000.
    pub for_ms: u32,
    /// Faults (writes that are not granted included) that are still borne; one more rolls back. Default 2.
    pub max_faults: u32,
    /// Of at least 20 runs, at most so many per cent may fail for other reasons than conflicts, unless the version before
    /// failed as often. Default 50.
    pub max_error_percent: u32,
}

impl Default for Probation {
    fn default() -> Self {
        Self { runs: 100, for_ms: 60_000, max_faults: 2, max_error_percent: 50 }
    }
}

/// What repeated faults of a plugin lead to. The faulting keys back off under each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// Nothing else.
    Retry,
    /// The plugin pauses, longer each time.
    #[default]
    Quarantine,
    /// The plugin stops until somebody enables it.
    Disable,
}

/// What a plugin is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its caches fill.
    Starting,
    /// It takes keys.
    Running,
    /// It pauses because of repeated faults.
    Quarantined,
    /// It takes no keys until somebody enables it.
    Disabled,
}

/// How far a new version has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Contract, imports, manifest, grants, limits.
    Validating,
    /// Machine code is made.
    Compiling,
    /// The caches of its watches fill.
    Syncing,
    /// It runs beside the old version.
    Shadowing,
    /// It runs, and is watched.
    Probation,
}

/// A version of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// As its manifest says.
    pub version: String,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// Where the component came from: a path, `built-in NAME`, ...
    pub origin: String,
    /// When it took over: RFC 3339.
    pub since: String,
}

/// How a swap ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwapResult {
    /// The new version runs, and is on probation.
    Switched,
    /// The new version runs and is proven.
    Proven,
    /// The new version never ran.
    Refused,
    /// The new version ran and the old one has taken over again.
    RolledBack,
}

/// The last attempt to replace a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapReport {
    /// The version before, absent if the plugin was new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<VersionInfo>,
    /// The version that was to take over; absent if the component could not even be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<VersionInfo>,
    /// How it ended.
    pub result: SwapResult,
    /// One word in CamelCase: `Requested`, `FaultsInProbation`, `ShadowDiffers`, `NotGranted`, `DigestMismatch`, ...
    pub reason: String,
    /// For humans.
    pub message: String,
    /// When it ended: RFC 3339.
    pub at: String,
    /// How long no key of the plugin could be taken, in microseconds.
    pub pause_micros: u64,
}

/// A condition, as `metav1.Condition` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Ready` (takes keys, caches filled), `Healthy` (no recent fault), `Progressing` (a version is about to take over).
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word in CamelCase.
    pub reason: String,
    /// For humans.
    pub message: String,
    /// RFC 3339.
    pub last_transition_time: String,
}

/// Where the outcome of a new version differs from that of the old one, for one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The key.
    pub key: String,
    /// When: RFC 3339.
    pub at: String,
    /// What the old version wanted.
    pub old: serde_json::Value,
    /// What the new version wanted.
    pub new: serde_json::Value,
}

/// What shadowing has shown so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    /// Runs that were compared.
    pub n_runs: u32,
    /// Runs that differed.
    pub n_differences: u32,
    /// Runs that were not compared, because the comparison of earlier ones was still going on.
    pub n_skipped: u32,
    /// Some of the differences.
    pub differences: Vec<Difference>,
}

/// Faults by kind.
pub type Faults = BTreeMap<String, u64>;
