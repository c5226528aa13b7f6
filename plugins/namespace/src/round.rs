//! State of a namespace between runs.
//!
//! Deleting and checking what remains are two runs, because a run cannot read after it has written.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_sdk::{Lister, ObjectKey};
use plugin_lib::backoff::Exponential;
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::conditions::Findings;

/// Delays after failed rounds.
#[doc(alias = "nsControllerRateLimiter")]
const BACKOFF: Exponential = Exponential { first: Duration::from_millis(5), longest: Duration::from_secs(60) };

/// Resources that are deleted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// Pods, before anything else.
    Pods,
    /// Everything else, when no Pod is left.
    Rest,
}

/// The finished parts of a round, with their results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parts {
    /// The last resource by name, as `plural.group`.
    pub(crate) after: String,
    /// Seconds after which the remaining objects may be deleted.
    pub(crate) seconds: i64,
    /// Resources with remaining objects.
    pub(crate) left: BTreeSet<String>,
    /// Findings to report.
    pub(crate) findings: Findings,
}

/// Progress of a namespace's deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Round {
    /// The stage that the previous run deleted: objects that remain now have a reason.
    pub(crate) swept: Option<Stage>,
    /// Number of previous runs that deleted.
    pub(crate) sweeps: u32,
    /// Consecutive failed rounds.
    pub(crate) failed: u32,
    /// Versions whose discovery failed in this round; `None` before the discovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) discovered: Option<Vec<String>>,
    /// Resources with remaining objects after the last round, as `plural.group`. Others are not listed before these are
    /// empty.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) left: BTreeSet<String>,
    /// Why Pods could be neither listed nor deleted in this round, which then does not wait for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
    /// The finished parts of this round, if there are more kinds than one run can list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<Parts>,
    /// Whether the last round found and reported nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) emptied: bool,
}

/// The record of a namespace.
pub(crate) fn record(lister: &impl Lister, namespace: &str) -> ObjectRecord<Round> {
    ObjectRecord::of(lister, "round", &ObjectKey::new("", namespace))
}

impl Round {
    /// Delay before the next round after a failed one.
    pub(crate) fn backoff(&self) -> Duration {
        BACKOFF.after(self.failed.saturating_add(1))
    }
}
