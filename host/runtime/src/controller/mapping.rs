//! Changes that the plugin maps to keys by itself.
//!
//! Flow: the informers' tasks queue changes here; one task of the controller asks the plugin, one change at a time and in order.
//!
//! Invariants:
//! 1. Queueing never waits. A queue that is full is emptied, and every key is enqueued instead: nothing is missed, at a price.
//! 2. A change whose mapping faults is tried again [`MAX_TRIES`] times in all, then given up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::check;
use pintle_core::guest::{FaultKind, PluginFault};
use pintle_core::id::Key;
use pintle_core::queue::Priority;
use tokio::sync::Notify;

use super::Controller;
use super::world::Mappable;

/// Changes that wait. Each holds two references to texts of the cache.
const QUEUE: usize = 65_536;
/// Tries of one change.
const MAX_TRIES: u32 = 5;

/// Changes that wait to be mapped.
#[derive(Default)]
pub(super) struct Mapping {
    jobs: Mutex<Jobs>,
    wake: Notify,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Mappable>,
    /// Changes were lost.
    overflowed: bool,
    /// One is being mapped.
    busy: bool,
}

enum Next {
    Change(Mappable),
    Everything,
}

impl Mapping {
    pub(super) fn push(&self, changes: Vec<Mappable>) {
        if changes.is_empty() {
            return;
        }
        let mut jobs = self.jobs.lock();
        if jobs.queue.len() + changes.len() > QUEUE {
            jobs.queue.clear();
            jobs.overflowed = true;
        } else {
            jobs.queue.extend(changes);
        }
        drop(jobs);
        self.wake.notify_one();
    }

    pub(super) fn is_idle(&self) -> bool {
        let jobs = self.jobs.lock();
        jobs.queue.is_empty() && !jobs.overflowed && !jobs.busy
    }

    fn next(&self) -> Option<Next> {
        let mut jobs = self.jobs.lock();
        let next = if std::mem::take(&mut jobs.overflowed) {
            Some(Next::Everything)
        } else {
            jobs.queue.pop_front().map(Next::Change)
        };
        jobs.busy = next.is_some();
        next
    }
}

impl Controller {
    /// Maps changes until the controller stops.
    pub(super) async fn map_changes(self: Arc<Self>) {
        tokio::select! {
            () = self.world().synced() => {}
            () = self.stopped.cancelled() => return,
        }
        loop {
            match self.mapping.next() {
                Some(Next::Change(change)) => self.map(&change).await,
                Some(Next::Everything) => {
                    tracing::warn!(plugin = %self.name, "too many changes to map: every key is enqueued");
                    self.enqueue(self.world().all_keys(), Priority::Low);
                }
                None => {
                    self.activity.notify_waiters();
                    tokio::select! {
                        () = self.mapping.wake.notified() => {}
                        () = self.stopped.cancelled() => return,
                    }
                }
            }
            if self.stopped.is_cancelled() {
                return;
            }
        }
    }

    async fn map(&self, change: &Mappable) {
        let mut delay = Duration::from_millis(5);
        for attempt in 1..=MAX_TRIES {
            let fault = match self.ask(change).await {
                Ok(keys) => {
                    let priority = if change.initial { Priority::Low } else { Priority::Normal };
                    return self.enqueue(keys, priority);
                }
                Err(fault) => fault,
            };
            self.faulted(&fault);
            tracing::error!(plugin = %self.name, kind = %change.kind, attempt, %fault, "mapping faulted");
            if attempt < MAX_TRIES {
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    () = self.stopped.cancelled() => return,
                }
                delay *= 10;
            }
        }
    }

    async fn ask(&self, change: &Mappable) -> Result<Vec<Key>, PluginFault> {
        let view = self.world().view(self.context(None, Vec::new()));
        let keys = self.guest.keys_of(&change.kind, change.old.as_deref(), change.new.as_deref(), view).await?;
        check::mapped_keys(&keys, self.guest.manifest())
            .map_err(|message| PluginFault { kind: FaultKind::Output, message })?;
        Ok(keys)
    }
}
