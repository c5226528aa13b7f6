//! Starts the runs of keys, and processes their results.
//!
//! ```text
//! changes, ticks, resyncs ──> key table ──take──> worker: run ──> finish ──end──> key table
//!                                                                   └──> what follows for the plugin (`ended`), who observes it (`observers`)
//! ```
//!
//! Invariants:
//! 1. No key runs before the plugin's caches are synced.
//! 2. Nothing polls: the dispatcher sleeps until the next deadline or a wake-up.
//!
//! Not here: the order of keys, and the consequences of a run for its key (`pintle_core::policy::keys`); the run itself
//! (`run`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use parking_lot::MutexGuard;
use pintle_core::lifecycle::supervisor::Gate;
use pintle_core::object::id::Key;
use pintle_core::policy::keys::Awaited;
use pintle_core::policy::loops::Stamp;
use pintle_core::policy::pending::{Overdue, PendingWrite};
use pintle_core::policy::queue::{Priority, Taken};
use pintle_core::ports::guest::{FaultKind, PluginFault};

use super::observers::{EndedRun, StaleWait};
use super::run::RunResult;
use super::{Controller, ControllerState, Version, now};
use crate::panic_text;
use crate::traces::RunTrace;

/// Work of the dispatcher outside the lock.
#[derive(Default)]
struct Due {
    /// Queues whose resync is due.
    resyncs: Vec<Arc<str>>,
    /// Keys whose writes have been missing from the caches for longer than the bound.
    overdue: Vec<Overdue<Key>>,
    /// The probation period is over.
    conclude: bool,
    /// Time of the next deadline.
    next: Option<Instant>,
}

impl Controller {
    /// Starts workers until the controller stops. After a restart every key is enqueued, because due work may be lost.
    pub(super) async fn dispatch(self: Arc<Self>, is_restart: bool) {
        if !self.filled().await {
            return;
        }
        if is_restart {
            self.enqueue(self.cache().all_keys(), Priority::Low);
        }
        tracing::info!(plugin = %self.name, "caches are synced");
        self.observers.mark_changed();
        self.inner.lock().start_clocks(now());
        let mut leading = self.leading.subscribe();
        while !self.tasks.stopped.is_cancelled() {
            let due = self.due();
            for queue in &due.resyncs {
                self.resync(queue);
            }
            self.follow_overdue(due.overdue);
            if due.conclude {
                self.follow_probation();
            }
            self.tasks.idle_signal.notify_waiters();
            let at_next = async {
                match due.next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.tasks.stopped.cancelled() => {}
                // The sender lives as long as `self`.
                _ = leading.changed() => self.inner.lock().start_clocks(now()),
                () = self.tasks.wake.notified() => {}
                () = at_next => {}
            }
        }
    }

    /// Waits until the caches of the current version are synced; returns false if the controller stops before.
    pub(super) async fn filled(&self) -> bool {
        let mut switches = self.current.subscribe();
        loop {
            let cache = self.cache();
            tokio::select! {
                biased;
                () = cache.synced() => return true,
                // Another version has taken over, and its caches count. The sender lives as long as `self`.
                _ = switches.changed() => {}
                () = self.tasks.stopped.cancelled() => return false,
            }
        }
    }

    /// Starts workers for the ready keys, and returns other due work.
    fn due(self: &Arc<Self>) -> Due {
        let now = now();
        let mut due = Due::default();
        let mut inner = self.inner.lock();
        due.overdue = inner.keys.overdue(now, self.stale_bound);
        due.resyncs = inner.keys.tick(now);
        for queue in 0..inner.keys.n_queues() {
            // Without an await in between: a key that is taken but has no worker would never run again.
            while let Some(taken) = inner.take(queue, now) {
                self.tasks.tracker.spawn(self.clone().work(queue, taken));
            }
        }
        self.check_probation(&mut inner, now);
        due.conclude = inner.rollout.has_verdict();
        due.next = inner.next_wakeup(now);
        inner.planned = due.next;
        due
    }

    fn resync(&self, queue: &Arc<str>) {
        let keys = self.cache().all_keys().into_iter().filter(|key| key.queue == *queue).collect();
        self.enqueue(keys, Priority::Low);
    }

    /// Enqueues keys and wakes the dispatcher.
    pub(crate) fn enqueue(&self, keys: Vec<Key>, priority: Priority) {
        let now = now();
        let mut inner = self.inner.lock();
        for key in keys {
            inner.add(key, None, None, priority, now);
        }
        self.wake_dispatcher(inner);
    }

    /// Wakes the dispatcher if its next deadline is too late.
    pub(super) fn wake_dispatcher(&self, inner: MutexGuard<'_, ControllerState>) {
        let now = now();
        let is_open =
            inner.leads && inner.health.supervisor.gate(now) != Gate::Shut && !inner.rollout.holds_deletions();
        let idle_worker = is_open && inner.keys.has_ready();
        let earlier = inner.next_wakeup(now).is_some_and(|next| inner.planned.is_none_or(|planned| next < planned));
        drop(inner);
        if idle_worker || earlier {
            self.tasks.wake.notify_one();
        }
    }

    async fn work(self: Arc<Self>, queue: usize, mut taken: Taken<Key>) {
        self.observers.metrics.active.inc();
        loop {
            let started = now();
            let version = self.version();
            let trace = self.observers.begin_trace(taken.waited);
            let run = AssertUnwindSafe(self.run(&version, &taken.key, trace.as_ref())).catch_unwind().await;
            // A panic here is a bug of the host. The key gets the backoff of a fault; nothing else is affected.
            let run_result = run.unwrap_or_else(|panic| {
                let message = format!("the host panicked: {}", panic_text(&*panic));
                RunResult::Fault(PluginFault { kind: FaultKind::HostCall, message })
            });
            let finish = AssertUnwindSafe(|| self.finish(queue, &version, &taken.key, run_result, started, trace));
            match std::panic::catch_unwind(finish) {
                Ok(Some(next)) => taken = next,
                Ok(None) => break,
                Err(panic) => {
                    self.caches.supervisor().panicked("worker", &*panic);
                    self.recover(queue, &taken.key);
                    break;
                }
            }
            tokio::task::consume_budget().await;
        }
        self.observers.metrics.active.dec();
        self.tasks.idle_signal.notify_waiters();
    }

    /// Ends the run of a key whose result could not be processed.
    fn recover(&self, queue: usize, key: &Key) {
        let now = now();
        let mut inner = self.inner.lock();
        inner.keys.recover(queue, key, self.stale_bound, now);
        // A trial ends with its run, whatever the result; otherwise the plugin would stay paused.
        inner.health.supervisor.ran(key, true, now);
        drop(inner);
        self.tasks.wake.notify_one();
    }

    /// Processes the result of a run, and takes the next key for the worker.
    fn finish(
        self: &Arc<Self>,
        queue: usize,
        version: &Arc<Version>,
        key: &Key,
        mut run_result: RunResult,
        started: Instant,
        trace: Option<RunTrace>,
    ) -> Option<Taken<Key>> {
        let now = now();
        let took = now.saturating_duration_since(started);
        let cache = self.cache();
        let (writes, probes, probe_after) = self.unsettled(&cache, &mut run_result);
        self.observers.wrote(&writes);
        let sees = |write: &PendingWrite| cache.sees(write);
        let awaited = Awaited { writes, is_open: !probes.is_empty(), deadline: now + self.stale_bound, sees };
        let mut inner = self.inner.lock();
        let (attempt, present) = (inner.keys.attempt(key), self.version());
        let followed = inner.run_ended(queue, key, &run_result, awaited, Arc::ptr_eq(version, &present), now);
        let wait = followed.as_ref().and_then(|(end, _)| end.wait);
        if wait.is_some() {
            let traced = trace.as_ref().map(|trace| (trace.span, trace.begun_at + took));
            inner.stale.insert(key.clone(), StaleWait { begun: now, traced });
        }
        let has_verdict = followed.is_some() && inner.rollout.has_verdict();
        let next = followed.as_ref().and_then(|_| inner.take(queue, now));
        self.wake_dispatcher(inner);
        if let Some(id) = wait.filter(|_| !probes.is_empty()) {
            let key = key.clone();
            self.spawn_supervised("probe", move |controller, _| {
                controller.resolve_lost_writes(key.clone(), id, probes.clone(), probe_after)
            });
        }
        let (result, present, followed) = (&run_result, &*present, followed.as_ref());
        let run = EndedRun { key, attempt, version, present, result, took, followed };
        // The next key is already taken: an observer's bug must not lose it.
        let reported = std::panic::catch_unwind(AssertUnwindSafe(|| self.observers.run_ended(&run, trace)));
        if let Err(panic) = reported {
            self.caches.supervisor().panicked("worker", &*panic);
        }
        if has_verdict {
            self.follow_probation();
        }
        next
    }

    /// Wakes the dispatcher for keys that were released because the caches show their writes.
    pub(super) fn released(&self, mut inner: MutexGuard<'_, ControllerState>, keys: &[Key]) {
        let waits: Vec<StaleWait> = keys.iter().filter_map(|key| inner.stale.remove(key)).collect();
        self.wake_dispatcher(inner);
        self.observers.waited(&waits, now());
        self.tasks.idle_signal.notify_waiters();
    }
}

impl ControllerState {
    pub(super) fn start_clocks(&mut self, now: Instant) {
        if self.leads {
            self.keys.start_clocks(now);
        }
    }

    /// Adds a key to its queue, now or after a delay ([`KeyTable::add`](pintle_core::policy::keys::KeyTable::add)).
    pub(super) fn add(
        &mut self,
        key: Key,
        cause: Option<Stamp>,
        delay: Option<Duration>,
        priority: Priority,
        now: Instant,
    ) {
        if !self.stopping && self.leads {
            self.keys.add(key, cause, delay, priority, now);
        }
    }

    /// Takes the next key of a queue, if a worker is free.
    fn take(&mut self, queue: usize, now: Instant) -> Option<Taken<Key>> {
        self.keys.advance(queue, now);
        if self.stopping || !self.leads || self.rollout.holds_deletions() {
            return None;
        }
        let supervisor = &mut self.health.supervisor;
        let taken = self.keys.take(queue, supervisor.gate(now), |key| supervisor.prefers(key), now)?;
        supervisor.took(&taken.key, taken.suspect);
        Some(taken)
    }

    fn next_wakeup(&self, now: Instant) -> Option<Instant> {
        let of_rollout = self.rollout.next_wakeup().filter(|_| self.leads);
        [self.keys.next_due(), self.health.supervisor.next_wakeup(now), of_rollout].into_iter().flatten().min()
    }
}
