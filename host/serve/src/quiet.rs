//! Warnings that strangers can cause, at most one in a while: the log is not theirs to fill.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time between two warnings.
const PAUSE: Duration = Duration::from_secs(10);

/// When something was last reported.
#[derive(Debug, Default)]
pub(crate) struct Quiet(Mutex<Option<Instant>>);

impl Quiet {
    /// Whether it may be reported now; then it may not for a while.
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
