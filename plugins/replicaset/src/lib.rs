//! The ReplicaSet controller: keeps the number of Pods of a ReplicaSet, with [`plugin_lib::replicaset`].
//!
//! *Source*: Kubernetes' `pkg/controller/replicaset`.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
