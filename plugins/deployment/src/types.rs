//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "apps/v1/Deployment": [
        "metadata.generation",
        "metadata.deletionTimestamp",
        "metadata.annotations",
        "spec.replicas",
        "spec.selector",
        "spec.template",
        "spec.strategy",
        "spec.minReadySeconds",
        "spec.revisionHistoryLimit",
        "spec.paused",
        "spec.progressDeadlineSeconds",
        "status",
    ],
    "apps/v1/ReplicaSet": [
        "metadata.generation",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences",
        "spec.replicas",
        "spec.minReadySeconds",
        "spec.template",
        "status",
    ],
    "apps/v1/ReplicaSet" as ListedReplicaSet: [
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.labels",
        "metadata.ownerReferences",
    ],
    "v1/Namespace" = plugin_lib::namespace::Namespace,
);
