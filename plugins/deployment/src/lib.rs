//! The Deployment controller: rolls out Pod templates with ReplicaSets, and keeps their history.
//!
//! *Flow*: key of a Deployment -> [`reconcile`] -> claims, writes of ReplicaSets, events, status.
//!
//! ```text
//! reconcile -> claim -> Context -> sync_revision -> paused? rollback? scaled? -> rolling | recreate -> progress -> finish
//! ```
//!
//! *Source*: kube-controller-manager 1.37, pkg/controller/deployment. Where upstream writes in the middle of a sync and
//! continues with the response, this returns the write and continues when the cache shows it. Consequences:
//! - an object is written once where upstream writes it twice in a row; events still report both steps;
//! - ReplicaSets are patched (by uid and resourceVersion) where upstream replaces them, so that no field is lost;
//! - a failure to create a ReplicaSet is an event immediately, and a condition by the run that retries;
//! - a name that is taken according to the cache is not tried;
//! - a failed scale-down of an old ReplicaSet is retried, where upstream waits for the next change;
//! - a successful rollout is not checked again because of its deadline;
//! - ReplicaSet names have another hash: nothing depends on it, because the new ReplicaSet is found by its template.

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
