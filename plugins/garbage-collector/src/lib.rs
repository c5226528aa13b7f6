//! Deletes objects whose owners are gone, and carries out foreground deletion and orphaning.
//!
//! The key is any object. What a run does depends on what the object is:
//! - waiting for its dependents (foreground deletion): once none blocks it, its finalizer is removed ([`foreground`]);
//! - to be deleted without its dependents: they are released, then its finalizer is removed ([`orphan`]);
//! - owned: if every owner is gone it is deleted, if some are, their references are removed ([`collect`]).
//!
//! *Source*: `pkg/controller/garbagecollector`. Upstream keeps a graph of all objects; here the host's cache is the graph,
//! and its index of dependents the edges. What follows from that:
//! - owners that the cache holds are believed; only the absence of one is checked with the API server, because the caches of
//!   two kinds may be at different instants;
//! - a dependent in another namespace than its owner, which will be deleted, blocks no foreground deletion;
//! - a kind whose CustomResourceDefinition is gone has no objects, so that its dependents are collected whenever they are looked at
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
