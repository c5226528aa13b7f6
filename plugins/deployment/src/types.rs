//! What the controller reads.

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
);
