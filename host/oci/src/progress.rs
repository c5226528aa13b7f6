//! Telling that a long transfer is under way.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Quicker transfers are not told of; longer ones as often as this.
const EVERY: Duration = Duration::from_secs(1);

/// Who is told.
pub type Tell = fn(&str);

/// Standard error, for commands.
pub fn stderr(text: &str) {
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The log, for a host.
pub fn log(text: &str) {
    tracing::info!("{text}");
}

/// One transfer.
pub(crate) struct Progress {
    tell: Tell,
    what: String,
    total_bytes: u64,
    done_bytes: u64,
    last: Instant,
}

impl Progress {
    /// `what` is such as `pulling oci://...`.
    pub(crate) fn new(tell: Tell, what: String, total_bytes: u64) -> Self {
        Self { tell, what, total_bytes, done_bytes: 0, last: Instant::now() }
    }

    /// So many bytes more.
    pub(crate) fn add(&mut self, n_bytes: usize) {
        self.done_bytes += n_bytes as u64;
        let now = Instant::now();
        if now.duration_since(self.last) >= EVERY {
            self.last = now;
            (self.tell)(&format!("{}: {} of {} KiB", self.what, self.done_bytes >> 10, self.total_bytes >> 10));
        }
    }
}
