//! Asks the API server about writes while their key waits: about writes whose answer was lost, and writes that the
//! caches do not show within the bound.
//!
//! ```text
//! dispatch (key held, its wait open) ──> probes ──ask──> API server ──> Pending::settle ──> released, or held for the caches
//! bound passed ──> watch reopened, probe ──ask──> API server ──> Pending::confirm ──> released, or held
//! ```
//!
//! Invariants:
//! 1. No worker waits here: a kind that cannot be read delays only its own keys.
//! 2. A key is released only with proof: the caches have reached its writes, or they show the same as the API server.
//! 3. At most [`MAX_PROBES`] requests of a plugin are in flight, within its rate limit.
//!
//! Not here: the requests of a probe (`writer::WriteProbe`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use pintle_cache::Subscription;
use pintle_core::object::id::{Key, Kind};
use pintle_core::policy::pending::{Confirmed, Leaves, Overdue, PendingWrite, WaitId};
use pintle_core::policy::selection::Selected;
use pintle_core::ports::api::{ApiError, ApiErrorClass, ListWatchTarget};

use super::Controller;
use super::run::RunResult;
use crate::writer::WriteProbe;

/// Maximum probes of one plugin in flight: after an outage, many keys need a probe.
pub(super) const MAX_PROBES: usize = 8;
/// First delay before a probe is repeated; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest delay, as for informers.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Probes, each with the informers' target for its kind.
pub(super) type WriteProbes = Vec<(WriteProbe, ListWatchTarget)>;
/// The result, or the probe to repeat.
type Answer = Result<Vec<PendingWrite>, ((WriteProbe, ListWatchTarget), ApiError)>;

impl Controller {
    /// The writes of a run that the caches must show, the probes for writes whose result is unknown, and the delay of
    /// these probes.
    pub(super) fn unsettled(
        &self,
        cache: &Subscription,
        run_result: &mut RunResult,
    ) -> (Vec<PendingWrite>, WriteProbes, Duration) {
        let (mut writes, probes, after) = run_result.take_writes();
        let mut probes = self.relevant(probes);
        probes.extend(self.unclear(cache, &mut writes));
        (writes, probes, after)
    }

    /// The probes whose kinds the plugin's caches contain.
    fn relevant(&self, probes: impl IntoIterator<Item = WriteProbe>) -> WriteProbes {
        let cache = self.cache();
        let with_reading = |probe: WriteProbe| {
            let reading = cache.list_watch_target(&probe.kind, &probe.namespace)?;
            Some((probe, reading))
        };
        probes.into_iter().filter_map(with_reading).collect()
    }

    /// Removes the writes that the caches may never show, because a field selector depends on fields that the answers
    /// do not contain; returns probes for them.
    fn unclear(&self, cache: &Subscription, writes: &mut Vec<PendingWrite>) -> WriteProbes {
        let may_be_outside = |write: &mut PendingWrite| {
            write.labels.is_some() && cache.selects(write) == Selected::Unknown && !cache.sees(write)
        };
        let unclear = writes.extract_if(.., may_be_outside);
        self.relevant(unclear.map(|write| WriteProbe::named(&write.kind, &write.object)))
    }

    /// Probes, after a delay, until the results of all writes are known.
    pub(super) async fn resolve_lost_writes(
        self: Arc<Self>,
        key: Key,
        id: WaitId,
        probes: WriteProbes,
        after: Duration,
    ) {
        let known = async {
            tokio::time::sleep(after).await;
            self.probe_until_known(&key, probes).await
        };
        let writes = tokio::select! {
            biased;
            writes = known => writes,
            () = self.tasks.stopped.cancelled() => return,
        };
        let cache = self.cache();
        let mut inner = self.inner.lock();
        if inner.keys.settle(&key, id, writes, |write| cache.sees(write)) {
            self.released(inner, &[key]);
        }
    }

    /// Reports keys that have waited longer than the bound, reopens the watches of their kinds, and asks the API server
    /// about their writes.
    pub(super) fn follow_overdue(self: &Arc<Self>, overdue: Vec<Overdue<Key>>) {
        let Some(example) = overdue.first() else { return };
        let n_new = overdue.iter().filter(|wait| wait.is_first).count();
        self.observers.metrics.stale_timeouts.inc_by(n_new as u64);
        let kinds: BTreeSet<&Kind> =
            overdue.iter().filter_map(|wait| wait.write.as_ref()).map(|write| &write.kind).collect();
        tracing::warn!(
            plugin = %self.name, key = %example.key, n_keys = overdue.len(), n_new, n_writes = example.n_writes,
            kind = %example.write.as_ref().map_or_else(String::new, |write| write.kind.to_string()),
            version = example.write.as_ref().map_or("", |write| &write.resource_version),
            "the caches do not show writes of keys in time: these keys stay held; check the API server and the network"
        );
        let cache = self.cache();
        for kind in kinds {
            cache.reopen(kind);
        }
        for Overdue { key, id, write, .. } in overdue {
            if let Some(write) = write {
                self.spawn_supervised("probe", move |controller, _| {
                    controller.confirm_write(key.clone(), id, write.clone())
                });
            }
        }
    }

    /// Asks the API server about a key's unseen writes, one by one, until the caches prove to be stale.
    async fn confirm_write(self: Arc<Self>, key: Key, id: WaitId, mut write: PendingWrite) {
        loop {
            let cache = self.cache();
            let live = match cache.list_watch_target(&write.kind, &write.object.namespace) {
                Some(reading) => tokio::select! {
                    biased;
                    live = self.ask_about(&write, reading) => live,
                    () = self.tasks.stopped.cancelled() => return,
                },
                // The plugin no longer watches the kind, so every write of the kind counts as shown.
                None => Ok(write.clone()),
            };
            let live = match live {
                Ok(live) => live,
                Err(error) => {
                    tracing::debug!(plugin = %self.name, %key, kind = %write.kind, %error, "the API server does not show a write");
                    return;
                }
            };
            let mut inner = self.inner.lock();
            match inner.keys.confirm(&key, id, &write, live, |write| cache.sees(write)) {
                Confirmed::Next(next) => write = next,
                Confirmed::Stale | Confirmed::Over(false) => return,
                Confirmed::Over(true) => return self.released(inner, &[key]),
            }
        }
    }

    /// The current state of a written object, as a watch would show it.
    async fn ask_about(&self, write: &PendingWrite, reading: ListWatchTarget) -> Result<PendingWrite, ApiError> {
        // This semaphore is never closed.
        let _permit = self.reads.probing.acquire().await;
        let probe = WriteProbe::named(&write.kind, &write.object);
        let found = probe.ask(reading, &*self.reads.host, &*self.reads.plugin).await?;
        let gone = || PendingWrite {
            leaves: Leaves::Nothing,
            resource_version: String::new(),
            uid: String::new(),
            ..write.clone()
        };
        Ok(found.into_iter().next().unwrap_or_else(gone))
    }

    async fn probe_until_known(&self, key: &Key, mut probes: WriteProbes) -> Vec<PendingWrite> {
        let mut writes = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let answers: Vec<Answer> = futures::stream::iter(probes)
                .map(async |(probe, reading)| {
                    // This semaphore is never closed.
                    let _permit = self.reads.probing.acquire().await;
                    let answer = probe.ask(reading.clone(), &*self.reads.host, &*self.reads.plugin).await;
                    answer.map_err(|error| ((probe, reading), error))
                })
                .buffer_unordered(MAX_PROBES)
                .collect()
                .await;
            probes = Vec::new();
            for answer in answers {
                match answer {
                    Ok(more) => writes.extend(more),
                    // The server no longer has the kind, and therefore not the object.
                    Err((_, error)) if error.class == ApiErrorClass::NotFound => {}
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
