//! The types that the controller reads.

pintle_sdk::types!(
    "manifest.yaml",
    "v1/ConfigMap": ["metadata.annotations['kubernetes.io/description']", "data"],
);
