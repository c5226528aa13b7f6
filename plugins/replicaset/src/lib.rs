//! Keeps the number of Pods that a ReplicaSet asks for. The work is done by [`plugin_lib::replicaset`].
//!
//! *Source*: Kubernetes' `pkg/controller/replicaset`.

use pintle_sdk::{Error, Key, Lister, Outcome};
use plugin_lib::replicaset::{self, ReplicaSet};

pintle_sdk::types!(
    "manifest.yaml",
    "apps/v1/ReplicaSet" = ReplicaSet,
    "apps/v1/ReplicaSet" = [replicaset::ListedReplicaSet],
    "v1/Pod" = replicaset::Pod,
    "v1/Namespace" = replicaset::Namespace,
);

/// Says what should change for a ReplicaSet.
///
/// # Errors
/// As `replicaset::reconcile`.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    replicaset::reconcile::<ReplicaSet>(key, lister)
}

pintle_sdk::export!(reconcile);
