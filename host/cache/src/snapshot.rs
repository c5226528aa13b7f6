//! All kinds of a subscription at one instant.
//!
//! Flow: subscription -> snapshot (clones of persistent sets) -> view (with time, configuration, state of the run) ->
//! guest.
//!
//! Invariants:
//! 1. A snapshot never changes.
//! 2. It shows only kinds that the manifest watches.
//!
//! Not here: the reads of a run (`view`).

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use pintle_core::contract::manifest::EmptySelector;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::version::Uid;
use pintle_core::object::work::Work;
use pintle_core::object::{Meta, Object};
use pintle_core::policy::rules::{Delta, Enqueued, RuleCache};

use crate::bindings::{KindBinding, KindSource, KindTable, PreparedManifest, PreparedWatch};
use crate::resources::Resources;
use crate::store::Store;

/// The contents of a subscription at one instant. Cheap to clone.
#[derive(Clone)]
pub struct Snapshot(Arc<SnapshotData>);

struct SnapshotData {
    plugin: Arc<PreparedManifest>,
    table: Arc<KindTable>,
    /// One store per entry of the table.
    stores: Vec<Option<Arc<Store>>>,
    resources: Option<Arc<Resources>>,
}

impl Snapshot {
    pub(crate) fn new(
        plugin: Arc<PreparedManifest>,
        table: Arc<KindTable>,
        stores: Vec<Option<Arc<Store>>>,
        resources: Option<Arc<Resources>>,
    ) -> Self {
        Self(Arc::new(SnapshotData { plugin, table, stores, resources }))
    }

    /// The plugin whose watches the snapshot shows.
    pub(crate) fn plugin(&self) -> &PreparedManifest {
        &self.0.plugin
    }

    /// The resources that the API server serves; `None` before the first successful discovery.
    pub(crate) fn resources(&self) -> Option<&Resources> {
        self.0.resources.as_deref()
    }

    /// The keys that the manifest's rules yield for a change, without those of the plugin's own mapping.
    pub fn keys(&self, delta: &Delta) -> Vec<Enqueued> {
        self.watched_of(&delta.kind).map_or_else(Vec::new, |watched| watched.rules.keys(delta, self))
    }

    /// Whether the plugin's own mapping must be called for this change.
    pub fn wants_mapping(&self, delta: &Delta) -> bool {
        self.watched_of(&delta.kind).is_some_and(|watched| watched.rules.wants_mapping(delta, self))
    }

    /// The plugin's projection of an object of a delta.
    pub fn projection(&self, kind: &Kind, object: &Object) -> Option<Arc<str>> {
        let (bound, _) = self.kind(kind)?;
        bound.listener()?.fields.read(object)
    }

    /// All objects of a kind, as new objects.
    pub fn all_as_new(&self, kind: &Kind) -> Vec<Delta> {
        let objects = self.store(kind).into_iter().flat_map(|store| store.iter());
        let delta =
            |object: &Arc<Object>| Delta { kind: kind.clone(), old: None, new: Some(object.clone()), initial: true };
        objects.map(delta).collect()
    }

    /// Number of namespaces of the objects that are keys themselves (`to: self`), as
    /// [`Scoped`](pintle_core::lifecycle::supervisor::Scoped) defines them; exact up to `max`.
    pub fn n_namespaces(&self, max: usize) -> usize {
        let mut found: HashSet<&str> = HashSet::new();
        for (bound, store) in self.kinds() {
            if self.0.plugin.watches[bound.watch].rules.own_queues().next().is_none() {
                continue;
            }
            if bound.kind.is_namespace() {
                found.extend(store.iter().take(max).map(|object| &*object.meta.key.name));
            } else {
                found.extend(store.first_of_each_namespace().take(max).map(|object| &*object.meta.key.namespace));
            }
        }
        found.len()
    }

    /// The kinds whose objects are listed.
    pub fn listed_kinds(&self) -> Vec<Kind> {
        self.kinds().map(|(bound, _)| bound.kind.clone()).collect()
    }

    /// Listed kinds with their objects, ordered by kind.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&KindBinding, &Arc<Store>)> {
        let entries = self.0.table.bound.iter().zip(&self.0.stores);
        entries.filter_map(|(bound, store)| bound.usable(store.as_ref()).map(|store| (bound, store)))
    }

    /// A kind whose objects are not listed yet, and are therefore missing here.
    pub(crate) fn unlisted(&self) -> Option<&Kind> {
        let mut entries = self.0.table.bound.iter().zip(&self.0.stores);
        let is_unlisted = |bound: &KindBinding, store: &Option<Arc<Store>>| match &bound.source {
            KindSource::Absent | KindSource::Clusterwide => false,
            KindSource::Unknown => true,
            KindSource::Informer { listener, .. } => bound.usable(store.as_ref()).is_none() && !listener.is_skipped(),
        };
        entries.find(|(bound, store)| is_unlisted(bound, store)).map(|(bound, _)| &bound.kind)
    }

    pub(crate) fn watched_of(&self, kind: &Kind) -> Option<&PreparedWatch> {
        self.0.table.find(kind).map(|(_, bound)| &self.0.plugin.watches[bound.watch])
    }

    pub(crate) fn kind(&self, kind: &Kind) -> Option<(&KindBinding, Option<&Arc<Store>>)> {
        let (at, bound) = self.0.table.find(kind)?;
        Some((bound, bound.usable(self.0.stores[at].as_ref())))
    }

    pub(crate) fn store(&self, kind: &Kind) -> Option<&Arc<Store>> {
        self.kind(kind).and_then(|(_, store)| store)
    }
}

/// Objects of the namespace whose own selector in this slot matches.
pub(crate) fn selecting<'s, 'q, 'l, L: Fn(&str) -> Option<&'l str>>(
    store: &'s Store,
    slot: usize,
    empty: EmptySelector,
    namespace: &'q str,
    label: L,
    work: &'q Work,
) -> impl Iterator<Item = &'s Arc<Object>> + use<'s, 'q, 'l, L> {
    store.in_namespace(namespace).filter(move |object| {
        let selector = object.selectors.get(slot).and_then(Option::as_ref);
        work.charge(1 + selector.map_or(0, |selector| selector.cost())) && empty.matches(selector, &label)
    })
}

impl RuleCache for Snapshot {
    fn watched(&self, group: &str, name: &str) -> Option<&Kind> {
        self.0.table.find_any_version(group, name).map(|(_, bound)| &bound.kind)
    }

    fn namespaced(&self, kind: &Kind) -> bool {
        if let Some((bound, _)) = self.kind(kind).filter(|(bound, _)| bound.store().is_some()) {
            return bound.namespaced;
        }
        self.0.resources.as_ref().and_then(|resources| resources.of(kind)).is_none_or(|resource| resource.namespaced)
    }

    fn object(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>> {
        self.store(kind)?.get(&key.namespace, &key.name).cloned()
    }

    fn keys_in(&self, kind: &Kind, namespace: Option<&str>) -> Vec<ObjectKey> {
        let key = |object: &Arc<Object>| object.meta.key.clone();
        match (self.store(kind), namespace) {
            (None, _) => Vec::new(),
            (Some(store), Some(namespace)) => store.in_namespace(namespace).map(key).collect(),
            (Some(store), None) => store.iter().map(key).collect(),
        }
    }

    fn selecting(&self, kind: &Kind, selected: &Meta) -> Vec<ObjectKey> {
        let Some((bound, Some(store))) = self.kind(kind) else { return Vec::new() };
        let PreparedWatch { demand, empty_selector, .. } = &self.0.plugin.watches[bound.watch];
        let slot = demand.selects.as_ref().and_then(|selects| store.plan().selector(selects));
        let Some(slot) = slot else { return Vec::new() };
        // Rules run in the plugin's own task, and a key that they miss is lost: this lookup has no work limit.
        let work = Work::new(u64::MAX);
        let found = selecting(store, slot, *empty_selector, &selected.key.namespace, |key| selected.label(key), &work);
        found.map(|object| object.meta.key.clone()).collect()
    }

    fn indexed(&self, kind: &Kind, index: &str, values: &[String], namespace: Option<&str>) -> Vec<ObjectKey> {
        let Some((bound, Some(store))) = self.kind(kind) else { return Vec::new() };
        let indexes = &self.0.plugin.watches[bound.watch].demand.indexes;
        let declared = indexes.iter().find(|(name, _)| **name == *index);
        let Some(slot) = declared.and_then(|(_, path)| store.plan().index(path)) else { return Vec::new() };
        let key = |object: &Arc<Object>| object.meta.key.clone();
        // Like `selecting`, this lookup has no limit. The caches bound the number of keys per value, and of index
        // entries over all values.
        match namespace.filter(|_| bound.namespaced) {
            Some(namespace) => {
                values.iter().flat_map(|value| store.indexed_in(slot, value, namespace).map(key)).collect()
            }
            None => values.iter().flat_map(|value| store.indexed(slot, value).map(key)).collect(),
        }
    }

    fn by_uid(&self, uid: &Uid) -> Option<(&Kind, &Arc<Object>)> {
        self.kinds().find_map(|(bound, store)| Some((&bound.kind, store.by_uid(uid)?)))
    }

    fn dependents(&self, uid: &Uid) -> Vec<(Kind, ObjectKey)> {
        let of_kind = |(bound, store): (&KindBinding, &Arc<Store>)| {
            let key = |object: &Arc<Object>| (bound.kind.clone(), object.meta.key.clone());
            store.owned_by(uid).map(key).collect::<Vec<_>>()
        };
        self.kinds().flat_map(of_kind).collect()
    }

    fn text<'o>(&self, kind: &Kind, object: &'o Object) -> Option<Cow<'o, str>> {
        let (bound, _) = self.kind(kind)?;
        let fields = &bound.listener()?.fields;
        if self.0.plugin.watches[bound.watch].rules_look_further {
            return fields.read(object).map(|text| Cow::Owned(text.as_ref().to_owned()));
        }
        fields.uncut(object).map(Cow::Borrowed)
    }
}
