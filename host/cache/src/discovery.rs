//! Periodic discovery of the resources that the API server serves.
//!
//! Flow: discovery -> index by kind -> subscriptions follow it. A group without an answer keeps its previous resources.
//!
//! Discovery runs every [`CachesConfig::discovery_interval`]; soon after a change that hints at new resources, and a
//! few more times, because a server serves a new kind some time after its definition is created; and immediately if a
//! caller waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_core::ports::api::{ApiError, ApiReader};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::resources::Resources;
use crate::types::CachesConfig;

/// Delay in which several hints are merged: a new CustomResourceDefinition is written several times at first.
const SETTLE: Duration = Duration::from_millis(100);
/// Delays after a hint at which discovery is repeated: API servers collect the resources of all groups about once a
/// second, and replicated ones wait five seconds before they serve a new kind.
const FOLLOW_UPS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(7)];

/// Requests for discovery, and their waiters.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryRequests {
    /// Signals that resources may have changed.
    hint: Notify,
    /// Signals that a caller waits.
    ask: Notify,
    /// Number of rounds begun.
    n_begun: AtomicU64,
    /// The last finished round; sent by the discovery task.
    ended: watch::Sender<Ended>,
}

/// Number of finished rounds, with the result of the last one.
#[derive(Clone, Debug, Default)]
struct Ended {
    n: u64,
    /// Start and result of the last round.
    last: Option<(Instant, Outcome)>,
}

/// The group versions without an answer, or the error if discovery failed.
pub(crate) type Outcome = Result<Vec<String>, ApiError>;

impl DiscoveryRequests {
    /// Requests discovery soon.
    pub(crate) fn hint(&self) {
        self.hint.notify_one();
    }

    /// Waits for a round that began at most `max_age` ago, which may already be finished. A failed round counts as
    /// well.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub(crate) async fn fresh(&self, max_age: Duration) -> Outcome {
        let mut ended = self.ended.subscribe();
        let last = ended.borrow().last.clone();
        if let Some((_, outcome)) = last.filter(|(begun, _)| begun.elapsed() < max_age) {
            return outcome;
        }
        let wanted = self.n_begun.load(Ordering::Acquire) + 1;
        self.ask.notify_one();
        // The sender lives as long as `self`.
        let last = ended.wait_for(|ended| ended.n >= wanted).await.ok().and_then(|ended| ended.last.clone());
        last.map_or_else(|| Ok(Vec::new()), |(_, outcome)| outcome)
    }

    fn begin(&self) -> (u64, Instant) {
        (self.n_begun.fetch_add(1, Ordering::AcqRel) + 1, Instant::now())
    }

    fn end(&self, (n, begun): (u64, Instant), outcome: Outcome) {
        self.ended.send_replace(Ended { n, last: Some((begun, outcome)) });
    }

    /// Waits until the next round is due: after `pause` or earlier.
    async fn due(&self, pause: Duration, follow_ups: &mut Vec<Instant>) {
        let now = Instant::now();
        follow_ups.retain(|at| *at > now);
        let mut due = follow_ups.iter().copied().fold(now + pause, Instant::min);
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(due) => return,
                () = self.ask.notified() => return,
                () = self.hint.notified() => {
                    let now = Instant::now();
                    due = due.min(now + SETTLE);
                    *follow_ups = FOLLOW_UPS.iter().map(|after| now + *after).collect();
                }
            }
        }
    }
}

/// Receives the results of discovery.
pub(crate) trait Follower: Send + Sync {
    /// The last discovered resources; `None` before the first success.
    fn resources(&self) -> Option<Arc<Resources>>;
    /// Called when the discovered resources have changed.
    fn follow(&self, resources: Arc<Resources>);
}

/// Runs discovery until the follower is dropped. After a restart the follower binds again, because the panic may have
/// interrupted it.
pub(crate) async fn run(
    reader: Arc<dyn ApiReader>,
    config: CachesConfig,
    requests: Arc<DiscoveryRequests>,
    follower: Weak<dyn Follower>,
    is_restart: bool,
) {
    let mut must_follow = is_restart;
    let mut backoff = Backoff::new(config.backoff_base, config.backoff_max, config.backoff_reset, config.seed);
    let mut follow_ups = Vec::new();
    loop {
        let round = requests.begin();
        let found = reader.discover().await;
        let Some(follower) = follower.upgrade() else { return };
        let outcome = found.as_ref().map(|found| found.failed.clone()).map_err(ApiError::clone);
        let pause = match found {
            Ok(found) => {
                backoff.succeeded();
                if !found.failed.is_empty() {
                    warn!(groups = found.failed.join(", "), "some API groups do not answer discovery");
                }
                let before = follower.resources();
                let now = Resources::new(found, before.as_deref());
                if std::mem::take(&mut must_follow) || before.is_none_or(|before| !before.is_same(&now)) {
                    info!(kinds = now.n_kinds(), "API server's resources are known");
                    follower.follow(Arc::new(now));
                }
                config.discovery_interval
            }
            Err(error) => {
                warn!(%error, code = error.code, "discovery failed");
                backoff.failed(Instant::now().into_std())
            }
        };
        requests.end(round, outcome);
        drop(follower);
        requests.due(pause, &mut follow_ups).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);

    /// Due times of the next rounds, in milliseconds since `start`.
    async fn due_times(requests: &DiscoveryRequests, n: usize, start: Instant) -> Vec<u128> {
        let mut follow_ups = Vec::new();
        let mut times = Vec::new();
        for _ in 0..n {
            requests.due(PAUSE, &mut follow_ups).await;
            times.push(start.elapsed().as_millis());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn a_hint_is_followed_soon_and_a_few_times_more() {
        let requests = DiscoveryRequests::default();
        let start = Instant::now();
        requests.hint();
        assert_eq!(due_times(&requests, 6, start).await, [100, 1_000, 3_000, 7_000, 37_000, 67_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_a_round_that_began_afterwards() {
        let requests = DiscoveryRequests::default();
        let running = requests.begin();
        let mut waiting = std::pin::pin!(requests.fresh(Duration::ZERO));
        assert!(waiting.as_mut().now_or_never().is_none());
        requests.end(running, Ok(Vec::new()));
        assert!(waiting.as_mut().now_or_never().is_none(), "the round began before the question");
        let start = Instant::now();
        assert_eq!(due_times(&requests, 1, start).await, [0]);
        requests.end(requests.begin(), Ok(vec!["apps/v1".into()]));
        assert_eq!(waiting.now_or_never(), Some(Ok(vec!["apps/v1".into()])));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_content_with_less_does_not_ask() {
        let requests = DiscoveryRequests::default();
        requests.end(requests.begin(), Err(ApiError::transport("refused")));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(requests.fresh(Duration::from_secs(5)).now_or_never(), Some(Err(ApiError::transport("refused"))));
        let start = Instant::now();
        assert_eq!(due_times(&requests, 1, start).await, [PAUSE.as_millis()]);
        assert!(requests.fresh(Duration::from_secs(5)).now_or_never().is_none());
    }
}
