//! HorizontalPodAutoscalers.
//!
//! The metrics API is a CustomResourceDefinition: scenarios write the usage of each Pod as an object. It is of memory, which does not
//! depend on how long a Pod is ready, unless a scenario is about that.

mod limits;
mod metrics;
pub(in crate::scenarios) mod other_metrics;
mod targets;

use anyhow::Result;
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::definitions;
use crate::objects::set_fields;
use crate::scenarios::stage::{Stage, deployment};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(
    &["horizontal-pod-autoscaler-controller"],
    &[limits::SCENARIOS, metrics::SCENARIOS, targets::SCENARIOS, other_metrics::SCENARIOS],
)];

/// What is compared.
const KINDS: &[&str] = &["horizontalpodautoscalers"];

const AUTOSCALERS: &str = "horizontalpodautoscalers";

/// After any transition of a Pod.
const LATER: &str = "2099-01-01T00:00:00Z";

/// Defines the metrics API, unless another scenario has done so.
async fn define_metrics(s: &Stage) -> Result<()> {
    definitions::define_metrics(&s.client).await
}

/// Defines a kind, and waits until it is served.
async fn define(s: &Stage, definition: &Value) -> Result<()> {
    definitions::define(&s.client, definition).await
}

/// Writes what each Pod with this label uses, and takes away what was written of Pods that are gone.
///
/// # Errors
/// The API server refuses, or does not serve `metrics.k8s.io`.
pub async fn measure(s: &Stage, app: &str, usage: &Value) -> Result<()> {
    let collection = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods", s.ns);
    let mut old = s.client.list(&collection).await?;
    old.retain(|metrics| metrics["metadata"]["labels"]["app"] == app);
    let mut pods = s.live_pods().await?;
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == app);
    let is_measured = |pod: &Value| old.iter().any(|old| named(old) == named(pod));
    // New Pods last: an autoscaler that looks in between takes those without metrics for ones that need no change.
    pods.sort_by_key(|pod| !is_measured(pod));
    for pod in &pods {
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let usage: Vec<Value> = containers.map(|c| json!({"name": c["name"], "usage": usage})).collect();
        let metrics = json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": named(pod), "labels": pod["metadata"]["labels"]},
            "timestamp": LATER, "window": "0s", "containers": usage,
        });
        match is_measured(pod) {
            true => s.client.patch(&format!("{collection}/{}", named(pod)), PatchKind::Merge, &metrics).await?,
            false => s.client.create(&collection, &metrics).await?,
        };
    }
    // Last, so that there are metrics at any time.
    for metrics in old.iter().filter(|metrics| !pods.iter().any(|pod| named(pod) == named(metrics))) {
        s.client.delete(&format!("{collection}/{}", named(metrics)), None).await?;
    }
    Ok(())
}

fn named(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A Deployment that has come to its size.
async fn deploy(s: &Stage, name: &str, replicas: u32) -> Result<()> {
    define_metrics(s).await?;
    s.create("deployments", &deployment(name, replicas, json!({}))).await?;
    s.rolled_out(name).await
}

/// A metric of memory with this target.
fn memory(target: &str) -> Value {
    let target = json!({"type": "AverageValue", "averageValue": target});
    json!({"type": "Resource", "resource": {"name": "memory", "target": target}})
}

/// Creates an autoscaler of the Deployment `web`, with this in its spec, 100Mi of memory if there is no metric.
async fn autoscale(s: &Stage, name: &str, spec: Value) -> Result<()> {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [memory("100Mi")]},
    });
    set_fields(&mut object["spec"], &spec);
    s.create(AUTOSCALERS, &object).await?;
    Ok(())
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Waits until a condition of an autoscaler has this reason, and notes it.
async fn reason(s: &Stage, name: &str, kind: &str, reason: &str) -> Result<()> {
    let what = format!("have {kind} {reason}");
    s.until(AUTOSCALERS, name, &what, |hpa| condition(hpa, kind)["reason"] == reason).await?;
    let hpa = s.get(AUTOSCALERS, name).await?;
    let mut seen = condition(&hpa, kind).clone();
    if seen["reason"] == reason {
        seen["lastTransitionTime"] = Value::Null;
        s.observe(&format!("{name}: {kind} {reason}"), &seen);
    }
    Ok(())
}

/// Waits until an autoscaler has seen its target at this size, and wants no other.
async fn sized(s: &Stage, name: &str, size: i64) -> Result<()> {
    s.until(AUTOSCALERS, name, &format!("have the size {size}"), |hpa| {
        // The API server leaves out a size of 0.
        hpa["status"]["currentReplicas"].as_i64().unwrap_or(0) == size && hpa["status"]["desiredReplicas"] == size
    })
    .await
}

/// Waits until the Deployment `web` has come to a size, and the autoscaler of this name has seen it.
async fn settled(s: &Stage, name: &str, size: i64) -> Result<()> {
    s.until("deployments", "web", &format!("want {size}"), |web| web["spec"]["replicas"] == size).await?;
    s.rolled_out("web").await?;
    sized(s, name, size).await
}

/// Rules that act at once.
fn at_once() -> Value {
    let rules = json!({
        "stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 1000, "periodSeconds": 1}],
    });
    let mut down = rules.clone();
    down["policies"][0]["value"] = json!(100);
    json!({"scaleUp": rules, "scaleDown": down})
}
