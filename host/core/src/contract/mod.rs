//! What the host and a plugin agree on: the manifest, the outcome of a run and its limits, the configuration.

pub mod check;
pub mod manifest;
pub mod outcome;
pub mod settings;
