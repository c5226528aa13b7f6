//! Whether any runs of a plugin succeed.
//!
//! A single failing key is not evidence: its object may be the cause. A plugin without a recent success, and with most
//! of its keys failed since, does not work.
//!
//! Invariants:
//! 1. Memory is bounded; one success resets the verdict.
//! 2. No namespace decides for others: the failed keys are in most namespaces of the plugin's keys, and in at least
//!    [`MIN_NAMESPACES`] or all.
//!
//! Not here: faults, which also pause a plugin (`supervisor`) and roll a version back (`probation`).

use std::collections::HashSet;
use std::hash::Hash;

use crate::lifecycle::supervisor::{MIN_NAMESPACES, Scoped, are_most};

/// Minimum failed runs in a row for a verdict.
pub const MIN_RUNS: u64 = 3;
/// Maximum counted keys, and maximum namespaces of them.
const MAX_KEYS: usize = 50_000;

/// The failed runs since the last success.
#[derive(Clone, Debug)]
pub struct Successes<K> {
    failed: HashSet<K>,
    /// The namespaces of these keys.
    namespaces: HashSet<Box<str>>,
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
        Self { failed: HashSet::new(), namespaces: HashSet::new(), n_failed_runs: 0 }
    }
}

impl<K: Clone + Eq + Hash + Scoped> Successes<K> {
    /// Counts a run. A declared error or a failed write is a failure.
    pub fn ran(&mut self, key: &K, failed: bool) {
        if !failed {
            *self = Self::default();
            return;
        }
        self.n_failed_runs = self.n_failed_runs.saturating_add(1);
        if self.failed.len() < MAX_KEYS {
            self.failed.insert(key.clone());
        }
        if self.namespaces.len() < MAX_KEYS && !self.namespaces.contains(key.scope()) {
            self.namespaces.insert(key.scope().into());
        }
    }

    /// The failures, if all runs of a plugin with `n_keys` keys fail. `n_namespaces` counts the namespaces of these keys;
    /// the number must be exact up to its argument only.
    pub fn all_fail(&self, n_keys: usize, n_namespaces: impl FnOnce(usize) -> usize) -> Option<AllFail> {
        let (n_failed, n_failing) = (self.failed.len(), self.namespaces.len());
        if self.n_failed_runs < MIN_RUNS || 2 * n_failed < n_keys.min(MAX_KEYS) {
            return None;
        }
        let n_namespaces = n_namespaces(2 * n_failing);
        let is_general = are_most(n_failing, n_namespaces, MIN_NAMESPACES.min(n_namespaces));
        is_general.then_some(AllFail { n_runs: self.n_failed_runs, n_keys: n_failed })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_key_that_fails_among_many_is_not_the_plugin() {
        let mut runs: Successes<(&str, u32)> = Successes::default();
        for _ in 0..100 {
            runs.ran(&("ns", 0), true);
        }
        assert_eq!(runs.all_fail(3, |_| 1), None);
        assert_eq!(runs.all_fail(2, |_| 1), Some(AllFail { n_runs: 100, n_keys: 1 }));
        runs.ran(&("ns", 1), true);
        assert_eq!(runs.all_fail(4, |_| 1), Some(AllFail { n_runs: 101, n_keys: 2 }));
        runs.ran(&("ns", 2), false);
        assert_eq!(runs.all_fail(0, |_| 0), None);
    }

    #[test]
    fn one_namespace_whose_keys_all_fail_is_not_the_plugin() {
        let mut runs: Successes<(&str, u32)> = Successes::default();
        for i in 0..1_000 {
            runs.ran(&("a", i), true);
        }
        // It has most of the keys.
        let is_general =
            |runs: &Successes<(&str, u32)>, n_namespaces: usize| runs.all_fail(1_100, |_| n_namespaces).is_some();
        assert_eq!([1, 2, 3, 100].map(|n| is_general(&runs, n)), [true, false, false, false]);
        runs.ran(&("b", 0), true);
        assert_eq!([1, 2, 3, 4].map(|n| is_general(&runs, n)), [true, true, false, false]);
        runs.ran(&("c", 0), true);
        assert_eq!([2, 3, 5, 6].map(|n| is_general(&runs, n)), [true, true, true, false]);
    }

    proptest! {
        #[test]
        fn the_verdict_is_that_of_the_runs_since_the_last_success(
            runs in prop::collection::vec((0..4_usize, 0..3_u32, prop::bool::weighted(0.8)), 0..40),
            n_keys in 0..12_usize,
            n_namespaces in 0..8_usize,
        ) {
            let mut successes = Successes::default();
            let key = |(namespace, i, _): &(usize, u32, bool)| (["a", "b", "c", "d"][*namespace], *i);
            runs.iter().for_each(|run| successes.ran(&key(run), run.2));
            let since: Vec<(&str, u32)> = runs.iter().rev().take_while(|run| run.2).map(key).collect();
            let keys: HashSet<_> = since.iter().collect();
            let n_failing = since.iter().map(|(namespace, _)| namespace).collect::<HashSet<_>>().len();
            let all_fail = since.len() >= 3
                && 2 * keys.len() >= n_keys
                && (n_failing >= 3 || n_failing >= n_namespaces)
                && 2 * n_failing > n_namespaces;
            let expected = all_fail.then_some(AllFail { n_runs: since.len() as u64, n_keys: keys.len() });
            // An exact number is needed up to the argument only.
            prop_assert_eq!(successes.all_fail(n_keys, |max| n_namespaces.min(max)), expected);
        }
    }
}
