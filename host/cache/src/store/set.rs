//! All stores of the host, so that a snapshot of several is consistent.
//!
//! Invariants:
//! 1. Only the informer's task changes its store, under the lock: all changes of one step become visible together.
//! 2. Snapshots never change; a store without snapshots is changed in place.

use std::sync::Arc;

use parking_lot::RwLock;
use pintle_core::object::ingest::IngestPlan;

use super::Store;

/// Index of a store in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreId(usize);

/// All stores.
#[derive(Default)]
pub(crate) struct StoreSet {
    stores: RwLock<Stores>,
}

#[derive(Default)]
struct Stores {
    places: Vec<Option<Arc<Store>>>,
    free: Vec<usize>,
}

impl StoreSet {
    /// Adds an empty store.
    pub(crate) fn add(&self, plan: Arc<IngestPlan>) -> StoreId {
        let mut stores = self.stores.write();
        let store = Some(Arc::new(Store::new(plan, 0)));
        match stores.free.pop() {
            Some(place) => {
                stores.places[place] = store;
                StoreId(place)
            }
            None => {
                stores.places.push(store);
                StoreId(stores.places.len() - 1)
            }
        }
    }

    /// Removes a store; another one may reuse its index.
    pub(crate) fn remove(&self, id: StoreId) {
        let mut stores = self.stores.write();
        let old = stores.places[id.0].take();
        stores.free.push(id.0);
        drop(stores);
        // Dropped outside the lock: freeing many objects is slow.
        drop(old);
    }

    /// Replaces a store; returns the old one.
    pub(crate) fn replace(&self, id: StoreId, store: Store) -> Option<Arc<Store>> {
        self.stores.write().places[id.0].replace(Arc::new(store))
    }

    /// Changes a store.
    pub(crate) fn change<R>(&self, id: StoreId, change: impl FnOnce(&mut Store) -> R) -> Option<R> {
        self.stores.write().places[id.0].as_mut().map(|store| change(Arc::make_mut(store)))
    }

    /// One store.
    pub(crate) fn store(&self, id: StoreId) -> Option<Arc<Store>> {
        self.stores.read().places[id.0].clone()
    }

    /// Reads one store.
    pub(crate) fn read<R>(&self, id: StoreId, read: impl FnOnce(&Store) -> R) -> Option<R> {
        self.stores.read().places[id.0].as_deref().map(read)
    }

    /// A consistent snapshot of these stores.
    pub(crate) fn at_once(&self, ids: impl Iterator<Item = Option<StoreId>>) -> Vec<Option<Arc<Store>>> {
        let stores = self.stores.read();
        ids.map(|id| id.and_then(|id| stores.places[id.0].clone())).collect()
    }
}
