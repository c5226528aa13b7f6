//! Idle instances of a pooled plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::engine::{MAX_IDLE, Shared};
use crate::guest::Live;

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
        self.n_idle().fetch_sub(1, Ordering::Relaxed);
        Some(live)
    }

    /// Keeps an instance for the next call, if there is room.
    pub(crate) fn put(&self, live: Live) {
        let mut instances = self.instances.lock();
        let room = instances.len() < self.max;
        if room && self.n_idle().fetch_add(1, Ordering::Relaxed) < MAX_IDLE {
            instances.push(live);
        } else if room {
            self.n_idle().fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn n_idle(&self) -> &AtomicUsize {
        &self.shared.n_idle
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let n_left = self.instances.get_mut().len();
        self.n_idle().fetch_sub(n_left, Ordering::Relaxed);
    }
}
