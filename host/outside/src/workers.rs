//! Threads for signatures: one fewer than the machine's processors, so that the host keeps running whatever plugins
//! sign.

use std::sync::LazyLock;

use pintle_core::policy::outside::refused;
use pintle_core::ports::outside::OutsideAnswer;
use tokio::sync::Semaphore;

static SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(n_slots(std::thread::available_parallelism().map_or(1, usize::from))));

fn n_slots(n_processors: usize) -> usize {
    n_processors.saturating_sub(1).max(1)
}

/// Runs work that blocks or computes.
pub(crate) async fn run(work: impl FnOnce() -> OutsideAnswer + Send + 'static) -> OutsideAnswer {
    // The semaphore is never closed.
    let _slot = SLOTS.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(why) => Err(refused("InternalError", format!("the host could not sign: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_left_where_there_are_several() {
        assert_eq!([1, 2, 8].map(n_slots), [1, 1, 7]);
    }
}
