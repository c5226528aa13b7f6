//! Keeps the number of Pods that a ReplicationController asks for. The work is done by [`plugin_lib::replicaset`].
//!
//! *Source*: Kubernetes' `pkg/controller/replication`, which wraps the controller of ReplicaSets.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
