//! What the monitor keeps between its passes. It is lost when the host stops: the next process observes anew.

use std::collections::BTreeMap;

use pintle_sdk::{Lister, Outcome};
use plugin_lib::state::Record;
use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::lease::Awaited;
use crate::zones::Zones;

/// Name of the state entry.
const STATE: &str = "monitor";

/// The health of all Nodes, the zones, and the Lease that the cache must show first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// When the last pass began, in milliseconds since the host started.
    last: u64,
    #[doc(alias = "nodeHealthMap", alias = "knownNodeSet")]
    pub(crate) nodes: BTreeMap<String, Health>,
    pub(crate) zones: Zones,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) awaited: Option<Awaited>,
}

/// The entry as it was read.
pub(crate) struct Kept(Record<Memory>);

impl Kept {
    /// Reads the state, and begins a pass at `now`.
    pub(crate) fn read(lister: &impl Lister, now: u64, period: u64) -> (Self, Memory) {
        let record = Record::<Memory>::read(lister, STATE);
        let mut memory = record.get().cloned().unwrap_or_default();
        memory.begin(now, period);
        (Self(record), memory)
    }

    /// Stores the state.
    pub(crate) fn keep(&self, outcome: Outcome, memory: &Memory) -> Outcome {
        self.0.keep(outcome, memory)
    }
}

impl Memory {
    /// Silence counts only while this process observes: of a time without passes, because the host was paused or its
    /// caches did not show the writes of the last pass, no more than one period counts.
    fn begin(&mut self, now: u64, period: u64) {
        let elapsed = now.saturating_sub(self.last);
        if elapsed > period.saturating_mul(2) {
            let unobserved = elapsed - period;
            for health in self.nodes.values_mut() {
                health.probe = health.probe.saturating_add(unobserved);
            }
        }
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_pause_one_period_counts_as_silence() {
        let silence = |now: u64| {
            let health = Health { probe: 70_000, ..Health::default() };
            let mut memory = Memory { last: 100_000, nodes: [("n".to_owned(), health)].into(), ..Memory::default() };
            memory.begin(now, 5_000);
            now - memory.nodes["n"].probe
        };
        assert_eq!([105_000, 110_000].map(silence), [35_000, 40_000]);
        assert_eq!([110_001, 400_000, 4_000_000].map(silence), [35_000; 3], "a pause");
    }
}
