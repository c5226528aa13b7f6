//! The garbage collector: deletes objects whose owners are deleted, and carries out foreground deletion and orphaning.
//!
//! The key is any object. A run depends on the object's state:
//! - waiting for its dependents (foreground deletion): once none blocks it, its finalizer is removed ([`foreground`]);
//! - being deleted without its dependents: they are released, then its finalizer is removed ([`orphan`]);
//! - owned: if every owner is absent it is deleted, if some are, their references are removed ([`collect`]).
//!
//! *Source*: `pkg/controller/garbagecollector`. Upstream keeps a graph of all objects; here the host's cache is the
//! graph, and its index of dependents the edges. Consequences:
//! - owners in the cache count as existing; only absence is checked with the API server, because the caches of two
//!   kinds may be at different instants;
//! - a dependent that is not in the namespace of its owner blocks no foreground deletion: in another namespace it is
//!   deleted, and a cluster-scoped one stays;
//! - a kind whose CustomResourceDefinition is deleted has no objects, so its dependents are collected whenever they run
//!   ([`kinds`]);
//! - there is one queue of objects: no queue of changes, and no separate one for orphaning.

mod absent;
mod collect;
mod foreground;
mod kinds;
mod orphan;
mod owners;
mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
