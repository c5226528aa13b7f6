//! State of an autoscaler: recommendations, and past scale changes.
//!
//! All times are from the monotonic clock, so that a step of the wall clock scales nothing. The state is lost when the
//! host stops, as upstream's is.

use pintle_sdk::Kind;
use pintle_sdk::api::is_default;
use serde::{Deserialize, Serialize};

use crate::types::Status;

/// Most entries of a list: an hour, the longest window, of recommendations of each second, plus a reserve. The oldest
/// are dropped first.
const MAX_ENTRIES: usize = 4096;

/// State of one autoscaler. Entries are in upstream's order: a new one replaces an old one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Memory {
    /// `None` before the first read of the target.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) recommendations: Option<Vec<Recommendation>>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) ups: Vec<Change>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) downs: Vec<Change>,
    /// The last desired number of replicas, for the metric.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) desired: Option<i32>,
    /// A change that was sent; the next run checks whether it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) sent: Option<Sent>,
    /// The inputs of the last check that found no overlap with other autoscalers; see [`crate::overlap`].
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) without_rivals: Option<String>,
}

/// Time in seconds, and number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recommendation(pub(crate) f64, pub(crate) i32);

/// Time in seconds, change of replicas, and whether it may be replaced by another entry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change(pub(crate) f64, pub(crate) i32, #[serde(default)] pub(crate) bool);

/// A change of the number of replicas, with everything needed to send it again, or to report its failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sent {
    /// Uid of the autoscaler.
    pub(crate) uid: String,
    /// Kind of the target.
    pub(crate) kind: Kind,
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) reason: String,
    pub(crate) at: f64,
    /// The longest period of the policies, in seconds; absent without a behavior, which needs no history.
    pub(crate) period: Option<i32>,
    /// Whether some of the metrics failed.
    pub(crate) with_error: bool,
    /// The status before the change.
    pub(crate) status: Status,
}

impl Memory {
    /// Adds a recommendation, in place of the last one that is too old, if any.
    pub(crate) fn recommend(&mut self, now: f64, replicas: i32, is_old: impl Fn(f64) -> bool) {
        let all = self.recommendations.get_or_insert_default();
        put(all, Recommendation(now, replicas), |one| is_old(one.0), |one| one.0);
    }

    /// Records that the sent change succeeded.
    #[doc(alias = "storeScaleEvent")]
    pub(crate) fn confirm(&mut self) {
        let Some(sent) = self.sent.take() else { return };
        self.desired = Some(sent.to);
        let Some(period) = sent.period else { return };
        let list = if sent.to > sent.from { &mut self.ups } else { &mut self.downs };
        let cutoff = sent.at - f64::from(period);
        for change in list.iter_mut().filter(|change| change.0 < cutoff) {
            change.2 = true;
        }
        let by = sent.to.saturating_sub(sent.from).saturating_abs();
        put(list, Change(sent.at, by, false), |one| one.2, |one| one.0);
    }
}

fn put<T>(list: &mut Vec<T>, new: T, is_old: impl Fn(&T) -> bool, time: impl Fn(&T) -> f64) {
    let oldest = || list.iter().enumerate().min_by(|(_, a), (_, b)| time(a).total_cmp(&time(b))).map(|(i, _)| i);
    let place = list.iter().rposition(is_old).or_else(|| if list.len() < MAX_ENTRIES { None } else { oldest() });
    match place {
        Some(place) => list[place] = new,
        None => list.push(new),
    }
}
