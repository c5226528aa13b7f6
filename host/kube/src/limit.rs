//! The rate limit of a client, shared by all its requests.
//!
//! Source: client-go's `flowcontrol`: each controller of kube-controller-manager has one limit for all its requests.

use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::policy::ratelimit::TokenBucket;
use pintle_core::ports::api::WriterIdentity;
use tokio::time::Instant;

/// The limit of a client. The default is no limit.
#[derive(Default)]
pub(crate) struct Limit(Option<Mutex<TokenBucket>>);

impl Limit {
    pub(crate) fn of(identity: &WriterIdentity) -> Self {
        Self(identity.qps.map(|qps| Mutex::new(TokenBucket::new(f64::from(qps), identity.burst))))
    }

    /// Waits for the turn of one request; returns the delay, if there is a limit.
    pub(crate) async fn wait(&self) -> Option<Duration> {
        let delay = self.0.as_ref()?.lock().reserve(Instant::now().into_std());
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_over_the_burst_waits_for_its_turn() {
        let identity = WriterIdentity { name: "a".into(), qps: Some(20.0), burst: 2, account: None, fence: None };
        let limit = Limit::of(&identity);
        let started = Instant::now();
        for expected in [0, 0, 50, 100] {
            limit.wait().await;
            let took = started.elapsed().as_millis();
            assert!((expected..expected + 5).contains(&took), "{took} ms instead of {expected}");
        }
        assert_eq!(Limit::default().wait().await, None);
    }
}
