//! The path from cache changes to keys.
//!
//! ```text
//! informers ──batches, progress──> ChangeSink (bounded) ──take──> the controller's own task ──rules──> queues, mapping
//! ```
//!
//! Invariants:
//! 1. An informer only hands its changes over: expensive rules of a plugin delay that plugin alone.
//! 2. Changes of a kind are taken in order. Progress of a kind is taken after all earlier changes of the kind.
//! 3. At most [`MAX_WAITING`] changes wait. Further changes are merged by object: the first and the last state remain,
//!    and every key that is an object itself is enqueued for the states in between. At most [`MAX_WAITING`] objects are
//!    merged; beyond that, changes are dropped, and all cached objects of the kind go through the rules as if they were
//!    new.
//!
//! Not here: the rules (`pintle_core::policy::rules`), the plugin's own mapping (`mapping`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_cache::{ChangeHandler, Delta, Enqueued, Subscription};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::queue::Priority;
use tokio::sync::Notify;

use super::mapping::mappable;
use super::{Controller, now};

/// Maximum number of changes that wait for the controller. Each holds two references to objects, the old of which the
/// cache may have dropped; the changes of an initial list are in the cache and do not count. A plugin whose rules are
/// slower than the changes, or that stays in shadow mode for long, pays with a run of every key. At most as many
/// objects are merged, which bounds memory.
pub(super) const MAX_WAITING: usize = 65_536;
/// Changes that go through the rules under one lock.
const AT_ONCE: usize = 32;
/// Number of changes and keys after which the task yields, and of keys held at a time: one change can lead to every
/// key.
const TURN: usize = 512;

/// The sink of a subscription, called by the caches. Versions that share a subscription share it.
pub(crate) struct ChangeSink {
    inbox: Mutex<Inbox>,
    /// Wakes the controller's task.
    arrived: Arc<Notify>,
}

/// What happens to changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// The version has not taken over yet: changes wait.
    Buffering,
    /// The controller takes them.
    Active,
    /// Another version has taken over, and its own subscription delivers the changes.
    Detached,
}

struct Inbox {
    delivery: Delivery,
    max_waiting: usize,
    waiting: Changes,
    /// Number of waiting changes, without those of initial lists.
    n_waiting: usize,
    /// The controller is processing the changes it has taken.
    is_busy: bool,
}

/// Changes that the controller takes in one step.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// In order; each batch is of one kind.
    batches: Vec<Arc<[Delta]>>,
    /// Kinds with too many changes.
    merged: BTreeMap<Kind, Merged>,
    /// Number of objects in `merged`.
    n_merged: usize,
    /// Number of changes that are not in `batches`.
    n_dropped: u64,
    /// Kinds whose cache has progressed.
    progress: BTreeSet<Kind>,
    /// The set of served kinds may have changed.
    kinds: bool,
}

/// Changes of a kind, merged by object.
#[derive(Debug, Default)]
struct Merged {
    /// The first and the last state.
    objects: BTreeMap<ObjectKey, Delta>,
    /// Changes of further objects are missing.
    is_partial: bool,
}

impl Merged {
    /// Adds a change of an object. Returns false if there is no room.
    fn add(&mut self, delta: &Delta, has_room: bool) -> Option<bool> {
        let object = delta.object()?;
        match self.objects.get_mut(object) {
            Some(merged) => {
                if delta.new.is_none() && merged.old.is_none() {
                    // The object was created and deleted meanwhile: its only known state names keys as well.
                    merged.old = delta.old.clone();
                }
                merged.new = delta.new.clone();
                merged.initial &= delta.initial;
                Some(false)
            }
            None if has_room => {
                self.objects.insert(object.clone(), delta.clone());
                Some(true)
            }
            None => {
                self.is_partial = true;
                Some(false)
            }
        }
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.merged.is_empty() && self.progress.is_empty() && !self.kinds
    }
}

impl Inbox {
    fn new(max_waiting: usize) -> Self {
        Self { delivery: Delivery::Buffering, max_waiting, waiting: Changes::default(), n_waiting: 0, is_busy: false }
    }

    fn push(&mut self, batch: &Arc<[Delta]>) {
        let Some(kind) = batch.first().map(|delta| &delta.kind).filter(|_| self.delivery != Delivery::Detached) else {
            return;
        };
        let n_new = batch.iter().filter(|delta| !delta.initial).count();
        let is_full = self.n_waiting + n_new > self.max_waiting;
        // Later changes of a kind must not overtake merged ones.
        if !is_full && !self.waiting.merged.contains_key(kind) {
            self.n_waiting += n_new;
            self.waiting.batches.push(batch.clone());
            return;
        }
        let Changes { merged, n_merged, n_dropped, .. } = &mut self.waiting;
        let merged = merged.entry(kind.clone()).or_default();
        for delta in &**batch {
            *n_dropped += 1;
            if merged.add(delta, *n_merged < self.max_waiting) == Some(true) {
                *n_merged += 1;
            }
        }
    }

    /// Changes of this kind are missing: all its objects go through the rules.
    fn gap(&mut self, kind: &Kind) {
        if self.delivery != Delivery::Detached {
            self.waiting.merged.entry(kind.clone()).or_default().is_partial = true;
            self.waiting.progress.insert(kind.clone());
        }
    }

    fn progress(&mut self, kind: &Kind) {
        if self.delivery != Delivery::Detached && !self.waiting.progress.contains(kind) {
            self.waiting.progress.insert(kind.clone());
        }
    }

    fn kinds(&mut self) {
        self.waiting.kinds = self.delivery != Delivery::Detached;
    }

    fn take(&mut self) -> Option<Changes> {
        if self.delivery != Delivery::Active || self.waiting.is_empty() {
            return None;
        }
        self.n_waiting = 0;
        self.is_busy = true;
        Some(std::mem::take(&mut self.waiting))
    }
}

impl ChangeSink {
    pub(crate) fn new(controller: &Controller) -> Arc<Self> {
        Arc::new(Self { inbox: Mutex::new(Inbox::new(MAX_WAITING)), arrived: controller.tasks.changes_arrived.clone() })
    }

    /// From now on, waiting and new changes become keys.
    pub(super) fn activate(&self) {
        self.inbox.lock().delivery = Delivery::Active;
        self.arrived.notify_one();
    }

    /// From now on, another subscription delivers the changes.
    pub(super) fn detach(&self) {
        let waiting = {
            let mut inbox = self.inbox.lock();
            inbox.delivery = Delivery::Detached;
            inbox.n_waiting = 0;
            std::mem::take(&mut inbox.waiting)
        };
        // Freeing the objects takes a while.
        drop(waiting);
    }

    /// Whether all changes so far have become keys.
    pub(super) fn is_idle(&self) -> bool {
        let inbox = self.inbox.lock();
        inbox.delivery == Delivery::Active && inbox.waiting.is_empty() && !inbox.is_busy
    }

    pub(super) fn take(&self) -> Option<Changes> {
        self.inbox.lock().take()
    }

    /// The taken changes have become keys.
    pub(super) fn done(&self) {
        self.inbox.lock().is_busy = false;
    }
}

impl ChangeHandler for ChangeSink {
    fn on_changes(&self, batch: &Arc<[Delta]>) {
        self.inbox.lock().push(batch);
        self.arrived.notify_one();
    }

    fn on_progress(&self, kind: &Kind) {
        self.inbox.lock().progress(kind);
        self.arrived.notify_one();
    }

    fn on_gap(&self, kind: &Kind) {
        self.inbox.lock().gap(kind);
        self.arrived.notify_one();
    }

    fn on_kinds(&self) {
        self.inbox.lock().kinds();
        self.arrived.notify_one();
    }
}

impl Controller {
    /// Turns changes into keys until the controller stops. After a restart every key is enqueued, because the changes
    /// that the crashed task had taken may be lost.
    pub(super) async fn take_changes(self: Arc<Self>, is_restart: bool) {
        if is_restart && let Some(subscription) = self.version().subscription() {
            subscription.sink.done();
            self.enqueue(subscription.cache.all_keys(), Priority::Low);
            let kinds = self.inner.lock().keys.awaited_kinds();
            for kind in &kinds {
                self.progressed(kind);
            }
        }
        loop {
            while let Some(subscription) = self.version().subscription()
                && let Some(changes) = subscription.sink.take()
            {
                self.apply_changes(&subscription.cache, changes).await;
                subscription.sink.done();
            }
            self.tasks.idle_signal.notify_waiters();
            tokio::select! {
                biased;
                () = self.tasks.stopped.cancelled() => return,
                () = self.tasks.changes_arrived.notified() => {}
            }
        }
    }

    async fn apply_changes(self: &Arc<Self>, cache: &Subscription, changes: Changes) {
        for batch in &changes.batches {
            self.apply_batch(cache, batch).await;
        }
        if !changes.merged.is_empty() {
            self.observers.metrics.dropped_changes.inc_by(changes.n_dropped);
            let kinds: Vec<String> = changes.merged.keys().map(ToString::to_string).collect();
            tracing::warn!(
                plugin = %self.name, kinds = kinds.join(", "), n_changes = changes.n_dropped,
                "changes came faster than they became keys, or a task was interrupted: every key is enqueued"
            );
            for (kind, merged) in changes.merged {
                let objects: Vec<Delta> = merged.objects.into_values().collect();
                self.apply_batch(cache, &objects).await;
                if merged.is_partial {
                    let objects = cache.snapshot().all_as_new(&kind);
                    self.apply_batch(cache, &objects).await;
                }
            }
            // For keys that only a state in between maps to.
            self.enqueue(cache.all_keys(), Priority::Low);
        }
        for kind in &changes.progress {
            self.progressed(kind);
        }
        if changes.kinds {
            self.kinds_changed(cache);
        }
    }

    /// Enqueues the keys of the first of these changes, by the rules of `cache`; returns the number of changes and keys
    /// handled.
    pub(super) fn changed(&self, cache: &Subscription, batch: &[Delta]) -> (usize, usize) {
        if !self.inner.lock().leads {
            // When this host becomes the leader, it enqueues all objects.
            self.observers.see_fields(cache, batch);
            return (batch.len(), 0);
        }
        let snapshot = cache.snapshot();
        let (n_changes, keys) = keys_of_first(batch, TURN, |delta| snapshot.keys(delta));
        self.observers.see_fields(cache, &batch[..n_changes]);
        let n_keys = keys.len();
        let now = now();
        if !keys.is_empty() {
            let mut inner = self.inner.lock();
            for enqueued in keys {
                inner.add(enqueued.key, enqueued.cause, enqueued.delay, enqueued.priority, now);
            }
            self.wake_dispatcher(inner);
        }
        if self.version().guest.maps() {
            self.mapping.push(mappable(&snapshot, &batch[..n_changes]));
        }
        (n_changes, n_keys)
    }

    /// Handles progress of a kind's cache: keys that wait for it may run.
    pub(super) fn progressed(&self, kind: &Kind) {
        let Some(cache) = self.version().cache() else { return };
        let mut inner = self.inner.lock();
        let released = inner.keys.progressed(kind, |write| cache.sees(write));
        if !released.is_empty() {
            self.released(inner, &released);
        }
    }

    pub(super) async fn apply_batch(&self, cache: &Subscription, batch: &[Delta]) {
        let mut done = 0;
        let mut rest = batch;
        while !rest.is_empty() {
            if done >= TURN {
                tokio::task::yield_now().await;
                done = 0;
            }
            let (n_changes, n_keys) = self.changed(cache, &rest[..rest.len().min(AT_ONCE)]);
            rest = &rest[n_changes..];
            done += n_changes + n_keys;
        }
    }
}

/// Maps changes to keys until there are `enough`; returns the number of mapped changes (at least one, and all unless
/// there are `enough` keys before) and the keys.
fn keys_of_first(batch: &[Delta], enough: usize, map: impl Fn(&Delta) -> Vec<Enqueued>) -> (usize, Vec<Enqueued>) {
    let (mut n_changes, mut keys) = (0, Vec::new());
    while let Some(delta) = batch.get(n_changes).filter(|_| keys.len() < enough) {
        keys.extend(map(delta));
        n_changes += 1;
    }
    (n_changes, keys)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pintle_core::object::Object;
    use pintle_core::object::version::ResourceVersion;
    use pintle_testing::cached;
    use proptest::prelude::*;

    use super::*;

    fn kind(i: u8) -> Kind {
        Kind::new("", "v1", ["Pod", "Node"][usize::from(i)])
    }

    /// The state of an object at this version.
    fn state(name: u8, version: u64) -> Arc<Object> {
        let mut object = cached(&format!("o{name}"), None);
        Arc::get_mut(&mut object).unwrap().meta.resource_version = ResourceVersion::parse(&version.to_string());
        object
    }

    type Model = BTreeMap<(u8, u8), Arc<Object>>;

    #[derive(Clone, Debug)]
    enum Event {
        /// A batch of objects of one kind that are put (true) or deleted.
        Batch(u8, Vec<(u8, bool)>),
        Progress(u8),
        Take,
    }

    fn event() -> impl Strategy<Value = Event> {
        let objects = prop::collection::vec((0..4u8, any::<bool>()), 1..4);
        prop_oneof![
            6 => (0..2u8, objects).prop_map(|(kind, objects)| Event::Batch(kind, objects)),
            1 => (0..2u8).prop_map(Event::Progress),
            1 => Just(Event::Take),
        ]
    }

    /// Applies a batch to the model, as an informer does before it hands it over.
    fn apply(model: &mut Model, of: u8, objects: &[(u8, bool)], version: &mut u64) -> Arc<[Delta]> {
        let deltas = objects.iter().filter_map(|&(name, put)| {
            *version += 1;
            let new = put.then(|| state(name, *version));
            let old = match &new {
                Some(new) => model.insert((of, name), new.clone()),
                None => Some(model.remove(&(of, name))?),
            };
            Some(Delta { kind: kind(of), old, new, initial: false })
        });
        deltas.collect()
    }

    /// All deltas that the controller processes, in order.
    fn deltas(changes: Changes, model: &Model) -> Vec<Delta> {
        let mut all: Vec<Delta> = changes.batches.iter().flat_map(|batch| batch.iter().cloned()).collect();
        for (of, merged) in changes.merged {
            all.extend(merged.objects.into_values());
            let cached = model.iter().filter(|((k, _), _)| merged.is_partial && kind(*k) == of);
            all.extend(cached.map(|(_, object)| Delta {
                kind: of.clone(),
                old: None,
                new: Some(object.clone()),
                initial: true,
            }));
        }
        all
    }

    proptest! {
        /// The first and the last state of every changed object is seen, whatever was merged; without an overflow,
        /// every change is seen in order. For objects without room, the current state is seen.
        #[test]
        fn nothing_is_lost(events in prop::collection::vec(event(), 0..60), max_waiting in 0..12usize) {
            let mut inbox = Inbox::new(max_waiting);
            inbox.delivery = Delivery::Active;
            let (mut model, mut version) = (Model::new(), 0);
            let (mut pushed, mut progress) = (Vec::new(), BTreeSet::new());
            for event in events.into_iter().chain([Event::Take]) {
                match event {
                    Event::Batch(of, objects) => {
                        let batch = apply(&mut model, of, &objects, &mut version);
                        inbox.push(&batch);
                        pushed.extend(batch.iter().cloned());
                    }
                    Event::Progress(of) => {
                        inbox.progress(&kind(of));
                        progress.insert(kind(of));
                    }
                    Event::Take => {
                        let taken = inbox.take().unwrap_or_default();
                        let n_kept: usize = taken.batches.iter().map(|batch| batch.len()).sum();
                        prop_assert!(n_kept <= max_waiting);
                        prop_assert_eq!(std::mem::take(&mut progress), taken.progress.clone());
                        let dropped = !taken.merged.is_empty();
                        prop_assert_eq!(dropped, n_kept < pushed.len());
                        prop_assert_eq!(taken.n_dropped as usize, pushed.len() - n_kept);
                        prop_assert!(taken.n_merged <= max_waiting);
                        let partial: BTreeSet<Kind> = taken
                            .merged
                            .iter()
                            .filter(|(_, merged)| merged.is_partial)
                            .map(|(kind, _)| kind.clone())
                            .collect();
                        let seen = deltas(taken, &model);
                        let text = |delta: &Delta| format!("{:?} {:?}", delta.old, delta.new);
                        if !dropped {
                            let both = [&seen, &pushed].map(|all| all.iter().map(text).collect::<Vec<_>>());
                            prop_assert_eq!(&both[0], &both[1]);
                        }
                        let all_pushed = pushed.clone();
                        for delta in pushed.drain(..) {
                            let same = |other: &&Delta| other.kind == delta.kind && other.object() == delta.object();
                            if partial.contains(&delta.kind) {
                                let of = u8::from(delta.kind == kind(1));
                                let name: u8 = delta.object().unwrap().name[1..].parse().unwrap();
                                prop_assert!(!model.contains_key(&(of, name)) || seen.iter().any(|other| same(&other)));
                                continue;
                            }
                            let first = |all: &[Delta]| all.iter().find(same).map(|delta| format!("{:?}", delta.old));
                            let came = all_pushed.iter().find(same).is_some_and(|delta| delta.old.is_none());
                            prop_assert!(came || first(&seen) == first(&all_pushed));
                            let last = seen.iter().rfind(same).and_then(|delta| delta.new.clone());
                            let of = u8::from(delta.kind == kind(1));
                            let name: u8 = delta.object().unwrap().name[1..].parse().unwrap();
                            let now = model.get(&(of, name));
                            prop_assert!(seen.iter().any(|other| same(&other)));
                            prop_assert_eq!(
                                last.map(|object| object.meta.resource_version.clone()),
                                now.map(|object| object.meta.resource_version.clone())
                            );
                        }
                    }
                }
            }
        }
    }

    fn one(name: u8) -> Arc<[Delta]> {
        [Delta { kind: kind(0), old: None, new: Some(state(name, 1)), initial: false }].into()
    }

    #[test]
    fn a_version_in_the_shadow_keeps_changes_up_to_the_bound() {
        let mut inbox = Inbox::new(2);
        inbox.push(&one(0));
        inbox.push(&one(1));
        assert!(inbox.take().is_none(), "it has not taken over");
        inbox.delivery = Delivery::Active;
        let taken = inbox.take().unwrap();
        assert_eq!((taken.batches.len(), taken.merged.len()), (2, 0));
    }

    fn gone(name: u8) -> Arc<[Delta]> {
        [Delta { kind: kind(0), old: Some(state(name, 1)), new: None, initial: false }].into()
    }

    #[test]
    fn a_version_in_the_shadow_merges_changes_over_the_bound_and_its_memory_is_bounded() {
        let mut inbox = Inbox::new(2);
        for name in 0..100 {
            inbox.push(&one(name));
        }
        for name in (0..100).rev() {
            inbox.push(&gone(name));
        }
        inbox.delivery = Delivery::Active;
        let taken = inbox.take().unwrap();
        let merged = &taken.merged[&kind(0)];
        let names: Vec<_> = merged.objects.keys().map(ToString::to_string).collect();
        assert_eq!((taken.batches.len(), taken.n_dropped, merged.is_partial), (2, 198, true));
        assert_eq!(names, ["ns/o2", "ns/o3"]);
        let came_and_went = |delta: &Delta| delta.old.is_some() && delta.new.is_none();
        assert!(merged.objects.values().all(came_and_went), "their only state names keys as well");
    }

    /// For example the ReplicaSet to which a Pod belonged before its labels changed twice.
    #[test]
    fn a_key_that_only_the_state_before_the_rush_names_is_not_lost() {
        let mut inbox = Inbox::new(1);
        inbox.push(&one(9));
        for version in 2..5 {
            let (old, new) = (Some(state(0, version - 1)), Some(state(0, version)));
            inbox.push(&[Delta { kind: kind(0), old, new, initial: false }].into());
        }
        inbox.delivery = Delivery::Active;
        let taken = inbox.take().unwrap();
        let merged = &taken.merged[&kind(0)].objects[&ObjectKey::new("ns", "o0")];
        let version = |state: &Option<Arc<Object>>| state.as_ref().unwrap().meta.resource_version.to_string();
        assert_eq!((version(&merged.old), version(&merged.new)), ("1".into(), "4".into()));
    }

    #[test]
    fn an_initial_list_of_any_size_waits() {
        let mut inbox = Inbox::new(2);
        let initial = (0..100).map(|name| Delta { initial: true, ..one(name)[0].clone() });
        inbox.push(&initial.collect());
        inbox.push(&one(1));
        inbox.delivery = Delivery::Active;
        let taken = inbox.take().unwrap();
        assert_eq!((taken.batches.len(), taken.merged.len()), (2, 0));
    }

    #[test]
    fn changes_are_mapped_until_there_are_enough_keys() {
        let (changes, key) = (vec![one(0)[0].clone(); 32], pintle_testing::key("a"));
        let enqueued = Enqueued { key, delay: None, priority: Priority::Normal, cause: None };
        let mapped = |n_keys: usize| {
            let (n_changes, keys) = keys_of_first(&changes, 512, |_| vec![enqueued.clone(); n_keys]);
            (n_changes, keys.len())
        };
        assert_eq!(
            [0, 16, 17, 200, 512, 100_000].map(mapped),
            [(32, 0), (32, 512), (31, 527), (3, 600), (1, 512), (1, 100_000)]
        );
        assert_eq!(keys_of_first(&[], 512, |_| Vec::new()).0, 0);
    }
}
