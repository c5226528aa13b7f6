//! Keeps the number of Pods that a ReplicaSet asks for. The work is done by [`plugin_lib::replicaset`].
//!
//! *Source*: Kubernetes' `pkg/controller/replicaset`.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
