//! The types that the controller reads.

use plugin_lib::replicaset;

pintle_sdk::types!(
    "manifest.yaml",
    "apps/v1/ReplicaSet" = replicaset::ReplicaSet,
    "apps/v1/ReplicaSet" = [replicaset::ListedReplicaSet],
    "v1/Pod" = replicaset::Pod,
    "v1/Namespace" = plugin_lib::namespace::Namespace,
);
