//! What the metrics APIs answer.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::{Timestamp, go_duration};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::Missing;

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct List<T> {
    #[serde(default = "Vec::new", deserialize_with = "pintle_sdk::api::or_default")]
    pub(super) items: Vec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Name {
    pub(super) name: String,
}

/// Of `metrics.k8s.io`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PodMetrics {
    pub(super) metadata: Name,
    pub(super) timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "duration")]
    pub(super) window: Duration,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(super) containers: Vec<ContainerMetrics>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerMetrics {
    pub(super) name: String,
    pub(super) usage: BTreeMap<String, Quantity>,
}

/// Of `custom.metrics.k8s.io`, in both versions.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct MetricValue {
    pub(super) described_object: Name,
    pub(super) timestamp: Option<Timestamp>,
    /// Of v1beta2.
    pub(super) window_seconds: Option<i64>,
    /// Of v1beta1.
    pub(super) window: Option<i64>,
    pub(super) value: Quantity,
}

/// Of `external.metrics.k8s.io`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ExternalValue {
    pub(super) value: Quantity,
}

/// The versions of a group.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ApiGroup {
    pub(super) preferred_version: Version,
    pub(super) versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Version {
    pub(super) group_version: String,
}

/// # Errors
/// The text is not what it should be.
pub(super) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, Missing> {
    serde_json::from_str(text).map_err(|error| Missing::Error(format!("decode the answer: {error}")))
}

/// A duration as Go prints it; one that is below zero is zero.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let nanos =
        go_duration(&text).ok_or_else(|| serde::de::Error::custom(format!("time: invalid duration {text:?}")))?;
    Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
}
