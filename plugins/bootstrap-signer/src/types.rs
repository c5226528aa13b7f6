//! What the controller reads.

pintle_sdk::types!("manifest.yaml");
