//! The core group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meta::{Condition, ObjectMeta, Raw};
use crate::resource;

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "Pod");

/// Spec of a [`Pod`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodSpec {
    pub node_name: String,
    pub init_containers: Vec<Container>,
}

/// A container of a [`PodSpec`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Container {
    pub name: String,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// Status of a [`Pod`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodStatus {
    pub phase: String,
    pub reason: String,
    pub conditions: Vec<Condition>,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// Status of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ContainerStatus {
    pub name: String,
    pub restart_count: i32,
}

/// What Pods are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodTemplateSpec {
    pub metadata: ObjectMeta,
    /// Carried along as text.
    pub spec: Raw,
}

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Namespace {
    pub metadata: ObjectMeta,
    pub spec: NamespaceSpec,
    pub status: NamespaceStatus,
}

resource!(Namespace, "", "v1", "Namespace");

/// Spec of a [`Namespace`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct NamespaceSpec {
    pub finalizers: Vec<String>,
}

/// Status of a [`Namespace`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct NamespaceStatus {
    pub phase: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ServiceAccount {
    pub metadata: ObjectMeta,
}

resource!(ServiceAccount, "", "v1", "ServiceAccount");

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ConfigMap {
    pub metadata: ObjectMeta,
    pub data: BTreeMap<String, String>,
}

resource!(ConfigMap, "", "v1", "ConfigMap");

/// A ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ReplicationController {
    pub metadata: ObjectMeta,
    pub spec: ReplicationControllerSpec,
    /// It has the fields of a ReplicaSet's status, but `terminatingReplicas`.
    pub status: super::apps::ReplicaSetStatus,
}

resource!(ReplicationController, "", "v1", "ReplicationController");

/// Spec of a [`ReplicationController`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct ReplicationControllerSpec {
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    pub selector: BTreeMap<String, String>,
    pub template: PodTemplateSpec,
}
