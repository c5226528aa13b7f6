//! One queue of a plugin with its limits and timers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contract::manifest::Queue;
use crate::lifecycle::supervisor::Gate;
use crate::object::id::Key;
use crate::policy::queue::{Priority, Suspect, Taken, WorkQueue};
use crate::policy::ratelimit::RateLimiter;

/// Observes a queue.
///
/// *Source*: `MetricsProvider` of client-go's `workqueue`.
pub trait QueueObserver {
    /// Keys were added or taken: `n_added` of them were not queued before; the queue now has `n_dirty`, including
    /// running and held ones.
    fn queued(&self, n_added: usize, n_dirty: usize);
    /// A run has begun; its key was queued for this long.
    fn began(&self, waited: Duration);
    /// A run has ended after this time.
    fn ended(&self, worked: Duration);
    /// A key is retried.
    fn retried(&self);
    /// The observer is replaced or removed.
    fn replaced(&self);
}

/// The operator's options for a queue.
#[derive(Clone, Debug)]
pub struct QueueConfig<O> {
    /// Its observer.
    pub observer: O,
    /// Maximum concurrent runs.
    pub concurrency: usize,
    /// Resync period.
    pub resync: Option<Duration>,
    /// The key of its tick.
    pub tick_key: Key,
}

/// A queue and its limits.
#[derive(Debug)]
pub struct KeyQueue<O> {
    /// Its name.
    pub name: Arc<str>,
    /// Its keys.
    pub work_queue: WorkQueue<Key>,
    limiter: RateLimiter<Key>,
    /// Maximum concurrent runs.
    pub concurrency: usize,
    pub(super) max_retries: Option<u32>,
    tick: Option<Duration>,
    tick_key: Key,
    next_tick: Option<Instant>,
    resync: Option<Duration>,
    next_resync: Option<Instant>,
    /// Absent while the current version does not declare the queue.
    observer: Option<O>,
    /// Whether the current version does not declare the queue.
    pub(super) retired: bool,
}

/// Bytes of a queue entry in addition to the text of its key: the key in two maps, and the headers of its texts.
const ENTRY_BYTES: u64 = 384;
/// Number of lists that can contain a key at the same time: to run, delayed, suspect, failing.
pub(super) const N_LISTS: usize = 4;
/// Maximum bytes of an object's key: a name has 253 bytes, a namespace 63, and the names of a kind and a queue are
/// short.
pub const OBJECT_BYTES: u64 = N_LISTS as u64 * ENTRY_BYTES + 512;

fn text_bytes(key: &Key) -> u64 {
    key.n_bytes() as u64
}

/// Bytes that a key uses when it enters a queue.
pub fn new_bytes(key: &Key) -> u64 {
    ENTRY_BYTES + text_bytes(key)
}

impl<O: QueueObserver> KeyQueue<O> {
    pub(super) fn new(declared: &Queue, config: QueueConfig<O>) -> Self {
        Self {
            name: declared.name.as_str().into(),
            work_queue: WorkQueue::weighing(text_bytes),
            limiter: RateLimiter::new(&declared.backoff),
            concurrency: config.concurrency,
            max_retries: declared.retries(),
            tick: declared.tick(),
            tick_key: config.tick_key,
            next_tick: None,
            resync: config.resync,
            next_resync: None,
            observer: Some(config.observer),
            retired: false,
        }
    }

    /// Adopts another version's declaration. Keys, their failures and delays stay; the tick timer restarts.
    pub(super) fn adopt(&mut self, declared: &Queue, config: QueueConfig<O>) {
        self.limiter.retune(&declared.backoff);
        self.concurrency = config.concurrency;
        self.max_retries = declared.retries();
        self.observe(Some(config.observer));
        self.tick_key = config.tick_key;
        self.retired = false;
        // The tick runs immediately: like that of every key, its result depends on the version and its configuration.
        (self.tick, self.next_tick) = (declared.tick(), None);
        if self.resync != config.resync {
            (self.resync, self.next_resync) = (config.resync, None);
        }
        self.queued(0);
        self.work_queue.trust_all();
    }

    /// Removes all keys.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        (self.tick, self.next_tick, self.resync, self.next_resync) = (None, None, None, None);
        if self.work_queue.n_running() + self.work_queue.n_held() == 0 {
            self.work_queue = WorkQueue::weighing(text_bytes);
        }
        // Versions may declare any number of other queues: their metric series must not stay.
        self.observe(None);
    }

    fn observe(&mut self, observer: Option<O>) {
        if let Some(before) = std::mem::replace(&mut self.observer, observer) {
            before.replaced();
        }
    }

    /// Forgets all keys, and stops the timers. No run may be in progress.
    pub(super) fn clear(&mut self) {
        self.work_queue = WorkQueue::weighing(text_bytes);
        self.limiter.forget_all();
        (self.next_tick, self.next_resync) = (None, None);
        self.queued(0);
    }

    /// Its observer; `None` if the current version does not declare the queue.
    pub fn observer(&self) -> Option<&O> {
        self.observer.as_ref()
    }

    /// Consecutive failures of a key.
    pub fn n_failures(&self, key: &Key) -> u32 {
        self.limiter.failures(key)
    }

    /// Entries of all lists.
    pub(super) fn n_entries(&self) -> usize {
        self.work_queue.n_known() + self.limiter.n_failing()
    }

    /// Bytes of all lists.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_entries() as u64 * ENTRY_BYTES + self.work_queue.n_text_bytes()
    }

    fn queued(&self, n_added: usize) {
        if let Some(observer) = &self.observer {
            observer.queued(n_added, self.work_queue.n_dirty());
        }
    }

    pub(super) fn add(&mut self, key: Key, delay: Option<Duration>, priority: Priority, now: Instant) {
        let is_new = match delay {
            Some(delay) => self.work_queue.add_after(key, delay, priority, now),
            None => self.work_queue.add(key, priority, now),
        };
        self.queued(usize::from(is_new));
    }

    pub(super) fn advance(&mut self, now: Instant) {
        let n_added = self.work_queue.advance(now);
        self.queued(n_added);
    }

    pub(super) fn take(&mut self, gate: Gate, prefers: impl Fn(&Key) -> bool, now: Instant) -> Option<Taken<Key>> {
        if self.retired || self.work_queue.n_running() >= self.concurrency {
            return None;
        }
        let taken = match gate {
            Gate::Open => self.work_queue.take(now)?,
            Gate::Trial { suspects } => self.work_queue.take_trial(prefers, suspects, now)?,
            Gate::Shut => return None,
        };
        if let Some(observer) = &self.observer {
            observer.began(taken.waited);
        }
        self.queued(0);
        Some(taken)
    }

    /// Ends the run of a key. `is_held`: it stays held until it is released. Returns `None` if the key was not running.
    pub(super) fn stop_running(&mut self, key: &Key, is_held: bool, now: Instant) -> Option<Duration> {
        let worked = if is_held { self.work_queue.hold(key, now) } else { self.work_queue.done(key, now) };
        if let Some((observer, worked)) = self.observer.as_ref().zip(worked) {
            observer.ended(worked);
        }
        worked
    }

    /// Counts a failure of a key whose delay is decided elsewhere.
    pub(super) fn count_retry(&mut self, key: &Key) {
        self.limiter.count(key);
        if let Some(observer) = &self.observer {
            observer.retried();
        }
    }

    /// Counts a failure of a key; returns its delay.
    pub(super) fn backoff(&mut self, key: &Key, suspect: Option<Suspect>, now: Instant) -> Duration {
        let delay = match suspect {
            None => self.limiter.when(key, now),
            Some(suspect) => {
                self.limiter.count(key);
                suspect.delay
            }
        };
        if let Some(observer) = &self.observer {
            observer.retried();
        }
        delay
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.limiter.forget(key);
    }

    /// Starts the stopped timers.
    pub(super) fn start_clocks(&mut self, now: Instant) {
        self.next_tick = self.next_tick.or(self.tick.map(|_| now));
        self.next_resync = self.next_resync.or(self.resync.map(|period| now + period));
    }

    /// Enqueues the tick if it is due; returns whether a resync is due.
    pub(super) fn clocks_due(&mut self, now: Instant) -> bool {
        if let (Some(next), Some(period)) = (self.next_tick, self.tick)
            && next <= now
        {
            // Several missed ticks count as one.
            self.next_tick = Some((next + period).max(now));
            self.add(self.tick_key.clone(), None, Priority::Normal, now);
        }
        let (Some(next), Some(period)) = (self.next_resync, self.resync) else { return false };
        let due = next <= now;
        if due {
            self.next_resync = Some((next + period).max(now + period / 2));
        }
        due
    }

    /// When the next delay or timer ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        [self.work_queue.next_due(), self.next_tick, self.next_resync].into_iter().flatten().min()
    }
}
