//! The group `apps`.

use serde::{Deserialize, Serialize};

use super::core::PodTemplateSpec;
use super::meta::{Condition, LabelSelector, ObjectMeta};
use crate::int_or_percent::IntOrPercent;
use crate::resource;

/// A ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ReplicaSet {
    pub metadata: ObjectMeta,
    pub spec: ReplicaSetSpec,
    pub status: ReplicaSetStatus,
}

resource!(ReplicaSet, "apps", "v1", "ReplicaSet");

/// Spec of a [`ReplicaSet`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ReplicaSetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    pub template: PodTemplateSpec,
}

/// Status of a [`ReplicaSet`], complete as of Kubernetes 1.36.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ReplicaSetStatus {
    pub replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Deployment {
    pub metadata: ObjectMeta,
    pub spec: DeploymentSpec,
    pub status: DeploymentStatus,
}

resource!(Deployment, "apps", "v1", "Deployment");

/// Spec of a [`Deployment`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct DeploymentSpec {
    pub replicas: Option<i32>,
    pub selector: Option<LabelSelector>,
    pub template: PodTemplateSpec,
    pub strategy: DeploymentStrategy,
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
    pub paused: bool,
    pub progress_deadline_seconds: Option<i32>,
}

/// Strategy of a [`DeploymentSpec`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct DeploymentStrategy {
    /// `Recreate` or `RollingUpdate`.
    #[serde(rename = "type")]
    pub kind: String,
    pub rolling_update: Option<RollingUpdateDeployment>,
}

/// Pace of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct RollingUpdateDeployment {
    pub max_unavailable: Option<IntOrPercent>,
    pub max_surge: Option<IntOrPercent>,
}

/// Status of a [`Deployment`], complete as of Kubernetes 1.36.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct DeploymentStatus {
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

fn is_zero_i64(number: &i64) -> bool {
    *number == 0
}
