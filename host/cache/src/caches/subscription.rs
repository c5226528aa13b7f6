//! What one plugin sees of the caches, and hears.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use pintle_core::api::{Detail, Target};
use pintle_core::id::{Key, Kind};
use pintle_core::manifest::Manifest;
use pintle_core::object::Object;
use pintle_core::pending::PendingWrite;
use pintle_core::version::{ResourceVersion, Uid};
use tokio::sync::watch;
use tracing::{error, info};

use super::table::Source;
use super::{Bound, Caches, ChangeHandler, Delta, Enqueued, Registry, Table, Watched};
use crate::discovery::Resources;
use crate::informer::{Informer, NewListener, Scope};
use crate::view::Snapshot;

/// One plugin's share of the caches. Dropping it ends it; informers that nobody needs any more stop.
pub struct Subscription {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    caches: Arc<Caches>,
    pub(crate) manifest: Arc<Manifest>,
    /// One for each watch of the manifest.
    pub(crate) watches: Vec<Watched>,
    handler: Arc<dyn ChangeHandler>,
    table: RwLock<Arc<Table>>,
    /// The table was bound to what the server has.
    bound: AtomicBool,
    /// The subscription is over; changed under the registry's lock.
    closed: AtomicBool,
    synced: watch::Sender<bool>,
}

/// Objects that are lost to a subscription because their kind is gone.
pub(crate) type Lost = Vec<Vec<Delta>>;

impl Subscription {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Waits until everything that the manifest watches has been listed once. A kind that the server does not have counts as
    /// listed; one of a watch of every kind also if the server refuses to list it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn synced(&self) {
        // The sender lives as long as `self`.
        let _ = self.inner.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether [`Subscription::synced`] would not wait.
    pub fn is_synced(&self) -> bool {
        *self.inner.synced.borrow()
    }

    /// The kinds that are not listed yet, for logs and status.
    pub fn unsynced(&self) -> Vec<Kind> {
        self.inner.table().bound.iter().filter(|bound| !bound.is_ready()).map(|bound| bound.kind.clone()).collect()
    }

    /// All kinds of the plugin at one instant; cheap.
    pub fn snapshot(&self) -> Snapshot {
        let table = self.inner.table();
        let stores = self.inner.caches.env().world.stores(table.bound.iter().map(Bound::store));
        Snapshot::new(self.inner.clone(), table, stores, self.inner.caches.resources())
    }

    /// The same instant as this subscription and another one of the same caches see it.
    pub fn snapshots(&self, other: &Self) -> (Snapshot, Snapshot) {
        let caches = &self.inner.caches;
        let (own, others) = (self.inner.table(), other.inner.table());
        let ids = own.bound.iter().chain(&others.bound).map(Bound::store);
        let mut stores = caches.env().world.stores(ids);
        let of_other = stores.split_off(own.bound.len());
        let resources = caches.resources();
        let own = Snapshot::new(self.inner.clone(), own.clone(), stores, resources.clone());
        (own, Snapshot::new(other.inner.clone(), others.clone(), of_other, resources))
    }

    /// Keys that the manifest's rules give for a change; not those that the plugin maps by itself.
    pub fn keys(&self, delta: &Delta, snapshot: &Snapshot) -> Vec<Enqueued> {
        match snapshot.watched_of(&delta.kind) {
            Some(watched) => watched.rules.keys(delta, snapshot),
            None => Vec::new(),
        }
    }

    /// Whether the plugin's mapping is to be asked about this change.
    pub fn wants_mapping(&self, delta: &Delta) -> bool {
        let snapshot = self.snapshot();
        snapshot.watched_of(&delta.kind).is_some_and(|watched| watched.rules.wants_mapping(delta, &snapshot))
    }

    /// The plugin's projection of an object of a delta.
    pub fn text(&self, kind: &Kind, object: &Object) -> Option<Arc<str>> {
        let table = self.inner.table();
        let (_, bound) = table.find(kind)?;
        object.text(bound.claim()?.slot.into()).cloned()
    }

    /// The keys of all cached objects that are keys themselves (`to: self`): what a resync enqueues.
    pub fn all_keys(&self) -> Vec<Key> {
        let snapshot = self.snapshot();
        let mut keys = Vec::new();
        for (bound, store) in snapshot.kinds() {
            for queue in self.inner.watches[bound.watch].rules.own_queues() {
                keys.extend(store.iter().map(|object| Key {
                    queue: queue.clone(),
                    kind: bound.kind.clone(),
                    object: object.meta.key.clone(),
                }));
            }
        }
        keys
    }

    /// Whether the cache shows the write, or something later; true for what is not watched.
    pub fn sees(&self, write: &PendingWrite) -> bool {
        let table = self.inner.table();
        let Some(bound) = find(&table, &write.kind) else { return true };
        let watch = &self.inner.watches[bound.watch].watch;
        if watch.namespace.as_deref().is_some_and(|namespace| *namespace != *write.object.namespace) {
            return true;
        }
        let Some(id) = bound.store() else { return true };
        let version = ResourceVersion::parse(&write.resource_version);
        let seen = self.inner.caches.env().world.look(id, |store| {
            if version != ResourceVersion::Unknown && store.version().reaches(&version) {
                return true;
            }
            let cached = store.get(&write.object.namespace, &write.object.name);
            match cached.map(|object| &object.meta) {
                None => write.gone,
                // Another object has taken its name since.
                Some(meta) if !write.uid.is_empty() && meta.uid != Uid::parse(&write.uid) && write.gone => true,
                Some(meta) if write.gone && version == ResourceVersion::Unknown => meta.terminating,
                Some(meta) => meta.resource_version.reaches(&version) || (write.gone && meta.terminating),
            }
        });
        seen.unwrap_or(true)
    }

    /// How the objects of this kind in this namespace are read; `None` if they are not. Selectors are the watch's.
    pub fn reading(&self, kind: &Kind, namespace: &str) -> Option<Target> {
        let table = self.inner.table();
        let scope = find(&table, kind)?.scope()?;
        if scope.namespace.as_deref().is_some_and(|only| only != namespace) {
            return None;
        }
        Some(Target {
            kind: scope.kind.clone(),
            plural: scope.plural.clone(),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            label_selector: scope.label_selector.clone(),
            field_selector: scope.field_selector.clone(),
            detail: Detail::Metadata,
        })
    }

    /// Bytes that the plugin's part of the caches takes; what it shares with others counts in full (estimated).
    pub fn cached_bytes(&self) -> u64 {
        let snapshot = self.snapshot();
        let of_kind = snapshot.kinds().map(|(bound, store)| {
            let slots = bound.claim().map_or(0, |claim| {
                store.slot_bytes(claim.slot) + claim.whole.map_or(0, |whole| store.slot_bytes(whole))
            });
            slots + store.meta_bytes()
        });
        of_kind.sum()
    }
}

/// The kind, in whatever version it is read.
fn find<'t>(table: &'t Table, kind: &Kind) -> Option<&'t Bound> {
    let found = table.find(kind).or_else(|| table.find_any_version(&kind.group, &kind.name));
    found.map(|(_, bound)| bound)
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.inner.caches.close(&self.inner);
    }
}

impl Inner {
    pub(super) fn new(caches: Arc<Caches>, manifest: Arc<Manifest>, handler: Arc<dyn ChangeHandler>) -> Arc<Self> {
        let watches = manifest.watches.iter().filter_map(|watch| match Watched::new(watch, &manifest) {
            Ok(watched) => Some(watched),
            Err(why) => {
                // The manifest's own check refuses such paths at load.
                error!(plugin = manifest.name, %why, "watch left out");
                None
            }
        });
        let watches = watches.collect();
        Arc::new(Self {
            caches,
            manifest,
            watches,
            handler,
            table: RwLock::default(),
            bound: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            synced: watch::Sender::new(false),
        })
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        self.table.read().clone()
    }

    /// Follows what the server has: joins informers of kinds that are new and leaves those of kinds that are gone.
    pub(super) fn bind(self: &Arc<Self>, resources: &Resources, registry: &mut Registry) -> Lost {
        if self.closed.load(Ordering::Acquire) {
            return Lost::new();
        }
        let before = self.table();
        let mut bound: Vec<Bound> = Vec::new();
        for (at, watched) in self.watches.iter().enumerate() {
            if let Some(kind) = &watched.watch.kind {
                bound.push(self.bind_kind(kind, at, resources, &before, registry));
            }
        }
        let n_named = bound.len();
        for (at, watched) in self.watches.iter().enumerate() {
            let Some(every) = &watched.watch.every else { continue };
            for resource in resources.every(every) {
                let Kind { group, name, .. } = &resource.kind;
                let has = |bound: &Bound| bound.kind.group == *group && bound.kind.name == *name;
                // A watch by name is more particular; of two of every kind, the first one counts.
                if !bound[..n_named].iter().any(has) && !bound[n_named..].iter().any(has) {
                    bound.push(self.bind_kind(&resource.kind, at, resources, &before, registry));
                }
            }
        }
        let after = Arc::new(Table::new(bound));
        let mut lost = Vec::new();
        for gone in &before.bound {
            let stays = after.find(&gone.kind).is_some_and(|(_, now)| now.store() == gone.store());
            if stays {
                continue;
            }
            if let Some(store) = gone.usable(gone.store().and_then(|id| self.caches.env().world.store(id)).as_ref()) {
                info!(plugin = self.manifest.name, kind = %gone.kind, objects = store.len(), "kind is gone");
                lost.push(
                    store
                        .iter()
                        .map(|object| Delta {
                            kind: gone.kind.clone(),
                            old: Some(object.clone()),
                            new: None,
                            initial: false,
                        })
                        .collect(),
                );
            }
            gone.leave(registry);
        }
        *self.table.write() = after.clone();
        self.bound.store(true, Ordering::Release);
        // Not earlier: an informer may be faster than this thread, and without the table its objects would mean nothing.
        after.bound.iter().for_each(|bound| bound.arm(registry));
        lost
    }

    /// Leaves all informers, for good.
    pub(super) fn unbind(&self, registry: &mut Registry) {
        self.closed.store(true, Ordering::Release);
        self.table().bound.iter().for_each(|bound| bound.leave(registry));
    }

    /// What follows [`Inner::bind`], without the lock.
    pub(super) fn after_bind(&self, lost: Lost) {
        for deltas in lost.iter().filter(|deltas| !deltas.is_empty()) {
            self.handler.on_changes(deltas);
        }
        self.check_synced();
    }

    fn bind_kind(
        self: &Arc<Self>,
        kind: &Kind,
        watch: usize,
        resources: &Resources,
        before: &Table,
        registry: &mut Registry,
    ) -> Bound {
        let known = before.find(kind).map(|(_, bound)| bound).filter(|bound| bound.watch == watch);
        let Some(resource) = resources.exactly(kind) else {
            return match known.filter(|known| known.store().is_some()) {
                Some(known) if resources.is_uncertain(kind) => known.clone(),
                _ => {
                    let uncertain = resources.is_uncertain(kind);
                    let source = if uncertain { Source::Unknown } else { Source::Absent };
                    Bound { kind: kind.clone(), watch, namespaced: true, source }
                }
            };
        };
        if let Some(known) = known.filter(|known| known.store().is_some()) {
            return known.clone();
        }
        let watched = &self.watches[watch];
        if !resource.namespaced && watched.watch.namespace.is_some() {
            // What is asked for, and granted, is one namespace: no object of this kind is in it.
            return Bound { kind: kind.clone(), watch, namespaced: false, source: Source::Absent };
        }
        let scope = Scope {
            kind: kind.clone(),
            plural: resource.plural.clone(),
            namespace: watched.watch.namespace.clone(),
            label_selector: watched.watch.label_selector.clone(),
            field_selector: watched.watch.field_selector.clone(),
        };
        let env = self.caches.env();
        let informer = registry.informers.entry(scope.clone()).or_insert_with(|| Informer::start(env, scope.clone()));
        let weak: Weak<Self> = Arc::downgrade(self);
        let listener = informer.join(&watched.demand, |_| NewListener {
            handler: self.handler.clone(),
            lenient: watched.watch.every.is_some(),
            on_ready: Box::new(move || {
                if let Some(inner) = weak.upgrade() {
                    inner.check_synced();
                }
            }),
        });
        let source = Source::Informer { scope, store: informer.shared().store, listener };
        Bound { kind: kind.clone(), watch, namespaced: resource.namespaced, source }
    }

    fn check_synced(&self) {
        if self.bound.load(Ordering::Acquire) && self.table().bound.iter().all(Bound::is_ready) {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}
