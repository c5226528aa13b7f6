//! Progress reports of long transfers.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Time between two reports; shorter transfers report nothing.
const EVERY: Duration = Duration::from_secs(1);

/// Receives a report, as one line of text.
pub type Report = fn(&str);

/// Reports to standard error, for commands.
pub fn stderr(text: &str) {
    // Without standard error, there is nowhere to report.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Reports to the log, for a host.
pub fn log(text: &str) {
    tracing::info!("{text}");
}

/// One transfer.
pub(crate) struct Progress {
    report: Report,
    what: String,
    total_bytes: u64,
    done_bytes: u64,
    last: Instant,
}

impl Progress {
    /// `what` describes the transfer, for example `pulling oci://...`.
    pub(crate) fn new(report: Report, what: String, total_bytes: u64) -> Self {
        Self { report, what, total_bytes, done_bytes: 0, last: Instant::now() }
    }

    /// Counts transferred bytes; reports if the interval has passed.
    pub(crate) fn add(&mut self, n_bytes: usize) {
        self.done_bytes += n_bytes as u64;
        let now = Instant::now();
        if now.duration_since(self.last) >= EVERY {
            self.last = now;
            (self.report)(&format!("{}: {} of {} KiB", self.what, self.done_bytes >> 10, self.total_bytes >> 10));
        }
    }
}
