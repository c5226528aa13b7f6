//! Rate-limited warnings for events that unauthenticated clients can cause, so that they cannot fill the log.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Interval between two warnings.
const PAUSE: Duration = Duration::from_secs(10);

/// Time of the last report.
#[derive(Debug, Default)]
pub(crate) struct Quiet(Mutex<Option<Instant>>);

impl Quiet {
    /// Whether to report now. If so, later reports are suppressed for a while.
    pub(crate) fn may_report(&self) -> bool {
        let mut last = self.0.lock();
        let may = last.is_none_or(|last| last.elapsed() >= PAUSE);
        if may {
            *last = Some(Instant::now());
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn something_is_reported_once_in_a_while() {
        let quiet = Quiet::default();
        assert!(quiet.may_report() && !quiet.may_report());
        tokio::time::advance(PAUSE - Duration::from_millis(1)).await;
        assert!(!quiet.may_report());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(quiet.may_report() && !quiet.may_report());
    }
}
