//! The types that the controller reads.

pintle_sdk::types!("manifest.yaml");

// Read from the API server.
pintle_sdk::types!("v1/ConfigMap": ["data.since"]);
