//! What the controller reads.

// The metadata, which is all that is read, is the same in each version.
pintle_sdk::types!("manifest.yaml", "scheduling.k8s.io/v1alpha2/PodGroup" = _);
