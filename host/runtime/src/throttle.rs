//! Repeats requests that the API server throttles, after the requested delay.
//!
//! Not here: other failures, after which the key backs off; the cap of the delay (`ApiError::retry_after`).
//!
//! Source: client-go `rest/request.go` and `rest/with_retry.go`.

use std::future::Future;

use pintle_core::ports::api::{ApiError, MAX_THROTTLED_RETRIES};
use tokio_util::sync::CancellationToken;

/// Sends a request, and repeats it while the answer is 429 with `Retry-After`, at most [`MAX_THROTTLED_RETRIES`] times.
/// `repeated` is called before each repetition.
///
/// # Errors
/// If the request fails. After `stopped`, the next 429 is returned immediately.
///
/// # Cancel safety
/// The same as of the request.
pub async fn retry_throttled<T, F>(
    stopped: &CancellationToken,
    repeated: impl Fn(),
    mut send: impl FnMut() -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ApiError>>,
{
    let mut n_repeated = 0;
    loop {
        let error = match send().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(delay) = error.repeat_after().filter(|_| n_repeated < MAX_THROTTLED_RETRIES) else {
            return Err(error);
        };
        tracing::debug!(?delay, "the API server throttled a request; it is repeated after the delay");
        tokio::select! {
            biased;
            () = tokio::time::sleep(delay) => {
                n_repeated += 1;
                repeated();
            }
            () = stopped.cancelled() => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use pintle_core::ports::api::ApiErrorClass;
    use pintle_testing::refusal;
    use tokio::time::Instant;

    use super::*;

    /// Sends a request that is answered `n_failures` times with `Retry-After` in seconds; returns the number of
    /// requests, the milliseconds until the result, and whether it succeeded.
    async fn sent(after: Option<u64>, code: u16, n_failures: usize) -> (usize, u128, bool) {
        let (n_sent, start) = (Cell::new(0), Instant::now());
        let class = ApiErrorClass::Throttled(after.map(Duration::from_secs));
        let stopped = CancellationToken::new();
        let n_repeated = Cell::new(0);
        let count = || n_repeated.set(n_repeated.get() + 1);
        let result = retry_throttled(&stopped, count, || {
            n_sent.set(n_sent.get() + 1);
            let error = ApiError { class, code, ..refusal(429) };
            let answer = if n_sent.get() > n_failures { Ok(()) } else { Err(error) };
            async move { answer }
        });
        let is_ok = result.await.is_ok();
        assert_eq!(n_repeated.get() + 1, n_sent.get(), "each repetition is reported");
        (n_sent.get(), start.elapsed().as_millis(), is_ok)
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_request_is_repeated_after_the_delay_that_the_server_requests() {
        assert_eq!(sent(Some(7), 429, 2).await, (3, 14_000, true));
        assert_eq!(sent(Some(1), 429, 10).await, (11, 10_000, true));
        assert_eq!(sent(Some(1), 429, 11).await, (11, 10_000, false), "at most ten times");
        assert_eq!(sent(None, 429, 1).await, (1, 0, false), "without a delay, the caller's backoff applies");
        assert_eq!(sent(Some(1), 503, 1).await, (1, 0, false), "the request may have been carried out");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_that_no_clock_can_represent_is_a_minute() {
        assert_eq!(sent(Some(u64::MAX), 429, 1).await, (2, 60_000, true));
        assert_eq!(sent(Some(86_400), 429, 1).await, (2, 60_000, true));
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_ends_the_delay() {
        let stopped = CancellationToken::new();
        let start = Instant::now();
        let stop = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            stopped.cancel();
        };
        let (result, ()) =
            tokio::join!(retry_throttled(&stopped, || (), || async { Err::<(), _>(refusal(429)) }), stop);
        assert_eq!((result.is_err(), start.elapsed()), (true, Duration::from_secs(2)));
    }
}
