//! Read-your-writes: the writes that the caches must show before their key runs again.
//!
//! Flow: the writer reports accepted writes; the dispatcher calls [`Pending::wait`] to check whether the key may run
//! again, and [`Pending::recheck`] whenever the cache of a kind has advanced.
//!
//! No wait ends without proof: a key that runs on caches without its writes would repeat them. [`Pending::overdue`]
//! returns the waits that have lasted longer than the bound. The API server is then asked for the written object, and
//! [`Pending::confirm`] compares the answer with the caches. This ends waits that versions alone cannot end: API
//! servers whose versions have no order, and objects that a watch's selector leaves out.
//!
//! The answer to a write may be lost, so that the expected state of the caches is unknown: the key's wait is *open*
//! until a probe has asked the API server and [`Pending::settle`] receives the result.
//!
//! Invariants:
//! 1. A key waits for a kind only while at least one write of that kind is unseen.
//! 2. A recheck examines one unseen write per waiting key, plus those that it finds seen: writes are checked newest
//!    first.
//! 3. A key with an open wait is not free, whatever the caches show.
//! 4. Time alone frees no key.
//!
//! Not here: whether a cache shows a write (the subscription), the queue's `held` state (`queue`).
//!
//! Source: kube-controller-manager's `pkg/controller/util/consistency`; there each controller returns early from its
//! sync, here the key does not run.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::object::id::{Kind, ObjectKey};
use crate::object::version::ResourceVersion;

/// The state in which a write leaves its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// The object exists.
    Object,
    /// The object is terminating or deleted: the answer to a delete may mean either.
    Terminating,
    /// The object is deleted, or the watch does not select it.
    Nothing,
}

/// A write that the API server accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    /// Kind of the written object.
    pub kind: Kind,
    /// The object's name.
    pub object: ObjectKey,
    /// The object's uid; empty if the answer did not contain it.
    pub uid: String,
    /// The object's version after the write; empty if there is none.
    pub resource_version: String,
    /// The state of the object after the write.
    pub leaves: Leaves,
    /// The object's labels after the write, which decide whether a watch with a selector shows it; absent if the answer
    /// did not contain them.
    pub labels: Option<BTreeMap<String, String>>,
}

/// Identity of a wait; a later wait of the same key has a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitId(u64);

/// Longest time between two requests about the writes of one key.
const LONGEST_INTERVAL: Duration = Duration::from_secs(300);

/// The wait of one key.
#[derive(Debug)]
struct Wait {
    /// Unseen writes by kind, in write order.
    writes: BTreeMap<Kind, Vec<PendingWrite>>,
    /// Whether the result of some writes is unknown.
    open: bool,
    /// Its entry in `deadlines`.
    deadline: (Instant, u64),
    /// How many times its deadline has passed.
    n_overdue: u32,
}

/// A wait that has lasted longer than the bound. It continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue<K> {
    /// The key.
    pub key: K,
    /// Id of the wait.
    pub id: WaitId,
    /// An unseen write to ask the API server about; absent if only the result of other writes is unknown.
    pub write: Option<PendingWrite>,
    /// Number of unseen writes.
    pub n_writes: usize,
    /// Whether the deadline has passed for the first time.
    pub is_first: bool,
}

/// The consequence of an API server's answer about a pending write for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// The caches show everything, or the wait has already ended and the answer does not concern the key: `true` if
    /// this answer freed the key.
    Over(bool),
    /// The caches show this write; the value is the next write to ask about.
    Next(PendingWrite),
    /// The caches are behind the API server: the key stays held.
    Stale,
}

/// Keys that may not run until the caches show their writes.
#[derive(Debug)]
pub struct Pending<K> {
    waits: HashMap<K, Wait>,
    /// Kind -> keys that wait for it.
    by_kind: HashMap<Kind, Vec<K>>,
    deadlines: BTreeMap<(Instant, u64), K>,
    n_waits: u64,
    /// Number of waits that have lasted longer than the bound.
    n_overdue: usize,
}

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Self { waits: HashMap::new(), by_kind: HashMap::new(), deadlines: BTreeMap::new(), n_waits: 0, n_overdue: 0 }
    }
}

impl<K: Clone + Eq + Hash> Pending<K> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all waits. Their ids are not reused.
    pub fn clear(&mut self) {
        *self = Self { n_waits: self.n_waits, ..Self::default() };
    }

    /// Starts a wait for the unseen writes of a run. `open`: the result of other writes is unknown, and
    /// [`Pending::settle`] will report it. `None`: all writes are seen, the key may run.
    pub fn wait(
        &mut self,
        key: &K,
        writes: Vec<PendingWrite>,
        open: bool,
        deadline: Instant,
        sees: impl Fn(&PendingWrite) -> bool,
    ) -> Option<WaitId> {
        let unseen = unseen(writes, sees);
        if unseen.is_empty() && !open {
            return None;
        }
        self.forget(key);
        for kind in unseen.keys() {
            self.by_kind.entry(kind.clone()).or_default().push(key.clone());
        }
        self.n_waits += 1;
        let deadline = (deadline, self.n_waits);
        self.deadlines.insert(deadline, key.clone());
        self.waits.insert(key.clone(), Wait { writes: unseen, open, deadline, n_overdue: 0 });
        Some(WaitId(self.n_waits))
    }

    /// Resolves an open wait: the caches must also show these writes. Returns whether the key is free. Does nothing if
    /// that wait has ended.
    pub fn settle(
        &mut self,
        key: &K,
        id: WaitId,
        writes: Vec<PendingWrite>,
        sees: impl Fn(&PendingWrite) -> bool,
    ) -> bool {
        let Some(wait) = self.waits.get_mut(key).filter(|wait| wait.deadline.1 == id.0) else { return false };
        wait.open = false;
        for (kind, more) in unseen(writes, sees) {
            let known = wait.writes.entry(kind.clone()).or_default();
            if known.is_empty() {
                self.by_kind.entry(kind).or_default().push(key.clone());
            }
            known.extend(more);
        }
        let free = wait.writes.is_empty();
        if free {
            self.forget(key);
        }
        free
    }

    /// Handles an advance of the cache of `kind`; returns the keys that became free.
    pub fn recheck(&mut self, kind: &Kind, sees: impl Fn(&PendingWrite) -> bool) -> Vec<K> {
        let Some(keys) = self.by_kind.get_mut(kind) else { return Vec::new() };
        let mut free = Vec::new();
        keys.retain(|key| {
            let Some(wait) = self.waits.get_mut(key) else { return false };
            if wait.writes.get_mut(kind).is_some_and(|of_kind| drop_seen(of_kind, &sees)) {
                return true;
            }
            wait.writes.remove(kind);
            if wait.writes.is_empty() && !wait.open {
                self.deadlines.remove(&wait.deadline);
                self.n_overdue -= usize::from(wait.n_overdue > 0);
                self.waits.remove(key);
                free.push(key.clone());
            }
            false
        });
        if keys.is_empty() {
            self.by_kind.remove(kind);
        }
        free
    }

    /// Kinds for which keys wait.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.by_kind.keys()
    }

    /// The waits whose deadline has passed. Their next deadlines follow at doubling intervals, from `bound` to five
    /// minutes.
    pub fn overdue(&mut self, now: Instant, bound: Duration) -> Vec<Overdue<K>> {
        let late: Vec<((Instant, u64), K)> =
            self.deadlines.range(..=(now, u64::MAX)).map(|(at, key)| (*at, key.clone())).collect();
        let mut overdue = Vec::with_capacity(late.len());
        for (deadline, key) in late {
            self.deadlines.remove(&deadline);
            let Some(wait) = self.waits.get_mut(&key) else { continue };
            let interval = bound.saturating_mul(1 << wait.n_overdue.min(16)).min(LONGEST_INTERVAL.max(bound));
            wait.deadline.0 = now + interval;
            self.deadlines.insert(wait.deadline, key.clone());
            let is_first = wait.n_overdue == 0;
            self.n_overdue += usize::from(is_first);
            wait.n_overdue = wait.n_overdue.saturating_add(1);
            overdue.push(Overdue {
                id: WaitId(wait.deadline.1),
                write: wait.last().cloned(),
                n_writes: wait.writes.values().map(Vec::len).sum(),
                is_first,
                key,
            });
        }
        overdue
    }

    /// Compares an API server's answer about a pending write with the caches. `live` is the object's current state, or
    /// [`Leaves::Nothing`] if the watch's selection does not contain it.
    ///
    /// If versions have an order, the caches must only reach the written version, not later writes of others; otherwise
    /// a key would wait endlessly for caches with a constant delay.
    ///
    /// An object that should be deleted but exists was created again, or its API server keeps it: its current state
    /// counts.
    pub fn confirm(
        &mut self,
        key: &K,
        id: WaitId,
        asked: &PendingWrite,
        live: PendingWrite,
        sees: impl Fn(&PendingWrite) -> bool,
    ) -> Confirmed {
        let Some(wait) = self.waits.get_mut(key).filter(|wait| wait.deadline.1 == id.0) else {
            return Confirmed::Over(false);
        };
        let kind = &asked.kind;
        if let Some(of_kind) = wait.writes.get_mut(kind) {
            if let Some(write) = of_kind.iter_mut().find(|write| *write == asked) {
                let written = ResourceVersion::parse(&write.resource_version);
                let has_order = ResourceVersion::parse(&live.resource_version).compare(&written).is_some();
                if live.leaves != Leaves::Object || asked.leaves == Leaves::Nothing || !has_order {
                    *write = live;
                }
            }
            let n_unseen = of_kind.len();
            if drop_seen(of_kind, &sees) {
                let next = of_kind.last().filter(|_| of_kind.len() < n_unseen).cloned();
                return next.map_or(Confirmed::Stale, Confirmed::Next);
            }
            wait.writes.remove(kind);
            if let Some(keys) = self.by_kind.get_mut(kind) {
                keys.retain(|other| other != key);
                if keys.is_empty() {
                    self.by_kind.remove(kind);
                }
            }
        }
        match (wait.last(), wait.open) {
            (Some(next), _) => Confirmed::Next(next.clone()),
            (None, true) => Confirmed::Over(false),
            (None, false) => {
                self.forget(key);
                Confirmed::Over(true)
            }
        }
    }

    /// The next deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    fn forget(&mut self, key: &K) {
        let Some(wait) = self.waits.remove(key) else { return };
        self.deadlines.remove(&wait.deadline);
        self.n_overdue -= usize::from(wait.n_overdue > 0);
        for kind in wait.writes.keys() {
            if let Some(keys) = self.by_kind.get_mut(kind) {
                keys.retain(|other| other != key);
                if keys.is_empty() {
                    self.by_kind.remove(kind);
                }
            }
        }
    }

    /// Whether the key waits.
    pub fn contains(&self, key: &K) -> bool {
        self.waits.contains_key(key)
    }

    /// Number of keys that have waited for longer than the bound.
    pub fn n_overdue(&self) -> usize {
        self.n_overdue
    }

    /// Number of waiting keys.
    pub fn len(&self) -> usize {
        self.waits.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }
}

impl Wait {
    /// An unseen write: the last one of some kind.
    fn last(&self) -> Option<&PendingWrite> {
        self.writes.values().next().and_then(|of_kind| of_kind.last())
    }
}

/// The unseen writes by kind.
fn unseen(writes: Vec<PendingWrite>, sees: impl Fn(&PendingWrite) -> bool) -> BTreeMap<Kind, Vec<PendingWrite>> {
    let mut unseen: BTreeMap<Kind, Vec<PendingWrite>> = BTreeMap::new();
    for write in writes {
        match unseen.get_mut(&write.kind) {
            Some(of_kind) => of_kind.push(write),
            None => {
                unseen.insert(write.kind.clone(), vec![write]);
            }
        }
    }
    unseen.retain(|_, of_kind| drop_seen(of_kind, &sees));
    unseen
}

/// Drops seen writes from the end; returns whether any unseen one is left. One unseen write keeps the key waiting, so
/// earlier ones are not checked.
fn drop_seen(writes: &mut Vec<PendingWrite>, sees: &impl Fn(&PendingWrite) -> bool) -> bool {
    while writes.last().is_some_and(sees) {
        writes.pop();
    }
    !writes.is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::btree_map::Entry;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn kind(i: u8) -> Kind {
        Kind::new("", "v1", &format!("Kind{i}"))
    }

    fn write(of: u8, version: u8) -> PendingWrite {
        PendingWrite {
            kind: kind(of),
            object: ObjectKey::new("ns", "name"),
            uid: String::new(),
            resource_version: version.to_string(),
            leaves: Leaves::Object,
            labels: None,
        }
    }

    fn seen_up_to(versions: &BTreeMap<Kind, u8>) -> impl Fn(&PendingWrite) -> bool {
        |write| versions.get(&write.kind).copied().unwrap_or(0) >= write.resource_version.parse().unwrap()
    }

    #[test]
    fn a_key_waits_for_every_kind_that_it_wrote() {
        let mut pending = Pending::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut seen = BTreeMap::new();
        let writes = vec![write(0, 5), write(1, 6), write(0, 7)];
        assert!(pending.wait(&"a", writes, false, deadline, seen_up_to(&seen)).is_some());
        seen.insert(kind(0), 5);
        assert!(pending.recheck(&kind(0), seen_up_to(&seen)).is_empty());
        seen.insert(kind(0), 7);
        assert!(pending.recheck(&kind(0), seen_up_to(&seen)).is_empty());
        assert!(pending.recheck(&kind(2), seen_up_to(&seen)).is_empty());
        seen.insert(kind(1), 6);
        assert_eq!(pending.recheck(&kind(1), seen_up_to(&seen)), ["a"]);
        assert!(pending.is_empty() && pending.kinds().next().is_none());
    }

    #[test]
    fn writes_that_are_seen_already_hold_nothing() {
        let seen = BTreeMap::from([(kind(0), 9)]);
        assert_eq!(Pending::new().wait(&"a", vec![write(0, 9)], false, Instant::now(), seen_up_to(&seen)), None);
    }

    #[test]
    fn a_wait_that_is_open_ends_only_when_it_is_settled() {
        let mut pending = Pending::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut seen = BTreeMap::from([(kind(0), 4), (kind(1), 1)]);
        let id = pending.wait(&"a", vec![write(0, 5)], true, deadline, seen_up_to(&seen)).unwrap();
        seen.insert(kind(0), 9);
        assert!(pending.recheck(&kind(0), seen_up_to(&seen)).is_empty());
        assert!(!pending.settle(&"a", id, vec![write(0, 9), write(1, 2)], seen_up_to(&seen)));
        assert!(pending.recheck(&kind(0), seen_up_to(&seen)).is_empty());
        seen.insert(kind(1), 2);
        assert_eq!(pending.recheck(&kind(1), seen_up_to(&seen)), ["a"]);
        assert!(pending.is_empty() && pending.next_deadline().is_none());

        let id = pending.wait(&"a", vec![], true, deadline, |_| true).unwrap();
        assert!(pending.settle(&"a", id, vec![write(0, 1)], |_| true));
        assert!(pending.is_empty() && pending.kinds().next().is_none());
    }

    #[test]
    fn a_late_settlement_does_not_affect_the_next_wait() {
        let mut pending = Pending::new();
        let now = Instant::now();
        let first = pending.wait(&"a", vec![], true, now, |_| false).unwrap();
        assert!(pending.settle(&"a", first, vec![], |_| true));
        let second = pending.wait(&"a", vec![], true, now, |_| false).unwrap();
        assert!(!pending.settle(&"a", first, vec![], |_| true));
        assert_eq!(pending.len(), 1);
        assert!(pending.settle(&"a", second, vec![], |_| true));
    }

    #[test]
    fn time_alone_frees_no_key() {
        const BOUND: Duration = Duration::from_secs(30);
        let mut pending = Pending::new();
        let start = Instant::now();
        let id = pending.wait(&"a", vec![write(0, 1), write(0, 2)], false, start + BOUND, |_| false).unwrap();
        pending.wait(&"b", vec![], true, start + BOUND * 2, |_| false);
        assert!(pending.overdue(start + BOUND - Duration::from_millis(1), BOUND).is_empty());
        let first = Overdue { key: "a", id, write: Some(write(0, 2)), n_writes: 2, is_first: true };
        assert_eq!(pending.overdue(start + BOUND, BOUND), std::slice::from_ref(&first));
        assert_eq!((pending.len(), pending.n_overdue()), (2, 1));
        // The next deadlines: after 30, 60, 120, 240, 300, 300 s.
        let mut now = start + BOUND;
        let mut intervals = Vec::new();
        for _ in 0..7 {
            let next = pending.deadlines.iter().find(|(_, key)| **key == "a").unwrap().0.0;
            intervals.push((next - now).as_secs());
            now = next;
            let late = pending.overdue(now, BOUND);
            assert!(late.contains(&Overdue { is_first: false, ..first.clone() }), "{late:?}");
        }
        assert_eq!(intervals, [30, 60, 120, 240, 300, 300, 300]);
        assert_eq!((pending.len(), pending.n_overdue()), (2, 2));
        assert_eq!(pending.recheck(&kind(0), |_| true), ["a"]);
        assert_eq!((pending.len(), pending.n_overdue()), (1, 1));
    }

    #[test]
    fn an_answer_of_the_api_server_frees_a_key_only_if_the_caches_show_it() {
        let mut pending = Pending::new();
        let now = Instant::now();
        let opaque = |version: &str| PendingWrite { resource_version: version.into(), ..write(0, 0) };
        let shows = |cached: &'static str| {
            move |write: &PendingWrite| write.leaves == Leaves::Object && write.resource_version == cached
        };
        let asked = opaque("x");
        let id = pending.wait(&"a", vec![asked.clone()], false, now, |_| false).unwrap();
        // Another client has written since, and the caches show a state in between.
        assert_eq!(pending.confirm(&"a", id, &asked, opaque("z"), shows("y")), Confirmed::Stale);
        assert!(pending.recheck(&kind(0), shows("y")).is_empty());
        assert_eq!(pending.recheck(&kind(0), shows("z")), ["a"]);
        assert_eq!(pending.confirm(&"a", id, &asked, opaque("z"), |_| true), Confirmed::Over(false), "it is free");

        let id = pending.wait(&"a", vec![asked.clone()], false, now, |_| false).unwrap();
        assert_eq!(pending.confirm(&"a", id, &asked, opaque("z"), shows("z")), Confirmed::Over(true));
        let id = pending.wait(&"a", vec![opaque("w"), asked.clone()], false, now, |_| false).unwrap();
        assert_eq!(pending.confirm(&"a", id, &asked, opaque("z"), shows("z")), Confirmed::Next(opaque("w")));
        assert_eq!(pending.confirm(&"a", id, &opaque("w"), opaque("z"), shows("z")), Confirmed::Over(true));
        assert!(pending.is_empty() && pending.kinds().next().is_none() && pending.next_deadline().is_none());

        // For the caches, an object that the watch's selector leaves out is deleted.
        let absent = |write: &PendingWrite| write.leaves == Leaves::Nothing;
        let id = pending.wait(&"a", vec![write(0, 5)], false, now, |_| false).unwrap();
        let gone = PendingWrite { leaves: Leaves::Nothing, ..write(0, 9) };
        assert_eq!(pending.confirm(&"a", id, &write(0, 5), gone.clone(), absent), Confirmed::Over(true));

        // The object should be deleted but exists: the wait continues for its current state.
        let id = pending.wait(&"a", vec![gone.clone()], false, now, |_| false).unwrap();
        assert_eq!(pending.confirm(&"a", id, &gone, write(0, 12), absent), Confirmed::Stale);
        assert_eq!(pending.recheck(&kind(0), seen_up_to(&BTreeMap::from([(kind(0), 12)]))), ["a"]);
    }

    #[test]
    fn versions_with_an_order_are_not_replaced_by_later_ones() {
        let mut pending = Pending::new();
        let now = Instant::now();
        let id = pending.wait(&"a", vec![write(0, 5)], false, now, |_| false).unwrap();
        let seen = BTreeMap::from([(kind(0), 4)]);
        assert_eq!(pending.confirm(&"a", id, &write(0, 5), write(0, 50), seen_up_to(&seen)), Confirmed::Stale);
        let seen = BTreeMap::from([(kind(0), 5)]);
        assert_eq!(pending.recheck(&kind(0), seen_up_to(&seen)), ["a"]);
    }

    #[test]
    fn each_kind_is_confirmed_and_an_open_wait_stays() {
        let mut pending = Pending::new();
        let now = Instant::now();
        let writes = vec![write(0, 1), write(1, 2)];
        let id = pending.wait(&"a", writes, true, now, |_| false).unwrap();
        assert_eq!(pending.confirm(&"a", id, &write(0, 1), write(0, 1), |_| true), Confirmed::Next(write(1, 2)));
        assert_eq!(pending.confirm(&"a", id, &write(1, 2), write(1, 2), |_| true), Confirmed::Over(false));
        assert!(pending.contains(&"a"));
        assert!(pending.settle(&"a", id, vec![], |_| true));
        assert!(!pending.contains(&"a"));
    }

    proptest! {
        #[test]
        fn a_key_is_free_exactly_when_the_caches_have_reached_its_writes(
            steps in prop::collection::vec((0_u8..4, prop::collection::vec((0_u8..3, 1_u8..50), 0..6), 0_u8..3, 0_u8..5), 1..80),
        ) {
            let mut pending = Pending::new();
            let mut seen: BTreeMap<Kind, u8> = BTreeMap::new();
            let mut model: BTreeMap<u8, Vec<PendingWrite>> = BTreeMap::new();
            let deadline = Instant::now() + Duration::from_secs(1);
            for (key, writes, moved, by) in steps {
                if let Entry::Vacant(place) = model.entry(key) {
                    let writes: Vec<_> = writes.into_iter().map(|(of, version)| write(of, version)).collect();
                    let unseen = writes.iter().any(|w| !seen_up_to(&seen)(w));
                    let waits = pending.wait(&key, writes.clone(), false, deadline, seen_up_to(&seen)).is_some();
                    prop_assert_eq!(waits, unseen);
                    if unseen {
                        place.insert(writes);
                    }
                }
                *seen.entry(kind(moved)).or_default() += by;
                let freed: BTreeSet<u8> = pending.recheck(&kind(moved), seen_up_to(&seen)).into_iter().collect();
                let expected: BTreeSet<u8> =
                    model.iter().filter(|(_, writes)| writes.iter().all(seen_up_to(&seen))).map(|(key, _)| *key).collect();
                model.retain(|key, _| !expected.contains(key));
                prop_assert_eq!(freed, expected);
                prop_assert_eq!(pending.len(), model.len());
            }
        }
    }
}
