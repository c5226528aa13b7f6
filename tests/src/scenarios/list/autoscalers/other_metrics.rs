//! Metrics that are not of CPU or memory: custom ones of Pods and of other objects, and external ones.
//!
//! Annotations of Pods and ConfigMaps set them on every cluster: `host/docs/embedded-cluster.md` describes how.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{AUTOSCALERS, KINDS, at_once, autoscale, reason, settled};
use crate::metrics_api;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, deployment, replication_controller};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a HorizontalPodAutoscaler adds Pods by a custom metric of theirs", |s| Box::pin(of_pods(s)))
        .comparing(KINDS)
        .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler shares the custom metric of a Service among its Pods", |s| {
        Box::pin(of_object(s))
    })
    .comparing(KINDS)
    .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler compares the custom metric of a Service with its target", |s| {
        Box::pin(value_of_object(s))
    })
    .comparing(KINDS)
    .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler waits for a custom metric that is missing", |s| Box::pin(missing(s)))
        .comparing(KINDS)
        .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler shares an external metric among its Pods", |s| Box::pin(external(s)))
        .comparing(KINDS)
        .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler compares an external metric with its target", |s| {
        Box::pin(value_of_external(s))
    })
    .comparing(KINDS)
    .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler adds up the external metrics that it selects", |s| Box::pin(selected(s)))
        .comparing(KINDS)
        .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler scales to zero and back by an external metric", |s| Box::pin(no_load(s)))
        .comparing(KINDS)
        .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler follows the higher one of two metrics", |s| Box::pin(two(s)))
        .comparing(KINDS)
        .with_metrics(),
    Scenario::new("a HorizontalPodAutoscaler reports a custom metrics API that does not answer", |s| {
        Box::pin(unavailable(s))
    })
    .comparing(KINDS)
    .with_metrics()
    .alone()
    .only_real("it has no aggregated API servers, and so none that fails"),
];

/// Fields of the target of a metric.
fn target(kind: &str, value: &str) -> Value {
    match kind {
        "Value" => json!({"type": kind, "value": value}),
        _ => json!({"type": kind, "averageValue": value}),
    }
}

/// A metric of the Service `web`.
fn object_metric(name: &str, target: &Value) -> Value {
    let service = json!({"apiVersion": "v1", "kind": "Service", "name": "web"});
    json!({"type": "Object", "object": {"describedObject": service, "metric": {"name": name}, "target": target}})
}

/// An external metric.
fn external_metric(name: &str, target: &Value) -> Value {
    json!({"type": "External", "external": {"metric": {"name": name}, "target": target}})
}

/// Sets an external metric that the ConfigMap `map` holds, with this label `queue`.
async fn set_external(s: &Stage, map: &str, queue: &str, metric: &str, value: &str) -> Result<()> {
    let labels = json!({"sim.pintle.dev/metrics": "external", "queue": queue});
    set(s, &json!({"metadata": {"name": map, "labels": labels}, "data": {metric: value}})).await
}

/// Sets a custom metric of the Service `web`.
async fn set_of_service(s: &Stage, metric: &str, value: &str) -> Result<()> {
    let annotations = json!({"sim.pintle.dev/object": "services/web"});
    let metadata = json!({"name": metric, "labels": {"sim.pintle.dev/metrics": "custom"}, "annotations": annotations});
    set(s, &json!({"metadata": metadata, "data": {metric: value}})).await
}

async fn set(s: &Stage, map: &Value) -> Result<()> {
    let name = map["metadata"]["name"].as_str().context("no name")?;
    match s.client.find(&s.one("configmaps", name)).await? {
        None => s.create("configmaps", map).await?,
        Some(_) => s.patch("configmaps", name, map).await?,
    };
    Ok(())
}

/// The Deployment `web`, rolled out.
async fn deploy(s: &Stage, replicas: u32) -> Result<()> {
    s.create("deployments", &deployment("web", replicas, json!({}))).await?;
    s.rolled_out("web").await
}

/// Waits until the autoscaler `a` has read these values of its metrics.
async fn reads(s: &Stage, values: &[Value]) -> Result<()> {
    s.until(AUTOSCALERS, "a", &format!("read {values:?}"), |hpa| current(hpa).eq(values)).await
}

/// The values in the status of an autoscaler.
fn current(hpa: &Value) -> impl Iterator<Item = &Value> {
    hpa["status"]["currentMetrics"].as_array().into_iter().flatten().map(|metric| {
        let mut fields = metric.as_object().into_iter().flatten();
        fields.find(|(field, _)| *field != "type").map_or(&Value::Null, |(_, source)| &source["current"])
    })
}

async fn of_pods(s: &Stage) -> Result<()> {
    // As many requests for any number of Pods.
    let annotations = json!({"sim.pintle.dev/shared-metric.requests": "600"});
    s.create("deployments", &deployment("web", 2, json!({"template": {"metadata": {"annotations": annotations}}})))
        .await?;
    s.rolled_out("web").await?;
    let metric =
        json!({"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": target("AverageValue", "100")}});
    autoscale(s, "a", json!({"metrics": [metric], "behavior": at_once()})).await?;
    settled(s, "a", 6).await?;
    reads(s, &[json!({"averageValue": "100"})]).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn of_object(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    set_of_service(s, "hits", "500").await?;
    let metric = object_metric("hits", &target("AverageValue", "100"));
    autoscale(s, "a", json!({"metrics": [metric], "behavior": at_once()})).await?;
    settled(s, "a", 5).await?;
    set_of_service(s, "hits", "300").await?;
    settled(s, "a", 3).await?;
    reads(s, &[json!({"averageValue": "100"})]).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn value_of_object(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    set_of_service(s, "hits", "250").await?;
    let metric = object_metric("hits", &target("Value", "100"));
    // More Pods change nothing of the metric, so that only the limit stops it.
    autoscale(s, "a", json!({"metrics": [metric], "maxReplicas": 5, "behavior": at_once()})).await?;
    settled(s, "a", 5).await?;
    reason(s, "a", "ScalingLimited", "TooManyReplicas").await?;
    set_of_service(s, "hits", "105").await?;
    reads(s, &[json!({"value": "105"})]).await?;
    reason(s, "a", "ScalingLimited", "DesiredWithinRange").await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn missing(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    let metric = object_metric("hits", &target("AverageValue", "100"));
    autoscale(s, "a", json!({"metrics": [metric], "behavior": at_once()})).await?;
    reason(s, "a", "ScalingActive", "FailedGetObjectMetric").await?;
    set_of_service(s, "hits", "300").await?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await?;
    settled(s, "a", 3).await?;
    reads(s, &[json!({"averageValue": "100"})]).await
}

async fn external(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    set_external(s, "queue", "jobs", "depth", "40").await?;
    let metric = external_metric("depth", &target("AverageValue", "10"));
    autoscale(s, "a", json!({"metrics": [metric], "behavior": at_once()})).await?;
    settled(s, "a", 4).await?;
    set_external(s, "queue", "jobs", "depth", "30").await?;
    settled(s, "a", 3).await?;
    reads(s, &[json!({"averageValue": "10"})]).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn value_of_external(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    set_external(s, "queue", "jobs", "age", "1500m").await?;
    let metric = external_metric("age", &target("Value", "1"));
    autoscale(s, "a", json!({"metrics": [metric], "maxReplicas": 3, "behavior": at_once()})).await?;
    settled(s, "a", 3).await?;
    reason(s, "a", "ScalingLimited", "TooManyReplicas").await?;
    set_external(s, "queue", "jobs", "age", "1").await?;
    reads(s, &[json!({"value": "1"})]).await?;
    reason(s, "a", "ScalingLimited", "DesiredWithinRange").await
}

async fn selected(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    for (map, queue, value) in [("a", "jobs", "30"), ("b", "jobs", "20"), ("c", "mails", "900")] {
        set_external(s, map, queue, "depth", value).await?;
    }
    let mut metric = external_metric("depth", &target("AverageValue", "10"));
    metric["external"]["metric"]["selector"] = json!({"matchLabels": {"queue": "jobs"}});
    autoscale(s, "a", json!({"metrics": [metric], "behavior": at_once()})).await?;
    settled(s, "a", 5).await?;
    let other = json!([{"key": "queue", "operator": "NotIn", "values": ["jobs", "mails"]}]);
    let mut metric = external_metric("depth", &target("AverageValue", "10"));
    metric["external"]["metric"]["selector"] = json!({"matchExpressions": other});
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"metrics": [metric]}})).await?;
    reason(s, "a", "ScalingActive", "FailedGetExternalMetric").await
}

async fn no_load(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    set_external(s, "queue", "jobs", "depth", "0").await?;
    let metric = external_metric("depth", &target("AverageValue", "10"));
    let mut behavior = at_once();
    // A percentage of zero adds nothing.
    behavior["scaleUp"]["policies"][0]["type"] = json!("Pods");
    autoscale(s, "a", json!({"metrics": [metric], "behavior": behavior})).await?;
    settled(s, "a", 1).await?;
    reason(s, "a", "ScalingLimited", "TooFewReplicas").await?;
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"minReplicas": 0}})).await?;
    settled(s, "a", 0).await?;
    reason(s, "a", "ScaledToZero", "ScaledToZero").await?;
    set_external(s, "queue", "jobs", "depth", "20").await?;
    settled(s, "a", 2).await?;
    reason(s, "a", "ScaledToZero", "NotScaledToZero").await
}

async fn two(s: &Stage) -> Result<()> {
    deploy(s, 2).await?;
    set_of_service(s, "hits", "300").await?;
    set_external(s, "queue", "jobs", "depth", "50").await?;
    let metrics = [
        object_metric("hits", &target("AverageValue", "100")),
        external_metric("depth", &target("AverageValue", "10")),
    ];
    autoscale(s, "a", json!({"metrics": metrics, "behavior": at_once()})).await?;
    settled(s, "a", 5).await?;
    set_external(s, "queue", "jobs", "depth", "15").await?;
    settled(s, "a", 3).await?;
    reads(s, &[json!({"averageValue": "100"}), json!({"averageValue": "5"})]).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn unavailable(s: &Stage) -> Result<()> {
    const GROUP: &str = "custom.metrics.k8s.io";
    deploy(s, 2).await?;
    set_of_service(s, "hits", "300").await?;
    // Discovery is cached: an autoscaler elsewhere shows when all know of it.
    let other = s.beside(format!("{}-other", s.ns));
    autoscale_one(&other, &json!([object_metric("hits", &target("AverageValue", "1"))])).await?;
    reads(&other, &[json!({"averageValue": "1"})]).await?;
    let port = metrics_api::cut_off(&s.client, GROUP).await?;
    let reported = async {
        other
            .until(AUTOSCALERS, "a", "miss the API", |hpa| {
                let message = &super::condition(hpa, "ScalingActive")["message"];
                message.as_str().is_some_and(|message| message.ends_with("no known available metric versions found"))
            })
            .await?;
        let metric = object_metric("hits", &target("AverageValue", "100"));
        autoscale(s, "a", json!({"metrics": [metric], "behavior": at_once()})).await?;
        reason(s, "a", "ScalingActive", "FailedGetObjectMetric").await
    };
    let reported = reported.await;
    metrics_api::restore(&s.client, GROUP, &port).await?;
    reported?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await?;
    settled(s, "a", 3).await?;
    reads(s, &[json!({"averageValue": "100"})]).await
}

/// Creates a namespace with an autoscaler `a` of one Pod, a metric `hits` of its Service and an external metric `depth`, both 1.
async fn autoscale_one(s: &Stage, metrics: &Value) -> Result<()> {
    s.client.create_namespace(&s.ns).await?;
    s.open().await?;
    s.create("replicationcontrollers", &replication_controller("web", 1, json!({}))).await?;
    s.ready("replicationcontrollers", "web", 1).await?;
    set_of_service(s, "hits", "1").await?;
    set_external(s, "queue", "jobs", "depth", "1").await?;
    let web = json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "web"});
    autoscale(s, "a", json!({"scaleTargetRef": web, "maxReplicas": 1, "metrics": metrics})).await
}

/// Waits until whoever reconciles autoscalers reads custom and external metrics: the groups are new, and discovery is cached.
///
/// The stage must be a namespace that no scenario has.
pub(in crate::scenarios) async fn until_read(s: &Stage) -> Result<()> {
    let metrics = json!([
        object_metric("hits", &target("AverageValue", "1")),
        external_metric("depth", &target("AverageValue", "1")),
    ]);
    autoscale_one(s, &metrics).await?;
    let one = json!({"averageValue": "1"});
    reads(s, &[one.clone(), one]).await?;
    s.delete(AUTOSCALERS, "a", "Background").await?;
    s.until_gone(AUTOSCALERS, "a").await
}
