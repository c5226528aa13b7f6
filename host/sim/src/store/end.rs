//! The end of a table's log, for which watches wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::announced;

#[derive(Debug, Default)]
struct Shared {
    /// Sequence number after the last event.
    next: AtomicU64,
    closed: AtomicBool,
    moved: Notify,
}

/// The table's end; dropping it closes the log.
#[derive(Debug, Default)]
pub(super) struct End(Arc<Shared>);

/// A watch's half.
#[derive(Debug)]
pub(super) struct EndReader(Arc<Shared>);

impl End {
    /// Moves the end after an event.
    pub(super) fn set(&self, next: u64) {
        self.0.next.store(next, Ordering::SeqCst);
        self.0.moved.notify_waiters();
    }

    pub(super) fn reader(&self) -> EndReader {
        EndReader(Arc::clone(&self.0))
    }

    /// Whether the reader belongs to this log.
    pub(super) fn is_of(&self, reader: &EndReader) -> bool {
        Arc::ptr_eq(&self.0, &reader.0)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.moved.notify_waiters();
    }
}

impl EndReader {
    /// Waits until the end is after this event; false when the log is closed.
    pub(super) async fn beyond(&self, next: u64) -> bool {
        let look = || {
            if self.0.closed.load(Ordering::SeqCst) {
                return Some(false);
            }
            (self.0.next.load(Ordering::SeqCst) > next).then_some(true)
        };
        announced::until(&self.0.moved, look).await
    }
}
