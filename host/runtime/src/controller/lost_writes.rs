//! Determines the fate of writes whose answer was lost, while their key waits.
//!
//! ```text
//! dispatch (key held, its wait open) ──> probes ──ask──> API server ──> Pending::settle ──> released, or held for the caches
//! ```
//!
//! Invariants:
//! 1. No worker waits here: an unreadable kind delays only its own keys.
//! 2. Probing ends with the key's wait: at the bound, the key runs on what the caches show.
//!
//! Not here: the requests of a probe (`writer::WriteProbe`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use pintle_core::object::id::Key;
use pintle_core::policy::pending::{PendingWrite, WaitId};
use pintle_core::ports::api::{ApiError, ListWatchTarget};

use super::Controller;
use crate::writer::WriteProbe;

/// Maximum probes of one plugin in flight: after an outage many keys need one.
pub(super) const MAX_PROBES: usize = 8;
/// First delay before a probe is repeated; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest delay.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Probes, each with how informers read its kind.
pub(super) type WriteProbes = Vec<(WriteProbe, ListWatchTarget)>;
/// The result, or the probe to repeat.
type Answer = Result<Vec<PendingWrite>, ((WriteProbe, ListWatchTarget), ApiError)>;

impl Controller {
    /// The probes whose kinds the plugin's caches contain.
    pub(super) fn relevant(&self, probes: impl IntoIterator<Item = WriteProbe>) -> WriteProbes {
        let cache = self.cache();
        let with_reading = |probe: WriteProbe| {
            let reading = cache.list_watch_target(&probe.kind, &probe.namespace)?;
            Some((probe, reading))
        };
        probes.into_iter().filter_map(with_reading).collect()
    }

    /// Probes until every write is resolved or the wait is over.
    pub(super) async fn resolve_lost_writes(
        self: Arc<Self>,
        key: Key,
        id: WaitId,
        probes: WriteProbes,
        deadline: Instant,
    ) {
        let writes = tokio::select! {
            writes = self.probe_until_known(&key, probes) => writes,
            () = tokio::time::sleep_until(deadline.into()) => return,
            () = self.stopped.cancelled() => return,
        };
        let cache = self.cache();
        let mut inner = self.inner.lock();
        if inner.pending.settle(&key, id, writes, |write| cache.sees(write)) {
            inner.release(&key);
            self.wake_dispatcher(inner);
            self.idle_signal.notify_waiters();
        }
    }

    async fn probe_until_known(&self, key: &Key, mut probes: WriteProbes) -> Vec<PendingWrite> {
        let mut writes = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let answers: Vec<Answer> = futures::stream::iter(probes)
                .map(async |(probe, reading)| {
                    // This semaphore is never closed.
                    let _permit = self.probing.acquire().await;
                    let answer = probe.ask(reading.clone(), &*self.reader).await;
                    answer.map_err(|error| ((probe, reading), error))
                })
                .buffer_unordered(MAX_PROBES)
                .collect()
                .await;
            probes = Vec::new();
            for answer in answers {
                match answer {
                    Ok(more) => writes.extend(more),
                    Err((probe, error)) => {
                        let kind = &probe.0.kind;
                        tracing::debug!(plugin = %self.name, %key, %kind, %error, "the fate of a write is not known yet");
                        probes.push(probe);
                    }
                }
            }
            if probes.is_empty() {
                return writes;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
