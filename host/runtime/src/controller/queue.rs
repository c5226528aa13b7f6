//! One queue of a plugin with its limits and timers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_core::contract::manifest::Queue;
use pintle_core::object::id::Key;
use pintle_core::policy::queue::{Priority, WorkQueue};
use pintle_core::policy::ratelimit::RateLimiter;

use super::version::QueueConfig;
use crate::metrics::QueueMetrics;

/// A queue and its limits.
pub(super) struct ControllerQueue {
    pub(super) name: Arc<str>,
    pub(super) work_queue: WorkQueue<Key>,
    pub(super) limiter: RateLimiter<Key>,
    pub(super) concurrency: usize,
    pub(super) max_retries: Option<u32>,
    tick: Option<Duration>,
    tick_key: Key,
    pub(super) next_tick: Option<Instant>,
    resync: Option<Duration>,
    pub(super) next_resync: Option<Instant>,
    pub(super) metrics: QueueMetrics,
    /// The present version has no such queue. The slot stays, because runs in flight refer to their queue by index.
    pub(super) retired: bool,
}

/// Bytes of an entry of a queue besides the text of its key: the key in two maps, and the heads of its texts.
const ENTRY_BYTES: u64 = 384;
/// Lists of a queue in which a key can be at once: to run, delayed, suspect, failing.
pub(super) const N_LISTS: usize = 4;
/// Bytes that the key of an object takes at most: a name has 253 bytes, a namespace 63, and the names of a kind and a queue are short.
pub(super) const OBJECT_BYTES: u64 = N_LISTS as u64 * ENTRY_BYTES + 512;

fn text_bytes(key: &Key) -> u64 {
    key.n_bytes() as u64
}

/// Bytes that a key takes when it comes into a queue.
pub(super) fn new_bytes(key: &Key) -> u64 {
    ENTRY_BYTES + text_bytes(key)
}

impl ControllerQueue {
    pub(super) fn new(declared: &Queue, config: &QueueConfig) -> Self {
        Self {
            name: declared.name.as_str().into(),
            work_queue: WorkQueue::weighing(text_bytes),
            limiter: RateLimiter::new(&declared.backoff),
            concurrency: config.concurrency,
            max_retries: declared.retries(),
            tick: declared.tick(),
            tick_key: config.tick_key.clone(),
            next_tick: None,
            resync: config.resync,
            next_resync: None,
            metrics: config.metrics.clone(),
            retired: false,
        }
    }

    /// Adopts another version's declaration. Keys, their failures and delays stay; the clock of the tick starts again.
    pub(super) fn retune(&mut self, declared: &Queue, config: &QueueConfig) {
        self.limiter.retune(&declared.backoff);
        self.concurrency = config.concurrency;
        self.max_retries = declared.retries();
        std::mem::replace(&mut self.metrics, config.metrics.clone()).end();
        self.tick_key = config.tick_key.clone();
        self.retired = false;
        // The tick runs at once: what it found depends on the version and its configuration, as with every other key.
        (self.tick, self.next_tick) = (declared.tick(), None);
        if self.resync != config.resync {
            (self.resync, self.next_resync) = (config.resync, None);
        }
        self.count_adds(0);
    }

    /// Forgets all keys, and stops the timers. Nothing may run.
    pub(super) fn clear(&mut self) {
        self.work_queue = WorkQueue::weighing(text_bytes);
        self.limiter.forget_all();
        (self.next_tick, self.next_resync) = (None, None);
        self.count_adds(0);
    }

    /// Removes all keys.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        (self.tick, self.next_tick, self.resync, self.next_resync) = (None, None, None, None);
        if self.work_queue.n_running() + self.work_queue.n_held() == 0 {
            self.work_queue = WorkQueue::weighing(text_bytes);
        }
        // Versions may have other queues without end: their series must not stay.
        std::mem::replace(&mut self.metrics, QueueMetrics::unread()).end();
    }

    /// Entries of all lists.
    pub(super) fn n_entries(&self) -> usize {
        self.work_queue.n_known() + self.limiter.n_failing()
    }

    /// Bytes of all lists.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_entries() as u64 * ENTRY_BYTES + self.work_queue.n_text_bytes()
    }

    /// Starts the timers that are stopped.
    pub(super) fn start_clocks(&mut self, now: Instant) {
        self.next_tick = self.next_tick.or(self.tick.map(|_| now));
        self.next_resync = self.next_resync.or(self.resync.map(|period| now + period));
    }

    pub(super) fn count_adds(&mut self, n_added: usize) {
        self.metrics.adds.inc_by(n_added as u64);
        self.metrics.set_depth(self.work_queue.n_dirty());
    }

    /// Enqueues the tick if it is due; returns whether a resync is due.
    pub(super) fn clocks_due(&mut self, now: Instant) -> bool {
        if let (Some(next), Some(period)) = (self.next_tick, self.tick)
            && next <= now
        {
            // Missed ticks count as one tick.
            self.next_tick = Some((next + period).max(now));
            let news = self.work_queue.add(self.tick_key.clone(), Priority::Normal, now);
            self.count_adds(usize::from(news));
        }
        let (Some(next), Some(period)) = (self.next_resync, self.resync) else { return false };
        let due = next <= now;
        if due {
            self.next_resync = Some((next + period).max(now + period / 2));
        }
        due
    }
}
