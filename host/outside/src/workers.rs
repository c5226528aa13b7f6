//! Threads for signatures: as many at once as the machine has processors, so that plugins cannot take all threads of the host.

use std::sync::LazyLock;

use pintle_core::policy::outside::refused;
use pintle_core::ports::outside::OutsideAnswer;
use tokio::sync::Semaphore;

static SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// Runs work that blocks or computes.
pub(crate) async fn run(work: impl FnOnce() -> OutsideAnswer + Send + 'static) -> OutsideAnswer {
    // The semaphore is never closed.
    let _slot = SLOTS.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(why) => Err(refused("InternalError", format!("the host could not sign: {why}"))),
    }
}
