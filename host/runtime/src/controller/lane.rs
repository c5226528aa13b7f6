//! One queue of a plugin with its limits and clocks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_core::id::{Key, Kind, ObjectKey};
use pintle_core::manifest::Queue;
use pintle_core::queue::{Priority, WorkQueue};
use pintle_core::ratelimit::RateLimiter;

use super::version::LaneParts;
use crate::metrics::QueueMetrics;

/// A queue and its limits.
pub(super) struct Lane {
    pub(super) name: Arc<str>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) limiter: RateLimiter<Key>,
    pub(super) concurrency: usize,
    pub(super) max_retries: Option<u32>,
    tick: Option<Duration>,
    pub(super) next_tick: Option<Instant>,
    resync: Option<Duration>,
    pub(super) next_resync: Option<Instant>,
    pub(super) metrics: QueueMetrics,
    /// The present version has no such queue. The place stays, because runs in flight know their lane by it.
    pub(super) retired: bool,
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms).max(1))
}

impl Lane {
    pub(super) fn new(queue: &Queue, parts: &LaneParts) -> Self {
        Self {
            name: queue.name.as_str().into(),
            queue: WorkQueue::new(),
            limiter: RateLimiter::new(&queue.backoff),
            concurrency: parts.concurrency,
            max_retries: queue.max_retries,
            tick: queue.tick_ms.map(millis),
            next_tick: None,
            resync: parts.resync,
            next_resync: None,
            metrics: parts.metrics.clone(),
            retired: false,
        }
    }

    /// Follows another version's declaration. Keys, their failures and delays stay.
    pub(super) fn retune(&mut self, queue: &Queue, parts: &LaneParts) {
        self.limiter.retune(&queue.backoff);
        self.concurrency = parts.concurrency;
        self.max_retries = queue.max_retries;
        self.metrics = parts.metrics.clone();
        self.retired = false;
        let tick = queue.tick_ms.map(millis);
        if self.tick != tick {
            (self.tick, self.next_tick) = (tick, None);
        }
        if self.resync != parts.resync {
            (self.resync, self.next_resync) = (parts.resync, None);
        }
    }

    /// No keys of it are wanted any more.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        (self.tick, self.next_tick, self.resync, self.next_resync) = (None, None, None, None);
        if self.queue.n_running() + self.queue.n_held() == 0 {
            self.queue = WorkQueue::new();
        }
        self.count_adds(0);
    }

    /// Starts those clocks that stand still.
    pub(super) fn start_clocks(&mut self, now: Instant) {
        self.next_tick = self.next_tick.or(self.tick.map(|_| now));
        self.next_resync = self.next_resync.or(self.resync.map(|period| now + period));
    }

    pub(super) fn count_adds(&mut self, n_added: usize) {
        self.metrics.adds.inc_by(n_added as u64);
        self.metrics.depth.set(i64::try_from(self.queue.n_dirty()).unwrap_or(i64::MAX));
    }

    /// Adds the tick if it is due; says whether a resync is.
    pub(super) fn clocks_due(&mut self, now: Instant) -> bool {
        if let (Some(next), Some(period)) = (self.next_tick, self.tick)
            && next <= now
        {
            // Ticks that were missed are one tick.
            self.next_tick = Some((next + period).max(now));
            let kind = Kind::new("", "v1", "Namespace");
            let key = Key { queue: self.name.clone(), kind, object: ObjectKey::new("", "tick") };
            let news = self.queue.add(key, Priority::Normal, now);
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
