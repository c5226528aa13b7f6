//! The contract between host and plugin: the manifest, the outcome of a run and its limits, the configuration.

pub mod check;
pub mod manifest;
pub mod outcome;
pub mod settings;
