//! Waits for a condition whose changes are announced.
//!
//! *Invariant*: those who wait are woken in the order in which they began to, so that simulations repeat. `tokio::sync::watch` wakes
//! them in a random order.

use tokio::sync::Notify;

/// Waits until `look` finds something. Whoever changes what it looks at calls `notify_waiters` afterwards.
///
/// # Cancel safety
/// Nothing is lost.
pub(crate) async fn until<T>(changed: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        let change = changed.notified();
        tokio::pin!(change);
        // Before the look, so that no change is missed.
        change.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        change.await;
    }
}
