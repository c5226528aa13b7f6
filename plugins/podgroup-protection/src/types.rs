//! The types that the controller reads.

// Only the metadata is read, which is the same in each version.
pintle_sdk::types!("manifest.yaml", "scheduling.k8s.io/v1alpha2/PodGroup" = _);
