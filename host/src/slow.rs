//! Progress lines for slow steps, such as a start without cached compiled code.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Time before the first line, and interval between later ones.
const FIRST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(5);

/// Reports the current part of a slow step: after a second, and then every five. Stops when dropped.
pub(crate) struct Slow(Sender<String>);

impl Slow {
    /// `report` receives the text of [`Slow::at`] on a separate thread.
    pub(crate) fn new(report: impl Fn(&str) + Send + 'static) -> Self {
        Self::with_times(FIRST, AGAIN, report)
    }

    fn with_times(first: Duration, again: Duration, report: impl Fn(&str) + Send + 'static) -> Self {
        let (sender, parts) = mpsc::channel::<String>();
        thread::spawn(move || {
            let (mut part, mut due) = (String::new(), Instant::now() + first);
            loop {
                match parts.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(next) => part = next,
                    Err(RecvTimeoutError::Timeout) => {
                        report(&part);
                        due = Instant::now() + again;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Self(sender)
    }

    /// Sets the current part.
    pub(crate) fn at(&self, part: String) {
        // The thread ends after this.
        let _ = self.0.send(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_part_is_reported_while_the_step_lasts() {
        let (lines, reported) = mpsc::channel();
        let report = move |part: &str| lines.send(part.to_owned()).unwrap_or_default();
        let slow = Slow::with_times(Duration::ZERO, Duration::from_millis(1), report);
        slow.at("one".to_owned());
        while reported.recv().unwrap() != "one" {}
        slow.at("two".to_owned());
        while reported.recv().unwrap() != "two" {}
        drop(slow);
        // The thread ends, which closes its end of the channel.
        while reported.recv().is_ok() {}
    }

    #[test]
    fn a_short_step_reports_nothing() {
        let (lines, reported) = mpsc::channel::<String>();
        let slow = Slow::with_times(Duration::from_secs(3600), Duration::from_secs(3600), move |part| {
            lines.send(part.to_owned()).unwrap_or_default();
        });
        slow.at("one".to_owned());
        drop(slow);
        assert!(reported.recv().is_err());
    }
}
