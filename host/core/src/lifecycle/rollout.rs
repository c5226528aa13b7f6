//! The versions of a plugin: the target of a rollback, and the probation of the current version.
//!
//! ```text
//! settled ──switch──> on probation ──proven──> settled
//!    ^                     └─ taken back ──> settled, with the last proven version
//! ```
//!
//! Invariants:
//! 1. A version on probation is proven or rolled back once: the verdict is made here, and executed by the caller.
//! 2. A rollback never restores a version that was rolled back before, or one with more grants than the current spec
//!    gives.
//! 3. Deletions of an untrusted version are bounded until it has run for long enough without exceeding the bound, also
//!    after a probation.
//! 4. While deletions are held, time proves nothing, and no run begins.
//!
//! Not here: the rules of a probation ([`probation`](super::probation)) and of deletions
//! ([`deletions`](super::deletions)); the switch itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::deletions::DeletionGuard;
use super::probation::{Before, Ended, Judgement, Probation, Record};
use super::{Probation as Rules, StageProgress, SwapReport, SwapResult};
use crate::object::id::Key;

/// The properties of a version that its rollout depends on.
pub trait RolloutVersion {
    /// Whether its component is built into the host, so that its deletions are trusted.
    fn is_carried(&self) -> bool;
    /// Whether the spec of `other` gives all grants of this version.
    fn keeps_its_grants_with(&self, other: &Self) -> bool;
}

/// A switch from one version to another.
#[derive(Debug)]
pub struct Switch<V> {
    /// The version before the switch.
    pub from: Arc<V>,
    /// The version after the switch.
    pub to: Arc<V>,
    /// The rules of the probation, and the keys of the plugin; absent if the new version is trusted.
    pub probation: Option<(Rules, Vec<Key>)>,
    /// Keys whose last run faulted, or whose writes repeat.
    pub faulting: HashSet<Key>,
    /// Wall-clock time.
    pub at: String,
    /// Reason of the switch.
    pub result: SwapResult,
}

/// A verdict for the caller to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<V> {
    /// The current version is proven. The previous one stays for a manual rollback.
    Proven {
        /// The previous version.
        previous: Option<Arc<V>>,
    },
    /// The last proven version takes over again.
    TakeBack {
        /// The last proven version.
        to: Arc<V>,
        /// Reason as one word in CamelCase.
        reason: &'static str,
        /// The reason in one sentence.
        message: String,
    },
}

/// The versions of a plugin and their results.
#[derive(Debug)]
pub struct Rollout<V> {
    since: String,
    previous: Option<(Arc<V>, String)>,
    /// The last proven version while the current one is on probation; absent if it had more grants.
    stable: Option<Arc<V>>,
    probation: Option<Probation<Key>>,
    deletions: Option<DeletionGuard>,
    /// The runs of the current version.
    record: Record,
    concluded: Option<Judgement>,
    /// The report of the last swap attempt.
    pub last_swap: Option<SwapReport>,
}

impl<V: RolloutVersion> Rollout<V> {
    /// Creates the rollout of a first version, which runs since `since`.
    pub fn new(since: String) -> Self {
        Self {
            since,
            previous: None,
            stable: None,
            probation: None,
            deletions: None,
            record: Record::default(),
            concluded: None,
            last_swap: None,
        }
    }

    /// Start time of the current version.
    pub fn since(&self) -> &str {
        &self.since
    }

    /// The version that a manual rollback restores, and its start time.
    pub fn previous(&self) -> Option<&(Arc<V>, String)> {
        self.previous.as_ref()
    }

    /// The progress of the probation, if there is one.
    pub fn probation(&self, now: Instant) -> Option<StageProgress> {
        self.probation.as_ref().map(|probation| probation.progress(now))
    }

    /// Whether the current version is on probation.
    pub fn is_on_probation(&self) -> bool {
        self.probation.is_some()
    }

    /// The bound on the current version's deletions, if there is one.
    pub fn deletions(&self) -> Option<&DeletionGuard> {
        self.deletions.as_ref()
    }

    /// [`Rollout::deletions`], mutable.
    pub fn deletions_mut(&mut self) -> Option<&mut DeletionGuard> {
        self.deletions.as_mut()
    }

    /// Bounds the current version's deletions, as if it had taken over from another one.
    pub fn guard_deletions(&mut self, rules: Rules, now: Instant) {
        self.deletions = Some(DeletionGuard::begin(rules, now));
    }

    /// Whether runs are held because the version would delete many objects.
    pub fn holds_deletions(&self) -> bool {
        self.deletions.as_ref().is_some_and(|deletions| deletions.held().is_some())
    }

    /// Restarts the clocks: nothing has run so far that could prove a version.
    pub fn restart(&mut self, now: Instant) {
        if let Some(probation) = &mut self.probation {
            probation.restart(now);
        }
        if let Some(deletions) = &mut self.deletions {
            deletions.restart(now);
        }
    }

    /// Records a switch. Returns the versions that are no longer rollback targets.
    pub fn switched(&mut self, switch: Switch<V>, now: Instant) -> Vec<Arc<V>> {
        let Switch { from, to, probation, faulting, at, result } = switch;
        let record = std::mem::take(&mut self.record);
        let since = std::mem::replace(&mut self.since, at);
        let was_on_probation = self.probation.take().is_some();
        self.deletions = None;
        self.concluded = None;
        let stable = self.stable.take();
        let previous = self.previous.take().map(|(version, _)| version);
        let forgotten = stable.iter().chain(&previous).cloned().collect();
        if result == SwapResult::RolledBack {
            return forgotten;
        }
        self.previous = Some((from.clone(), since));
        let stable = stable.filter(|_| was_on_probation).unwrap_or(from);
        // A swap back to the proven version needs no probation.
        if let Some((rules, keys)) = probation.filter(|_| !Arc::ptr_eq(&stable, &to)) {
            self.deletions = (!to.is_carried()).then(|| DeletionGuard::begin(rules.clone(), now));
            self.probation = Some(Probation::begin(rules, Before::new(record, faulting, &keys), now));
            self.stable = Some(stable).filter(|stable| stable.keeps_its_grants_with(&to));
        }
        forgotten
    }

    /// Counts a run of the current version. `was_suspect`: the previous run of the key faulted; `what`: the error.
    pub fn ran(&mut self, key: &Key, ended: Ended, was_suspect: bool, what: &str, now: Instant) {
        if let Some(deletions) = &mut self.deletions {
            deletions.ran();
        }
        self.record.ran(ended, was_suspect);
        let judgement = self.probation.as_mut().and_then(|probation| probation.ran(key, ended, what, now));
        let is_held = self.holds_deletions();
        self.conclude(judgement.filter(|judgement| *judgement != Judgement::Proven || !is_held));
    }

    /// Ends a probation or a bound whose time is over. Returns whether the bound on deletions has ended.
    pub fn check(&mut self, now: Instant) -> bool {
        if self.holds_deletions() {
            return false;
        }
        let is_over = self.deletions.as_ref().is_some_and(|deletions| deletions.is_over(now));
        if is_over {
            self.deletions = None;
        }
        let judgement = self.probation.as_ref().and_then(|probation| probation.check(now));
        self.conclude(judgement);
        is_over
    }

    /// When [`Rollout::check`] has work next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let probation = self.probation.as_ref().filter(|_| !self.holds_deletions());
        let of_deletions = self.deletions.as_ref().and_then(DeletionGuard::next_wakeup);
        [probation.and_then(Probation::next_wakeup), of_deletions].into_iter().flatten().min()
    }

    fn conclude(&mut self, judgement: Option<Judgement>) {
        let Some(judgement) = judgement else { return };
        self.probation = None;
        if let (Judgement::Proven, Some(swap)) = (&judgement, &mut self.last_swap) {
            swap.result = SwapResult::Proven;
        }
        self.concluded = Some(judgement);
    }

    /// Whether [`Rollout::take_verdict`] would return a verdict.
    pub fn has_verdict(&self) -> bool {
        self.concluded.is_some()
    }

    /// Returns the verdict of the probation, once. `None` without a version to roll back to: then only the supervisor
    /// reacts.
    pub fn take_verdict(&mut self) -> Option<Verdict<V>> {
        let judgement = self.concluded.take()?;
        let stable = self.stable.take();
        match judgement {
            Judgement::Proven => {
                Some(Verdict::Proven { previous: self.previous.as_ref().map(|(version, _)| version.clone()) })
            }
            Judgement::TakeBack { reason, message } => stable.map(|to| Verdict::TakeBack { to, reason, message }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::object::id::{Kind, ObjectKey};

    /// Number of a version, and of its grants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Version(u8, u8);

    impl RolloutVersion for Version {
        fn is_carried(&self) -> bool {
            false
        }

        fn keeps_its_grants_with(&self, other: &Self) -> bool {
            self.1 <= other.1
        }
    }

    fn rules() -> Rules {
        serde_json::from_value(serde_json::json!({"forMs": 10_000, "runs": 2})).unwrap()
    }

    struct Fixture {
        rollout: Rollout<Version>,
        now: Instant,
        /// The third version has fewer grants, so a rollback from it cannot restore the second.
        versions: [Arc<Version>; 4],
    }

    impl Fixture {
        fn new() -> Self {
            let versions = [Version(1, 1), Version(2, 1), Version(3, 0), Version(4, 1)].map(Arc::new);
            Self { rollout: Rollout::new("0".into()), now: Instant::now(), versions }
        }

        fn key(n: usize) -> Key {
            let object = ObjectKey::new(&format!("ns{n}"), "a");
            Key { queue: "main".into(), kind: Kind::new("", "v1", "Pod"), object }
        }

        fn swap(&mut self, from: usize, to: usize, on_probation: bool) -> Vec<Version> {
            let keys = (0..20).map(Self::key).collect();
            let probation = on_probation.then(|| (rules(), keys));
            let result = SwapResult::Switched;
            let [from, to] = [from, to].map(|n| self.versions[n].clone());
            let switch = Switch { from, to, probation, faulting: HashSet::new(), at: "1".into(), result };
            self.rollout.switched(switch, self.now).iter().map(|version| **version).collect()
        }

        fn run(&mut self, n: usize, ended: Ended) {
            for i in 0..n {
                self.now += Duration::from_secs(1);
                self.rollout.ran(&Self::key(i), ended, false, "why", self.now);
            }
        }

        /// Advances the time, and returns the verdict.
        fn verdict(&mut self) -> Option<Verdict<Version>> {
            self.now += Duration::from_secs(3600);
            self.rollout.check(self.now);
            let has_one = self.rollout.has_verdict();
            let verdict = self.rollout.take_verdict();
            assert!(has_one || verdict.is_none());
            assert!(!self.rollout.has_verdict() && self.rollout.take_verdict().is_none(), "once");
            verdict
        }
    }

    #[test]
    fn a_version_without_faults_is_proven_and_the_one_before_it_stays_for_a_rollback() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.swap(0, 1, true), []);
        assert!(fixture.rollout.is_on_probation());
        fixture.run(20, Ended::Well);
        let first = fixture.versions[0].clone();
        assert_eq!(fixture.verdict(), Some(Verdict::Proven { previous: Some(first.clone()) }));
        assert_eq!((fixture.rollout.previous(), fixture.rollout.since()), (Some(&(first, "0".into())), "1"));
        assert_eq!(fixture.swap(1, 2, true), [Version(1, 1)], "the one before is forgotten");
    }

    #[test]
    fn a_version_that_faults_goes_and_the_last_proven_one_comes_back_not_the_last_one() {
        let mut fixture = Fixture::new();
        fixture.swap(0, 1, true);
        fixture.swap(1, 3, true);
        fixture.run(20, Ended::Fault);
        let verdict = fixture.verdict();
        assert!(matches!(&verdict, Some(Verdict::TakeBack { to, .. }) if **to == Version(1, 1)), "{verdict:?}");
    }

    #[test]
    fn a_version_with_more_grants_than_the_spec_gives_does_not_come_back() {
        let mut fixture = Fixture::new();
        fixture.swap(0, 2, true);
        fixture.run(20, Ended::Fault);
        assert_eq!(fixture.verdict(), None);
    }

    #[test]
    fn a_swap_back_to_the_proven_version_and_a_trusted_one_need_no_probation() {
        let mut fixture = Fixture::new();
        fixture.swap(0, 1, true);
        fixture.swap(1, 0, true);
        assert!(!fixture.rollout.is_on_probation());
        fixture.swap(0, 1, false);
        assert!(!fixture.rollout.is_on_probation());
        assert_eq!(fixture.verdict(), None);
    }

    #[test]
    fn while_deletions_are_held_nothing_proves_the_version() {
        let mut fixture = Fixture::new();
        fixture.swap(0, 1, true);
        let now = fixture.now;
        let deletions = fixture.rollout.deletions_mut().unwrap();
        assert!(!deletions.allows(1_000, || 1_000, now));
        fixture.run(20, Ended::Well);
        assert!(fixture.rollout.holds_deletions());
        assert_eq!(fixture.verdict(), None);
        assert!(fixture.rollout.deletions_mut().unwrap().approve());
        assert!(matches!(fixture.verdict(), Some(Verdict::Proven { .. })));
    }
}
