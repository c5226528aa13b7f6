//! Probation: decides whether a new version is proven or rolled back.
//!
//! Invariants:
//! 1. A version is proven once both the number of runs and the time are reached; it is rolled back as soon as one rule is
//!    violated; never both.
//! 2. Errors that the previous version had as often do not count.
//! 3. No clock: the time is an argument.
//!
//! Not here: the rollback itself (the controller), faults of proven versions (`supervisor`).

use std::time::{Duration, Instant};

use crate::lifecycle;

/// Runs after which the error rate is significant.
pub const MIN_RUNS: u32 = 20;
/// Runs over which the error rate of the present version is averaged; older runs decay.
const MEMORY: f64 = 200.0;

/// The result of a run, as probation counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Success, or only conflicts.
    Well,
    /// A declared error, or a failed write.
    Error,
    /// A fault of the plugin, including ungranted writes.
    Fault,
}

/// The rate of recent runs that ended with errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorShare {
    share: f64,
    n_runs: f64,
}

impl ErrorShare {
    /// Counts a run.
    pub fn ran(&mut self, ended: Ended) {
        self.n_runs = (self.n_runs + 1.0).min(MEMORY);
        let now = if ended == Ended::Error { 1.0 } else { 0.0 };
        self.share += (now - self.share) / self.n_runs;
    }

    /// The rate in per cent.
    pub fn percent(self) -> f64 {
        self.share * 100.0
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
pub struct Probation {
    rules: lifecycle::Probation,
    until: Instant,
    n_runs: u32,
    n_faults: u32,
    n_errors: u32,
    /// Error rate of the previous version, in per cent.
    before: f64,
}

impl Probation {
    /// Starts a probation. `before`: the error rate of the present version.
    pub fn begin(rules: lifecycle::Probation, before: ErrorShare, now: Instant) -> Self {
        let until = now + Duration::from_millis(rules.for_ms.into());
        Self { rules, until, n_runs: 0, n_faults: 0, n_errors: 0, before: before.percent() }
    }

    /// Number of runs so far.
    pub fn n_runs(&self) -> u32 {
        self.n_runs
    }

    /// Counts a run of the version. `what` is the error, for the message.
    pub fn ran(&mut self, ended: Ended, what: &str, now: Instant) -> Option<Judgement> {
        self.n_runs = self.n_runs.saturating_add(1);
        match ended {
            Ended::Well => {}
            Ended::Error => self.n_errors += 1,
            Ended::Fault => self.n_faults += 1,
        }
        if self.n_faults > self.rules.max_faults {
            let message = format!(
                "{} of {} runs ended with a fault, more than {}; the last: {what}",
                self.n_faults, self.n_runs, self.rules.max_faults
            );
            return Some(Judgement::TakeBack { reason: "FaultsInProbation", message });
        }
        let percent = f64::from(self.n_errors) * 100.0 / f64::from(self.n_runs);
        if ended == Ended::Error
            && self.n_runs >= MIN_RUNS
            && percent > f64::from(self.rules.max_error_percent).max(self.before)
        {
            let message = format!(
                "{percent:.0}% of {} runs ended with an error, more than {}% (and the {:.0}% before); the last: {what}",
                self.n_runs, self.rules.max_error_percent, self.before
            );
            return Some(Judgement::TakeBack { reason: "ErrorsInProbation", message });
        }
        self.check(now)
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
    use super::*;

    fn rules() -> lifecycle::Probation {
        lifecycle::Probation { runs: 50, for_ms: 1000, max_faults: 2, max_error_percent: 50 }
    }

    fn reason(judgement: Option<Judgement>) -> &'static str {
        match judgement {
            None => "-",
            Some(Judgement::Proven) => "Proven",
            Some(Judgement::TakeBack { reason, .. }) => reason,
        }
    }

    #[test]
    fn proven_after_both_runs_and_time() {
        let start = Instant::now();
        let late = start + Duration::from_millis(1000);
        let mut probation = Probation::begin(rules(), ErrorShare::default(), start);
        for _ in 0..49 {
            assert_eq!(probation.ran(Ended::Well, "", late), None);
        }
        assert_eq!(probation.next_wakeup(), None);
        assert_eq!(probation.ran(Ended::Well, "", start), None);
        assert_eq!(probation.next_wakeup(), Some(late));
        assert_eq!(probation.check(late - Duration::from_millis(1)), None);
        assert_eq!(probation.check(late), Some(Judgement::Proven));
    }

    #[test]
    fn a_fault_over_the_limit_rolls_it_back() {
        let now = Instant::now();
        let mut probation = Probation::begin(rules(), ErrorShare::default(), now);
        assert_eq!(probation.ran(Ended::Fault, "trap", now), None);
        assert_eq!(probation.ran(Ended::Fault, "trap", now), None);
        assert_eq!(
            probation.ran(Ended::Fault, "trap", now),
            Some(Judgement::TakeBack {
                reason: "FaultsInProbation",
                message: "3 of 3 runs ended with a fault, more than 2; the last: trap".into()
            })
        );
    }

    #[test]
    fn errors_count_from_twenty_runs_on_unless_it_was_so_before() {
        let now = Instant::now();
        let mut probation = Probation::begin(rules(), ErrorShare::default(), now);
        let judgements: Vec<_> = (0..20).map(|_| reason(probation.ran(Ended::Error, "503", now))).collect();
        assert!(judgements[..19].iter().all(|judgement| *judgement == "-"));
        assert_eq!(judgements[19], "ErrorsInProbation");
        let mut before = ErrorShare::default();
        (0..100).for_each(|_| before.ran(Ended::Error));
        let mut probation = Probation::begin(rules(), before, now);
        assert!((0..40).all(|_| probation.ran(Ended::Error, "503", now).is_none()));
    }

    #[test]
    fn the_error_rate_decays() {
        let mut share = ErrorShare::default();
        share.ran(Ended::Error);
        share.ran(Ended::Well);
        assert!((share.percent() - 50.0).abs() < 1e-9);
        (0..2000).for_each(|_| share.ran(Ended::Well));
        assert!(share.percent() < 0.1);
    }
}
