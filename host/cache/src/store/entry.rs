//! Entries of the store's sets. They are ordered by the set's key, then by namespace and name, which they read from the
//! object, so that an entry costs little more than a reference.

use std::cmp::Ordering;
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};
use pintle_core::object::Object;
use pintle_core::object::id::ObjectKey;
use pintle_core::object::version::Uid;

/// An object by namespace and name.
#[derive(Clone)]
pub(super) struct ByKey(pub(super) Arc<Object>);

/// An object by its uid.
#[derive(Clone)]
pub(super) struct ByUid(pub(super) Uid, pub(super) Arc<Object>);

/// An object by one of its owners' uids.
#[derive(Clone)]
pub(super) struct ByOwner(pub(super) Uid, pub(super) Arc<Object>);

/// An object by a value of a declared index.
#[derive(Clone)]
pub(super) struct ByIndex {
    pub(super) slot: usize,
    pub(super) value: Arc<str>,
    pub(super) object: Arc<Object>,
}

/// Finds a [`ByKey`]: namespace, name.
pub(super) struct NameProbe<'a>(pub(super) &'a str, pub(super) &'a str);

/// Finds a [`ByOwner`]: owner, namespace, name.
pub(super) struct OwnerProbe<'a>(pub(super) &'a Uid, pub(super) &'a str, pub(super) &'a str);

/// Finds a [`ByIndex`]: index, value, namespace, name.
pub(super) struct IndexProbe<'a>(pub(super) usize, pub(super) &'a str, pub(super) &'a str, pub(super) &'a str);

fn by_name(a: &ObjectKey, b: &ObjectKey) -> Ordering {
    // Namespaces are interned, and mostly the same one.
    let namespaces =
        if Arc::ptr_eq(&a.namespace, &b.namespace) { Ordering::Equal } else { a.namespace.cmp(&b.namespace) };
    namespaces.then_with(|| a.name.cmp(&b.name))
}

fn probe_name(namespace: &str, name: &str, key: &ObjectKey) -> Ordering {
    namespace.cmp(&key.namespace).then_with(|| name.cmp(&key.name))
}

macro_rules! ordered {
    ($entry:ty, $cmp:expr) => {
        impl Ord for $entry {
            fn cmp(&self, other: &Self) -> Ordering {
                let cmp: fn(&Self, &Self) -> Ordering = $cmp;
                cmp(self, other)
            }
        }

        impl PartialOrd for $entry {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $entry {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for $entry {}
    };
}

ordered!(ByKey, |a, b| by_name(&a.0.meta.key, &b.0.meta.key));
ordered!(ByUid, |a, b| a.0.cmp(&b.0));
ordered!(ByOwner, |a, b| a.0.cmp(&b.0).then_with(|| by_name(&a.1.meta.key, &b.1.meta.key)));
ordered!(ByIndex, |a, b| {
    let values = a.slot.cmp(&b.slot).then_with(|| a.value.cmp(&b.value));
    values.then_with(|| by_name(&a.object.meta.key, &b.object.meta.key))
});

macro_rules! probes {
    ($probe:ty, $entry:ty, $cmp:expr) => {
        impl Comparable<$entry> for $probe {
            fn compare(&self, entry: &$entry) -> Ordering {
                let cmp: fn(&Self, &$entry) -> Ordering = $cmp;
                cmp(self, entry)
            }
        }

        impl Equivalent<$entry> for $probe {
            fn equivalent(&self, entry: &$entry) -> bool {
                self.compare(entry).is_eq()
            }
        }
    };
}

probes!(NameProbe<'_>, ByKey, |probe, entry| probe_name(probe.0, probe.1, &entry.0.meta.key));
probes!(Uid, ByUid, |uid, entry| uid.cmp(&entry.0));
probes!(OwnerProbe<'_>, ByOwner, |probe, entry| {
    probe.0.cmp(&entry.0).then_with(|| probe_name(probe.1, probe.2, &entry.1.meta.key))
});
probes!(IndexProbe<'_>, ByIndex, |probe, entry| {
    let values = probe.0.cmp(&entry.slot).then_with(|| probe.1.cmp(&entry.value));
    values.then_with(|| probe_name(probe.2, probe.3, &entry.object.meta.key))
});
