//! The types that the controller reads.

pintle_sdk::types!("manifest.yaml");
