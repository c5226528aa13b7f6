//! The objects of one informer with their indexes, in persistent sets: a clone is a snapshot and costs a few reference
//! counts.
//!
//! Invariants:
//! 1. Every index holds exactly the objects of `objects` that it covers.
//! 2. Results are ordered by namespace and name.
//!
//! Not here: which task may change it (`set`), how objects are made (`pintle_core::object::ingest`).

mod entry;
pub(crate) mod set;
#[cfg(test)]
mod tests;

use std::iter::successors;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use imbl::OrdSet;
use pintle_core::object::Object;
use pintle_core::object::id::ObjectKey;
use pintle_core::object::ingest::IngestPlan;
use pintle_core::object::version::{ResourceVersion, Uid};

use self::entry::{ByIndex, ByKey, ByOwner, ByUid, IndexProbe, NameProbe, OwnerProbe};
use crate::reader::ObjectReader;

/// The objects of one informer at one instant.
#[derive(Clone)]
pub(crate) struct Store {
    /// Generation of the plan of these objects; 0 before the first list.
    generation: u64,
    plan: Arc<IngestPlan>,
    /// The store is current up to this version.
    version: ResourceVersion,
    objects: OrdSet<ByKey>,
    uids: OrdSet<ByUid>,
    /// One entry per owner reference.
    owners: OrdSet<ByOwner>,
    /// Objects without a controller.
    orphans: OrdSet<ByKey>,
    /// Values of the declared indexes.
    values: OrdSet<ByIndex>,
    /// Total bytes of each text over all objects.
    text_bytes: Vec<u64>,
    /// Estimated bytes of all objects without their texts.
    meta_bytes: u64,
}

impl Store {
    pub(crate) fn new(plan: Arc<IngestPlan>, generation: u64) -> Self {
        let text_bytes = vec![0; plan.texts().projections().len()];
        Self {
            generation,
            plan,
            version: ResourceVersion::Unknown,
            objects: OrdSet::new(),
            uids: OrdSet::new(),
            owners: OrdSet::new(),
            orphans: OrdSet::new(),
            values: OrdSet::new(),
            text_bytes,
            meta_bytes: 0,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The plan of these objects.
    pub(crate) fn plan(&self) -> &IngestPlan {
        &self.plan
    }

    pub(crate) fn version(&self) -> &ResourceVersion {
        &self.version
    }

    /// Records that the store is current up to this version.
    pub(crate) fn reach(&mut self, version: &ResourceVersion) {
        if !self.version.reaches(version) {
            self.version = version.clone();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(&NameProbe(namespace, name)).map(|entry| &entry.0)
    }

    pub(crate) fn by_uid(&self, uid: &Uid) -> Option<&Arc<Object>> {
        self.uids.get(uid).map(|entry| &entry.1)
    }

    /// All objects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.iter().map(|entry| &entry.0)
    }

    /// The first object of each namespace.
    pub(crate) fn first_of_each_namespace(&self) -> impl Iterator<Item = &Arc<Object>> {
        successors(self.iter().next(), move |object| {
            // The smallest text that is larger.
            let larger = format!("{}\0", object.meta.key.namespace);
            let from = Included(NameProbe(&larger, ""));
            self.objects.range::<_, NameProbe<'_>>((from, Unbounded)).next().map(|entry| &entry.0)
        })
    }

    /// Objects of a namespace.
    pub(crate) fn in_namespace<'s, 'q>(
        &'s self,
        namespace: &'q str,
    ) -> impl Iterator<Item = &'s Arc<Object>> + use<'s, 'q> {
        within(&self.objects, namespace)
    }

    /// Objects of a namespace without a controller.
    pub(crate) fn orphans_in<'s, 'q>(
        &'s self,
        namespace: &'q str,
    ) -> impl Iterator<Item = &'s Arc<Object>> + use<'s, 'q> {
        within(&self.orphans, namespace)
    }

    /// Objects without a controller.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.orphans.iter().map(|entry| &entry.0)
    }

    /// Objects that have an owner reference with this uid.
    pub(crate) fn owned_by<'s, 'q>(&'s self, uid: &'q Uid) -> impl Iterator<Item = &'s Arc<Object>> + use<'s, 'q> {
        let from = OwnerProbe(uid, "", "");
        self.owners
            .range::<_, OwnerProbe<'_>>((Included(from), Unbounded))
            .take_while(move |entry| entry.0 == *uid)
            .map(|entry| &entry.1)
    }

    /// Objects with this value in this index.
    pub(crate) fn indexed<'s, 'q>(
        &'s self,
        index: usize,
        value: &'q str,
    ) -> impl Iterator<Item = &'s Arc<Object>> + use<'s, 'q> {
        let from = IndexProbe(index, value, "", "");
        self.values
            .range::<_, IndexProbe<'_>>((Included(from), Unbounded))
            .take_while(move |entry| entry.slot == index && *entry.value == *value)
            .map(|entry| &entry.object)
    }

    /// Objects of a namespace with this value in this index.
    pub(crate) fn indexed_in<'s, 'q>(
        &'s self,
        index: usize,
        value: &'q str,
        namespace: &'q str,
    ) -> impl Iterator<Item = &'s Arc<Object>> + use<'s, 'q> {
        let from = IndexProbe(index, value, namespace, "");
        self.values
            .range::<_, IndexProbe<'_>>((Included(from), Unbounded))
            .take_while(move |entry| {
                entry.slot == index && *entry.value == *value && *entry.object.meta.key.namespace == *namespace
            })
            .map(|entry| &entry.object)
    }

    /// Bytes of the texts that a reader uses.
    pub(crate) fn bytes_read(&self, reader: &ObjectReader) -> u64 {
        let source = reader.source(self.plan.texts());
        source.and_then(|source| source.of(&self.text_bytes)).copied().unwrap_or(0)
    }

    /// Bytes of all texts.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes.iter().sum()
    }

    /// Estimated bytes of the objects without their texts.
    pub(crate) fn meta_bytes(&self) -> u64 {
        self.meta_bytes
    }

    /// Inserts an object; returns the one that it replaces.
    pub(crate) fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let old = self.objects.insert(ByKey(object.clone())).map(|entry| entry.0);
        if let Some(old) = &old {
            self.leave_indexes(old, Some(&object));
        }
        self.count(&object, true);
        if !object.meta.uid.is_empty() {
            self.uids.insert(ByUid(object.meta.uid.clone(), object.clone()));
        }
        for owner in &object.meta.owners {
            self.owners.insert(ByOwner(owner.uid.clone(), object.clone()));
        }
        if object.meta.controller().is_none() {
            self.orphans.insert(ByKey(object.clone()));
        }
        for (slot, value) in &object.index_values {
            self.values.insert(ByIndex { slot: *slot, value: value.clone(), object: object.clone() });
        }
        old
    }

    /// Removes an object, and returns it.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        let old = self.objects.remove(&NameProbe(&key.namespace, &key.name))?.0;
        self.leave_indexes(&old, None);
        Some(old)
    }

    /// Removes `old` from the indexes in which `new` does not replace it.
    ///
    /// An object may have a hundred thousand owners or index values, and its informer serves all plugins: entries to
    /// keep are looked up in a sorted list.
    fn leave_indexes(&mut self, old: &Arc<Object>, new: Option<&Object>) {
        self.count(old, false);
        let ObjectKey { namespace, name } = &old.meta.key;
        if new.is_none_or(|new| new.meta.uid != old.meta.uid) {
            // A faulty server may have given the uid to another object meanwhile.
            if self.uids.get(&old.meta.uid).is_some_and(|entry| Arc::ptr_eq(&entry.1, old)) {
                self.uids.remove(&old.meta.uid);
            }
        }
        let mut kept: Vec<&Uid> = new.iter().flat_map(|new| &new.meta.owners).map(|owner| &owner.uid).collect();
        kept.sort_unstable();
        for owner in &old.meta.owners {
            if kept.binary_search(&&owner.uid).is_err() {
                self.owners.remove(&OwnerProbe(&owner.uid, namespace, name));
            }
        }
        if old.meta.controller().is_none() && new.is_none_or(|new| new.meta.controller().is_some()) {
            self.orphans.remove(&NameProbe(namespace, name));
        }
        let kept = new.map_or(&[][..], |new| &new.index_values);
        for (slot, value) in old.index_values.iter().filter(|entry| kept.binary_search(entry).is_err()) {
            self.values.remove(&IndexProbe(*slot, value, namespace, name));
        }
    }

    fn count(&mut self, object: &Object, add: bool) {
        let change = |total: &mut u64, bytes: usize| {
            *total = if add { total.wrapping_add(bytes as u64) } else { total.wrapping_sub(bytes as u64) };
        };
        for (total, text) in self.text_bytes.iter_mut().zip(&object.texts) {
            change(total, text.len());
        }
        change(&mut self.meta_bytes, overhead_bytes(object));
    }
}

/// Estimated memory of an object without its texts: the object, its allocations, its set entries.
fn overhead_bytes(object: &Object) -> usize {
    const ARC: usize = 16;
    let meta = &object.meta;
    let sets = 2 * size_of::<ByKey>() + size_of::<ByUid>() + meta.owners.len() * size_of::<ByOwner>();
    size_of::<Object>()
        + ARC
        + meta.key.name.len()
        + ARC
        + size_of_val(&*meta.labels)
        + size_of_val(&*meta.owners)
        + size_of_val(&*object.texts)
        + object.texts.len() * ARC
        + object.index_values.len() * (size_of_val(&object.index_values[..]) + size_of::<ByIndex>())
        + object.selectors.iter().flatten().map(|selector| selector.heap_bytes()).sum::<usize>()
        + size_of_val(&*object.selectors)
        + sets
}

fn within<'s, 'q>(set: &'s OrdSet<ByKey>, namespace: &'q str) -> impl Iterator<Item = &'s Arc<Object>> + use<'s, 'q> {
    let from = NameProbe(namespace, "");
    set.range::<_, NameProbe<'_>>((Included(from), Unbounded))
        .take_while(move |entry| *entry.0.meta.key.namespace == *namespace)
        .map(|e| &e.0)
}
