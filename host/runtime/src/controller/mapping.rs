//! Maps changes to keys with the plugin's own mapping function.
//!
//! Flow: the controller queues the changes that its rules assign to the plugin; one task of the controller calls the
//! plugin, one change at a time and in order.
//!
//! Invariants:
//! 1. Queueing never waits. While [`QUEUE`] changes wait, further ones are merged by object: at most the first, last
//!    and deleted states of each object remain.
//! 2. The plugin maps the first and the last state of every changed object, including deleted ones. Merging loses
//!    intermediate states; to cover keys that only those affect, all keys that are objects themselves are enqueued.
//! 3. Keys that the plugin invents are bounded in number, and in bytes by the account of its runs. A change whose keys
//!    do not fit waits for room, and later changes wait behind it; meanwhile, keys that are objects themselves run.
//! 4. A mapping that faults for other reasons is tried [`MAX_TRIES`] times in total, then dropped.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use pintle_cache::{Delta, Snapshot};
use pintle_core::contract::outcome::Wake;
use pintle_core::object::Object;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::queue::Priority;
use pintle_core::ports::guest::{FaultKind, PluginFault};
use tokio::sync::Notify;

use super::Controller;
use crate::panic_text;

/// Maximum waiting changes before merging starts. Each holds two references to cached texts.
const QUEUE: usize = 65_536;
/// Maximum separate changes of one object: a change, its deletion, and a new object with the same name.
const PER_OBJECT: usize = 3;
/// Number of queue entries above which mapped keys are a fault, unless the caches have as many objects.
pub(super) const MAX_KEYS: usize = if cfg!(test) { 64 } else { 1 << 18 };
/// Maximum tries of one change whose mapping faults.
const MAX_TRIES: u32 = 5;
/// Longest pause between tries of a change whose keys do not fit.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A change for the plugin's own mapping; the objects are its projections.
#[derive(Clone, Debug)]
pub(super) struct Mappable {
    kind: Kind,
    object: ObjectKey,
    old: Option<Arc<str>>,
    new: Option<Arc<str>>,
    initial: bool,
}

/// The changes that the plugin maps itself.
pub(super) fn mappable(snapshot: &Snapshot, batch: &[Delta]) -> Vec<Mappable> {
    let one = |delta: &Delta| {
        let text = |object: &Option<Arc<Object>>| snapshot.projection(&delta.kind, object.as_ref()?);
        Mappable {
            kind: delta.kind.clone(),
            object: delta.object().cloned().unwrap_or_default(),
            old: text(&delta.old),
            new: text(&delta.new),
            initial: delta.initial,
        }
    };
    batch.iter().filter(|delta| snapshot.wants_mapping(delta)).map(one).collect()
}

/// The mapping queue.
#[derive(Default)]
pub(super) struct Mapping {
    jobs: Mutex<Jobs>,
    wake: Notify,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Mappable>,
    /// Merged changes that arrived while the queue was full.
    merged: BTreeMap<(Kind, ObjectKey), Vec<Mappable>>,
    /// Whether intermediate states were lost.
    lossy: bool,
    /// Whether a change is being mapped.
    busy: bool,
}

enum Next {
    Change(Mappable),
    Everything,
}

/// The result for the keys of a change.
enum Mapped {
    Enqueued,
    /// Not enqueued, for this reason.
    NoRoom(String),
}

impl Jobs {
    fn merge(&mut self, change: Mappable) {
        let changes = self.merged.entry((change.kind.clone(), change.object.clone())).or_default();
        match changes.last_mut().filter(|last| last.new.is_some() && change.new.is_some()) {
            Some(last) => {
                last.new = change.new;
                last.initial &= change.initial;
                self.lossy = true;
            }
            None => changes.push(change),
        }
        if changes.len() > PER_OBJECT {
            // The name was reused several times: drop a short-lived object in between.
            changes.remove(1);
            self.lossy = true;
        }
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.merged.is_empty() && !self.lossy
    }
}

impl Mapping {
    pub(super) fn push(&self, changes: Vec<Mappable>) {
        if changes.is_empty() {
            return;
        }
        let mut jobs = self.jobs.lock();
        for change in changes {
            if jobs.merged.is_empty() && jobs.queue.len() < QUEUE {
                jobs.queue.push_back(change);
            } else {
                jobs.merge(change);
            }
        }
        drop(jobs);
        self.wake.notify_one();
    }

    /// Forgets all changes that wait.
    pub(super) fn clear(&self) {
        let jobs = {
            let mut jobs = self.jobs.lock();
            let busy = jobs.busy;
            std::mem::replace(&mut *jobs, Jobs { busy, ..Jobs::default() })
        };
        // Freeing the objects takes time.
        drop(jobs);
    }

    pub(super) fn is_idle(&self) -> bool {
        let jobs = self.jobs.lock();
        jobs.is_empty() && !jobs.busy
    }

    fn next(&self) -> Option<Next> {
        let mut jobs = self.jobs.lock();
        if jobs.queue.is_empty()
            && let Some((_, changes)) = jobs.merged.pop_first()
        {
            // Merging continues until all merged changes are mapped.
            jobs.queue.extend(changes);
        }
        let next = match jobs.queue.pop_front() {
            Some(change) => Some(Next::Change(change)),
            None => std::mem::take(&mut jobs.lossy).then_some(Next::Everything),
        };
        jobs.busy = next.is_some();
        next
    }
}

impl Controller {
    /// Maps changes until the controller stops.
    pub(super) async fn map_changes(self: Arc<Self>) {
        if !self.filled().await {
            return;
        }
        loop {
            match self.mapping.next() {
                Some(Next::Change(change)) => self.map(&change).await,
                Some(Next::Everything) => {
                    tracing::warn!(plugin = %self.name, "changes came faster than they were mapped: every key is enqueued");
                    self.enqueue(self.cache().all_keys(), Priority::Low);
                }
                None => {
                    self.tasks.idle_signal.notify_waiters();
                    tokio::select! {
                        biased;
                        () = self.mapping.wake.notified() => {}
                        () = self.tasks.stopped.cancelled() => return,
                    }
                }
            }
            if self.tasks.stopped.is_cancelled() {
                return;
            }
        }
    }

    async fn map(&self, change: &Mappable) {
        let (mut switches, mut leading) = (self.current.subscribe(), self.leading.subscribe());
        let mut delay = Duration::from_millis(5);
        let mut n_tries = 0;
        loop {
            let asked = AssertUnwindSafe(self.ask(change)).catch_unwind().await.unwrap_or_else(|panic| {
                let message = format!("the host panicked: {}", panic_text(&*panic));
                Err(PluginFault { kind: FaultKind::HostCall, message })
            });
            let fault = match asked {
                Ok(Mapped::Enqueued) => return self.mapping_went_well(),
                Ok(Mapped::NoRoom(message)) => PluginFault { kind: FaultKind::Output, message },
                Err(fault) => {
                    n_tries += 1;
                    fault
                }
            };
            self.mapping_faulted(&fault);
            tracing::error!(plugin = %self.name, kind = %change.kind, n_tries, %fault, "mapping faulted");
            if n_tries == MAX_TRIES {
                return;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(delay) => {}
                // The senders live as long as `self`.
                _ = switches.changed() => {}
                _ = leading.wait_for(|leads| !leads) => return,
                () = self.tasks.stopped.cancelled() => return,
            }
            delay = (10 * delay).min(MAX_PAUSE);
        }
    }

    /// Calls the plugin for the keys of a change, and enqueues them.
    async fn ask(&self, change: &Mappable) -> Result<Mapped, PluginFault> {
        let version = self.version();
        let Some(cache) = version.cache().filter(|_| version.guest.maps()) else { return Ok(Mapped::Enqueued) };
        let view = cache.snapshot().view(self.context(&version, None, Vec::new(), &self.begin()));
        let keys = version.guest.keys_of(&change.kind, change.old.as_deref(), change.new.as_deref(), view).await?;
        let (keys, n_objects) = (keys.into_inner(), cache.n_keys());
        let priority = if change.initial { Priority::Low } else { Priority::Normal };
        let now = super::now();
        let mut inner = self.inner.lock();
        if let Err(why) = inner.keys.make_room(keys.iter().map(|wake| &wake.key), n_objects, MAX_KEYS) {
            drop(inner);
            // Keys that are objects run in any case.
            self.enqueue(cache.all_keys(), Priority::Low);
            return Ok(Mapped::NoRoom(why));
        }
        for Wake { key, after } in keys {
            inner.add(key, None, after, priority, now);
        }
        inner.keys.count_bytes();
        self.wake_dispatcher(inner);
        Ok(Mapped::Enqueued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(object: &str, old: Option<&str>, new: Option<&str>) -> Mappable {
        let kind = Kind::new("", "v1", "Pod");
        let object = ObjectKey::new("ns", object);
        Mappable { kind, object, old: old.map(Into::into), new: new.map(Into::into), initial: false }
    }

    fn drain(mapping: &Mapping) -> Vec<String> {
        let mut out = Vec::new();
        while let Some(next) = mapping.next() {
            out.push(match next {
                Next::Everything => "everything".to_owned(),
                Next::Change(change) => {
                    let text = |state: &Option<Arc<str>>| state.as_deref().unwrap_or("-").to_owned();
                    format!("{} {}>{}", change.object.name, text(&change.old), text(&change.new))
                }
            });
        }
        out
    }

    /// Creates a mapping whose queue is full of one object's changes.
    fn full() -> Mapping {
        let mapping = Mapping::default();
        mapping.push(vec![change("full", None, Some("1")); QUEUE]);
        mapping
    }

    #[test]
    fn more_objects_than_the_queue_holds_are_all_mapped() {
        let mapping = full();
        mapping.push(vec![change("b", None, Some("1")), change("a", None, Some("1")), change("c", Some("1"), None)]);
        assert_eq!(drain(&mapping)[QUEUE..], ["a ->1", "b ->1", "c 1>-"]);
        assert!(mapping.is_idle());
    }

    #[test]
    fn merging_keeps_the_first_the_last_and_a_deleted_state() {
        let mapping = full();
        mapping.push(vec![
            change("a", Some("1"), Some("2")),
            change("a", Some("2"), Some("3")),
            change("a", Some("3"), None),
            change("b", None, Some("1")),
            change("b", Some("1"), None),
        ]);
        assert_eq!(drain(&mapping)[QUEUE..], ["a 1>3", "a 3>-", "b ->1", "b 1>-", "everything"]);
    }

    #[test]
    fn a_name_that_is_reused_repeatedly_takes_no_more_room() {
        let mapping = full();
        for _ in 0..100 {
            mapping.push(vec![change("a", None, Some("1")), change("a", Some("1"), None)]);
        }
        let left = drain(&mapping);
        assert_eq!((left.len() - QUEUE, left.last().map(String::as_str)), (PER_OBJECT + 1, Some("everything")));
    }

    #[test]
    fn order_is_restored_after_an_overflow() {
        let mapping = full();
        mapping.push(vec![change("z", None, Some("1"))]);
        drain(&mapping);
        mapping.push(vec![change("z", Some("1"), Some("2")), change("a", None, Some("1"))]);
        assert_eq!(drain(&mapping), ["z 1>2", "a ->1"]);
    }
}
