//! The Deployment controller: rolls Pod templates out by ReplicaSets, and keeps their history.
//!
//! *Flow*: key of a Deployment -> [`reconcile`] -> claims, writes of ReplicaSets, events, status.
//!
//! ```text
//! reconcile -> claim -> Context -> sync_revision -> paused? rollback? scaled? -> rolling | recreate -> progress -> finish
//! ```
//!
//! *Source*: kube-controller-manager 1.37, pkg/controller/deployment. Where upstream writes in the middle of a sync and goes on with
//! the answer, this returns the write and goes on when the cache shows it. What follows from that:
//! - an object is written once where upstream writes it twice in a row, and events still tell of both steps;
//! - ReplicaSets are patched (by uid and resourceVersion) where upstream replaces them, so that nothing of them is lost;
//! - that a ReplicaSet could not be created is an event at once, and a condition by the run that tries again;
//! - a name that the cache shows to be taken is not tried;
//! - an old ReplicaSet that cannot be scaled down is tried again, where upstream waits for the next change;
//! - a rollout that has succeeded is not looked at again because of its deadline;
//! - names of ReplicaSets have another hash: nothing depends on it, the new ReplicaSet is found by its template.

mod context;
mod progress;
mod reconcile;
mod recreate;
mod replicas;
mod revision;
mod rollback;
mod rolling;
mod scaling;
mod status;
mod sync;
mod template;
#[cfg(test)]
mod test_objects;
mod types;
mod writes;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
