//! The fields of a Pod that the nodes use.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;

/// A Pod as the watch delivers it, without most fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ObservedPod {
    /// Identity and annotations.
    pub metadata: ObservedMeta,
    /// Desired state.
    pub spec: ObservedSpec,
    /// Observed state.
    pub status: ObservedStatus,
}

/// Metadata of an observed Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObservedMeta {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID.
    pub uid: String,
    /// Resource version.
    pub resource_version: String,
    /// Set when deletion was requested.
    pub deletion_timestamp: Option<String>,
    /// Zero once a kubelet has confirmed the end.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Finalizers that are still set.
    pub finalizers: Vec<String>,
    /// Annotations; `sim.pintle.dev/...` control the simulation.
    pub annotations: HashMap<String, String>,
}

/// Spec of an observed Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObservedSpec {
    /// The node that it is bound to.
    pub node_name: Option<String>,
    /// The scheduler that should bind it.
    pub scheduler_name: Option<String>,
    /// Scheduling gates, which prevent binding.
    pub scheduling_gates: Vec<serde::de::IgnoredAny>,
    /// Readiness gates.
    pub readiness_gates: Vec<ReadinessGate>,
    /// Containers.
    pub containers: Vec<ObservedContainer>,
    /// Init containers.
    pub init_containers: Vec<ObservedContainer>,
}

/// A readiness gate.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadinessGate {
    /// Condition type.
    pub condition_type: String,
}

/// A container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObservedContainer {
    /// Name.
    pub name: String,
    /// Image.
    pub image: String,
    /// `Always` marks an init container as a sidecar.
    pub restart_policy: Option<String>,
}

/// Status of an observed Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObservedStatus {
    /// Phase.
    pub phase: String,
    /// Pod IP.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// When the kubelet first saw the Pod.
    pub start_time: Option<String>,
    /// Conditions.
    pub conditions: Vec<ObservedCondition>,
}

/// A condition.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObservedCondition {
    /// Type.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Last transition time.
    pub last_transition_time: Option<String>,
}

impl ObservedPod {
    /// The resource version as a number; zero if it is not numeric.
    pub(crate) fn version(&self) -> u64 {
        self.metadata.resource_version.parse().unwrap_or_default()
    }

    /// Whether a condition is `True`.
    pub(crate) fn is_true(&self, condition: &str) -> bool {
        self.status.conditions.iter().any(|found| found.r#type == condition && found.status == "True")
    }

    /// Whether the Pod has ended.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// Simulation settings of a Pod, from its annotations `sim.pintle.dev/...`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// `ready-after: 5s`: Running first, Ready this long afterwards.
    pub ready_after: Option<Duration>,
    /// `never-ready: "true"`: Running, but not Ready while the annotation exists.
    pub never_ready: bool,
    /// `fail-after: 10s`: ends in phase Failed this long after it started.
    pub fail_after: Option<Duration>,
    /// `complete-after: 10s`: ends in phase Succeeded this long after it started.
    pub complete_after: Option<Duration>,
    /// `stop-after: 30s`: takes this long to terminate.
    pub stop_after: Option<Duration>,
}

impl Behaviour {
    /// Reads the annotations; a value that is not a duration is ignored.
    pub fn from_annotations(annotations: &HashMap<String, String>) -> Self {
        let get = |name: &str| annotations.get(&format!("sim.pintle.dev/{name}"));
        let duration = |name: &str| get(name).and_then(|text| parse_duration(text));
        Self {
            ready_after: duration("ready-after"),
            never_ready: get("never-ready").is_some_and(|text| text == "true"),
            fail_after: duration("fail-after"),
            complete_after: duration("complete-after"),
            stop_after: duration("stop-after"),
        }
    }
}

/// Parses `250ms`, `5s`, `1m30s`, `2h` or plain seconds.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let amount: f64 = rest[..digits].parse().ok()?;
        let unit_end =
            rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |end| end + digits);
        let seconds = match &rest[digits..unit_end] {
            "ms" => amount / 1000.0,
            "s" | "" => amount,
            "m" => amount * 60.0,
            "h" => amount * 3600.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = &rest[unit_end..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, wanted) in [
            ("5s", Some(5_000)),
            ("250ms", Some(250)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("7", Some(7_000)),
            ("0s", Some(0)),
            ("", None),
            ("soon", None),
            ("5x", None),
        ] {
            assert_eq!(parse_duration(text), wanted.map(Duration::from_millis), "{text}");
        }
    }
}
