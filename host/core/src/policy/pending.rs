//! Read-your-writes: the writes that the caches must show before their key runs again.
//!
//! Flow: the writer reports accepted writes; the dispatcher calls [`Pending::wait`] to learn whether the key may run again,
//! and [`Pending::recheck`] whenever the cache of a kind has advanced. [`Pending::expire`] ends waits that never complete.
//!
//! The answer to a write may be lost. Then it is unknown what the caches must show: the key's wait is *open* until a probe
//! has asked the API server and [`Pending::settle`] receives the result.
//!
//! Invariants:
//! 1. A key waits for a kind only while at least one write of that kind is unseen.
//! 2. A recheck examines one unseen write per waiting key, plus those that it finds seen: writes are checked newest first.
//! 3. A key with an open wait is not free, whatever the caches show.
//!
//! Not here: whether a cache shows a write (the subscription), the queue's `held` state (`queue`).
//!
//! Source: kube-controller-manager's `pkg/controller/util/consistency`; there each controller refuses to sync, here the key
//! does not run.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Instant;

use crate::object::id::{Kind, ObjectKey};

/// A write that was accepted by the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    /// Kind of the written object.
    pub kind: Kind,
    /// Its name.
    pub object: ObjectKey,
    /// Its uid; empty if the answer did not contain it.
    pub uid: String,
    /// Its version after the write; empty if the object was deleted.
    pub resource_version: String,
    /// Whether it was deleted (or is terminating).
    pub gone: bool,
}

/// Identity of a wait; a later wait of the same key has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitId(u64);

/// The wait of one key.
#[derive(Debug)]
struct Wait {
    /// Unseen writes by kind, in write order.
    writes: BTreeMap<Kind, Vec<PendingWrite>>,
    /// Whether the fate of some writes is unknown.
    open: bool,
    /// Its entry in `deadlines`.
    deadline: (Instant, u64),
}

/// Keys that may not run until the caches show their writes.
#[derive(Debug)]
pub struct Pending<K> {
    waits: HashMap<K, Wait>,
    /// Kind -> keys that wait for it.
    by_kind: HashMap<Kind, Vec<K>>,
    deadlines: BTreeMap<(Instant, u64), K>,
    n_waits: u64,
}

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Self { waits: HashMap::new(), by_kind: HashMap::new(), deadlines: BTreeMap::new(), n_waits: 0 }
    }
}

impl<K: Clone + Eq + Hash> Pending<K> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a wait for the writes of a run that are not seen yet. `open`: the fate of other writes is unknown, and
    /// [`Pending::settle`] will report it. `None`: all are seen, the key may run.
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
        self.waits.insert(key.clone(), Wait { writes: unseen, open, deadline });
        Some(WaitId(self.n_waits))
    }

    /// Resolves an open wait: the caches must show these writes as well. Returns whether the key is free. Does nothing if
    /// that wait is over.
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

    /// Handles an advance of the cache of `kind`: returns the keys that are free now.
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

    /// Ends the waits whose deadline has passed; returns their keys with the unseen writes.
    pub fn expire(&mut self, now: Instant) -> Vec<(K, Vec<PendingWrite>)> {
        let late: Vec<K> = self.deadlines.range(..=(now, u64::MAX)).map(|(_, key)| key.clone()).collect();
        late.into_iter().map(|key| (key.clone(), self.forget(&key))).collect()
    }

    /// The next deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    fn forget(&mut self, key: &K) -> Vec<PendingWrite> {
        let Some(wait) = self.waits.remove(key) else { return Vec::new() };
        self.deadlines.remove(&wait.deadline);
        for kind in wait.writes.keys() {
            if let Some(keys) = self.by_kind.get_mut(kind) {
                keys.retain(|other| other != key);
                if keys.is_empty() {
                    self.by_kind.remove(kind);
                }
            }
        }
        wait.writes.into_values().flatten().collect()
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

/// Drops seen writes from the end; returns whether any is left. One unseen write keeps the key waiting, so the earlier ones
/// are not checked.
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
            gone: false,
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
        assert_eq!(pending.expire(now), [("a", vec![])]);
        let second = pending.wait(&"a", vec![], true, now, |_| false).unwrap();
        assert!(!pending.settle(&"a", first, vec![], |_| true));
        assert_eq!(pending.len(), 1);
        assert!(pending.settle(&"a", second, vec![], |_| true));
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let mut pending = Pending::new();
        let now = Instant::now();
        pending.wait(&"a", vec![write(0, 1)], false, now + Duration::from_secs(30), |_| false);
        pending.wait(&"b", vec![write(0, 2)], false, now + Duration::from_secs(40), |_| false);
        assert_eq!(pending.next_deadline(), Some(now + Duration::from_secs(30)));
        assert!(pending.expire(now + Duration::from_secs(29)).is_empty());
        assert_eq!(pending.expire(now + Duration::from_secs(30)), [("a", vec![write(0, 1)])]);
        assert_eq!(pending.recheck(&kind(0), |_| true), ["b"]);
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
