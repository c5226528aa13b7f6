//! The types that the controller reads, and its settings.

use serde::Deserialize;

pintle_sdk::types!("manifest.yaml");

/// Queues.
pub(crate) const NODES: &str = "node_lifecycle_controller";
pub(crate) const PODS: &str = "node_lifecycle_controller_pods";
pub(crate) const MONITOR: &str = "node_lifecycle_controller_monitor";

/// The condition that says whether a Node or a Pod is ready.
pub(crate) const READY: &str = "Ready";

/// Statuses of conditions.
pub(crate) const TRUE: &str = "True";
pub(crate) const FALSE: &str = "False";
pub(crate) const UNKNOWN: &str = "Unknown";

pub(crate) type Taint = NodeSpecTaints;
pub(crate) type NodeCondition = NodeStatusConditions;

/// The configuration. Times are in milliseconds, rates in Nodes per second.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) monitor_period: u64,
    pub(crate) monitor_grace_period: u64,
    pub(crate) startup_grace_period: u64,
    pub(crate) eviction_rate: f64,
    pub(crate) secondary_eviction_rate: f64,
    pub(crate) large_cluster_size_threshold: i64,
    pub(crate) unhealthy_zone_threshold: f64,
    pub(crate) lease_circuit_breaker: bool,
}

impl Node {
    /// The first condition of this type.
    #[doc(alias = "GetNodeCondition")]
    pub(crate) fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// The status of the condition `Ready`; `None` without the condition.
    pub(crate) fn ready(&self) -> Option<&str> {
        self.condition(READY).map(|ready| ready.status.as_str())
    }

    /// Whether it has a taint with this key and effect.
    #[doc(alias = "TaintExists", alias = "MatchTaint")]
    pub(crate) fn has_taint(&self, key: &str, effect: &str) -> bool {
        self.spec.taints.iter().any(|taint| taint.key == key && taint.effect == effect)
    }
}
