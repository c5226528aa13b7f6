//! The object, as far as the controller reads it, and its status, which is written in full.

use std::collections::BTreeMap;

use pintle_sdk::api::meta::{Condition, LabelSelector, ObjectMeta};
use pintle_sdk::conditions;
use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Amounts by resource.
pub(crate) type Quantities = BTreeMap<String, Quantity>;

pintle_sdk::types!(
    "manifest.yaml",
    "autoscaling/v2/HorizontalPodAutoscaler" = _,
    "autoscaling/v2/HorizontalPodAutoscaler" as ListedAutoscaler: ["metadata.uid"],
    "v1/Pod": [
        "metadata.deletionTimestamp",
        "metadata.labels",
        "spec.containers.name",
        "spec.containers.resources.requests": Quantities,
        "spec.initContainers.name",
        "spec.initContainers.resources.requests": Quantities,
        "spec.initContainers.restartPolicy",
        "spec.overhead": Quantities,
        "spec.resources.requests": Quantities,
        "status.conditions.lastTransitionTime",
        "status.conditions.status",
        "status.conditions.type",
        "status.phase",
        "status.startTime",
    ],
);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Autoscaler {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

pintle_sdk::resource!(Autoscaler, "autoscaling", "v2", "HorizontalPodAutoscaler");

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) scale_target_ref: Reference,
    pub(crate) min_replicas: Option<i32>,
    pub(crate) max_replicas: i32,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(crate) metrics: Vec<MetricSpec>,
    pub(crate) behavior: Option<Behavior>,
}

/// Another object of the namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Reference {
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) api_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MetricSpec {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) resource: Option<ResourceSource>,
    pub(crate) container_resource: Option<ResourceSource>,
    pub(crate) pods: Option<MetricSource>,
    pub(crate) object: Option<MetricSource>,
    pub(crate) external: Option<MetricSource>,
}

/// Of the Pods, or of one container of each.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceSource {
    pub(crate) name: String,
    pub(crate) container: String,
    pub(crate) target: Target,
}

/// Of Pods, of an object, or of something outside of the cluster.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MetricSource {
    pub(crate) described_object: Reference,
    pub(crate) metric: MetricId,
    pub(crate) target: Target,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MetricId {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Target {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) value: Option<Quantity>,
    pub(crate) average_value: Option<Quantity>,
    pub(crate) average_utilization: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Behavior {
    pub(crate) scale_up: Option<Rules>,
    pub(crate) scale_down: Option<Rules>,
}

/// Rules for one direction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rules {
    pub(crate) stabilization_window_seconds: Option<i32>,
    pub(crate) select_policy: Option<String>,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(crate) policies: Vec<Policy>,
    pub(crate) tolerance: Option<Quantity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Policy {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) value: i32,
    pub(crate) period_seconds: i32,
}

/// Equality is that of the meaning: quantities are equal by their amounts, and an absent list equals an empty one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_scale_time: Option<Timestamp>,
    pub(crate) current_replicas: i32,
    pub(crate) desired_replicas: i32,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(crate) current_metrics: Vec<MetricStatus>,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(crate) conditions: Vec<Condition>,
}

/// The state of a metric; that of a metric which could not be read has no type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MetricStatus {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<ResourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container_resource: Option<ResourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pods: Option<SourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<SourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) external: Option<SourceStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceStatus {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) container: String,
    pub(crate) current: Current,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SourceStatus {
    pub(crate) metric: MetricId,
    pub(crate) current: Current,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) described_object: Option<Reference>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Current {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) average_utilization: Option<i32>,
}

impl Status {
    /// Sets a condition in its place; its time is that of the last change of its status.
    pub(crate) fn set(&mut self, kind: &str, status: bool, reason: &str, message: impl Into<String>, now: Timestamp) {
        let condition = Condition {
            type_: kind.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            ..Condition::default()
        };
        self.conditions = conditions::set_condition(&self.conditions, condition, now);
    }

    /// The state of the target, with the conditions and the last time as they are.
    #[doc(alias = "setStatus")]
    pub(crate) fn report(
        &mut self,
        observed_generation: Option<i64>,
        current: i32,
        desired: i32,
        metrics: Vec<MetricStatus>,
    ) {
        *self = Self {
            observed_generation,
            last_scale_time: self.last_scale_time,
            current_replicas: current,
            desired_replicas: desired,
            current_metrics: metrics,
            conditions: std::mem::take(&mut self.conditions),
        };
    }
}

impl Spec {
    /// Upstream's default.
    pub(crate) fn min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }
}
