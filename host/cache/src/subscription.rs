//! One plugin's subscription to the caches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use pintle_core::contract::manifest::Manifest;
use pintle_core::lifecycle::kinds::{MissingCause, MissingKind};
use pintle_core::object::id::{Key, Kind};
use pintle_core::object::version::{ResourceVersion, Uid};
use pintle_core::policy::pending::{Leaves, PendingWrite};
use pintle_core::policy::selection::Selected;
use pintle_core::ports::api::{Detail, ListWatchTarget};
use tokio::sync::watch;
use tracing::info;

use crate::bindings::{KindBinding, KindSource, KindTable, PreparedManifest};
use crate::caches::{Bind, Caches, Lost};
use crate::informer::{Informer, Informers, NewListener, Scope};
use crate::resources::Resources;
use crate::snapshot::Snapshot;
use crate::types::{ChangeHandler, Delta};

/// One plugin's subscription to the caches. Dropping it ends it; informers without subscribers stop.
pub struct Subscription {
    state: Arc<SubscriptionState>,
}

struct SubscriptionState {
    caches: Arc<Caches>,
    plugin: Arc<PreparedManifest>,
    handler: Arc<dyn ChangeHandler>,
    table: RwLock<Arc<KindTable>>,
    /// Whether the table was bound to the server's resources.
    bound: AtomicBool,
    /// Whether the subscription has ended; changed under the registry's lock.
    closed: AtomicBool,
    synced: watch::Sender<bool>,
}

impl Caches {
    /// Starts or joins the informers for the manifest's watches; `every` watches follow discovery. The handler first
    /// receives all existing objects. Call it within a tokio runtime.
    pub fn subscribe(self: &Arc<Self>, manifest: Arc<Manifest>, handler: Arc<dyn ChangeHandler>) -> Subscription {
        let state = SubscriptionState::new(self.clone(), manifest, handler);
        self.join(state.clone());
        Subscription { state }
    }
}

impl Subscription {
    /// Waits until everything that the manifest watches has been listed once. A kind that the server does not have
    /// counts as listed; for an `every` watch, so does a kind that the server has refused to list for half a minute.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost.
    pub async fn synced(&self) {
        // The sender lives as long as `self`.
        let _ = self.state.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether [`Subscription::synced`] would return immediately.
    pub fn is_synced(&self) -> bool {
        *self.state.synced.borrow()
    }

    /// The kinds that are not listed yet, for logs and status.
    pub fn unsynced(&self) -> Vec<Kind> {
        self.state.table().bound.iter().filter(|bound| !bound.is_ready()).map(|bound| bound.kind.clone()).collect()
    }

    /// The kinds named in the manifest without a complete list, each with the cause. Kinds that the server does not
    /// have are included.
    pub fn missing(&self) -> Vec<MissingKind> {
        let resources = self.state.caches.resources();
        let cause = |bound: &KindBinding| match &bound.source {
            KindSource::Absent => {
                let other = resources.as_ref().and_then(|resources| resources.of(&bound.kind));
                let other_version = other.map(|resource| resource.kind.version.to_string());
                Some(MissingCause::NotServed { other_version })
            }
            KindSource::Unknown => Some(MissingCause::Unknown),
            KindSource::Informer { listener, .. } if listener.is_ready() => None,
            KindSource::Informer { scope, .. } => {
                let refusal = self.state.caches.with_informers(|informers| informers.get(scope)?.shared().refusal());
                Some(refusal.map_or(MissingCause::Listing, MissingCause::Refused))
            }
            KindSource::Clusterwide => None,
        };
        let table = self.state.table();
        let named = table.bound.iter().filter(|bound| self.state.plugin.watches[bound.watch].watch.kind.is_some());
        named.filter_map(|bound| Some(MissingKind { kind: bound.kind.clone(), cause: cause(bound)? })).collect()
    }

    /// A snapshot of all kinds of the plugin at one instant; cheap.
    pub fn snapshot(&self) -> Snapshot {
        let table = self.state.table();
        let stores = self.state.caches.env().stores.at_once(table.bound.iter().map(KindBinding::store));
        Snapshot::new(self.state.plugin.clone(), table, stores, self.state.caches.resources())
    }

    /// Snapshots of this subscription and another one of the same caches, at the same instant.
    pub fn snapshots(&self, other: &Self) -> (Snapshot, Snapshot) {
        let caches = &self.state.caches;
        let (own, others) = (self.state.table(), other.state.table());
        let ids = own.bound.iter().chain(&others.bound).map(KindBinding::store);
        let mut stores = caches.env().stores.at_once(ids);
        let of_other = stores.split_off(own.bound.len());
        let resources = caches.resources();
        let own = Snapshot::new(self.state.plugin.clone(), own.clone(), stores, resources.clone());
        (own, Snapshot::new(other.state.plugin.clone(), others.clone(), of_other, resources))
    }

    /// The keys that a resync enqueues: all cached objects that are keys themselves (`to: self`), and the tick keys of
    /// rules.
    pub fn all_keys(&self) -> Vec<Key> {
        let snapshot = self.snapshot();
        let mut keys = Vec::new();
        for (bound, store) in snapshot.kinds() {
            for queue in self.state.plugin.watches[bound.watch].rules.own_queues() {
                keys.extend(store.iter().map(|object| Key {
                    queue: queue.clone(),
                    kind: bound.kind.clone(),
                    object: object.meta.key.clone(),
                }));
            }
        }
        keys.extend(self.state.plugin.ticks.iter().cloned());
        keys
    }

    /// Number of [`all_keys`](Self::all_keys).
    pub fn n_keys(&self) -> usize {
        let watches = &self.state.plugin.watches;
        let n_queues = |watch: usize| watches[watch].rules.own_queues().count();
        let n_objects: usize = self.snapshot().kinds().map(|(bound, store)| store.len() * n_queues(bound.watch)).sum();
        n_objects + self.state.plugin.ticks.len()
    }

    /// Number of cached objects of its watches.
    pub fn n_objects(&self) -> usize {
        self.snapshot().kinds().map(|(_, store)| store.len()).sum()
    }

    /// Number of cached objects whose controller is of a kind that the manifest watches by name.
    pub fn n_owned(&self) -> usize {
        let named: Vec<&Kind> = self.state.plugin.manifest.kinds().collect();
        let is_owner = |kind: &Kind| named.iter().any(|named| named.is_any_version_of(kind));
        let snapshot = self.snapshot();
        let of_kind = snapshot.kinds().map(|(_, store)| {
            store.iter().filter(|object| object.meta.controller().is_some_and(|owner| is_owner(&owner.kind))).count()
        });
        of_kind.sum()
    }

    /// Number of cached objects of a kind in a namespace, or in all if it is empty.
    pub fn n_in(&self, kind: &Kind, namespace: &str) -> usize {
        let snapshot = self.snapshot();
        let store = snapshot.store(kind);
        store.map_or(0, |store| if namespace.is_empty() { store.len() } else { store.in_namespace(namespace).count() })
    }

    /// Whether the cache shows the write or a later state; true if the object is not watched.
    pub fn sees(&self, write: &PendingWrite) -> bool {
        let table = self.state.table();
        let Some(bound) = find(&table, &write.kind) else { return true };
        let watch = &self.state.plugin.watches[bound.watch].watch;
        if watch.namespace.as_deref().is_some_and(|namespace| *namespace != *write.object.namespace) {
            return true;
        }
        let Some(id) = bound.store() else { return true };
        let version = ResourceVersion::parse(&write.resource_version);
        // An object that the watch does not show counts as deleted.
        let gone = write.leaves != Leaves::Object || self.selects(write) == Selected::No;
        let seen = self.state.caches.env().stores.read(id, |store| {
            if version != ResourceVersion::Unknown && store.version().reaches(&version) {
                return true;
            }
            let cached = store.get(&write.object.namespace, &write.object.name);
            match cached.map(|object| &object.meta) {
                None => gone,
                // Another object has the name now.
                Some(meta) if !write.uid.is_empty() && meta.uid != Uid::parse(&write.uid) && gone => true,
                Some(meta) => match write.leaves {
                    Leaves::Object => meta.resource_version.reaches(&version),
                    Leaves::Terminating if version == ResourceVersion::Unknown => meta.terminating,
                    Leaves::Terminating => meta.resource_version.reaches(&version) || meta.terminating,
                    Leaves::Nothing => false,
                },
            }
        });
        seen.unwrap_or(true)
    }

    /// Whether the watch's selectors show the written object. A deleted object is not shown in any case.
    pub fn selects(&self, write: &PendingWrite) -> Selected {
        let table = self.state.table();
        match find(&table, &write.kind).filter(|_| write.leaves == Leaves::Object) {
            Some(bound) => self.state.plugin.watches[bound.watch].selection.of(&write.object, write.labels.as_ref()),
            None => Selected::Yes,
        }
    }

    /// Reopens the watch of a kind at its version, because it seems to be silent or late. Does nothing if the kind is
    /// not watched, or if its watch was opened a moment ago.
    pub fn reopen(&self, kind: &Kind) {
        let table = self.state.table();
        let Some(scope) = find(&table, kind).and_then(KindBinding::scope) else { return };
        self.state.caches.with_informers(|informers| {
            if let Some(informer) = informers.get(scope) {
                informer.reopen();
            }
        });
    }

    /// The target with which objects of this kind in this namespace are read; `None` if they are not. Selectors are the
    /// watch's.
    pub fn list_watch_target(&self, kind: &Kind, namespace: &str) -> Option<ListWatchTarget> {
        let table = self.state.table();
        let scope = find(&table, kind)?.scope()?;
        if scope.namespace.as_deref().is_some_and(|only| only != namespace) {
            return None;
        }
        Some(ListWatchTarget {
            kind: scope.kind.clone(),
            plural: scope.plural.clone(),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            label_selector: scope.label_selector.clone(),
            field_selector: scope.field_selector.clone(),
            detail: Detail::Metadata,
        })
    }

    /// Bytes of the plugin's part of the caches; parts shared with other plugins count in full (estimated).
    pub fn cached_bytes(&self) -> u64 {
        let snapshot = self.snapshot();
        let of_kind = snapshot.kinds().map(|(bound, store)| {
            let texts = bound.listener().map_or(0, |listener| {
                let readers = [Some(&listener.fields), listener.whole.as_ref()];
                readers.into_iter().flatten().map(|reader| store.bytes_read(reader)).sum()
            });
            texts + store.meta_bytes()
        });
        of_kind.sum()
    }
}

/// The kind, in the version that is read.
fn find<'t>(table: &'t KindTable, kind: &Kind) -> Option<&'t KindBinding> {
    let found = table.find(kind).or_else(|| table.find_any_version(&kind.group, &kind.name));
    found.map(|(_, bound)| bound)
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.state.caches.with_informers(|informers| self.state.unbind(informers));
    }
}

impl SubscriptionState {
    fn new(caches: Arc<Caches>, manifest: Arc<Manifest>, handler: Arc<dyn ChangeHandler>) -> Arc<Self> {
        Arc::new(Self {
            caches,
            plugin: PreparedManifest::new(manifest),
            handler,
            table: RwLock::default(),
            bound: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            synced: watch::Sender::new(false),
        })
    }

    fn table(&self) -> Arc<KindTable> {
        self.table.read().clone()
    }

    /// Leaves all informers permanently.
    fn unbind(&self, informers: &mut Informers) {
        self.closed.store(true, Ordering::Release);
        self.table().bound.iter().for_each(|bound| bound.leave(informers));
    }

    fn bind_kind(
        self: &Arc<Self>,
        kind: &Kind,
        watch: usize,
        resources: &Resources,
        before: &KindTable,
        informers: &mut Informers,
    ) -> KindBinding {
        let known = before.find(kind).map(|(_, bound)| bound).filter(|bound| bound.watch == watch);
        let Some(resource) = resources.exactly(kind) else {
            return match known.filter(|known| known.store().is_some()) {
                Some(known) if resources.is_uncertain(kind) => known.clone(),
                _ => {
                    let uncertain = resources.is_uncertain(kind);
                    let source = if uncertain { KindSource::Unknown } else { KindSource::Absent };
                    KindBinding { kind: kind.clone(), watch, namespaced: true, source }
                }
            };
        };
        if let Some(known) = known.filter(|known| known.store().is_some()) {
            return known.clone();
        }
        let watched = &self.plugin.watches[watch];
        if !resource.namespaced && watched.watch.namespace.is_some() {
            // The watch requests and is granted one namespace, in which no object of this kind can be.
            return KindBinding { kind: kind.clone(), watch, namespaced: false, source: KindSource::Clusterwide };
        }
        let scope = Scope {
            kind: kind.clone(),
            plural: resource.plural.clone(),
            namespace: watched.watch.namespace.clone(),
            label_selector: watched.watch.label_selector.clone(),
            field_selector: watched.watch.field_selector.clone(),
        };
        let env = self.caches.env();
        let informer = informers.entry(scope.clone()).or_insert_with(|| Informer::start(env, scope.clone()));
        let weak: Weak<Self> = Arc::downgrade(self);
        let new = NewListener {
            handler: self.handler.clone(),
            optional: watched.watch.every.is_some(),
            on_ready: Box::new(move || {
                if let Some(state) = weak.upgrade() {
                    state.check_synced();
                }
            }),
        };
        let listener = informer.join(&watched.demand, new);
        let source = KindSource::Informer { scope, store: informer.shared().store, listener };
        KindBinding { kind: kind.clone(), watch, namespaced: resource.namespaced, source }
    }

    fn check_synced(&self) {
        if self.bound.load(Ordering::Acquire) && self.table().bound.iter().all(KindBinding::is_ready) {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}

impl Bind for SubscriptionState {
    fn bind(self: Arc<Self>, resources: &Resources, informers: &mut Informers) -> Lost {
        if self.closed.load(Ordering::Acquire) {
            return Lost::new();
        }
        let before = self.table();
        let mut bound: Vec<KindBinding> = Vec::new();
        for (at, watched) in self.plugin.watches.iter().enumerate() {
            if let Some(kind) = &watched.watch.kind {
                bound.push(self.bind_kind(kind, at, resources, &before, informers));
            }
        }
        let n_named = bound.len();
        for (at, watched) in self.plugin.watches.iter().enumerate() {
            let Some(every) = &watched.watch.every else { continue };
            for resource in resources.every(every) {
                let has = |bound: &KindBinding| bound.kind.is_any_version_of(&resource.kind);
                // A watch by name takes precedence; of two `every` watches, the first one counts.
                if !bound[..n_named].iter().any(has) && !bound[n_named..].iter().any(has) {
                    bound.push(self.bind_kind(&resource.kind, at, resources, &before, informers));
                }
            }
        }
        let after = Arc::new(KindTable::new(bound));
        let mut lost = Vec::new();
        for gone in &before.bound {
            let stays = after.find(&gone.kind).is_some_and(|(_, now)| now.store() == gone.store());
            if stays {
                continue;
            }
            if let Some(store) = gone.usable(gone.store().and_then(|id| self.caches.env().stores.store(id)).as_ref()) {
                info!(plugin = self.plugin.manifest.name, kind = %gone.kind, objects = store.len(), "kind is gone");
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
            gone.leave(informers);
        }
        *self.table.write() = after.clone();
        self.bound.store(true, Ordering::Release);
        // Not earlier: an informer may be faster than this thread, and objects cannot be processed without the table.
        after.bound.iter().for_each(|bound| bound.register(informers));
        lost
    }

    fn after_bind(&self, lost: Lost) {
        for deltas in lost.iter().filter(|deltas| !deltas.is_empty()) {
            self.handler.on_changes(deltas);
        }
        self.handler.on_kinds();
        self.check_synced();
    }
}
