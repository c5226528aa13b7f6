//! The types that the controller reads.

use pintle_sdk::api::meta::Raw;

pintle_sdk::types!(
    "manifest.yaml",
    // Template and claim templates are kept as text.
    "apps/v1/StatefulSet": [
        "metadata.generation",
        "metadata.deletionTimestamp",
        "metadata.annotations",
        "spec.replicas",
        "spec.selector",
        "spec.template": Raw,
        "spec.volumeClaimTemplates": Raw,
        "spec.serviceName",
        "spec.podManagementPolicy",
        "spec.updateStrategy.type",
        "spec.updateStrategy.rollingUpdate.partition",
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "spec.revisionHistoryLimit",
        "spec.minReadySeconds",
        "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
        "spec.ordinals.start",
        "status.observedGeneration",
        "status.replicas",
        "status.readyReplicas",
        "status.availableReplicas",
        "status.currentReplicas",
        "status.updatedReplicas",
        "status.currentRevision",
        "status.updateRevision",
        "status.collisionCount",
        "status.conditions",
    ],
    "v1/PersistentVolumeClaim": ["metadata.ownerReferences", "metadata.deletionTimestamp"],
);
