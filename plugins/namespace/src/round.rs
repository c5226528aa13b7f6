//! What is remembered from one run of a namespace to the next.
//!
//! Deleting and looking at what remains are two runs, because a run cannot read after it has written.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_sdk::{Lister, ObjectKey};
use plugin_lib::backoff::Exponential;
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::conditions::Findings;

/// Delays after rounds that failed.
const BACKOFF: Exponential = Exponential { first: Duration::from_millis(5), longest: Duration::from_secs(60) };

/// What is deleted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// Pods, before anything else.
    Pods,
    /// Everything else, when no Pod is left.
    Rest,
}

/// The kinds that were looked at already, and what they had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parts {
    /// The last of them by name, as `plural.group`.
    pub(crate) after: String,
    /// Seconds after which what is left may be gone.
    pub(crate) seconds: i64,
    /// Those of which something is left.
    pub(crate) left: BTreeSet<String>,
    /// What is to be reported.
    pub(crate) findings: Findings,
}

/// Progress of a namespace's deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Round {
    /// What the run before has deleted: of that, what is left now stays for a reason.
    pub(crate) swept: Option<Stage>,
    /// How often the runs before have deleted.
    pub(crate) sweeps: u32,
    /// Rounds in a row that ended with an error.
    pub(crate) failed: u32,
    /// The versions that failed in the discovery of this round; `None` before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) discovered: Option<Vec<String>>,
    /// Resources of which the last round left something, as `plural.group`. Others are not looked at before these are empty.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) left: BTreeSet<String>,
    /// Why Pods could be neither listed nor deleted in this round: it does not wait for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
    /// The parts of this round that are done, if there are more kinds than one run can list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<Parts>,
    /// Whether the last round found nothing at all, and reported that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) emptied: bool,
}

/// What is kept of a namespace.
pub(crate) fn record(lister: &impl Lister, namespace: &str) -> ObjectRecord<Round> {
    ObjectRecord::of(lister, "round", &ObjectKey::new("", namespace))
}

impl Round {
    /// Delay before the next round after one that failed.
    pub(crate) fn backoff(&self) -> Duration {
        BACKOFF.after(self.failed.saturating_add(1))
    }
}
