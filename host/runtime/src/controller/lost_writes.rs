//! Finds out what became of writes whose answer was lost, while their key waits.
//!
//! ```text
//! dispatch (key held, its wait open) ──> probes ──ask──> API server ──> Pending::settle ──> released, or held for the caches
//! ```
//!
//! Invariants:
//! 1. No worker waits here: a kind that cannot be read delays its own keys alone.
//! 2. Asking ends with the key's wait: at the bound, the key runs on what the caches show.
//!
//! Not here: what is asked (`writer::WriteProbe`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use pintle_core::object::id::Key;
use pintle_core::policy::pending::{PendingWrite, WaitId};
use pintle_core::ports::api::{ApiError, Target};

use super::Controller;
use crate::writer::WriteProbe;

/// WriteProbes of one plugin that are under way at once: after an outage many keys ask.
pub(super) const MAX_PROBES: usize = 8;
/// Pause before a probe is asked again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// WriteProbes with how the caches read what they are about.
pub(super) type WriteProbes = Vec<(WriteProbe, Target)>;
/// What is known now, or the probe that has to be asked again.
type Answer = Result<Vec<PendingWrite>, ((WriteProbe, Target), ApiError)>;

impl Controller {
    /// Those probes that the plugin's caches depend on.
    pub(super) fn relevant(&self, probes: impl IntoIterator<Item = WriteProbe>) -> WriteProbes {
        let cache = self.cache();
        let with_reading = |probe: WriteProbe| {
            let reading = cache.reading(&probe.kind, &probe.namespace)?;
            Some((probe, reading))
        };
        probes.into_iter().filter_map(with_reading).collect()
    }

    /// Asks until all is known or the wait is over.
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
            self.activity.notify_waiters();
        }
    }

    async fn probe_until_known(&self, key: &Key, mut probes: WriteProbes) -> Vec<PendingWrite> {
        let mut writes = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let answers: Vec<Answer> = futures::stream::iter(probes)
                .map(async |(probe, reading)| {
                    // Never closed.
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
