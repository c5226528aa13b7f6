//! What the admin API says: the shapes of its JSON, for both of its ends.
//!
//! *Invariant*: fields are added, never renamed: the command line of one version speaks to hosts of others.

use std::time::Duration;

use pintle_core::lifecycle::{ShadowReport, Spec};
use pintle_oci::{Proof, Reason};
use pintle_runtime::manager::SwapError;
pub use pintle_runtime::manager::{PluginStatus, QueueStatus};
use serde::{Deserialize, Serialize};

/// All plugins, and what could not be loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listing {
    /// By name.
    pub items: Vec<PluginStatus>,
    /// What a source asks for and the host does not do, also of plugins that do not run at all.
    pub problems: Vec<Problem>,
}

/// What a source asks for and the host does not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The plugin that it is about.
    pub plugin: String,
    /// Who asks: a path, or `ControllerPlugin NAME`.
    pub source: String,
    /// One word in CamelCase.
    pub reason: String,
    /// For humans.
    pub message: String,
    /// Since when: RFC 3339.
    pub since: String,
}

/// One plugin, with what is wrong about its sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Absent if nothing of this name runs, and there are only problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginStatus>,
    /// What sources ask for and the host does not do.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// A component to load, or to swap in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApplyRequest {
    /// Where the client has it from; for humans.
    pub origin: String,
    /// Its bytes, in base64.
    pub component: String,
    /// What the operator says of it. Absent: as the version that runs has it, or the defaults for a new plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Spec>,
    /// Takes the place of parts of the spec, this time.
    #[serde(default)]
    pub overrides: Overrides,
    /// What can be shown for it, to a host that asks for signatures.
    #[serde(default, skip_serializing_if = "Proof::is_empty")]
    pub proof: Proof,
}

/// Parts of a spec that hold for one swap.
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
}

impl Overrides {
    /// Nothing is different.
    pub const NONE: Self = Self {
        digest: None,
        shadow_runs: None,
        shadow_for_ms: None,
        max_differences: None,
        probation_runs: None,
        probation_for_ms: None,
        max_faults: None,
    };

    /// Takes the place of parts of this spec.
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
    }
}

fn set(field: &mut u32, value: Option<u32>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Why a plugin is to stop.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct DisableRequest {
    /// For humans.
    pub why: String,
}

/// What shadowing has shown; absent if there was none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiffAnswer {
    /// Of the last or present shadowing.
    pub shadow: Option<ShadowReport>,
}

/// The last runs of a plugin that failed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureList {
    /// The last one first.
    pub items: Vec<Failure>,
}

/// A run that failed, and how often it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Of this host, as long as it runs.
    pub id: u64,
    /// Of the run.
    pub key: FailureKey,
    /// The kind of the fault, or `retry` or `terminal` for what the plugin itself declared.
    pub failure: String,
    /// For humans.
    pub message: String,
    /// The same failure of the same key, the first included.
    pub times: u64,
    /// The time that the first of them saw: RFC 3339.
    pub first: String,
    /// The time that the last one saw.
    pub last: String,
    /// Failures of the key in a row before the first.
    #[serde(default)]
    pub attempt: u32,
    /// Of the plugin.
    pub version: String,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// Objects that were read.
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
    /// Empty for what lives in none.
    #[serde(default)]
    pub namespace: String,
    /// Of the object.
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

    /// `NAMESPACE/NAME`, or `NAME` for what lives in no namespace.
    pub fn object(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// A run that failed, with all that is needed to have it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedFailure {
    /// How it failed.
    pub failure: Failure,
    /// The input of a case.
    pub input: serde_json::Value,
    /// What the plugin logged; of very much the end.
    #[serde(default)]
    pub log: Vec<LoggedLine>,
    /// Values that are masked.
    #[serde(default)]
    pub masked: usize,
    /// Sentences: what the run saw and the input does not hold.
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

/// Nothing was changed, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// One word in CamelCase.
    pub reason: String,
    /// For humans.
    pub message: String,
}

impl Refusal {
    /// A refusal with this reason and message.
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    /// After which time the same may be taken, although nothing about it has changed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.reason.as_str() {
            reason::BUSY => Some(Duration::from_secs(1)),
            // A permission of the host may be missing, or the server be away.
            reason::NOT_SYNCED => Some(Duration::from_secs(30)),
            reason => reason.parse::<Reason>().ok()?.retry_after(),
        }
    }

    /// Whether somebody else's swap of the plugin is in the way, which says nothing about this one.
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

/// Reasons that this end gives; the manager and [`pintle_oci::Reason`] have more.
pub mod reason {
    use pintle_oci::Reason;

    /// Another swap of this plugin is under way.
    pub const BUSY: &str = "Busy";
    /// The caches of new watches could not be filled.
    pub const NOT_SYNCED: &str = "NotSynced";
    /// There is no such plugin, or no such failure of it.
    pub const NOT_FOUND: &str = "NotFound";
    /// There is one of this name.
    pub const ALREADY_LOADED: &str = "AlreadyLoaded";
    /// Another source says what runs under this name.
    pub const CLAIMED: &str = "Claimed";
    /// The request does not make sense.
    pub const INVALID: &str = "Invalid";
    /// The caller may not do this.
    pub const FORBIDDEN: &str = "Forbidden";
    /// The component is longer than the host takes.
    pub const TOO_LARGE: &str = Reason::TooLarge.as_str();
    /// The component cannot be read.
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
    fn overrides_change_what_they_name_and_nothing_else() {
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
