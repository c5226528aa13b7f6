//! The timer of a Pod.

use pintle_sdk::Outcome;
use plugin_lib::state::Record;
use serde::{Deserialize, Serialize};

/// When a Pod is deleted.
#[doc(alias = "TimedWorker")]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Timer {
    /// `metadata.uid` of the Pod.
    pub(crate) uid: String,
    /// In seconds since the host started.
    pub(crate) due: f64,
    /// Whether the deletion has begun, so that it can no longer be cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fired: bool,
}

/// Stores the timer, or removes the last one.
pub(crate) fn store(record: &Record<Timer>, timer: Option<&Timer>, outcome: Outcome) -> Outcome {
    match timer {
        Some(timer) => record.keep(outcome, timer),
        None => record.forget(outcome),
    }
}
