//! Restarts of the host's own tasks: the delay after a panic, and the liveness of the process.
//!
//! A panic is a bug of the host. If a rare input causes it, the task is restarted; if it repeats, liveness fails, so
//! that the whole process is restarted.
//!
//! Source: controller-runtime and kube-controller-manager crash the process at each panic (`utilruntime.HandleCrash`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time for which a panic counts.
pub(crate) const WINDOW: Duration = Duration::from_secs(600);
/// Number of panics of a task within [`WINDOW`] at which liveness fails.
pub(crate) const LIMIT: usize = 5;
/// Delay before the first restart; doubled for each panic within [`WINDOW`].
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest delay; shorter than the grace period of a shutdown, which waits for it.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// The panics of one task, or of a group of tasks with the same work.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// At most [`LIMIT`].
    recent: VecDeque<Instant>,
    n_panics: u64,
    /// A task of the group has ended and cannot be restarted.
    is_lost: bool,
}

impl Restarts {
    /// Records a panic. Returns the delay before the restart.
    pub(crate) fn panicked(&mut self, now: Instant) -> Duration {
        self.n_panics += 1;
        self.forget(now);
        let n_recent = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        if self.recent.len() >= LIMIT {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        FIRST_DELAY.saturating_mul(1 << n_recent.min(16)).min(LONGEST_DELAY)
    }

    /// Records a panic that ended a task permanently.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.panicked(now);
        self.is_lost = true;
    }

    /// Whether liveness fails because of this task.
    pub(crate) fn is_failing(&mut self, now: Instant) -> bool {
        self.forget(now);
        self.is_lost || self.recent.len() >= LIMIT
    }

    /// Number of panics so far.
    pub(crate) fn n_panics(&self) -> u64 {
        self.n_panics
    }

    fn forget(&mut self, now: Instant) {
        while self.recent.front().is_some_and(|at| now.saturating_duration_since(*at) >= WINDOW) {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_repeated_panics_fail() {
        let mut restarts = Restarts::default();
        let start = Instant::now();
        let delays: Vec<u128> = (0..8).map(|_| restarts.panicked(start).as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 3200, 3200]);
        assert!(restarts.is_failing(start) && restarts.n_panics() == 8);
        assert!(restarts.is_failing(start + WINDOW - Duration::from_millis(1)));
        assert!(!restarts.is_failing(start + WINDOW));
        assert_eq!(restarts.panicked(start + WINDOW).as_millis(), 100);
    }

    #[test]
    fn rare_panics_do_not_fail() {
        let mut restarts = Restarts::default();
        let mut now = Instant::now();
        for _ in 0..50 {
            restarts.panicked(now);
            assert!(!restarts.is_failing(now));
            now += WINDOW / (LIMIT as u32 - 1);
        }
    }

    #[test]
    fn a_task_that_cannot_start_again_fails_at_once_and_for_good() {
        let mut restarts = Restarts::default();
        let start = Instant::now();
        restarts.lost(start);
        assert!(restarts.is_failing(start) && restarts.is_failing(start + 10 * WINDOW));
    }
}
