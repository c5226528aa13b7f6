//! The fields of the object that the controller reads, its status, which is written in full, and the configuration.

use std::collections::BTreeMap;

use pintle_sdk::api::is_default;
use pintle_sdk::api::meta::{Condition, LabelSelector};
use pintle_sdk::quantity::Quantity;
use pintle_sdk::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Quantities by resource.
pub(crate) type Quantities = BTreeMap<String, Quantity>;
pub(crate) type Behavior = HorizontalPodAutoscalerSpecBehavior;
/// Rules for one direction.
pub(crate) type Rules = HorizontalPodAutoscalerSpecBehaviorScaleDown;
pub(crate) type Policy = HorizontalPodAutoscalerSpecBehaviorScaleDownPolicies;

pintle_sdk::types!(
    "manifest.yaml",
    "autoscaling/v2/HorizontalPodAutoscaler": [
        "metadata.generation",
        "spec.behavior",
        "spec.maxReplicas",
        "spec.metrics": Vec<Metric>,
        "spec.minReplicas",
        "spec.scaleTargetRef": Reference,
        "status": Status,
    ],
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

/// Another object of the namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Reference {
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) api_version: String,
}

/// A metric of the spec, or its state in the status. It has the source for its type; an unreadable one has no type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Metric {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    #[serde(skip_serializing_if = "is_default")]
    resource: Option<Source>,
    #[serde(skip_serializing_if = "is_default")]
    container_resource: Option<Source>,
    #[serde(skip_serializing_if = "is_default")]
    pods: Option<Source>,
    #[serde(skip_serializing_if = "is_default")]
    object: Option<Source>,
    #[serde(skip_serializing_if = "is_default")]
    external: Option<Source>,
}

/// A metric source, with the target in the spec, and the current value in the status. Each metric type has some of the
/// fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Source {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) container: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) metric: MetricId,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) target: Amount,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) current: Amount,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) described_object: Reference,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MetricId {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) selector: Option<LabelSelector>,
}

/// A target, which has a type, or a current value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Amount {
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub(crate) type_: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) value: Option<Quantity>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) average_utilization: Option<i32>,
}

/// Semantic equality: quantities are compared by value, and an absent list equals an empty one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) last_scale_time: Option<Timestamp>,
    pub(crate) current_replicas: i32,
    pub(crate) desired_replicas: i32,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(crate) current_metrics: Vec<Metric>,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(crate) conditions: Vec<Condition>,
}

/// The configuration; durations are in milliseconds.
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

impl Metric {
    /// The source of its type.
    pub(crate) fn source(&mut self) -> Option<&mut Source> {
        match self.type_.as_str() {
            "Resource" => self.resource.as_mut(),
            "ContainerResource" => self.container_resource.as_mut(),
            "Pods" => self.pods.as_mut(),
            "Object" => self.object.as_mut(),
            "External" => self.external.as_mut(),
            _ => None,
        }
    }
}
