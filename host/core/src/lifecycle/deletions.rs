//! Holds a new version that would delete many objects: decides whether the deletions of a run are sent.
//!
//! Faults roll a version back, but a version that deletes the wrong objects runs without a fault. So during its
//! probation a version may delete only a few objects, or a small share of the plugin's objects, in a minute. Further
//! deletions are held until an operator confirms them.
//!
//! Invariants:
//! 1. In no minute of the probation are more deletions sent than the bound, unless an operator has confirmed them.
//! 2. The deletions of one run are sent together, or not at all.
//! 3. While deletions are held, nothing is sent until an operator confirms or another version takes over, and time does
//!    not prove the version.
//! 4. No clock: the time is an argument.
//!
//! Not here: counting the plugin's objects, and stopping the plugin (the controller).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::lifecycle;

/// The window in which deletions are added up.
pub const WINDOW: Duration = Duration::from_secs(60);

/// Deletions that were not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The deletions of the run.
    pub n_wanted: u64,
    /// Deletions of the last minute.
    pub n_recent: u64,
    /// Objects that the plugin owns.
    pub n_owned: u64,
    /// Maximum deletions in a minute.
    pub limit: u64,
}

impl Held {
    /// Message for humans. `version` is the version on probation.
    pub fn message(&self, plugin: &str, version: &str) -> String {
        let Self { n_wanted, n_recent, n_owned, limit } = self;
        let recent = if *n_recent > 0 { format!(" after {n_recent} in the last minute") } else { String::new() };
        format!(
            "version {version} wants to delete {n_wanted} objects at once{recent}, and {limit} in a minute are the maximum in its \
             probation (the plugin owns {n_owned}): nothing is sent and no run starts. `pintle plugin approve {plugin}` lets it \
             delete, `pintle plugin rollback {plugin}` restores the previous version"
        )
    }
}

/// Bounds the deletions of a version on probation.
#[derive(Clone, Debug)]
pub struct DeletionGuard {
    rules: lifecycle::Probation,
    until: Instant,
    n_runs: u32,
    /// Times and numbers of the deletions of the last minute.
    recent: VecDeque<(Instant, u64)>,
    held: Option<Held>,
    is_approved: bool,
}

impl DeletionGuard {
    /// Starts together with the probation of a version.
    pub fn begin(rules: lifecycle::Probation, now: Instant) -> Self {
        let until = now + Duration::from_millis(rules.for_ms.into());
        Self { rules, until, n_runs: 0, recent: VecDeque::new(), held: None, is_approved: false }
    }

    /// Restarts the time, because no run was possible so far.
    pub fn restart(&mut self, now: Instant) {
        self.until = now + Duration::from_millis(self.rules.for_ms.into());
    }

    /// Whether a run may delete `n_wanted` objects; if so, its deletions count as sent. `n_owned` counts the objects
    /// that the plugin owns; it is called only if the result depends on it.
    pub fn allows(&mut self, n_wanted: u64, n_owned: impl FnOnce() -> u64, now: Instant) -> bool {
        if n_wanted == 0 {
            return true;
        }
        if self.held.is_some() {
            return false;
        }
        if self.needs_share(n_wanted, now) {
            // The objects deleted in the last minute belonged to the plugin.
            let (n_recent, n_owned) = (self.n_recent(now), n_owned());
            let share = n_owned.saturating_add(n_recent).saturating_mul(self.rules.max_deletion_percent.into()) / 100;
            let limit = share.max(self.rules.max_deletions.into());
            if n_recent.saturating_add(n_wanted) > limit {
                self.held = Some(Held { n_wanted, n_recent, n_owned, limit });
                return false;
            }
        }
        self.recent.push_back((now, n_wanted));
        true
    }

    /// Whether the result for this many deletions depends on the share of owned objects, so that [`Self::allows`]
    /// counts them.
    pub fn needs_share(&mut self, n_wanted: u64, now: Instant) -> bool {
        let is_decided = n_wanted == 0 || self.held.is_some() || self.is_approved;
        !is_decided && self.n_recent(now).saturating_add(n_wanted) > self.rules.max_deletions.into()
    }

    /// Deletions of the last minute; drops earlier ones.
    fn n_recent(&mut self, now: Instant) -> u64 {
        while self.recent.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.recent.pop_front();
        }
        self.recent.iter().map(|(_, n)| *n).sum()
    }

    /// The held deletions.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Confirms all deletions of the version from now on. Returns false, and changes nothing, if nothing is held.
    pub fn approve(&mut self) -> bool {
        let was_held = self.held.take().is_some();
        // A confirmation applies only to deletions that the operator has seen held.
        self.is_approved |= was_held;
        was_held
    }

    /// Counts a run of the version.
    pub fn ran(&mut self) {
        self.n_runs = self.n_runs.saturating_add(1);
    }

    /// Whether deletions are bounded: the probation is not over, and no operator has confirmed.
    pub fn is_bounding(&self, now: Instant) -> bool {
        !self.is_approved && !self.is_over(now)
    }

    /// When the probation ends if nothing else happens. `None` if more runs are needed, or deletions are held.
    pub fn next_wakeup(&self) -> Option<Instant> {
        (self.held.is_none() && self.n_runs >= self.rules.runs).then_some(self.until)
    }

    /// Whether the probation is over, which ends the bound. It is not over while deletions are held.
    pub fn is_over(&self, now: Instant) -> bool {
        self.held.is_none() && self.n_runs >= self.rules.runs && now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(max_deletions: u32, max_deletion_percent: u32) -> lifecycle::Probation {
        lifecycle::Probation { runs: 10, for_ms: 120_000, max_deletions, max_deletion_percent, ..Default::default() }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn few_deletions_and_a_small_share_are_sent_and_more_are_held() {
        let start = Instant::now();
        let mut guard = DeletionGuard::begin(rules(5, 20), start);
        assert!(!guard.needs_share(5, start) && guard.needs_share(6, start));
        assert!(guard.allows(5, || unreachable!("few are always sent"), start));
        assert!(!guard.needs_share(0, start) && guard.needs_share(1, start));
        assert!(guard.allows(0, || unreachable!(), start));
        assert!(guard.allows(15, || 95, start + seconds(1)), "20 of 100");
        assert!(!guard.allows(1, || 80, start + seconds(2)), "one more");
        assert_eq!(guard.held(), Some(&Held { n_wanted: 1, n_recent: 20, n_owned: 80, limit: 20 }));
        assert!(!guard.allows(1, || 1_000, start + seconds(500)), "time approves nothing");
        assert!(!guard.is_over(start + seconds(500)));
        assert!(guard.is_bounding(start + seconds(500)));
        assert!(guard.approve() && !guard.approve());
        assert!(!guard.is_bounding(start + seconds(500)));
        assert!(guard.allows(1_000, || 1_000, start + seconds(501)));
    }

    #[test]
    fn nothing_is_approved_before_it_is_held() {
        let start = Instant::now();
        let mut guard = DeletionGuard::begin(rules(5, 20), start);
        assert!(!guard.approve() && guard.is_bounding(start));
        assert!(!guard.allows(6, || 0, start));
    }

    #[test]
    fn the_bound_ends_at_a_known_time_once_the_runs_are_there() {
        let start = Instant::now();
        let mut guard = DeletionGuard::begin(rules(5, 20), start);
        assert_eq!(guard.next_wakeup(), None, "runs are missing");
        (0..10).for_each(|_| guard.ran());
        let end = guard.next_wakeup().unwrap();
        assert_eq!(end, start + seconds(120));
        assert!(guard.is_bounding(end - seconds(1)) && !guard.is_bounding(end));
        assert!(!guard.allows(6, || 0, start));
        assert_eq!(guard.next_wakeup(), None, "something is held");
    }

    #[test]
    fn what_was_deleted_more_than_a_minute_ago_does_not_count() {
        let start = Instant::now();
        let mut guard = DeletionGuard::begin(rules(5, 20), start);
        assert!(guard.allows(5, || 0, start));
        assert!(guard.allows(5, || 0, start + WINDOW));
        assert!(!guard.allows(1, || 0, start + WINDOW * 2 - seconds(1)));
    }

    #[test]
    fn the_message_names_the_numbers_and_the_commands() {
        let held = Held { n_wanted: 14, n_recent: 2, n_owned: 14, limit: 5 };
        assert_eq!(
            held.message("team-guard", "0.2.0"),
            "version 0.2.0 wants to delete 14 objects at once after 2 in the last minute, and 5 in a minute are the maximum in its \
             probation (the plugin owns 14): nothing is sent and no run starts. `pintle plugin approve team-guard` lets it delete, \
             `pintle plugin rollback team-guard` restores the previous version"
        );
    }

    proptest! {
        #[test]
        fn no_minute_of_a_probation_exceeds_the_bound_and_few_deletions_always_pass(
            wants in prop::collection::vec((0..30_u64, 0..40_u64), 0..40),
            max_deletions in 0..12_u32,
            percent in 0..100_u32,
            n_first in 0..200_u64,
        ) {
            let start = Instant::now();
            let mut guard = DeletionGuard::begin(rules(max_deletions, percent), start);
            let (mut now, mut n_owned, mut sent): (Instant, u64, Vec<(Instant, u64)>) = (start, n_first, Vec::new());
            let mut is_held = false;
            for (n, pause) in wants {
                now += seconds(pause);
                let recent: u64 = sent.iter().filter(|(at, _)| now - *at < WINDOW).map(|(_, n)| *n).sum();
                // The objects deleted in the last minute belonged to the plugin.
                let limit = ((n_owned + recent) * u64::from(percent) / 100).max(max_deletions.into());
                let allowed = guard.allows(n, || n_owned, now);
                prop_assert_eq!(allowed, n == 0 || !is_held && recent + n <= limit);
                is_held |= !allowed;
                prop_assert_eq!(guard.held().is_some(), is_held);
                if allowed && n > 0 {
                    sent.push((now, n));
                    n_owned = n_owned.saturating_sub(n);
                }
                guard.ran();
            }
        }
    }
}
