//! The types that the controller reads.

use serde_json::Value;

pintle_sdk::types!(
    "manifest.yaml",
    // The spec is copied.
    "v1/Pod": [
        "metadata.deletionTimestamp",
        "spec.volumes.name",
        "spec.volumes.ephemeral.volumeClaimTemplate.metadata.annotations",
        "spec.volumes.ephemeral.volumeClaimTemplate.metadata.labels",
        "spec.volumes.ephemeral.volumeClaimTemplate.spec": Value,
    ],
);

/// A claim template.
pub(crate) type Template = PodSpecVolumesEphemeralVolumeClaimTemplate;
