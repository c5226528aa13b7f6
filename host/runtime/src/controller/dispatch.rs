//! Decides which key runs when, and what follows from its result.
//!
//! ```text
//! changes, ticks, resyncs ──> queues ──take──> worker: run ──> finish ──> forget | retry later | drop
//!                               ^                                └─ writes unseen: hold ─┐
//!                               └───────────── release <── caches moved on ──────────────┘
//! ```
//!
//! Invariants:
//! 1. At most one worker runs a key; each queue has at most its concurrency of workers.
//! 2. No key runs before the plugin's caches are synced.
//! 3. A key does not run while the caches do not show its writes, or while the fate of a write is unknown. After the bound,
//!    the API server is asked (`lost_writes`); time alone releases no key.
//! 4. Nothing polls: the dispatcher sleeps until the next deadline or a wake-up.
//! 5. A fault delays its own key only: the key becomes a suspect of its queue, and takes nothing from the rate limit that the
//!    queue's other retries share.
//!
//! Not here: the run itself (`run`), the rules of the queue (`pintle_core::policy::queue`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use parking_lot::MutexGuard;
use pintle_core::contract::outcome::ReconcileError;
use pintle_core::lifecycle::deletions::DeletionGuard;
use pintle_core::lifecycle::probation::{Ended, Probation};
use pintle_core::lifecycle::supervisor::Gate;
use pintle_core::object::id::Key;
use pintle_core::policy::correlator::cut;
use pintle_core::policy::pending::Overdue;
use pintle_core::policy::queue::{Priority, Suspect, Taken};
use pintle_core::ports::guest::{FaultKind, PluginFault};

use super::queue::ControllerQueue;
use super::run::{RunResult, is_refused};
use super::{Controller, ControllerState, KeptFailures, StaleWait, Version};
use crate::panic_text;
use crate::traces::RunTrace;
use crate::writer::{NOT_GRANTED, NOT_LEADING};

/// Minimum delay of a key that requests an immediate requeue: client-go's delay after one failure. Without it, a plugin that
/// always requests a requeue would never pause.
pub(super) const MIN_REQUEUE: Duration = Duration::from_millis(5);

/// The clock of queues, limits and deadlines.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Work that the dispatcher does without the lock.
#[derive(Default)]
struct Due {
    /// Queues whose resync is due.
    resyncs: Vec<usize>,
    /// Keys whose writes the caches have not shown for longer than the bound.
    overdue: Vec<Overdue<Key>>,
    /// The probation period is over.
    conclude: bool,
    /// Time of the next deadline.
    next: Option<Instant>,
}

impl Controller {
    /// Starts workers until the controller stops. After a restart every key is enqueued, because what was due may be lost.
    pub(super) async fn dispatch(self: Arc<Self>, is_restart: bool) {
        if !self.filled().await {
            return;
        }
        if is_restart {
            self.enqueue(self.cache().all_keys(), Priority::Low);
        }
        tracing::info!(plugin = %self.name, "caches are synced");
        self.mark_changed();
        self.inner.lock().start_clocks(now());
        let mut leading = self.leading.subscribe();
        while !self.stopped.is_cancelled() {
            let due = self.due();
            for queue in due.resyncs {
                self.resync(queue);
            }
            self.follow_overdue(due.overdue);
            if due.conclude {
                self.follow_probation();
            }
            self.idle_signal.notify_waiters();
            let at_next = async {
                match due.next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stopped.cancelled() => {}
                // The sender lives as long as `self`.
                _ = leading.changed() => self.inner.lock().start_clocks(now()),
                () = self.wake.notified() => {}
                () = at_next => {}
            }
        }
    }

    /// Waits until the caches of the present version are synced; returns false if the controller stops before.
    pub(super) async fn filled(&self) -> bool {
        let mut switches = self.switches.subscribe();
        loop {
            let cache = self.cache();
            tokio::select! {
                biased;
                () = cache.synced() => return true,
                // Another version has taken over, so its caches count. The sender lives as long as `self`.
                _ = switches.changed() => {}
                () = self.stopped.cancelled() => return false,
            }
        }
    }

    /// Starts workers for the keys that are ready, and returns what else is due.
    fn due(self: &Arc<Self>) -> Due {
        let now = now();
        let mut due = Due::default();
        let mut inner = self.inner.lock();
        due.overdue = inner.pending.overdue(now, self.stale_bound);
        for i in 0..inner.queues.len() {
            if inner.queues[i].clocks_due(now) {
                due.resyncs.push(i);
            }
            // At once: a key that is taken and has no worker would never run again.
            while let Some(taken) = inner.take(i, now) {
                self.tasks.spawn(self.clone().work(i, taken));
            }
        }
        self.check_probation(&mut inner, now);
        due.conclude = inner.history.has_concluded();
        due.next = inner.next_wakeup(now);
        inner.planned = due.next;
        due
    }

    fn resync(&self, queue: usize) {
        let Some(name) = self.inner.lock().queues.get(queue).map(|queue| queue.name.clone()) else { return };
        let keys = self.cache().all_keys().into_iter().filter(|key| key.queue == name).collect();
        self.enqueue(keys, Priority::Low);
    }

    /// Enqueues keys and wakes the dispatcher.
    pub(crate) fn enqueue(&self, keys: Vec<Key>, priority: Priority) {
        let now = now();
        let mut inner = self.inner.lock();
        for key in keys {
            inner.loops.caused(&key, None);
            inner.add(key, None, priority, now);
        }
        self.wake_dispatcher(inner);
    }

    /// Wakes the dispatcher if its next deadline is too late.
    pub(super) fn wake_dispatcher(&self, inner: MutexGuard<'_, ControllerState>) {
        let idle_worker = inner
            .queues
            .iter()
            .any(|queue| queue.work_queue.n_ready() > 0 && queue.work_queue.n_running() < queue.concurrency);
        let now = now();
        let is_open =
            inner.leads && inner.health.supervisor.gate(now) != Gate::Shut && !inner.history.holds_deletions();
        let idle_worker = idle_worker && is_open;
        let earlier = inner.next_wakeup(now).is_some_and(|next| inner.planned.is_none_or(|planned| next < planned));
        drop(inner);
        if idle_worker || earlier {
            self.wake.notify_one();
        }
    }

    async fn work(self: Arc<Self>, queue: usize, mut taken: Taken<Key>) {
        self.metrics.active.inc();
        loop {
            let started = now();
            let version = self.version();
            let trace = self.begin_trace(taken.waited);
            let run = AssertUnwindSafe(self.run(&version, &taken.key, trace.as_ref())).catch_unwind().await;
            // A panic here is a bug of the host. It costs the key a fault's backoff, and affects nothing else.
            let run_result = run.unwrap_or_else(|panic| {
                let message = format!("the host panicked: {}", panic_text(&*panic));
                RunResult::Fault(PluginFault { kind: FaultKind::HostCall, message })
            });
            let finish = AssertUnwindSafe(|| self.finish(queue, &version, &taken.key, run_result, started, trace));
            match std::panic::catch_unwind(finish) {
                Ok(Some(next)) => taken = next,
                Ok(None) => break,
                Err(panic) => {
                    self.supervisor.panicked("worker", &*panic);
                    self.recover(queue, &taken.key);
                    break;
                }
            }
            tokio::task::consume_budget().await;
        }
        self.metrics.active.dec();
        self.idle_signal.notify_waiters();
    }

    /// Ends the run of a key whose result could not be handled. The key stays held if it waits for its writes; otherwise it runs
    /// again after the bound, as the caches should show by then what it may have written.
    fn recover(&self, queue: usize, key: &Key) {
        let now = now();
        let mut inner = self.inner.lock();
        let is_pending = inner.pending.contains(key);
        let Some(own) = inner.queues.get_mut(queue) else { return };
        if is_pending {
            own.work_queue.hold(key, now);
        } else {
            own.work_queue.done(key, now);
        }
        inner.add(key.clone(), Some(self.stale_bound), Priority::Normal, now);
        // A trial ends with its run, whatever the result; otherwise the plugin would stay paused.
        inner.health.supervisor.ran(key, true, now);
        drop(inner);
        self.wake.notify_one();
    }

    /// Handles the result of a run, and takes the next key for the worker.
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
        self.metrics.reconcile_time.observe(took.as_secs_f64());
        self.dropped_samples(version.declared.ran(run_result.code(), run_result.labels(), took));
        let cache = self.cache();
        let mut traced = trace.map(|trace| (trace, run_result.end()));
        let (mut writes, probes) = run_result.take_writes();
        let mut probes = self.relevant(probes);
        probes.extend(self.unclear(&*cache, &mut writes));
        let (n_writes, n_probes) = (writes.len(), probes.len());
        if n_writes > 0 {
            self.last_writes.lock().note(&self.name, &writes);
        }
        let mut inner = self.inner.lock();
        if !inner.leads {
            // The next leader handles the result.
            if let Some(own) = inner.queues.get_mut(queue) {
                own.work_queue.done(key, now);
            }
            let attempt = inner.attempt(key);
            drop(inner);
            if let Some((trace, end)) = traced {
                self.end_trace(trace, end, version, key, attempt);
            }
            return None;
        }
        let loops = inner.loops.end(key, if run_result.ended() == Ended::Well { &writes } else { &[] });
        let repeated = writes.last().filter(|_| loops).map(|write| (write.kind.clone(), write.object.clone()));
        // First: whatever follows, the key does not run without its writes.
        let hold =
            inner.pending.wait(key, writes, !probes.is_empty(), now + self.stale_bound, |write| cache.sees(write));
        inner.n_runs += 1;
        let attempt = inner.attempt(key);
        let ended = run_result.ended();
        let (was_suspect, suspect) = inner.judge_key(queue, key, ended == Ended::Fault, now);
        let result = self.dispose(&mut inner, queue, key, run_result, suspect, now);
        if let Some((kind, object)) = repeated {
            self.runs_because_of_itself(key, &kind, &object);
        }
        self.supervise(&mut inner, key, ended, now);
        self.judge_version(&mut inner, version, key, ended, was_suspect, now);
        self.metrics.reconciled(result, took);
        inner.runs.count(result);
        inner.latency.observe(took);
        if let Some((_, end)) = &mut traced {
            (end.result, end.waits_for_caches) = (result, hold.is_some());
        }
        tracing::debug!(plugin = %self.name, %key, attempt, ?took, result, n_writes, n_probes, "reconciled");
        if let Some(id) = hold.filter(|_| !probes.is_empty()) {
            let key = key.clone();
            self.spawn_supervised("probe", move |controller, _| {
                controller.resolve_lost_writes(key.clone(), id, probes.clone())
            });
        }
        let ControllerState { queues, stale, .. } = &mut *inner;
        let own = queues.get_mut(queue)?;
        let worked = if hold.is_some() {
            self.metrics.stale_waits.inc();
            let traced = traced.as_ref().map(|(trace, _)| (trace.span, trace.begun_at + took));
            stale.begun.insert(key.clone(), StaleWait { begun: now, traced });
            own.work_queue.hold(key, now)
        } else {
            own.work_queue.done(key, now)
        };
        own.metrics.work_duration.observe(worked.unwrap_or_default().as_secs_f64());
        inner.count_keys();
        let concluded = inner.history.has_concluded();
        let next = inner.take(queue, now);
        self.wake_dispatcher(inner);
        if let Some((trace, end)) = traced {
            self.end_trace(trace, end, version, key, attempt);
        }
        if concluded {
            self.follow_probation();
        }
        next
    }

    fn dispose(
        &self,
        inner: &mut ControllerState,
        queue: usize,
        key: &Key,
        run_result: RunResult,
        suspect: Option<Suspect>,
        now: Instant,
    ) -> &'static str {
        let attempt = inner.attempt(key);
        match run_result {
            RunResult::Done { requeue_after, error, report, .. } => {
                let requeue_after = requeue_after.map(|after| after.max(MIN_REQUEUE));
                if report.failures.is_empty() {
                    if let Some(after) = requeue_after {
                        inner.add(key.clone(), Some(after), Priority::Normal, now);
                    }
                    if let Some(error) = error {
                        inner.failures.remove(key);
                        return self.declared(inner, queue, key, &error, now);
                    }
                    inner.forget(queue, key);
                    return if requeue_after.is_some() { "requeue_after" } else { "success" };
                }
                let first = &report.failures[0];
                let n_failures = report.n_failed;
                let is_repeated = report.n_denied > 0 && attempt > 0;
                if report.only_conflicts {
                    tracing::debug!(plugin = %self.name, %key, attempt, n_failures, "conflict: the key is requeued");
                } else if first.reason == NOT_LEADING {
                    tracing::debug!(plugin = %self.name, %key, n_failures, "writes were not sent: this host does not lead");
                } else if is_repeated {
                    // The full error once: a grant that is missing stays missing.
                    tracing::debug!(plugin = %self.name, %key, attempt, error = first.message, "writes failed again");
                } else {
                    tracing::warn!(
                        plugin = %self.name, %key, attempt, n_failures, n_denied = report.n_denied, verb = first.verb,
                        kind = %first.kind, object = %first.object, code = first.code, reason = first.reason,
                        error = first.message, "writes failed"
                    );
                }
                if !report.only_conflicts {
                    inner.last_error =
                        Some(format!("{key}: {} {} {}: {}", first.verb, first.kind, first.object, first.message));
                }
                if report.n_denied > 0 {
                    let denied = report.failures.iter().find(|failure| failure.reason == NOT_GRANTED).unwrap_or(first);
                    let text = format!("{}: {}", FaultKind::Grant, denied.message);
                    self.run_faulted(inner, key, FaultKind::Grant, &text, suspect);
                }
                // Once, until the key has succeeded.
                if let Some(refused) = report.failures.iter().find(is_refused).filter(|_| attempt == 0) {
                    self.write_refused(key, refused);
                }
                inner.failures.insert(key.clone(), KeptFailures::new(report.failures, &self.held));
                let retried = self.retry(inner, queue, key, report.retry_after.unwrap_or_default(), suspect, now);
                // The plugin asked for it before it saw the failure: it must not hurry.
                if let Some(after) = requeue_after.filter(|after| retried.is_none_or(|delay| *after > delay)) {
                    inner.add(key.clone(), Some(after), Priority::Normal, now);
                }
                "error"
            }
            RunResult::Declared(error) => self.declared(inner, queue, key, &error, now),
            RunResult::Fault(fault) => {
                self.metrics.fault(fault.kind);
                self.run_faulted(inner, key, fault.kind, &fault.to_string(), suspect);
                inner.last_error = Some(format!("{key}: {fault}"));
                // The full error once; later attempts of the key repeat it, unless a new version faults.
                if inner.health.is_new_fault(key, attempt) {
                    tracing::error!(plugin = %self.name, %key, %fault, "the plugin faulted");
                } else {
                    tracing::debug!(plugin = %self.name, %key, attempt, %fault, "the plugin faulted again");
                }
                self.retry(inner, queue, key, Duration::ZERO, suspect, now);
                "fault"
            }
        }
    }

    /// Handles an error that the plugin has declared.
    fn declared(
        &self,
        inner: &mut ControllerState,
        queue: usize,
        key: &Key,
        error: &ReconcileError,
        now: Instant,
    ) -> &'static str {
        let attempt = inner.attempt(key);
        inner.last_error = Some(format!("{key}: {error}"));
        match error {
            ReconcileError::Retry { message, after } => {
                let error = cut(message, 1024);
                tracing::info!(plugin = %self.name, %key, attempt, error, "the plugin requests a retry");
                match after {
                    Some(after) => {
                        if !self.give_up(inner, queue, key) {
                            if let Some(own) = inner.queues.get_mut(queue) {
                                own.limiter.count(key);
                                own.metrics.retries.inc();
                            }
                            inner.add(key.clone(), Some((*after).max(MIN_REQUEUE)), Priority::Normal, now);
                        }
                    }
                    None => _ = self.retry(inner, queue, key, Duration::ZERO, None, now),
                }
                "error"
            }
            ReconcileError::Terminal(message) => {
                let error = cut(message, 1024);
                tracing::warn!(plugin = %self.name, %key, attempt, error, "terminal error of the plugin: no retry until the key's next change or requeue");
                self.stop_retrying(inner, queue, key, "terminal");
                "terminal_error"
            }
        }
    }

    /// Requeues the key after its backoff, but not before `at_least`. Returns the delay, or `None` if the key has been given up. A key
    /// that faulted has a separate backoff: the queue's rate limit is for the others.
    fn retry(
        &self,
        inner: &mut ControllerState,
        queue: usize,
        key: &Key,
        at_least: Duration,
        suspect: Option<Suspect>,
        now: Instant,
    ) -> Option<Duration> {
        if self.give_up(inner, queue, key) {
            return None;
        }
        let own = inner.queues.get_mut(queue)?;
        let backoff = match suspect {
            None => own.limiter.when(key, now),
            Some(suspect) => {
                own.limiter.count(key);
                suspect.delay
            }
        };
        let delay = backoff.max(at_least);
        own.metrics.retries.inc();
        inner.add(key.clone(), Some(delay), Priority::Normal, now);
        Some(delay)
    }

    /// Stops retrying a key after too many consecutive failures.
    fn give_up(&self, inner: &mut ControllerState, queue: usize, key: &Key) -> bool {
        let Some(own) = inner.queues.get(queue) else { return true };
        let failures = own.limiter.failures(key);
        if own.max_retries.is_none_or(|max| failures < max) {
            return false;
        }
        tracing::warn!(plugin = %self.name, %key, failures, "too many retries: no retry until the key's next change or requeue");
        self.stop_retrying(inner, queue, key, "max_retries");
        true
    }

    /// Forgets the failures of a key. It is dropped if nothing else has queued it.
    fn stop_retrying(&self, inner: &mut ControllerState, queue: usize, key: &Key, reason: &'static str) {
        if inner.queues.get(queue).is_some_and(|own| !own.work_queue.is_queued(key)) {
            self.metrics.dropped_key(reason);
        }
        inner.forget(queue, key);
    }
}

impl ControllerState {
    pub(super) fn start_clocks(&mut self, now: Instant) {
        if !self.leads {
            return;
        }
        self.queues.iter_mut().for_each(|queue| queue.start_clocks(now));
    }

    /// Adds a key to its queue, now or after a delay. Keys of unknown queues are ignored.
    pub(super) fn add(&mut self, key: Key, delay: Option<Duration>, priority: Priority, now: Instant) {
        if self.stopping || !self.leads {
            return;
        }
        let wanted = |queue: &&mut ControllerQueue| queue.name == key.queue && !queue.retired;
        let Some(queue) = self.queues.iter_mut().find(wanted) else { return };
        let news = match delay {
            Some(delay) => queue.work_queue.add_after(key, delay, priority, now),
            None => queue.work_queue.add(key, priority, now),
        };
        queue.count_adds(usize::from(news));
    }

    /// The next key of a queue, if a worker is free.
    fn take(&mut self, queue: usize, now: Instant) -> Option<Taken<Key>> {
        let stopping = self.stopping || !self.leads;
        let is_held = self.history.holds_deletions();
        let queue = self.queues.get_mut(queue)?;
        let n_added = queue.work_queue.advance(now);
        queue.count_adds(n_added);
        if stopping || is_held || queue.retired || queue.work_queue.n_running() >= queue.concurrency {
            return None;
        }
        let supervisor = &mut self.health.supervisor;
        let taken = match supervisor.gate(now) {
            Gate::Open => queue.work_queue.take(now)?,
            Gate::Trial { suspects } => queue.work_queue.take_trial(|key| supervisor.prefers(key), suspects, now)?,
            Gate::Shut => return None,
        };
        supervisor.took(&taken.key, taken.suspect);
        self.loops.begin(&taken.key);
        queue.metrics.queue_duration.observe(taken.waited.as_secs_f64());
        queue.count_adds(0);
        Some(taken)
    }

    /// Lets a key run again whose writes the caches show.
    pub(super) fn release(&mut self, key: &Key) {
        if let Some(wait) = self.stale.begun.remove(key) {
            let now = now();
            self.stale.duration.observe(now.saturating_duration_since(wait.begun).as_secs_f64());
            wait.end(now, self.stale.tracer.as_ref());
        }
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.name == key.queue) {
            queue.work_queue.release(key);
        }
    }

    /// Makes the key of a run that ends a suspect, or clears it. Returns whether it was one, and its fault.
    fn judge_key(&mut self, queue: usize, key: &Key, faulted: bool, now: Instant) -> (bool, Option<Suspect>) {
        let Some(own) = self.queues.get_mut(queue) else { return (false, None) };
        let was_suspect = own.work_queue.is_suspect(key);
        if faulted {
            return (was_suspect, Some(own.work_queue.fault(key, now)));
        }
        own.work_queue.trust(key);
        (was_suspect, None)
    }

    fn forget(&mut self, queue: usize, key: &Key) {
        self.failures.remove(key);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.limiter.forget(key);
        }
    }

    pub(super) fn attempt(&self, key: &Key) -> u32 {
        self.queues.iter().find(|queue| queue.name == key.queue).map_or(0, |queue| queue.limiter.failures(key))
    }

    fn next_wakeup(&self, now: Instant) -> Option<Instant> {
        let queues = self.queues.iter().filter(|queue| !queue.retired);
        let of_queues = queues.flat_map(|queue| [queue.work_queue.next_due(), queue.next_tick, queue.next_resync]);
        let is_judged = self.leads && !self.history.holds_deletions();
        let probation = self.history.probation.as_ref().filter(|_| is_judged);
        let of_probation = probation.and_then(Probation::next_wakeup);
        let of_deletions = self.history.deletions.as_ref().and_then(DeletionGuard::next_wakeup);
        let others =
            [self.pending.next_deadline(), self.health.supervisor.next_wakeup(now), of_probation, of_deletions];
        of_queues.chain(others).flatten().min()
    }
}
