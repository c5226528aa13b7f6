//! Whether any runs of a plugin succeed.
//!
//! A single failing key is not evidence: its object may be the cause. A plugin without a recent success, and with most
//! of its keys failed since, does not work.
//!
//! Invariant: memory is bounded; one success resets the verdict.
//!
//! Not here: faults, which also pause a plugin (`supervisor`) and roll a version back (`probation`).

use std::collections::HashSet;
use std::hash::Hash;

/// Minimum failed runs in a row for a verdict.
pub const MIN_RUNS: u64 = 3;
/// Maximum counted keys.
const MAX_KEYS: usize = 50_000;

/// The failed runs since the last success.
#[derive(Clone, Debug)]
pub struct Successes<K> {
    failed: HashSet<K>,
    n_failed_runs: u64,
}

/// All runs of a plugin fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllFail {
    /// Failed runs since the last success.
    pub n_runs: u64,
    /// Number of their keys.
    pub n_keys: usize,
}

impl<K> Default for Successes<K> {
    fn default() -> Self {
        Self { failed: HashSet::new(), n_failed_runs: 0 }
    }
}

impl<K: Clone + Eq + Hash> Successes<K> {
    /// Counts a run. A declared error or a failed write is a failure.
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

    /// The failures, if all runs of a plugin with `n_keys` keys fail.
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
