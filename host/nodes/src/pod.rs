//! The fields of a Pod that the nodes use.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::watch::Watched;

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
    /// Labels.
    pub labels: HashMap<String, String>,
    /// Annotations; `sim.pintle.dev/...` control the simulation.
    pub annotations: HashMap<String, String>,
    /// Owners.
    pub owner_references: Vec<ObservedOwner>,
}

/// An owner of an observed Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ObservedOwner {
    /// UID.
    pub uid: String,
    /// Whether it is the managing controller.
    pub controller: bool,
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
    /// Restart policy of containers; empty means `Always`.
    pub restart_policy: String,
    /// Active deadline on its node.
    pub active_deadline_seconds: Option<u64>,
    /// Labels of its node.
    pub node_selector: HashMap<String, String>,
    /// Affinity.
    pub affinity: Affinity,
    /// Tolerated taints.
    pub tolerations: Vec<Toleration>,
}

/// Affinity of a Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// Affinity to nodes.
    pub node_affinity: NodeAffinity,
}

/// Affinity of a Pod to nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinity {
    /// Required node affinity.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

/// Terms, one of which must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<SelectorTerm>,
}

/// Requirements, all of which must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectorTerm {
    /// Requirements of labels.
    pub match_expressions: Vec<Requirement>,
    /// Requirements of fields.
    pub match_fields: Vec<Requirement>,
}

/// A requirement.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// Label or field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// Values.
    pub values: Vec<String>,
}

/// A toleration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Key; empty for all.
    pub key: String,
    /// `Exists` or `Equal`.
    pub operator: String,
    /// Value.
    pub value: String,
    /// Effect; empty for all.
    pub effect: String,
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
    /// Takes precedence over the Pod's policy; `Always` marks an init container as a sidecar.
    pub restart_policy: Option<String>,
    /// Exit codes after which it restarts, whatever its policy.
    pub restart_policy_rules: Vec<RestartRule>,
    /// Command, without arguments.
    pub command: Vec<String>,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment.
    pub env: Vec<Variable>,
    /// Readiness probe.
    pub readiness_probe: Option<Probe>,
    /// Startup probe.
    pub startup_probe: Option<Probe>,
}

/// A restart rule of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartRule {
    /// The action; `Restart` restarts the container.
    pub action: String,
    /// The exit codes.
    pub exit_codes: ExitCodes,
}

/// Exit codes of a rule.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ExitCodes {
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    pub values: Vec<i32>,
}

/// An environment variable.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// The source of the value instead.
    pub value_from: ValueSource,
}

/// The source of a variable's value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ValueSource {
    /// A field of the Pod.
    pub field_ref: FieldRef,
}

/// A field of a Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FieldRef {
    /// Its path, for example `metadata.name`.
    pub field_path: String,
}

/// A probe, which succeeds once its delay has passed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// Seconds from the start of the container.
    pub initial_delay_seconds: u32,
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
    /// Reason of the phase.
    pub reason: Option<String>,
    /// The message.
    pub message: Option<String>,
    /// Containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// Init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// A condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObservedCondition {
    /// Type.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Last transition time.
    pub last_transition_time: Option<String>,
    /// Reason.
    pub reason: Option<String>,
    /// The message.
    pub message: Option<String>,
}

/// The status of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Name.
    pub name: String,
    /// Image.
    pub image: String,
    /// The pulled image.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// The container in the runtime.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// Whether it passes its readiness probe; an init container: whether it has succeeded.
    pub ready: bool,
    /// Whether it passes its startup probe.
    pub started: bool,
    /// Number of restarts.
    pub restart_count: u32,
    /// State.
    pub state: ContainerState,
    /// State before the last restart.
    pub last_state: ContainerState,
}

/// The state of a container: at most one field is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It has not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// It is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// It has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

/// Why a container is waiting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// Reason.
    pub reason: String,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Since when a container runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Running {
    /// Its start.
    pub started_at: String,
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    /// Exit code.
    pub exit_code: i32,
    /// Reason.
    pub reason: String,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its start; `None` if it never started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// The container in the runtime.
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
}

impl Watched for ObservedPod {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn uid(&self) -> &str {
        &self.metadata.uid
    }
}

impl ObservedPod {
    /// The resource version as a number; zero if it is not numeric.
    pub(crate) fn version_number(&self) -> u64 {
        self.metadata.resource_version.parse().unwrap_or_default()
    }

    /// Whether the Pod has ended.
    pub(crate) fn is_finished(&self) -> bool {
        is_final(&self.status.phase)
    }
}

/// Whether a phase is final.
pub(crate) fn is_final(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}
