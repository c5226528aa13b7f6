//! What is remembered from one run of a namespace to the next.
//!
//! Deleting and looking at what remains are two runs, because a run cannot read after it has written.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_sdk::{Lister, Outcome, json};
use serde::{Deserialize, Serialize};

use crate::conditions::Findings;

/// First and longest delay after rounds that failed.
const BASE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(60);

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
    /// Uid of the namespace; a new one with the same name starts from the beginning.
    uid: String,
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

impl Round {
    fn name(namespace: &str) -> String {
        format!("round/{namespace}")
    }

    /// What the run before has kept.
    pub(crate) fn read(lister: &impl Lister, namespace: &str, uid: &str) -> Self {
        lister
            .state(&Self::name(namespace))
            .and_then(|text| serde_json::from_str::<Self>(&text).ok())
            .filter(|round| round.uid == uid)
            .unwrap_or_else(|| Self { uid: uid.to_owned(), ..Self::default() })
    }

    /// Keeps it for the next run.
    pub(crate) fn keep(&self, outcome: Outcome, namespace: &str) -> Outcome {
        outcome.keep(Self::name(namespace), json(self))
    }

    /// An outcome that forgets it, if there is anything to forget.
    pub(crate) fn forget(lister: &impl Lister, namespace: &str) -> Outcome {
        let name = Self::name(namespace);
        if lister.state(&name).is_some() { Outcome::new().forget(name) } else { Outcome::new() }
    }

    /// Delay before the next round after one that failed.
    pub(crate) fn backoff(&self) -> Duration {
        2_u32.checked_pow(self.failed).map_or(LONGEST, |factor| BASE.saturating_mul(factor).min(LONGEST))
    }
}
