//! The keys of one plugin: selects the next key, and handles the end of its run.
//!
//! ```text
//! changes, ticks, resyncs, wakes ──add──> queues ──take──> running ──end──> forgotten | delayed
//!                                           ^                        └─ writes unseen: held ─┐
//!                                           └──────────────────── release <── caches moved on ─┘
//! ```
//!
//! Invariants:
//! 1. A key has at most one run at a time, and each queue has at most its concurrency of runs.
//! 2. A key does not run until the caches show its writes, and not while the result of a write is unknown. Time alone
//!    releases no key.
//! 3. A fault delays its own key only: the key becomes a suspect of its queue, and does not use the rate limit that the
//!    other retries of the queue share.
//! 4. After a failed write, the backoff sets the delay, not the requeue that the plugin requested.
//! 5. A queue that the current version does not declare takes no keys; its slot stays, because runs in flight refer to
//!    it.
//!
//! Not here: the run itself, tasks and locks (the runtime's dispatcher); pausing the plugin (`lifecycle::supervisor`).
//!
//! Source: the work queue of client-go and the loop around `processNextWorkItem` of its controllers: `Forget` after a
//! success, `AddRateLimited` after a failure, `Done` in each case.

mod queue;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::queue::N_LISTS;
pub use self::queue::{KeyQueue, OBJECT_BYTES, QueueConfig, QueueObserver, new_bytes};
use crate::contract::manifest::Queue;
use crate::contract::outcome::{MutationFailure, ReconcileError};
use crate::lifecycle::probation::Ended;
use crate::lifecycle::supervisor::Gate;
use crate::object::id::{Key, Kind, ObjectKey};
use crate::policy::held::{Account, Held};
use crate::policy::loops::{Loops, Stamp};
use crate::policy::pending::{Confirmed, Overdue, Pending, PendingWrite, WaitId};
use crate::policy::queue::{Priority, Suspect, Taken};

/// Minimum delay of a key that requests an immediate requeue: client-go's delay after one failure. It ensures a pause
/// between the runs of a plugin that always requests a requeue.
pub const MIN_REQUEUE: Duration = Duration::from_millis(5);

/// Failures of a key's last outcome that fit in the plugin's account.
#[derive(Debug)]
struct KeptFailures {
    failures: Arc<[MutationFailure]>,
    _held: Held,
}

impl KeptFailures {
    fn new(failures: &[MutationFailure], account: &Arc<Account>) -> Self {
        let mut held = account.open();
        let n_kept = failures.iter().take_while(|failure| held.grow(failure.n_bytes() as u64)).count();
        Self { failures: failures[..n_kept].into(), _held: held }
    }
}

/// The end of a run, as far as it matters for its key.
#[derive(Clone, Copy, Debug)]
pub enum RunEnd<'a> {
    /// The outcome was applied. `error`: the run failed nevertheless.
    Done {
        /// The plugin requests another run after this time.
        requeue_after: Option<Duration>,
        /// The error of the outcome.
        error: Option<&'a ReconcileError>,
    },
    /// Writes of the outcome failed.
    Failed {
        /// As in `Done`.
        requeue_after: Option<Duration>,
        /// As in `Done`.
        error: Option<&'a ReconcileError>,
        /// Passed to the next run.
        failures: &'a [MutationFailure],
        /// Minimum delay of the retry, from the API server.
        retry_after: Duration,
        /// Whether a write was not granted, which is a fault.
        is_denied: bool,
        /// Whether all failures are conflicts with other writers.
        only_conflicts: bool,
    },
    /// Nothing of the outcome has been applied yet. The failures of the key are kept.
    NothingYet {
        /// The key runs again after this time.
        again: Duration,
    },
    /// The plugin returned an error instead of an outcome.
    Declared(&'a ReconcileError),
    /// A fault of the plugin.
    Fault,
}

impl RunEnd<'_> {
    /// The result of the run for the version of the plugin.
    pub fn ended(&self) -> Ended {
        match self {
            Self::Fault | Self::Failed { is_denied: true, .. } => Ended::Fault,
            Self::Done { error: None, .. } | Self::NothingYet { .. } => Ended::Well,
            Self::Failed { only_conflicts: true, error: None, .. } => Ended::Well,
            Self::Done { .. } | Self::Failed { .. } | Self::Declared(_) => Ended::Error,
        }
    }
}

/// The writes that the caches must show before a key runs again.
#[derive(Debug)]
pub struct Awaited<S> {
    /// The writes of the run.
    pub writes: Vec<PendingWrite>,
    /// Whether the result of other writes is unknown. [`KeyTable::settle`] reports it.
    pub is_open: bool,
    /// When to ask the API server about writes that the caches do not show.
    pub deadline: Instant,
    /// Whether the caches show a write.
    pub sees: S,
}

/// The consequences of a run for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// Consecutive failures of the key before this run.
    pub attempt: u32,
    /// Whether the previous run of the key faulted.
    pub was_suspect: bool,
    /// The fault of this run.
    pub suspect: Option<Suspect>,
    /// The next state of the key.
    pub next: Next,
    /// The key is held until the caches show its writes.
    pub wait: Option<WaitId>,
    /// Set while the key runs again and again because of its own writes.
    pub repeats: Option<Repeats>,
}

/// Runs of a key caused only by its own writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// Number of runs in a row, including this one.
    pub n_runs: u32,
    /// Kind of the last object that the last run wrote.
    pub kind: Kind,
    /// The object.
    pub object: ObjectKey,
}

/// The next state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The key succeeded, and its failures are forgotten. It runs again if it was added meanwhile, or as requested.
    Success,
    /// The key runs again; it has neither succeeded nor failed.
    Later,
    /// The key is retried after this delay.
    Retry(Duration),
    /// The key reached the maximum number of retries, and its failures are forgotten.
    GivenUp {
        /// Consecutive failures.
        n_failures: u32,
        /// Whether the key was not added meanwhile.
        is_dropped: bool,
    },
    /// The plugin declared the error as terminal, and the failures of the key are forgotten.
    Terminal {
        /// Whether the key was not added meanwhile.
        is_dropped: bool,
    },
}

/// The keys of one plugin.
#[derive(Debug)]
pub struct KeyTable<O> {
    queues: Vec<KeyQueue<O>>,
    pending: Pending<Key>,
    loops: Loops<Key>,
    /// Failures of each key whose last outcome failed, until it succeeds.
    failures: HashMap<Key, KeptFailures>,
    account: Arc<Account>,
    /// Bytes of the keys in the queues, without `object_bytes`.
    held_keys: Held,
    /// Maximum bytes of the keys of the plugin's objects. They are never refused, so they do not count.
    object_bytes: u64,
}

impl<O: QueueObserver> KeyTable<O> {
    /// Creates a table without keys.
    pub fn new<'q>(queues: impl Iterator<Item = (&'q Queue, QueueConfig<O>)>, account: Arc<Account>) -> Self {
        Self {
            queues: queues.map(|(declared, config)| KeyQueue::new(declared, config)).collect(),
            pending: Pending::new(),
            loops: Loops::default(),
            failures: HashMap::new(),
            held_keys: account.open(),
            account,
            object_bytes: 0,
        }
    }

    /// Adopts the queues of another version. Keys, their failures and delays stay; suspects are cleared, and loop
    /// counts restart.
    pub fn adopt<'q>(&mut self, queues: impl Iterator<Item = (&'q Queue, QueueConfig<O>)>) {
        self.loops.clear();
        let queues: Vec<_> = queues.collect();
        for queue in &mut self.queues {
            if !queues.iter().any(|(declared, _)| *declared.name == *queue.name) {
                queue.retire();
            }
        }
        for (declared, config) in queues {
            match self.queues.iter_mut().find(|queue| *queue.name == *declared.name) {
                Some(queue) => queue.adopt(declared, config),
                None => self.queues.push(KeyQueue::new(declared, config)),
            }
        }
    }

    /// Forgets all keys, and stops the timers. No run may be in progress.
    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(KeyQueue::clear);
        self.pending.clear();
        self.loops.clear();
        self.failures.clear();
        self.count_bytes();
    }

    /// The queues of the current version.
    pub fn queues(&self) -> impl Iterator<Item = &KeyQueue<O>> {
        self.queues.iter().filter(|queue| !queue.retired)
    }

    /// Number of runs in progress, including those of retired queues.
    pub fn n_running(&self) -> usize {
        self.queues.iter().map(|queue| queue.work_queue.n_running()).sum()
    }

    /// The keys whose last run faulted, in no order.
    pub fn suspects(&self) -> impl Iterator<Item = (&Key, &Suspect)> {
        self.queues.iter().flat_map(|queue| queue.work_queue.suspects())
    }

    /// Consecutive failures of a key.
    pub fn attempt(&self, key: &Key) -> u32 {
        self.queue_of(key).map_or(0, |queue| queue.n_failures(key))
    }

    /// The failures of the key's last outcome.
    pub fn failures(&self, key: &Key) -> Arc<[MutationFailure]> {
        self.failures.get(key).map(|kept| kept.failures.clone()).unwrap_or_default()
    }

    /// Number of keys with such failures.
    pub fn n_failed(&self) -> usize {
        self.failures.len()
    }

    fn queue_of(&self, key: &Key) -> Option<&KeyQueue<O>> {
        self.queues.iter().find(|queue| queue.name == key.queue)
    }

    /// Adds a key to its queue, now or after a delay. `cause`: the change that enqueues it, if any. Keys of unknown
    /// queues are ignored.
    pub fn add(&mut self, key: Key, cause: Option<Stamp>, delay: Option<Duration>, priority: Priority, now: Instant) {
        self.loops.caused(&key, cause);
        self.requeue(key, delay, priority, now);
    }

    fn requeue(&mut self, key: Key, delay: Option<Duration>, priority: Priority, now: Instant) {
        let wanted = |queue: &&mut KeyQueue<O>| queue.name == key.queue && !queue.retired;
        if let Some(queue) = self.queues.iter_mut().find(wanted) {
            queue.add(key, delay, priority, now);
        }
    }

    /// Reserves room in the account for more keys than the plugin's objects: a plugin can invent any number.
    /// `max_entries` entries of the queues are always allowed.
    ///
    /// # Errors
    /// If there is no room, with a one-line message.
    pub fn make_room<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k Key>,
        n_objects: usize,
        max_entries: usize,
    ) -> Result<(), String> {
        let n_entries = self.n_entries();
        let max_entries = max_entries.max(N_LISTS * n_objects);
        if n_entries >= max_entries {
            return Err(format!(
                "the queues have {n_entries} entries, at most {max_entries}: the plugin has invented too many keys"
            ));
        }
        self.object_bytes = n_objects as u64 * OBJECT_BYTES;
        let n_bytes = self.n_bytes() + keys.map(new_bytes).sum::<u64>();
        match self.held_keys.resize(n_bytes.saturating_sub(self.object_bytes)) {
            true => Ok(()),
            false => Err(format!(
                "the queues would have {n_bytes} bytes of keys, more than the plugin has left: the plugin has invented too many keys"
            )),
        }
    }

    /// Entries of all lists of the queues.
    pub fn n_entries(&self) -> usize {
        self.queues.iter().map(KeyQueue::n_entries).sum()
    }

    /// Bytes of all keys in the queues.
    fn n_bytes(&self) -> u64 {
        self.queues.iter().map(KeyQueue::n_bytes).sum()
    }

    /// Updates the account to the contents of the queues.
    pub fn count_bytes(&mut self) {
        let n_bytes = self.n_bytes().saturating_sub(self.object_bytes);
        self.held_keys.set(n_bytes);
    }

    /// Starts the stopped timers of the queues.
    pub fn start_clocks(&mut self, now: Instant) {
        self.queues.iter_mut().for_each(|queue| queue.start_clocks(now));
    }

    /// Adds due ticks; returns the names of the queues whose resync is due.
    pub fn tick(&mut self, now: Instant) -> Vec<Arc<str>> {
        let due = self.queues.iter_mut().filter_map(|queue| queue.clocks_due(now).then(|| queue.name.clone()));
        due.collect()
    }

    /// Number of queues including retired ones; indexes for [`KeyTable::take`] are below it.
    pub fn n_queues(&self) -> usize {
        self.queues.len()
    }

    /// Makes the keys of a queue ready whose delay has ended.
    pub fn advance(&mut self, queue: usize, now: Instant) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.advance(now);
        }
    }

    /// Takes the next key of a queue, if another run may start. `prefers`: selects keys for a trial run. End the run
    /// with [`KeyTable::end`].
    pub fn take(
        &mut self,
        queue: usize,
        gate: Gate,
        prefers: impl Fn(&Key) -> bool,
        now: Instant,
    ) -> Option<Taken<Key>> {
        let taken = self.queues.get_mut(queue)?.take(gate, prefers, now)?;
        self.loops.begin(&taken.key);
        Some(taken)
    }

    /// Whether a queue has a ready key and may start another run.
    pub fn has_ready(&self) -> bool {
        let has_one =
            |queue: &KeyQueue<O>| queue.work_queue.n_ready() > 0 && queue.work_queue.n_running() < queue.concurrency;
        self.queues.iter().any(has_one)
    }

    /// Ends the run of a key. Returns `None` if the key was not running.
    pub fn end(
        &mut self,
        queue: usize,
        key: &Key,
        end: RunEnd<'_>,
        awaited: Awaited<impl Fn(&PendingWrite) -> bool>,
        now: Instant,
    ) -> Option<Disposition> {
        let Awaited { writes, is_open, deadline, sees } = awaited;
        let attempt = self.attempt(key);
        let ended = end.ended();
        let n_runs = self.loops.end(key, if ended == Ended::Well { &writes } else { &[] });
        let repeats = n_runs.zip(writes.last()).map(|(n_runs, write)| {
            let PendingWrite { kind, object, .. } = write.clone();
            Repeats { n_runs, kind, object }
        });
        // This comes first: in every case, the key does not run before the caches show its writes.
        let wait = self.pending.wait(key, writes, is_open, deadline, sees);
        let own = self.queues.get_mut(queue)?;
        let was_suspect = own.work_queue.is_suspect(key);
        let suspect = (ended == Ended::Fault).then(|| own.work_queue.fault(key, now));
        if suspect.is_none() {
            own.work_queue.trust(key);
        }
        let next = self.dispose(queue, key, end, suspect, now);
        let own = self.queues.get_mut(queue)?;
        own.stop_running(key, wait.is_some(), now)?;
        self.count_bytes();
        Some(Disposition { attempt, was_suspect, suspect, next, wait, repeats })
    }

    fn dispose(&mut self, queue: usize, key: &Key, end: RunEnd<'_>, suspect: Option<Suspect>, now: Instant) -> Next {
        let at_least = |after: Duration| after.max(MIN_REQUEUE);
        match end {
            RunEnd::Done { requeue_after, error } => {
                if let Some(after) = requeue_after {
                    self.requeue(key.clone(), Some(at_least(after)), Priority::Normal, now);
                }
                match error {
                    Some(error) => {
                        self.failures.remove(key);
                        self.declared(queue, key, error, now)
                    }
                    None => {
                        self.forget(queue, key);
                        Next::Success
                    }
                }
            }
            RunEnd::Failed { requeue_after, failures, retry_after, .. } => {
                self.failures.insert(key.clone(), KeptFailures::new(failures, &self.account));
                let next = self.retry(queue, key, retry_after, suspect, now);
                // If the key is retried, the plugin decides again, because it requested this requeue before the
                // failure.
                if let (Some(after), Next::GivenUp { .. }) = (requeue_after, next) {
                    self.requeue(key.clone(), Some(at_least(after)), Priority::Normal, now);
                }
                next
            }
            RunEnd::NothingYet { again } => {
                self.requeue(key.clone(), Some(at_least(again)), Priority::Normal, now);
                Next::Later
            }
            RunEnd::Declared(error) => self.declared(queue, key, error, now),
            RunEnd::Fault => self.retry(queue, key, Duration::ZERO, suspect, now),
        }
    }

    fn declared(&mut self, queue: usize, key: &Key, error: &ReconcileError, now: Instant) -> Next {
        match error {
            ReconcileError::Retry { after: None, .. } => self.retry(queue, key, Duration::ZERO, None, now),
            ReconcileError::Retry { after: Some(after), .. } => self.given_up(queue, key).unwrap_or_else(|| {
                let delay = (*after).max(MIN_REQUEUE);
                if let Some(own) = self.queues.get_mut(queue) {
                    own.count_retry(key);
                }
                self.requeue(key.clone(), Some(delay), Priority::Normal, now);
                Next::Retry(delay)
            }),
            ReconcileError::Terminal(_) => Next::Terminal { is_dropped: self.stop_retrying(queue, key) },
        }
    }

    /// Requeues the key after its backoff, but not before `at_least`. A key that faulted has a separate backoff.
    fn retry(&mut self, queue: usize, key: &Key, at_least: Duration, suspect: Option<Suspect>, now: Instant) -> Next {
        if let Some(given_up) = self.given_up(queue, key) {
            return given_up;
        }
        let backoff = self.queues.get_mut(queue).map_or(Duration::ZERO, |own| own.backoff(key, suspect, now));
        let delay = backoff.max(at_least);
        self.requeue(key.clone(), Some(delay), Priority::Normal, now);
        Next::Retry(delay)
    }

    /// Stops retrying a key after too many consecutive failures.
    fn given_up(&mut self, queue: usize, key: &Key) -> Option<Next> {
        let own = self.queues.get(queue)?;
        let n_failures = own.n_failures(key);
        if own.max_retries.is_none_or(|max| n_failures < max) {
            return None;
        }
        Some(Next::GivenUp { n_failures, is_dropped: self.stop_retrying(queue, key) })
    }

    /// Forgets the failures of a key. Returns true if the key was not added meanwhile.
    fn stop_retrying(&mut self, queue: usize, key: &Key) -> bool {
        let is_dropped = self.queues.get(queue).is_some_and(|own| !own.work_queue.is_queued(key));
        self.forget(queue, key);
        is_dropped
    }

    fn forget(&mut self, queue: usize, key: &Key) {
        self.failures.remove(key);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.forget(key);
        }
    }

    /// Ends the run of a key and ignores the result.
    pub fn drop_run(&mut self, queue: usize, key: &Key, now: Instant) {
        if let Some(own) = self.queues.get_mut(queue) {
            own.stop_running(key, false, now);
        }
    }

    /// Ends the run of a key whose result could not be processed. The key stays held if it waits for its writes;
    /// otherwise it runs again after `delay`, when the caches should show what it may have written.
    pub fn recover(&mut self, queue: usize, key: &Key, delay: Duration, now: Instant) {
        let is_pending = self.pending.contains(key);
        let Some(own) = self.queues.get_mut(queue) else { return };
        own.stop_running(key, is_pending, now);
        self.requeue(key.clone(), Some(delay), Priority::Normal, now);
    }

    /// Releases the keys that wait for a kind whose caches have advanced, and returns them.
    pub fn progressed(&mut self, kind: &Kind, sees: impl Fn(&PendingWrite) -> bool) -> Vec<Key> {
        let free = self.pending.recheck(kind, sees);
        for key in &free {
            self.release(key);
        }
        free
    }

    /// Resolves an open wait: the caches must also show these writes. Returns whether the key is released.
    pub fn settle(
        &mut self,
        key: &Key,
        id: WaitId,
        writes: Vec<PendingWrite>,
        sees: impl Fn(&PendingWrite) -> bool,
    ) -> bool {
        let is_free = self.pending.settle(key, id, writes, sees);
        if is_free {
            self.release(key);
        }
        is_free
    }

    /// Processes the API server's state of an awaited write ([`Pending::confirm`]). `Over(true)`: the key is released.
    pub fn confirm(
        &mut self,
        key: &Key,
        id: WaitId,
        asked: &PendingWrite,
        live: PendingWrite,
        sees: impl Fn(&PendingWrite) -> bool,
    ) -> Confirmed {
        let confirmed = self.pending.confirm(key, id, asked, live, sees);
        if confirmed == Confirmed::Over(true) {
            self.release(key);
        }
        confirmed
    }

    fn release(&mut self, key: &Key) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.name == key.queue) {
            queue.work_queue.release(key);
        }
    }

    /// The waits whose deadline has passed ([`Pending::overdue`]).
    pub fn overdue(&mut self, now: Instant, bound: Duration) -> Vec<Overdue<Key>> {
        self.pending.overdue(now, bound)
    }

    /// Number of keys that have waited for longer than the bound.
    pub fn n_overdue(&self) -> usize {
        self.pending.n_overdue()
    }

    /// The kinds that keys wait for.
    pub fn awaited_kinds(&self) -> Vec<Kind> {
        self.pending.kinds().cloned().collect()
    }

    /// Whether no key runs, is ready, is held, or has a delay that ends before `until`.
    pub fn is_idle(&self, until: Instant) -> bool {
        self.queues().all(|queue| {
            let queue = &queue.work_queue;
            queue.n_dirty() + queue.n_running() + queue.n_held() == 0 && queue.n_waiting_until(until) == 0
        })
    }

    /// When the next delay, timer or wait bound ends.
    pub fn next_due(&self) -> Option<Instant> {
        self.queues().filter_map(KeyQueue::next_due).chain(self.pending.next_deadline()).min()
    }
}
