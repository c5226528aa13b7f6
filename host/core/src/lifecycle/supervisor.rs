//! Quarantine: decides when a faulting plugin may run.
//!
//! ```text
//! open ──most keys of most namespaces fault──> paused ──a clean key is ready, or the pause is over──> trial (one run)
//!   ^                                            ^                                                      │
//!   └────────────────── success ─────────────────┴──────────────────── fault (a longer pause) ──────────┘
//! ```
//!
//! Invariants:
//! 1. No namespace decides for others. A pause requires that in the runs of the last [`WINDOW`] most distinct keys
//!    faulted (at least [`MIN_KEYS`]), and most keys in most namespaces (at least [`MIN_NAMESPACES`]). A namespace
//!    counts for at most [`MAX_NAMESPACE_KEYS`] keys.
//! 2. A trial run takes a key that has not faulted, if there is one; only the fault of such a key makes the next pause
//!    longer.
//! 3. Pauses grow from [`FIRST_PAUSE`] to [`LONGEST_PAUSE`], and start short again after [`FORGIVEN`] without a pause.
//! 4. No clock: the time is an argument.
//!
//! A plugin whose keys are all in one or two namespaces, or all cluster-scoped, is never paused. The backoff of its
//! keys bounds the cost of its faults (`policy::queue`).
//!
//! Not here: the backoff of single keys (`queue`), rollback of a faulty version (`probation`).

mod window;

use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::lifecycle::FailurePolicy;
use crate::object::id::Key;

use window::Window;
pub use window::{MAX_NAMESPACE_KEYS, Recent, WINDOW};

/// Minimum number of faulting keys for a pause.
pub const MIN_KEYS: usize = 5;
/// Minimum number of namespaces in which most keys fault for a pause.
pub const MIN_NAMESPACES: usize = 3;
/// The first pause.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Longest time between two trial runs of keys that have not faulted: the maximum delay of such a key by a pause.
pub const LONGEST_TRIAL_GAP: Duration = Duration::from_secs(10);
/// Time without a pause after which the next one is as short as the first.
pub const FORGIVEN: Duration = Duration::from_secs(600);

/// A key that belongs to a namespace.
pub trait Scoped {
    /// The namespace whose users control the contents of the key's object: its namespace, or the name of a Namespace
    /// itself. All other cluster-scoped objects share the empty namespace.
    fn scope(&self) -> &str;
}

impl Scoped for Key {
    fn scope(&self) -> &str {
        if self.kind.is_namespace() && self.object.namespace.is_empty() {
            &self.object.name
        } else {
            &self.object.namespace
        }
    }
}

/// Whether the failing namespaces are most of all, and at least `min`: then one user is hardly the cause.
pub(super) fn are_most(n_failing: usize, n_namespaces: usize, min: usize) -> bool {
    n_failing >= min && 2 * n_failing > n_namespaces
}

/// The keys that may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Any key.
    Open,
    /// One key, for a trial; if `suspects`, also one whose last run faulted, if there is no other.
    Trial {
        /// Whether the pause is over.
        suspects: bool,
    },
    /// No key.
    Shut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State<K> {
    Open,
    Paused {
        until: Instant,
        /// Time of the next trial of a key that has not faulted.
        next_trial: Instant,
        pause: Duration,
    },
    /// A trial run is in progress. `suspect`: the last run of its key faulted.
    Trial {
        key: K,
        suspect: bool,
        pause: Duration,
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
    state: State<K>,
    window: Window<K>,
    n_pauses: u32,
    last_pause: Option<Instant>,
}

impl<K: Clone + Eq + Hash + Scoped> Supervisor<K> {
    /// Creates the supervisor of a plugin without faults.
    pub fn new(policy: FailurePolicy) -> Self {
        Self { policy, state: State::Open, window: Window::new(), n_pauses: 0, last_pause: None }
    }

    /// Sets the policy.
    pub fn set_policy(&mut self, policy: FailurePolicy) {
        self.policy = policy;
    }

    /// The keys that may be taken now.
    pub fn gate(&self, now: Instant) -> Gate {
        match &self.state {
            State::Open => Gate::Open,
            State::Paused { until, .. } if *until <= now => Gate::Trial { suspects: true },
            State::Paused { next_trial, .. } if *next_trial <= now => Gate::Trial { suspects: false },
            State::Paused { .. } | State::Trial { .. } | State::Disabled => Gate::Shut,
        }
    }

    /// Whether the key is a good choice for a trial: most keys of its namespace did not fault.
    pub fn prefers(&self, key: &K) -> bool {
        !self.window.faults_in(key.scope())
    }

    /// Records that a key was taken. `suspect`: its last run faulted.
    pub fn took(&mut self, key: &K, suspect: bool) {
        if let State::Paused { pause, .. } = self.state {
            self.state = State::Trial { key: key.clone(), suspect, pause };
        }
    }

    /// Next time at which [`Supervisor::gate`] changes without a run.
    pub fn next_wakeup(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Paused { until, next_trial, .. } => [next_trial, until].into_iter().filter(|at| *at > now).min(),
            _ => None,
        }
    }

    /// Remaining time of the pause; absent if there is none. A trial counts as the end of a pause.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Paused { until, .. } => Some(until.saturating_duration_since(now)),
            State::Trial { .. } => Some(Duration::ZERO),
            State::Open | State::Disabled => None,
        }
    }

    /// Whether the operator or the policy has disabled the plugin.
    pub fn is_disabled(&self) -> bool {
        self.state == State::Disabled
    }

    /// The runs of the last [`WINDOW`].
    pub fn recent(&self) -> Recent {
        self.window.recent()
    }

    /// Counts a run. Runs that were in flight when a pause began count, but do not change the state.
    pub fn ran(&mut self, key: &K, faulted: bool, now: Instant) -> Option<Change> {
        self.window.ran(key, faulted, now);
        match &self.state {
            State::Open if faulted && self.is_general() => self.react(true, FIRST_PAUSE, now),
            State::Trial { key: taken, .. } if taken == key && !faulted => {
                // For another pause, the keys must fault again, each after its own backoff.
                self.window = Window::new();
                self.state = State::Open;
                Some(Change::Recovered)
            }
            State::Trial { key: taken, suspect, pause } if taken == key => {
                let (suspect, pause) = (*suspect, *pause);
                self.react(!suspect, pause, now)
            }
            _ => None,
        }
    }

    /// Whether the faults in the window are due to the plugin rather than to single keys or namespaces.
    fn is_general(&self) -> bool {
        let Recent { n_keys, n_faulted, n_namespaces, n_faulting_namespaces } = self.window.recent();
        n_faulted >= MIN_KEYS && 2 * n_faulted > n_keys && are_most(n_faulting_namespaces, n_namespaces, MIN_NAMESPACES)
    }

    /// Applies the policy. `longer`: the new pause is longer than the previous one, `pause`.
    fn react(&mut self, longer: bool, pause: Duration, now: Instant) -> Option<Change> {
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
                let pause = if longer { self.next_pause(now) } else { pause };
                let until = now + pause;
                self.state = State::Paused { until, next_trial: now + pause.min(LONGEST_TRIAL_GAP), pause };
                self.last_pause = Some(until);
                Some(Change::Paused(pause))
            }
        }
    }

    fn next_pause(&mut self, now: Instant) -> Duration {
        if self.last_pause.is_some_and(|last| now.saturating_duration_since(last) > FORGIVEN) {
            self.n_pauses = 0;
        }
        let doubled = 1_u32.checked_shl(self.n_pauses).and_then(|factor| FIRST_PAUSE.checked_mul(factor));
        self.n_pauses = self.n_pauses.saturating_add(1);
        doubled.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)
    }

    /// Disables the plugin until it is enabled.
    pub fn disable(&mut self) {
        self.state = State::Disabled;
    }

    /// Enables the plugin and resets its faults.
    pub fn enable(&mut self) {
        self.state = State::Open;
        self.n_pauses = 0;
        self.window = Window::new();
    }

    /// Resets the faults for another version; a disabled plugin stays disabled.
    pub fn reset(&mut self) {
        if !self.is_disabled() {
            self.enable();
        }
    }
}

/// Keys of tests: namespace and number.
#[cfg(test)]
impl Scoped for (&str, u32) {
    fn scope(&self) -> &str {
        self.0
    }
}

#[cfg(test)]
mod tests;
