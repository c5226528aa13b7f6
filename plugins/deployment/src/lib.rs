//! The Deployment controller: rolls Pod templates out by ReplicaSets, and keeps their history.
//!
//! *Flow*: key of a Deployment -> [`reconcile`] -> claims, writes of ReplicaSets, events, status.
//!
//! ```text
//! reconcile -> claim -> Pass -> sync_revision -> paused? rollback? scaled? -> rolling | recreate -> progress -> finish
//! ```
//!
//! *Source*: kube-controller-manager 1.36, pkg/controller/deployment. Where upstream writes in the middle of a sync and goes on with
//! the answer, this returns the write and goes on when the cache shows it.

pub mod pass;
mod progress;
mod reconcile;
mod recreate;
pub mod replicas;
pub mod revision;
pub mod rollback;
mod rolling;
mod scaling;
mod status;
pub mod sync;
pub mod template;
#[cfg(test)]
mod test_objects;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
