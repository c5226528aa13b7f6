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
mod object;
mod orphan;
mod owners;

use pintle_sdk::{Error, Key, Lister, Outcome};

use crate::object::{FOREGROUND, ORPHAN, Object};

/// Deletes the object, its finalizer, or nothing.
///
/// # Errors
/// If an owner's kind is not known to the API server (it may become so), or a live read fails.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(object) = Object::get(key, lister)? else {
        // Its dependents were enqueued when it went.
        return Ok(Outcome::new());
    };
    match (object.is_deleting(), object.has_finalizer(ORPHAN), object.has_finalizer(FOREGROUND)) {
        // First, for those who stay must not go with it.
        (true, true, _) => orphan::release(&object, lister),
        (true, false, true) => foreground::finish(&object, lister),
        // Being deleted is a one-way trip. For a definition of a kind, it is that of all its objects.
        (true, false, false) => Ok(kinds::note(&object, lister)),
        (false, ..) => collect::collect(&object, lister),
    }
}

pintle_sdk::export!(reconcile);
