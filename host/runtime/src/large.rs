//! Work proportional to a text of a plugin or of the API server: kept off the async workers, which answer probes and
//! renew the Lease.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

/// Size of a text that takes about a millisecond.
const SMALL_BYTES: usize = 128 << 10;

/// Number of large texts processed at the same time, over all plugins: the other processors stay free.
static PIECES: Semaphore = Semaphore::const_new(2);

/// Runs work on a text of `n_bytes` bytes. If the text is large, the work waits for its turn, and other tasks of this
/// thread continue on other threads meanwhile.
pub(crate) async fn on_text<T>(n_bytes: usize, work: impl FnOnce() -> T) -> T {
    if n_bytes <= SMALL_BYTES { work() } else { beside_workers(work).await }
}

/// Runs work that may take long. A single-threaded runtime has no other workers to protect, and must not wait for
/// another thread: a simulation depends on its seed alone.
///
/// # Cancel safety
/// Safe until the work begins; then it runs to completion.
pub async fn beside_workers<T>(work: impl FnOnce() -> T) -> T {
    if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
        return work();
    }
    // The semaphore is never closed.
    let turn = PIECES.acquire().await;
    let done = block_in_place(work);
    drop(turn);
    done
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The work waits for another task, which needs the only worker.
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
