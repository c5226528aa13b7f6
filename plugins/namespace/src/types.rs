//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "v1/Namespace": ["metadata.deletionTimestamp", "spec.finalizers", "status.phase", "status.conditions"],
);
