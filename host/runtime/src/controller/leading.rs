//! Terms of leadership: a controller runs only while its host is the leader.
//!
//! ```text
//! standby (caches only) ──lead: every object becomes keys──> leading ──stand_by: runs in flight end, all is forgotten──> standby
//! ```
//!
//! Invariants:
//! 1. On standby the plugin is not called, and nothing is queued; the caches and their subscriptions stay.
//! 2. A term begins like a restart, with every object as new, but with warm caches: information of an earlier term
//!    about keys, failures and state is outdated.
//! 3. No term begins while runs of the previous one are in flight.
//!
//! Not here: leader election (`election`), the fence that stops writes ([`pintle_core::ports::api::WriteFence`]).

use std::sync::Arc;

use pintle_core::policy::pending::PendingWrite;
use pintle_core::policy::queue::Priority;
use pintle_core::policy::selection::Selected;

use super::state::KeyedState;
use super::{Controller, now};

impl Controller {
    /// Makes the controller start on standby. Call it before [`Controller::start`].
    pub(crate) fn begin_on_standby(&self) {
        self.inner.lock().leads = false;
        self.leading.send_replace(false);
    }

    /// Whether this host may run the plugin.
    pub(crate) fn leads(&self) -> bool {
        *self.leading.borrow()
    }

    /// Waits until this host is the leader.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn led(&self) {
        // The sender lives as long as `self`.
        let _ = self.leading.subscribe().wait_for(|leads| *leads).await;
    }

    /// Whether the caches show a write of another host. Incomplete caches count as showing it, because they begin with
    /// a new list.
    pub(crate) fn sees(&self, write: &PendingWrite) -> bool {
        let version = self.version();
        let Some(cache) = version.cache().filter(|cache| cache.is_synced()) else { return true };
        // The selector of a watch may leave the object out.
        cache.selects(write) == Selected::Unknown || cache.sees(write)
    }

    /// Starts a term. Does nothing during a term.
    pub(crate) fn lead(self: &Arc<Self>) {
        let now = now();
        let mut inner = self.inner.lock();
        if std::mem::replace(&mut inner.leads, true) {
            return;
        }
        // On standby nothing ran that could prove a version.
        inner.rollout.restart(now);
        drop(inner);
        self.leading.send_replace(true);
        self.tasks.tracker.spawn(self.clone().see_all_again());
        self.observers.mark_changed();
    }

    /// Passes every object through the rules and the mapping, as if it had just been listed.
    async fn see_all_again(self: Arc<Self>) {
        if !self.filled().await {
            return;
        }
        let Some(cache) = self.version().cache() else { return };
        for kind in cache.snapshot().listed_kinds() {
            if !self.leads() {
                return;
            }
            let objects = cache.snapshot().all_as_new(&kind);
            self.apply_batch(&cache, &objects).await;
        }
        self.enqueue(cache.all_keys(), Priority::Low);
    }

    /// Ends the term: starts no more runs, waits for runs in flight, and forgets the state of keys.
    ///
    /// # Cancel safety
    /// No run starts even if the future is dropped; but then the controller must not lead again.
    pub(crate) async fn stand_by(&self) {
        if !std::mem::replace(&mut self.inner.lock().leads, false) {
            return;
        }
        self.leading.send_replace(false);
        self.mapping.clear();
        loop {
            let ended = self.tasks.idle_signal.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.inner.lock().keys.n_running() == 0 && self.mapping.is_idle() {
                break;
            }
            ended.await;
        }
        let mut inner = self.inner.lock();
        inner.keys.clear();
        inner.stale.clear();
        inner.state = KeyedState::default();
        inner.key_gauges.clear(&self.version().declared);
        inner.health.supervisor.reset();
        inner.health.forget_faults();
        drop(inner);
        self.observers.mark_changed();
    }
}
