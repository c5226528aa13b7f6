//! Whether the runs of a plugin succeed at all.
//!
//! A single key that fails does not show it: its object may be the cause. A plugin of which nothing has succeeded lately,
//! and most keys of which have failed since, does not do its work.
//!
//! Invariant: memory is bounded; one success ends the verdict.
//!
//! Not here: faults, which also pause a plugin (`supervisor`) and roll a version back (`probation`).

use std::collections::HashSet;
use std::hash::Hash;

/// Failed runs in a row before which nothing is concluded.
pub const MIN_RUNS: u64 = 3;
/// Maximum keys that are counted.
const MAX_KEYS: usize = 50_000;

/// The failed runs since the last one that succeeded.
#[derive(Clone, Debug)]
pub struct Successes<K> {
    failed: HashSet<K>,
    n_failed_runs: u64,
}

/// All runs of a plugin fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllFail {
    /// Failed runs since the last one that succeeded.
    pub n_runs: u64,
    /// Their keys.
    pub n_keys: usize,
}

impl<K> Default for Successes<K> {
    fn default() -> Self {
        Self { failed: HashSet::new(), n_failed_runs: 0 }
    }
}

impl<K: Clone + Eq + Hash> Successes<K> {
    /// Counts a run. A declared error and a failed write are failures, too.
    pub fn ran(&mut self, key: &K, failed: bool) {
        if !failed {
            self.n_failed_runs = 0;
            self.failed.clear();
            return;
        }
        self.n_failed_runs = self.n_failed_runs.saturating_add(1);
        if self.failed.len() < MAX_KEYS {
            self.failed.insert(key.clone());
        }
    }

    /// The failures, if all runs of a plugin with so many keys fail.
    pub fn all_fail(&self, n_keys: usize) -> Option<AllFail> {
        let n_failed = self.failed.len();
        let is_general = self.n_failed_runs >= MIN_RUNS && 2 * n_failed >= n_keys.min(MAX_KEYS);
        is_general.then_some(AllFail { n_runs: self.n_failed_runs, n_keys: n_failed })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_key_that_fails_among_many_is_not_the_plugin() {
        let mut runs = Successes::default();
        for _ in 0..100 {
            runs.ran(&"a", true);
        }
        assert_eq!(runs.all_fail(3), None);
        assert_eq!(runs.all_fail(2), Some(AllFail { n_runs: 100, n_keys: 1 }));
        runs.ran(&"b", true);
        assert_eq!(runs.all_fail(4), Some(AllFail { n_runs: 101, n_keys: 2 }));
        runs.ran(&"c", false);
        assert_eq!(runs.all_fail(0), None);
    }

    proptest! {
        #[test]
        fn the_verdict_is_that_of_the_runs_since_the_last_success(
            runs in prop::collection::vec((0..6_u8, prop::bool::weighted(0.8)), 0..40),
            n_keys in 0..12_usize,
        ) {
            let mut successes = Successes::default();
            runs.iter().for_each(|(key, failed)| successes.ran(key, *failed));
            let since: Vec<u8> = runs.iter().rev().take_while(|(_, failed)| *failed).map(|(key, _)| *key).collect();
            let keys: HashSet<u8> = since.iter().copied().collect();
            let all_fail = since.len() >= 3 && 2 * keys.len() >= n_keys;
            let expected = all_fail.then_some(AllFail { n_runs: since.len() as u64, n_keys: keys.len() });
            prop_assert_eq!(successes.all_fail(n_keys), expected);
        }
    }
}
