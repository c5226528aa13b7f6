//! The ReplicationController controller: keeps the number of Pods of a ReplicationController, with
//! [`plugin_lib::replicaset`].
//!
//! *Source*: Kubernetes' `pkg/controller/replication`, which wraps the ReplicaSet controller.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
