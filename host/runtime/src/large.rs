//! Work that grows with a text of a plugin or of the API server: not on the async workers, which answer probes and renew the Lease.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// Bytes that are worked through in about a millisecond.
const SMALL_BYTES: usize = 128 << 10;

/// Large texts at the same time, whoever they belong to: processors are left for everything else.
static PIECES: Semaphore = Semaphore::const_new(2);

/// Does work on a text of so many bytes. If it is large, it waits for its turn, and the other tasks of this thread go on elsewhere
/// meanwhile.
pub(crate) async fn on_text<T>(n_bytes: usize, work: impl FnOnce() -> T) -> T {
    if n_bytes <= SMALL_BYTES { work() } else { beside_workers(work).await }
}

/// Does work that may take long. A runtime of one thread has no workers that it could hold, and waits for no other thread: a simulation
/// depends on its seed alone.
///
/// # Cancel safety
/// Safe until the work begins; then it ends before anything else can happen.
pub async fn beside_workers<T>(work: impl FnOnce() -> T) -> T {
    if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
        return work();
    }
    // It is never closed.
    let turn = PIECES.acquire().await;
    let done = block_in_place(work);
    drop(turn);
    done
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The only worker is needed for what the work waits for.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_large_text_holds_no_worker() {
        for n_bytes in [SMALL_BYTES + 1, 32 << 20] {
            let worked = tokio::spawn(async move {
                let (send, receive) = mpsc::channel();
                tokio::spawn(async move { send.send(7) });
                on_text(n_bytes, move || receive.recv()).await
            });
            assert_eq!(worked.await.unwrap(), Ok(7));
        }
        assert_eq!(on_text(SMALL_BYTES, || 1).await, 1);
        assert_eq!(PIECES.available_permits(), 2);
    }
}
