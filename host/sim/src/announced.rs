//! Waits for a condition with explicit notifications.
//!
//! *Invariant*: waiters are woken in the order in which they started to wait, so that simulations are reproducible.
//! `tokio::sync::watch` wakes them in a random order.

use tokio::sync::Notify;

/// Waits until `look` returns a value. Code that changes its inputs must call `notify_waiters` afterwards.
///
/// # Cancel safety
/// Nothing is lost.
pub(crate) async fn until<T>(changed: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        let change = changed.notified();
        tokio::pin!(change);
        // Before the check, so that no change is missed.
        change.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        change.await;
    }
}
