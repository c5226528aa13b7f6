//! What the controller reads of a namespace.

pintle_sdk::types!(
    "manifest.yaml",
    "v1/Namespace": ["metadata.deletionTimestamp", "spec.finalizers", "status.phase", "status.conditions"],
);
