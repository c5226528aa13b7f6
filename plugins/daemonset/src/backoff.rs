//! Backoff of Nodes on which a DaemonSet's Pods fail: 1 s, doubled each time, at most 15 min.
//!
//! *Flow*: one state entry for each DaemonSet, with times since the start of the host.
//!
//! *Invariants*
//! 1. The delays belong to a DaemonSet and to its observed generation: a change of the DaemonSet resets them.
//! 2. A delay that was unused for half an hour starts again.
//!
//! *Source*: daemon_controller.go, client-go's util/flowcontrol/backoff.go.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::{Lister, ObjectKey, Outcome};
use plugin_lib::backoff::Exponential;
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::types::DaemonSet;

const BACKOFF: Exponential = Exponential { first: Duration::from_secs(1), longest: Duration::from_secs(15 * 60) };

/// Delays of the Nodes of one DaemonSet, in one run.
#[doc(alias = "failedPodsBackoff")]
#[derive(Debug)]
pub(crate) struct Backoff {
    record: ObjectRecord<Kept>,
    uid: String,
    kept: Kept,
    /// Seconds since the start of the host.
    now: f64,
    /// The shortest delay of a waiting Node.
    delay: Option<f64>,
}

/// The stored delays, and their generation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Kept {
    generation: i64,
    nodes: BTreeMap<String, Entry>,
}

/// The delay of a Node in seconds, and when it was set.
#[doc(alias = "backoffEntry")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
struct Entry {
    delay: f64,
    since: f64,
}

impl Entry {
    #[doc(alias = "hasExpired")]
    fn is_expired(self, now: f64) -> bool {
        now - self.since > 2.0 * BACKOFF.longest.as_secs_f64()
    }
}

/// The record of a DaemonSet.
pub(crate) fn record(lister: &impl Lister, object: &ObjectKey) -> ObjectRecord<Kept> {
    ObjectRecord::of(lister, "failed-pods", object)
}

impl Backoff {
    /// Reads the delays of a DaemonSet.
    #[doc(alias = "failedPodsBackoffKey")]
    pub(crate) fn read(lister: &impl Lister, set: &DaemonSet) -> Self {
        let record = record(lister, &set.metadata.key());
        let (uid, generation) = (set.metadata.uid.clone(), set.status.observed_generation);
        let kept = record.of_uid(&uid).filter(|kept| kept.generation == generation).cloned();
        let kept = kept.unwrap_or(Kept { generation, ..Kept::default() });
        Self { record, uid, kept, now: lister.uptime().as_secs_f64(), delay: None }
    }

    /// Whether the Pod of a Node failed too soon after the previous one.
    #[doc(alias = "IsInBackOffSinceUpdate")]
    pub(crate) fn is_waiting(&mut self, node: &str) -> bool {
        let entry = self.kept.nodes.get(node).filter(|entry| !entry.is_expired(self.now));
        let Some(Entry { delay, .. }) = entry.filter(|entry| self.now - entry.since < entry.delay).copied() else {
            return false;
        };
        self.delay = Some(self.delay.map_or(delay, |shortest| shortest.min(delay)));
        true
    }

    /// Sets the next delay of a Node.
    #[doc(alias = "Next", alias = "GC")]
    pub(crate) fn next(&mut self, node: &str) {
        let now = self.now;
        self.kept.nodes.retain(|_, entry| !entry.is_expired(now));
        let last = self.kept.nodes.get(node).and_then(|entry| Duration::try_from_secs_f64(entry.delay).ok());
        let entry = Entry { delay: BACKOFF.next(last).as_secs_f64(), since: now };
        self.kept.nodes.insert(node.to_owned(), entry);
    }

    /// Delay until the DaemonSet should run again for waiting Nodes.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay.map(|delay| Duration::try_from_secs_f64(delay).unwrap_or_default())
    }

    /// Stores the delays.
    pub(crate) fn keep(self, outcome: Outcome) -> Outcome {
        match self.kept.nodes.is_empty() {
            true => self.record.forget(outcome),
            false => self.record.keep_of(outcome, &self.uid, self.kept),
        }
    }
}
