//! Idle instances of a pooled plugin.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::{MAX_IDLE, Shared};
use crate::guest::Live;

/// The idle instances of all plugins, together.
#[derive(Debug)]
pub(crate) struct IdleTotal {
    n: usize,
    n_bytes: u64,
    max_bytes: u64,
}

impl IdleTotal {
    /// Room for instances with at most so much memory.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { n: 0, n_bytes: 0, max_bytes }
    }

    /// Counts an instance, if there is room for it.
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

/// The idle instances of one plugin.
pub(crate) struct Idle {
    shared: Arc<Shared>,
    instances: Mutex<Vec<Live>>,
    max: usize,
}

impl Idle {
    /// Room for `n` instances; none if the plugin is not pooled.
    pub(crate) fn new(shared: Arc<Shared>, max: usize) -> Self {
        Self { shared, instances: Mutex::new(Vec::new()), max }
    }

    /// Whether instances are reused for later calls.
    pub(crate) fn keeps(&self) -> bool {
        self.max > 0
    }

    pub(crate) fn take(&self) -> Option<Live> {
        let live = self.instances.lock().pop()?;
        self.shared.idle.lock().remove(live.n_bytes());
        Some(live)
    }

    /// Keeps an instance for the next call, if there is room.
    pub(crate) fn put(&self, live: Live) {
        let mut instances = self.instances.lock();
        if instances.len() < self.max && self.shared.idle.lock().add(live.n_bytes()) {
            instances.push(live);
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let mut total = self.shared.idle.lock();
        for live in self.instances.get_mut() {
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
