//! What the engine reads. The plugins check that their manifests declare it.

use pintle_sdk::api::core::PodTemplateSpec;

pintle_sdk::types!(
    "v1/Pod": [
        "metadata.labels",
        "metadata.annotations['controller.kubernetes.io/pod-deletion-cost']",
        "metadata.ownerReferences.uid",
        "metadata.ownerReferences.controller",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "spec.initContainers.name",
        "spec.initContainers.restartPolicy",
        "status.phase",
        "status.conditions.type",
        "status.conditions.status",
        "status.conditions.lastTransitionTime",
        "status.containerStatuses.restartCount",
        "status.initContainerStatuses.name",
        "status.initContainerStatuses.restartCount",
    ],
    "apps/v1/ReplicaSet": [
        "metadata.generation",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
        "spec.replicas",
        "spec.minReadySeconds",
        "spec.selector",
        "spec.template",
        "status",
    ],
    "apps/v1/ReplicaSet" as ListedReplicaSet: ["spec.selector"],
    "v1/ReplicationController": [
        "metadata.generation",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
        "spec.replicas",
        "spec.minReadySeconds",
        "spec.selector",
        "spec.template": PodTemplateSpec,
        // It has the fields of a ReplicaSet's status, but `terminatingReplicas`.
        "status": ReplicaSetStatus,
    ],
    "v1/ReplicationController" as ListedReplicationController: ["spec.selector"],
    "v1/Namespace": ["status.phase"],
);
