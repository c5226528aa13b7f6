//! Keeps the number of Pods that a ReplicationController asks for. The work is done by `replica-engine`.
//!
//! *Source*: Kubernetes' `pkg/controller/replication`, which wraps the controller of ReplicaSets.

use pintle_sdk::{Error, Key, Lister, Outcome};
use replica_engine::ReplicationController;

pintle_sdk::types!(
    "manifest.yaml",
    "v1/ReplicationController" = ReplicationController,
    "v1/ReplicationController" = [replica_engine::ListedReplicationController],
    "v1/Pod" = replica_engine::Pod,
    "v1/Namespace" = replica_engine::Namespace,
);

/// Says what should change for a ReplicationController.
///
/// # Errors
/// As `replica_engine::reconcile`.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    replica_engine::reconcile::<ReplicationController>(key, lister)
}

pintle_sdk::export!(reconcile);
