//! Idle instances of a pooled plugin.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::{MAX_IDLE, Shared};
use crate::guest::Live;

/// Totals of the idle instances of all plugins.
#[derive(Debug)]
pub(crate) struct IdleTotal {
    n: usize,
    n_bytes: u64,
    max_bytes: u64,
}

impl IdleTotal {
    /// Creates totals with room for instances with at most `max_bytes` of memory.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { n: 0, n_bytes: 0, max_bytes }
    }

    /// Counts an instance, if there is room.
    fn add(&mut self, n_bytes: u64) -> bool {
        let has_room = self.n < MAX_IDLE && self.n_bytes.saturating_add(n_bytes) <= self.max_bytes;
        if has_room {
            self.n += 1;
            self.n_bytes += n_bytes;
        }
        has_room
    }

    fn remove(&mut self, n_bytes: u64) {
        self.n -= 1;
        self.n_bytes -= n_bytes;
    }
}

/// Number of calls that did not need an idle instance after which it is dropped.
const UNUSED_CALLS: u32 = 1_000;

/// The idle instances of one plugin.
pub(crate) struct Idle {
    shared: Arc<Shared>,
    stack: Mutex<Stack>,
    max: usize,
}

/// The most recently used instance is taken first, so the unused ones are at the bottom.
#[derive(Default)]
struct Stack {
    instances: Vec<Live>,
    /// Calls since unused instances were dropped.
    n_calls: u32,
    /// Minimum number of instances that were idle in these calls.
    n_unused: Option<usize>,
}

impl Stack {
    /// Takes an instance for a call, and the instances that no call needed for a long time.
    fn pop(&mut self) -> (Option<Live>, Vec<Live>) {
        let live = self.instances.pop();
        let n_left = self.instances.len();
        let n_unused = *self.n_unused.insert(self.n_unused.map_or(n_left, |n| n.min(n_left)));
        self.n_calls += 1;
        if self.n_calls < UNUSED_CALLS {
            return (live, Vec::new());
        }
        (self.n_calls, self.n_unused) = (0, None);
        (live, self.instances.drain(..n_unused).collect())
    }
}

impl Idle {
    /// Creates room for `max` instances; none if the plugin is not pooled.
    pub(crate) fn new(shared: Arc<Shared>, max: usize) -> Self {
        Self { shared, stack: Mutex::default(), max }
    }

    /// Whether instances are reused for later calls.
    pub(crate) fn keeps(&self) -> bool {
        self.max > 0
    }

    pub(crate) fn take(&self) -> Option<Live> {
        if !self.keeps() {
            return None;
        }
        let (live, unused) = self.stack.lock().pop();
        let mut total = self.shared.idle.lock();
        for gone in live.iter().chain(&unused) {
            total.remove(gone.n_bytes());
        }
        drop(total);
        live
    }

    /// Keeps an instance for the next call, if there is room.
    pub(crate) fn put(&self, live: Live) {
        let mut stack = self.stack.lock();
        if stack.instances.len() < self.max && self.shared.idle.lock().add(live.n_bytes()) {
            stack.instances.push(live);
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let mut total = self.shared.idle.lock();
        for live in &self.stack.get_mut().instances {
            total.remove(live.n_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_instances_are_bounded_in_memory_and_in_number() {
        let mut total = IdleTotal::new(10);
        assert!(total.add(6));
        assert!(!total.add(5), "more than the memory");
        assert!(total.add(4));
        total.remove(6);
        assert!(total.add(6));
        let mut total = IdleTotal::new(u64::MAX);
        assert!((0..MAX_IDLE).all(|_| total.add(1)));
        assert!(!total.add(1), "more than the number");
    }
}
