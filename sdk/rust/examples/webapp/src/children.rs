//! The objects that a WebApp owns.

use pintle_sdk::{Children, Error, Kind, Resource, hash};
use serde_json::{Value, json};

use crate::types::{Autoscaling, DisruptionBudget, Settings, WebApp};

/// Field manager of the applies.
const MANAGER: &str = "webapp-controller";
/// Annotation of the Pod template: a hash of the configuration, so that a new configuration changes the template.
const CONFIG_HASH: &str = "example.com/config-hash";

const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");
const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");
const SERVICE: Kind = Kind::new("", "v1", "Service");
const INGRESS: Kind = Kind::new("networking.k8s.io", "v1", "Ingress");
const AUTOSCALER: Kind = Kind::new("autoscaling", "v2", "HorizontalPodAutoscaler");
const DISRUPTION_BUDGET: Kind = Kind::new("policy", "v1", "PodDisruptionBudget");

/// The desired children of a valid WebApp.
pub fn wanted(app: &WebApp, settings: &Settings, is_host_held: bool) -> Result<Children, Error> {
    let mut children = Children::new(&WebApp::KIND, &app.metadata, MANAGER)
        .own(CONFIG_MAP)
        .own(DEPLOYMENT)
        .own(SERVICE)
        .own(INGRESS)
        .own(AUTOSCALER)
        .own(DISRUPTION_BUDGET)
        .want(config_map(app))
        .want(deployment(app)?)
        .want(service(app));
    if is_host_held {
        children = children.want(ingress(app, settings));
    }
    if let Some(autoscaling) = &app.spec.autoscaling {
        children = children.want(autoscaler(app, autoscaling));
    }
    if let Some(budget) = &app.spec.disruption_budget {
        children = children.want(disruption_budget(app, budget));
    }
    Ok(children)
}

fn labels(app: &WebApp) -> Value {
    json!({"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.metadata.name})
}

fn config_map_name(app: &WebApp) -> String {
    format!("{}-config", app.metadata.name)
}

fn config_map(app: &WebApp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_map_name(app), "labels": labels(app)},
        "data": app.spec.config(),
    })
}

fn deployment(app: &WebApp) -> Result<Value, Error> {
    let mut deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app.metadata.name, "labels": labels(app)},
        "spec": {
            "selector": {"matchLabels": labels(app)},
            "template": {
                "metadata": {"labels": labels(app), "annotations": {CONFIG_HASH: hash(&app.spec.config())?}},
                "spec": {
                    "containers": [{
                        "name": "web",
                        "image": app.spec.image(),
                        "ports": [{"name": "http", "containerPort": app.spec.port()}],
                        "envFrom": [{"configMapRef": {"name": config_map_name(app)}}],
                    }],
                },
            },
        },
    });
    // With an autoscaler, the number belongs to the autoscaler.
    if app.spec.autoscaling.is_none() {
        deployment["spec"]["replicas"] = json!(app.spec.replicas());
    }
    Ok(deployment)
}

fn service(app: &WebApp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": app.metadata.name, "labels": labels(app)},
        "spec": {"selector": labels(app), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    })
}

fn ingress(app: &WebApp, settings: &Settings) -> Value {
    let backend = json!({"service": {"name": app.metadata.name, "port": {"name": "http"}}});
    let mut ingress = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": app.metadata.name, "labels": labels(app)},
        "spec": {
            "rules": [{
                "host": app.spec.host(),
                "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
            }],
        },
    });
    if !settings.ingress_class.is_empty() {
        ingress["spec"]["ingressClassName"] = json!(settings.ingress_class);
    }
    ingress
}

fn autoscaler(app: &WebApp, autoscaling: &Autoscaling) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": autoscaling.cpu_percent()});
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": app.metadata.name, "labels": labels(app)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app.metadata.name},
            "minReplicas": autoscaling.min_replicas(),
            "maxReplicas": autoscaling.max_replicas(),
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    })
}

fn disruption_budget(app: &WebApp, budget: &DisruptionBudget) -> Value {
    let mut object = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app.metadata.name, "labels": labels(app)},
        "spec": {"selector": {"matchLabels": labels(app)}},
    });
    if let Some(number) = budget.min_available {
        object["spec"]["minAvailable"] = json!(number);
    }
    if let Some(number) = budget.max_unavailable {
        object["spec"]["maxUnavailable"] = json!(number);
    }
    object
}
