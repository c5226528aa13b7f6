//! Probation: decides whether a new version is proven or rolled back.
//!
//! Invariants:
//! 1. A version is proven once both the number of runs and the time are reached; it is rolled back as soon as one rule
//!    is violated; never both.
//! 2. Errors and faults that were as frequent with the previous version do not count.
//! 3. Faults count by distinct keys. A key whose last run with the previous version faulted does not count: otherwise
//!    its object would reject every version, including the one with the fix.
//! 4. No namespace decides for others: if keys of several namespaces count, the faulting keys are in at least two.
//! 5. No clock: the time is an argument.
//!
//! Not here: the rollback itself (the controller), faults of proven versions (`supervisor`).

use std::collections::HashSet;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::lifecycle::supervisor::Scoped;
use crate::lifecycle::{self, StageProgress};

/// Runs after which the error rate is significant.
pub const MIN_RUNS: u32 = 20;
/// Number of runs over which the error rate of the current version is averaged; older runs decay.
const MEMORY: f64 = 200.0;
/// Maximum keys that count in one probation.
const MAX_KEYS: usize = 50_000;

/// The result of a run, for probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Success, or only conflicts.
    Well,
    /// A declared error, or a failed write.
    Error,
    /// A fault of the plugin, including ungranted writes; for probation, also a run that was caused again and again by
    /// its own writes.
    Fault,
}

/// The share of recent runs with a certain property.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    share: f64,
    n_runs: f64,
}

impl Share {
    /// Counts a run.
    pub fn ran(&mut self, is_so: bool) {
        self.n_runs = (self.n_runs + 1.0).min(MEMORY);
        let now = if is_so { 1.0 } else { 0.0 };
        self.share += (now - self.share) / self.n_runs;
    }

    /// The rate in per cent.
    pub fn percent(self) -> f64 {
        self.share * 100.0
    }
}

/// The runs of one version, for the comparison with the next one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Runs that ended with an error.
    pub errors: Share,
    /// Runs that faulted, of keys whose previous run did not: the rate at which healthy keys begin to fault.
    pub faults: Share,
}

impl Record {
    /// Counts a run. `suspect`: the previous run of the key faulted.
    pub fn ran(&mut self, ended: Ended, suspect: bool) {
        self.errors.ran(ended == Ended::Error);
        if !suspect {
            self.faults.ran(ended == Ended::Fault);
        }
    }
}

/// The baseline for a new version.
#[derive(Clone, Debug)]
pub struct Before<K> {
    /// The runs of the previous version.
    pub record: Record,
    /// Keys whose last run faulted, or whose writes repeat.
    pub faulting: HashSet<K>,
    /// Number of other keys of the plugin.
    pub n_keys: usize,
    /// Number of their namespaces.
    pub n_namespaces: usize,
}

impl<K: Eq + Hash + Scoped> Before<K> {
    /// Baseline from the previous version and all keys of the plugin.
    pub fn new(record: Record, faulting: HashSet<K>, keys: &[K]) -> Self {
        let others = || keys.iter().filter(|key| !faulting.contains(key));
        let n_namespaces = others().map(Scoped::scope).collect::<HashSet<_>>().len();
        Self { record, n_keys: others().count(), n_namespaces, faulting }
    }
}

/// The verdict of a probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The version is proven.
    Proven,
    /// The previous version takes over again.
    TakeBack {
        /// Reason as one word in CamelCase.
        reason: &'static str,
        /// Message for humans.
        message: String,
    },
}

/// The probation of one version.
#[derive(Clone, Debug)]
pub struct Probation<K> {
    rules: lifecycle::Probation,
    until: Instant,
    n_runs: u32,
    n_errors: u32,
    /// Number of faults of keys that count.
    n_faults: u32,
    before: Before<K>,
    /// Keys that count and ran.
    ran: HashSet<K>,
    /// Keys that count and faulted.
    faulted: HashSet<K>,
}

impl<K: Clone + Eq + Hash + Scoped> Probation<K> {
    /// Starts a probation.
    pub fn begin(rules: lifecycle::Probation, before: Before<K>, now: Instant) -> Self {
        let until = now + Duration::from_millis(rules.for_ms.into());
        let (ran, faulted) = (HashSet::new(), HashSet::new());
        Self { rules, until, n_runs: 0, n_errors: 0, n_faults: 0, before, ran, faulted }
    }

    /// Restarts the time, because no run was possible so far.
    pub fn restart(&mut self, now: Instant) {
        self.until = now + Duration::from_millis(self.rules.for_ms.into());
    }

    /// Progress of the probation.
    pub fn progress(&self, now: Instant) -> StageProgress {
        let remaining = u64::try_from(self.until.saturating_duration_since(now).as_millis()).ok();
        let (n_runs, wanted_runs) = (self.n_runs, self.rules.runs);
        StageProgress { n_runs, wanted_runs, remaining_ms: remaining, unsynced: Vec::new() }
    }

    /// Number of runs so far.
    pub fn n_runs(&self) -> u32 {
        self.n_runs
    }

    /// Counts a run of the version. `what` is the error, for the message.
    pub fn ran(&mut self, key: &K, ended: Ended, what: &str, now: Instant) -> Option<Judgement> {
        self.n_runs = self.n_runs.saturating_add(1);
        self.n_errors += u32::from(ended == Ended::Error);
        if !self.before.faulting.contains(key) {
            if self.ran.len() < MAX_KEYS {
                self.ran.insert(key.clone());
            }
            if ended == Ended::Fault {
                self.n_faults = self.n_faults.saturating_add(1);
                if self.ran.contains(key) {
                    self.faulted.insert(key.clone());
                }
            }
        }
        if ended == Ended::Fault && self.faults_too_often() {
            let message = format!(
                "{} of {} healthy keys now {} (allowed: {}); the last: {what}",
                self.faulted.len(),
                self.ran.len(),
                if self.faulted.len() == 1 { "faults" } else { "fault" },
                self.tolerated()
            );
            return Some(Judgement::TakeBack { reason: "FaultsInProbation", message });
        }
        let percent = f64::from(self.n_errors) * 100.0 / f64::from(self.n_runs);
        if ended == Ended::Error
            && self.n_runs >= MIN_RUNS
            && percent > f64::from(self.rules.max_error_percent).max(self.before.record.errors.percent())
        {
            let message = format!(
                "{percent:.0}% of {} runs ended with an error, more than {}% (and the {:.0}% before); the last: {what}",
                self.n_runs,
                self.rules.max_error_percent,
                self.before.record.errors.percent()
            );
            return Some(Judgement::TakeBack { reason: "ErrorsInProbation", message });
        }
        self.check(now)
    }

    /// Maximum faulting keys. In a plugin with few keys, all but one may fault.
    fn tolerated(&self) -> usize {
        let n_keys = self.before.n_keys.max(self.ran.len());
        (self.rules.max_faults as usize).min(n_keys.saturating_sub(1))
    }

    fn faults_too_often(&self) -> bool {
        let tolerated = self.tolerated();
        let n_namespaces = self.faulted.iter().map(Scoped::scope).collect::<HashSet<_>>().len();
        let n_all = self.ran.iter().map(Scoped::scope).collect::<HashSet<_>>().len().max(self.before.n_namespaces);
        let percent = 100.0 * self.faulted.len() as f64 / self.ran.len().max(1) as f64;
        self.faulted.len() > tolerated
            && self.n_faults > self.rules.max_faults
            && n_namespaces >= n_all.min(tolerated + 1).min(2)
            && percent > self.before.record.faults.percent()
    }

    /// The verdict at this time, if any.
    pub fn check(&self, now: Instant) -> Option<Judgement> {
        (now >= self.until && self.n_runs >= self.rules.runs).then_some(Judgement::Proven)
    }

    /// The time at which [`Probation::check`] may change without a run.
    pub fn next_wakeup(&self) -> Option<Instant> {
        (self.n_runs >= self.rules.runs).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A key: namespace and number.
    type Numbered = (&'static str, u32);

    fn rules() -> lifecycle::Probation {
        lifecycle::Probation { runs: 50, for_ms: 1000, ..lifecycle::Probation::default() }
    }

    fn reason(judgement: Option<Judgement>) -> &'static str {
        match judgement {
            None => "-",
            Some(Judgement::Proven) => "Proven",
            Some(Judgement::TakeBack { reason, .. }) => reason,
        }
    }

    /// The probation of a version with these keys, after a version that never failed.
    fn probation(keys: &[Numbered]) -> Probation<Numbered> {
        after(Record::default(), &[], keys)
    }

    fn after(record: Record, faulting: &[Numbered], keys: &[Numbered]) -> Probation<Numbered> {
        let before = Before::new(record, faulting.iter().copied().collect(), keys);
        Probation::begin(rules(), before, Instant::now())
    }

    fn keys(namespace: &'static str, n: u32) -> Vec<Numbered> {
        (0..n).map(|i| (namespace, i)).collect()
    }

    /// The verdict after a fault of each key.
    fn faults(probation: &mut Probation<Numbered>, keys: &[Numbered]) -> &'static str {
        let now = Instant::now();
        keys.iter().map(|key| reason(probation.ran(key, Ended::Fault, "trap", now))).last().unwrap_or("-")
    }

    #[test]
    fn proven_after_both_runs_and_time() {
        let mut probation = probation(&[]);
        let start = probation.until - Duration::from_millis(1000);
        let late = probation.until;
        for _ in 0..49 {
            assert_eq!(probation.ran(&("a", 0), Ended::Well, "", late), None);
        }
        assert_eq!(probation.next_wakeup(), None);
        assert_eq!(probation.ran(&("a", 0), Ended::Well, "", start), None);
        assert_eq!(probation.next_wakeup(), Some(late));
        assert_eq!(probation.check(late - Duration::from_millis(1)), None);
        assert_eq!(probation.check(late), Some(Judgement::Proven));
    }

    #[test]
    fn faults_of_more_keys_than_tolerated_roll_it_back() {
        let now = Instant::now();
        let mut probation = probation(&keys("a", 10));
        assert_eq!(faults(&mut probation, &[("a", 0), ("a", 1), ("a", 0), ("a", 1), ("a", 0)]), "-");
        assert_eq!(
            probation.ran(&("a", 2), Ended::Fault, "trap", now),
            Some(Judgement::TakeBack {
                reason: "FaultsInProbation",
                message: "3 of 3 healthy keys now fault (allowed: 2); the last: trap".into()
            })
        );
    }

    #[test]
    fn a_plugin_with_few_keys_is_rolled_back_when_all_of_them_fault() {
        for n_keys in 1..=2 {
            let all = keys("a", n_keys);
            let mut probation = probation(&all);
            let runs: Vec<_> = all.iter().cycle().take(2).copied().collect();
            assert_eq!(faults(&mut probation, &runs), "-", "{n_keys} keys: two faults are tolerated");
            assert_eq!(faults(&mut probation, &all), "FaultsInProbation", "{n_keys} keys");
        }
        let mut probation = probation(&keys("a", 2));
        assert_eq!(reason(probation.ran(&("a", 1), Ended::Well, "", Instant::now())), "-");
        assert_eq!(faults(&mut probation, &[("a", 0); 100]), "-", "one of two");
    }

    #[test]
    fn keys_that_faulted_with_the_version_before_do_not_count() {
        let all = [keys("a", 10), keys("b", 10)].concat();
        let known = [keys("a", 3), keys("b", 3)].concat();
        let mut probation = after(Record::default(), &known, &all);
        for _ in 0..100 {
            assert_eq!(faults(&mut probation, &known), "-");
        }
        assert_eq!(faults(&mut probation, &[("a", 3), ("a", 4), ("b", 3)]), "FaultsInProbation");
    }

    #[test]
    fn one_namespace_does_not_roll_it_back_for_others() {
        let mut many = probation(&[keys("a", 1), keys("b", 1)].concat());
        assert_eq!(faults(&mut many, &keys("a", 1_000)), "-");
        assert_eq!(faults(&mut many, &keys("b", 1)), "FaultsInProbation");
        let strict = lifecycle::Probation { max_faults: 0, ..rules() };
        let before = Before::new(Record::default(), HashSet::new(), &[("a", 0), ("b", 0)]);
        let mut strict = Probation::begin(strict, before, Instant::now());
        let Some(Judgement::TakeBack { message, .. }) = strict.ran(&("a", 0), Ended::Fault, "trap", Instant::now())
        else {
            panic!("the operator tolerates none")
        };
        assert_eq!(message, "1 of 1 healthy keys now faults (allowed: 0); the last: trap");
    }

    #[test]
    fn faults_count_only_if_they_are_more_frequent_than_before() {
        // With the previous version, one of four keys that had not faulted did.
        let mut record = Record::default();
        (0..400).for_each(|i| record.ran(if i % 4 == 0 { Ended::Fault } else { Ended::Well }, false));
        // Repeated faults of the same keys do not matter.
        (0..1_000).for_each(|_| record.ran(Ended::Fault, true));
        let all = [keys("a", 50), keys("b", 50)].concat();
        let mut same = after(record, &[], &all);
        let now = Instant::now();
        for (i, key) in all.iter().enumerate() {
            let ended = if i % 5 == 4 { Ended::Fault } else { Ended::Well };
            assert_eq!(reason(same.ran(key, ended, "trap", now)), "-");
        }
        let mut worse = after(record, &[], &all);
        let rolled_back = all.iter().enumerate().any(|(i, key)| {
            let ended = if i % 2 == 0 { Ended::Fault } else { Ended::Well };
            reason(worse.ran(key, ended, "trap", now)) == "FaultsInProbation"
        });
        assert!(rolled_back);
    }

    #[test]
    fn errors_count_from_twenty_runs_on_unless_it_was_so_before() {
        let now = Instant::now();
        let mut first = probation(&[]);
        let judgements: Vec<_> = (0..20).map(|_| reason(first.ran(&("a", 0), Ended::Error, "503", now))).collect();
        assert!(judgements[..19].iter().all(|judgement| *judgement == "-"));
        assert_eq!(judgements[19], "ErrorsInProbation");
        let mut record = Record::default();
        (0..100).for_each(|_| record.ran(Ended::Error, false));
        let mut second = after(record, &[], &[]);
        assert!((0..40).all(|_| second.ran(&("a", 0), Ended::Error, "503", now).is_none()));
    }

    #[test]
    fn a_share_decays() {
        let mut share = Share::default();
        share.ran(true);
        share.ran(false);
        assert!((share.percent() - 50.0).abs() < 1e-9);
        (0..2000).for_each(|_| share.ran(false));
        assert!(share.percent() < 0.1);
    }

    proptest! {
        /// Faults in one namespace, and of keys that faulted before, never roll a version back.
        #[test]
        fn a_version_is_rolled_back_only_for_new_faults_of_two_namespaces(
            runs in prop::collection::vec((0..3_usize, 0_u32..30, any::<bool>()), 1..300),
            known in prop::collection::btree_set(0_u32..30, 0..10),
        ) {
            let namespaces = ["a", "b", "c"];
            let all: Vec<Numbered> = namespaces.iter().flat_map(|namespace| keys(namespace, 30)).collect();
            let known: Vec<Numbered> = known.into_iter().map(|i| ("b", i)).collect();
            let mut probation = after(Record::default(), &known, &all);
            let mut new = BTreeSet::new();
            for (namespace, number, faulted) in runs {
                let key = (namespaces[namespace], number);
                let ended = if faulted { Ended::Fault } else { Ended::Well };
                if faulted && !known.contains(&key) {
                    new.insert(key);
                }
                let verdict = reason(probation.ran(&key, ended, "trap", Instant::now()));
                let n_namespaces = new.iter().map(|key| key.0).collect::<BTreeSet<_>>().len();
                if verdict == "FaultsInProbation" {
                    prop_assert!(new.len() > 2 && n_namespaces >= 2);
                    break;
                }
                let must = faulted && new.len() > 2 && n_namespaces >= 2;
                prop_assert!(!must, "{new:?}");
            }
        }
    }
}
