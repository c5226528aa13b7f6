//! Owners that the API server has said to be gone, so that a thousand dependents ask once.
//!
//! A uid never comes back, so an entry never becomes wrong. Runs at the same time may overwrite each other's entries;
//! that costs a read.

use pintle_sdk::{Lister, Outcome};

const STATE: &str = "absent-owners";

/// How many uids are kept. Upstream keeps 500; a list of these is parsed whenever an owner is missing.
const MOST: usize = 64;

/// What is known, and what a run has learned.
pub(crate) struct Absent {
    uids: Vec<String>,
    learned: bool,
}

impl Absent {
    pub(crate) fn load(lister: &impl Lister) -> Self {
        let uids = lister.state(STATE).map(|text| text.split(' ').map(str::to_owned).collect()).unwrap_or_default();
        Self { uids, learned: false }
    }

    pub(crate) fn has(&self, uid: &str) -> bool {
        self.uids.iter().any(|known| known == uid)
    }

    pub(crate) fn learn(&mut self, uid: &str) {
        self.uids.push(uid.to_owned());
        self.learned = true;
    }

    pub(crate) fn keep(self, outcome: Outcome) -> Outcome {
        if !self.learned {
            return outcome;
        }
        let first = self.uids.len().saturating_sub(MOST);
        outcome.keep(STATE, self.uids[first..].join(" "))
    }
}
