//! Delays of Nodes on which Pods of a DaemonSet fail: 1 s, doubled each time, at most 15 min.
//!
//! *Flow*: one text of the plugin's state for each DaemonSet, with the time since the start of the host.
//!
//! *Invariants*
//! 1. The delays belong to a DaemonSet and to the generation that it has observed: a change of the DaemonSet ends them.
//! 2. A delay that has not been used for half an hour begins again.
//!
//! *Source*: `failedPodsBackoff` of daemon_controller.go, client-go's util/flowcontrol/backoff.go.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::{Lister, ObjectKey, Outcome};
use serde::{Deserialize, Serialize};

use crate::types::DaemonSet;

const FIRST: f64 = 1.0;
const LONGEST: f64 = 15.0 * 60.0;

/// Delays of the Nodes of one DaemonSet, in one run.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// Where it is kept.
    state: String,
    kept: Kept,
    /// Seconds since the start of the host.
    now: f64,
    is_changed: bool,
    /// The shortest delay of a Node that waits.
    delay: Option<f64>,
}

/// The text.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Kept {
    uid: String,
    generation: i64,
    nodes: BTreeMap<String, Entry>,
}

/// The delay of a Node, and when it was set.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Entry {
    delay: f64,
    since: f64,
}

impl Entry {
    fn is_expired(self, now: f64) -> bool {
        now - self.since > 2.0 * LONGEST
    }
}

fn state_of(object: &ObjectKey) -> String {
    object.state_name("failed-pods")
}

impl Backoff {
    /// Reads the delays of a DaemonSet.
    pub(crate) fn read(lister: &impl Lister, set: &DaemonSet) -> Self {
        let state = state_of(&set.metadata.key());
        let kept = lister.state(&state);
        let was_kept = kept.is_some();
        let kept: Kept = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let (uid, generation) = (set.metadata.uid.clone(), set.status.observed_generation);
        let is_current = kept.uid == uid && kept.generation == generation;
        let nodes = if is_current { kept.nodes } else { BTreeMap::new() };
        let kept = Kept { uid, generation, nodes };
        Self { state, kept, now: lister.uptime().as_secs_f64(), is_changed: was_kept && !is_current, delay: None }
    }

    /// An outcome that only forgets the delays of a DaemonSet that is gone.
    pub(crate) fn forget(lister: &impl Lister, object: &ObjectKey) -> Outcome {
        let state = state_of(object);
        if lister.state(&state).is_some() { Outcome::new().forget(state) } else { Outcome::new() }
    }

    /// Whether the Pod of a Node failed too short a time after the one before it.
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
    pub(crate) fn next(&mut self, node: &str) {
        let entry = self.kept.nodes.entry(node.to_owned()).or_default();
        let is_new = entry.delay == 0.0 || entry.is_expired(self.now);
        let delay = if is_new { FIRST } else { (2.0 * entry.delay).min(LONGEST) };
        *entry = Entry { delay, since: self.now };
        self.is_changed = true;
    }

    /// When the DaemonSet should run again because of Nodes that wait.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay.map(|delay| Duration::try_from_secs_f64(delay).unwrap_or_default())
    }

    /// Keeps the delays, if they have changed.
    pub(crate) fn write(mut self, outcome: Outcome) -> Outcome {
        if !self.is_changed {
            return outcome;
        }
        let now = self.now;
        self.kept.nodes.retain(|_, entry| !entry.is_expired(now));
        if self.kept.nodes.is_empty() {
            outcome.forget(self.state)
        } else {
            outcome.keep(self.state, pintle_sdk::json(&self.kept))
        }
    }
}
