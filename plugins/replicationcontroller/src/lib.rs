//! Keeps the number of Pods that a ReplicationController asks for. The work is done by [`plugin_lib::replicaset`].
//!
//! *Source*: Kubernetes' `pkg/controller/replication`, which wraps the controller of ReplicaSets.

use pintle_sdk::{Error, Key, Lister, Outcome};
use plugin_lib::replicaset::{self, ReplicationController};

pintle_sdk::types!(
    "manifest.yaml",
    "v1/ReplicationController" = ReplicationController,
    "v1/ReplicationController" = [replicaset::ListedReplicationController],
    "v1/Pod" = replicaset::Pod,
    "v1/Namespace" = replicaset::Namespace,
);

/// Says what should change for a ReplicationController.
///
/// # Errors
/// As `replicaset::reconcile`.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    replicaset::reconcile::<ReplicationController>(key, lister)
}

pintle_sdk::export!(reconcile);
