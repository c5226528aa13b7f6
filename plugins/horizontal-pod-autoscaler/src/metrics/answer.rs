//! What the metrics APIs answer.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::Missing;

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct List<T> {
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub(super) items: Vec<T>,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
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
    #[serde(deserialize_with = "go_duration")]
    pub(super) window: Duration,
    #[serde(deserialize_with = "null_is_empty")]
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
fn go_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).ok_or_else(|| serde::de::Error::custom(format!("time: invalid duration {text:?}")))
}

fn parse_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut seconds) = (unsigned, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == &rest[..unit_end])?;
        seconds += number * unit;
        rest = &rest[unit_end..];
    }
    if unsigned.is_empty() {
        return None;
    }
    let positive = if text.starts_with('-') { 0.0 } else { seconds };
    Duration::try_from_secs_f64(positive).ok()
}
