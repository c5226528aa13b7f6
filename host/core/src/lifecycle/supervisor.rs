//! Quarantine: decides when a plugin with faults may run.
//!
//! ```text
//! open ──faults in a row──> paused ──pause over──> trial (one run) ──success──> open
//!                              ^                        └──fault──┘ (a longer pause)
//! ```
//!
//! Invariants:
//! 1. A single key that always faults does not pause the plugin: faults of [`MIN_KEYS`] keys without a success between them
//!    are required. Otherwise whoever can create one bad object could stop a controller.
//! 2. Pauses grow from [`FIRST_PAUSE`] to [`LONGEST_PAUSE`], and restart short after [`FORGIVEN`] without a pause.
//! 3. No clock: the time is an argument.
//!
//! Not here: the backoff of single keys (`ratelimit`), rollback of a faulty version (`probation`).

use std::collections::HashSet;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::lifecycle::FailurePolicy;

/// Consecutive faults that pause a plugin.
pub const FAULTS_IN_A_ROW: u32 = 10;
/// Minimum number of keys among them.
pub const MIN_KEYS: usize = 3;
/// The first pause.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Time without a pause after which the next one is as short as the first.
pub const FORGIVEN: Duration = Duration::from_secs(600);

/// Whether keys may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Paused {
        until: Instant,
    },
    /// The pause is over; `taken`: the trial key is running.
    Trial {
        taken: bool,
    },
    Disabled,
}

/// A change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Paused for this long.
    Paused(Duration),
    /// The trial succeeded.
    Recovered,
    /// Disabled until it is enabled.
    Disabled,
}

/// Supervises the runs of one plugin.
#[derive(Debug)]
pub struct Supervisor<K> {
    policy: FailurePolicy,
    state: State,
    n_in_a_row: u32,
    /// Keys that faulted since the last success, at most [`MIN_KEYS`].
    keys: HashSet<K>,
    n_pauses: u32,
    last_pause: Option<Instant>,
}

impl<K: Clone + Eq + Hash> Supervisor<K> {
    /// Creates the state of a plugin without faults.
    pub fn new(policy: FailurePolicy) -> Self {
        let keys = HashSet::new();
        Self { policy, state: State::Open, n_in_a_row: 0, keys, n_pauses: 0, last_pause: None }
    }

    /// Sets the policy.
    pub fn set_policy(&mut self, policy: FailurePolicy) {
        self.policy = policy;
    }

    /// Whether a key may be taken now.
    pub fn is_open(&self, now: Instant) -> bool {
        match self.state {
            State::Open => true,
            State::Paused { until } => until <= now,
            State::Trial { taken } => !taken,
            State::Disabled => false,
        }
    }

    /// Counts a taken key.
    pub fn took(&mut self) {
        match self.state {
            State::Paused { .. } | State::Trial { .. } => self.state = State::Trial { taken: true },
            State::Open | State::Disabled => {}
        }
    }

    /// When [`Supervisor::is_open`] may change without a run.
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.state {
            State::Paused { until } => Some(until),
            _ => None,
        }
    }

    /// Remaining time of the pause; absent if there is none. A trial counts as the end of a pause.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Paused { until } => Some(until.saturating_duration_since(now)),
            State::Trial { .. } => Some(Duration::ZERO),
            State::Open | State::Disabled => None,
        }
    }

    /// Whether the operator or the policy has disabled it.
    pub fn is_disabled(&self) -> bool {
        self.state == State::Disabled
    }

    /// Faults since the last success.
    pub fn n_in_a_row(&self) -> u32 {
        self.n_in_a_row
    }

    /// Counts a run. Runs that were in flight when a pause began count, but change nothing.
    pub fn ran(&mut self, key: &K, faulted: bool, now: Instant) -> Option<Change> {
        if !faulted {
            self.forgive();
            // Runs that were in flight when the pause began do not prove a recovery: their keys may be unaffected.
            if self.state == (State::Trial { taken: true }) {
                self.state = State::Open;
                return Some(Change::Recovered);
            }
            return None;
        }
        self.n_in_a_row = self.n_in_a_row.saturating_add(1);
        if self.keys.len() < MIN_KEYS {
            self.keys.insert(key.clone());
        }
        let enough = match self.state {
            State::Open => self.n_in_a_row >= FAULTS_IN_A_ROW && self.keys.len() >= MIN_KEYS,
            State::Trial { taken } => taken,
            State::Paused { .. } | State::Disabled => false,
        };
        if !enough {
            return None;
        }
        match self.policy {
            FailurePolicy::Retry => {
                self.state = State::Open;
                None
            }
            FailurePolicy::Disable => {
                self.state = State::Disabled;
                Some(Change::Disabled)
            }
            FailurePolicy::Quarantine => {
                if self.last_pause.is_some_and(|last| now.saturating_duration_since(last) > FORGIVEN) {
                    self.n_pauses = 0;
                }
                let doubled = 1_u32.checked_shl(self.n_pauses).and_then(|factor| FIRST_PAUSE.checked_mul(factor));
                let pause = doubled.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
                self.n_pauses = self.n_pauses.saturating_add(1);
                self.state = State::Paused { until: now + pause };
                self.last_pause = Some(now + pause);
                Some(Change::Paused(pause))
            }
        }
    }

    /// Disables the plugin until it is enabled.
    pub fn disable(&mut self) {
        self.state = State::Disabled;
    }

    /// Enables the plugin and resets its faults.
    pub fn enable(&mut self) {
        self.state = State::Open;
        self.n_pauses = 0;
        self.forgive();
    }

    /// Another version takes over: faults are reset, but a disabled plugin stays disabled.
    pub fn reset(&mut self) {
        if !self.is_disabled() {
            self.enable();
        }
    }

    fn forgive(&mut self) {
        self.n_in_a_row = 0;
        self.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        supervisor: Supervisor<u32>,
        now: Instant,
    }

    impl Fixture {
        fn new(policy: FailurePolicy) -> Self {
            Self { supervisor: Supervisor::new(policy), now: Instant::now() }
        }

        /// Takes a key and ends its run; `None` if none may be taken.
        fn run(&mut self, key: u32, faulted: bool) -> Option<Option<Change>> {
            if !self.supervisor.is_open(self.now) {
                return None;
            }
            self.supervisor.took();
            Some(self.supervisor.ran(&key, faulted, self.now))
        }

        fn faults(&mut self, n: u32, n_keys: u32) -> Vec<Change> {
            (0..n).filter_map(|i| self.run(i % n_keys, true).flatten()).collect()
        }
    }

    #[test]
    fn consecutive_faults_pause_and_a_successful_trial_ends_the_pause() {
        let mut f = Fixture::new(FailurePolicy::Quarantine);
        assert_eq!(f.faults(9, 3), []);
        assert_eq!(f.run(0, true), Some(Some(Change::Paused(FIRST_PAUSE))));
        assert_eq!(f.run(1, false), None);
        assert_eq!(f.supervisor.next_wakeup(), Some(f.now + FIRST_PAUSE));
        f.now += FIRST_PAUSE;
        f.supervisor.took();
        assert!(!f.supervisor.is_open(f.now), "one trial at a time");
        assert_eq!(f.supervisor.ran(&7, false, f.now), Some(Change::Recovered));
        assert!(f.supervisor.is_open(f.now) && f.supervisor.n_in_a_row() == 0);
    }

    #[test]
    fn pauses_grow_to_their_bound_and_become_short_again() {
        let mut f = Fixture::new(FailurePolicy::Quarantine);
        let mut pauses = f.faults(10, 3);
        for _ in 0..10 {
            f.now = f.supervisor.next_wakeup().unwrap();
            pauses.extend(f.run(0, true).unwrap());
        }
        let seconds: Vec<u64> =
            pauses.iter().map(|change| if let Change::Paused(pause) = change { pause.as_secs() } else { 0 }).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        f.now = f.supervisor.next_wakeup().unwrap();
        assert_eq!(f.run(0, false), Some(Some(Change::Recovered)));
        f.now += FORGIVEN + Duration::from_secs(1);
        assert_eq!(f.faults(10, 3), [Change::Paused(FIRST_PAUSE)]);
    }

    #[test]
    fn one_bad_key_or_a_success_in_between_does_not_pause() {
        let mut f = Fixture::new(FailurePolicy::Quarantine);
        assert_eq!(f.faults(1000, 2), []);
        f.run(0, false);
        for _ in 0..100 {
            assert_eq!(f.faults(9, 9), []);
            f.run(0, false);
        }
    }

    #[test]
    fn policies() {
        let mut f = Fixture::new(FailurePolicy::Retry);
        assert_eq!(f.faults(100, 10), []);
        let mut f = Fixture::new(FailurePolicy::Disable);
        assert_eq!(f.faults(10, 10), [Change::Disabled]);
        f.now += Duration::from_secs(1_000_000);
        assert_eq!(f.run(0, false), None);
        f.supervisor.reset();
        assert_eq!(f.run(0, false), None);
        f.supervisor.enable();
        assert_eq!(f.run(0, false), Some(None));
    }

    #[test]
    fn runs_that_were_in_flight_change_no_pause() {
        let mut f = Fixture::new(FailurePolicy::Quarantine);
        assert_eq!(f.faults(10, 10).len(), 1);
        assert_eq!(f.supervisor.ran(&20, true, f.now), None);
        assert_eq!(f.supervisor.ran(&21, false, f.now), None);
        assert!(!f.supervisor.is_open(f.now));
    }
}
