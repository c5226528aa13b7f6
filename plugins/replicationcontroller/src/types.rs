//! The types that the controller reads.

use plugin_lib::replicaset;

pintle_sdk::types!(
    "manifest.yaml",
    "v1/ReplicationController" = replicaset::ReplicationController,
    "v1/ReplicationController" = [replicaset::ListedReplicationController],
    "v1/Pod" = replicaset::Pod,
    "v1/Namespace" = plugin_lib::namespace::Namespace,
);
