//! The configuration.

use std::time::Duration;

use serde::Deserialize;

/// Durations are in milliseconds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) sync_period: u64,
    pub(crate) downscale_stabilization: u64,
    pub(crate) tolerance: f64,
    pub(crate) cpu_initialization_period: u64,
    pub(crate) initial_readiness_delay: u64,
    pub(crate) generation: bool,
    pub(crate) pod_level_resources: bool,
    pub(crate) scale_to_zero: bool,
}

impl Settings {
    pub(crate) fn sync_period(&self) -> Duration {
        Duration::from_millis(self.sync_period)
    }

    pub(crate) fn downscale_stabilization(&self) -> Duration {
        Duration::from_millis(self.downscale_stabilization)
    }

    pub(crate) fn cpu_initialization_period(&self) -> Duration {
        Duration::from_millis(self.cpu_initialization_period)
    }

    pub(crate) fn initial_readiness_delay(&self) -> Duration {
        Duration::from_millis(self.initial_readiness_delay)
    }
}
