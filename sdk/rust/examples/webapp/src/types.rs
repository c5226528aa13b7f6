//! The fields read of a Deployment, and the custom resources.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::api::meta::{Condition, ObjectMeta};
use pintle_sdk::resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pintle_sdk::types!(
    "manifest.yaml",
    "apps/v1/Deployment": ["metadata.generation", "metadata.ownerReferences", "spec.replicas", "status"],
    // These are compared as JSON.
    "v1/ConfigMap" = _,
    "v1/Service" = _,
    "networking.k8s.io/v1/Ingress" = _,
    "autoscaling/v2/HorizontalPodAutoscaler" = _,
    "policy/v1/PodDisruptionBudget" = _,
);

/// Keeps a deleted WebApp until its claims are deleted.
pub const FINALIZER: &str = "example.com/external-name";

/// A web application.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WebApp {
    pub metadata: ObjectMeta,
    pub spec: Spec,
    /// The status as read, to detect changes.
    pub status: Value,
}

resource!(WebApp, "example.com", "v1", "WebApp");

/// The desired state.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    pub image: Option<String>,
    pub replicas: Option<i64>,
    pub port: Option<i64>,
    pub host: Option<String>,
    pub config: Option<BTreeMap<String, String>>,
    pub autoscaling: Option<Autoscaling>,
    pub disruption_budget: Option<DisruptionBudget>,
}

impl Spec {
    pub fn image(&self) -> &str {
        self.image.as_deref().unwrap_or_default()
    }

    pub fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }

    pub fn port(&self) -> i64 {
        self.port.unwrap_or(8080)
    }

    /// Empty without a host.
    pub fn host(&self) -> &str {
        self.host.as_deref().unwrap_or_default()
    }

    pub fn config(&self) -> BTreeMap<String, String> {
        self.config.clone().unwrap_or_default()
    }
}

/// Bounds of the replicas.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Autoscaling {
    pub min_replicas: Option<i64>,
    pub max_replicas: Option<i64>,
    pub cpu_percent: Option<i64>,
}

impl Autoscaling {
    pub fn min_replicas(&self) -> i64 {
        self.min_replicas.unwrap_or(1)
    }

    /// 0 if absent.
    pub fn max_replicas(&self) -> i64 {
        self.max_replicas.unwrap_or(0)
    }

    pub fn cpu_percent(&self) -> i64 {
        self.cpu_percent.unwrap_or(80)
    }
}

/// The number of Pods that may be missing: one of the two fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DisruptionBudget {
    pub min_available: Option<i64>,
    pub max_unavailable: Option<i64>,
}

/// The reported state.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub observed_generation: i64,
    pub replicas: i64,
    pub available_replicas: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    pub conditions: Vec<Condition>,
}

/// A claim of a name outside of the cluster. The object has the claimed name, so there is at most one claim.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalName {
    pub metadata: ObjectMeta,
    pub spec: ExternalNameSpec,
}

resource!(ExternalName, "example.com", "v1", "ExternalName");

/// The owner of the name.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalNameSpec {
    /// Namespace and name of the WebApp.
    pub webapp: String,
    /// Uid of the WebApp.
    pub uid: String,
}

/// The plugin's configuration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub ingress_class: String,
    pub retry_seconds: u64,
}

impl Settings {
    pub fn retry(&self) -> Duration {
        Duration::from_secs(self.retry_seconds)
    }
}
