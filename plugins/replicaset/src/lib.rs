//! Keeps the number of Pods that a ReplicaSet asks for. The work is done by `replica-engine`.
//!
//! *Source*: Kubernetes' `pkg/controller/replicaset`.

use pintle_sdk::{Error, Key, Lister, Outcome};
use replica_engine::ReplicaSet;

pintle_sdk::types!(
    "manifest.yaml",
    "apps/v1/ReplicaSet" = ReplicaSet,
    "apps/v1/ReplicaSet" = [replica_engine::ListedReplicaSet],
    "v1/Pod" = replica_engine::Pod,
    "v1/Namespace" = replica_engine::Namespace,
);

/// Says what should change for a ReplicaSet.
///
/// # Errors
/// As `replica_engine::reconcile`.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    replica_engine::reconcile::<ReplicaSet>(key, lister)
}

pintle_sdk::export!(reconcile);
