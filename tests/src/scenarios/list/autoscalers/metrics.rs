//! Metrics: of CPU, of containers, those that are missing, and those that cannot be read.

use anyhow::Result;
use serde_json::{Value, json};

use super::{AUTOSCALERS, KINDS, at_once, autoscale, define_metrics, deploy, measure, memory, named};
use super::{reason, settled, sized};
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, deployment};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a HorizontalPodAutoscaler adds Pods by the use of their CPU requests", |s| Box::pin(cpu(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler measures one container of its Pods", |s| Box::pin(container(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler removes no Pods that may be busy unseen", |s| Box::pin(missing(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler without metrics waits for them", |s| Box::pin(late(s))).comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler whose Pods request nothing says so", |s| Box::pin(no_requests(s)))
        .comparing(KINDS)
        .may_report(&["missing request"]),
    Scenario::new("a HorizontalPodAutoscaler adds Pods by the metrics that it can read", |s| Box::pin(some_fail(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler removes no Pods while a metric cannot be read", |s| {
        Box::pin(no_scale_down(s))
    })
    .comparing(KINDS),
];

/// A metric of CPU or memory with a target in percent.
fn utilization(name: &str, percent: u32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": name, "target": target}})
}

/// Containers of a Deployment, with requests.
fn containers(requests: &[(&str, &str)]) -> Value {
    let one = |(name, cpu): &(&str, &str)| json!({"name": name, "image": "image:1", "resources": {"requests": {"cpu": cpu, "memory": "10Mi"}}});
    let containers: Vec<Value> = requests.iter().map(one).collect();
    json!({"template": {"spec": {"containers": containers}}})
}

async fn deploy_with(s: &Stage, replicas: u32, requests: &[(&str, &str)]) -> Result<()> {
    define_metrics(s).await?;
    s.create("deployments", &deployment("web", replicas, containers(requests))).await?;
    s.rolled_out("web").await
}

async fn cpu(s: &Stage) -> Result<()> {
    deploy_with(s, 2, &[("c", "10m")]).await?;
    measure(s, "web", &json!({"cpu": "20m", "memory": "1Mi"})).await?;
    autoscale(s, "a", json!({"metrics": [utilization("cpu", 100)], "behavior": at_once()})).await?;
    settled(s, "a", 4).await?;
    measure(s, "web", &json!({"cpu": "10m", "memory": "1Mi"})).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn container(s: &Stage) -> Result<()> {
    deploy_with(s, 2, &[("c", "10m"), ("proxy", "1")]).await?;
    measure(s, "web", &json!({"cpu": "15m"})).await?;
    let target = json!({"type": "Utilization", "averageUtilization": 100});
    let metric = json!({
        "type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": target},
    });
    autoscale(s, "a", json!({"metrics": [metric], "behavior": at_once()})).await?;
    settled(s, "a", 3).await?;
    measure(s, "web", &json!({"cpu": "10m"})).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn missing(s: &Stage) -> Result<()> {
    deploy(s, "web", 4).await?;
    measure(s, "web", &json!({"memory": "20Mi"})).await?;
    // Of two Pods nothing is known: they count as 100Mi, so that the four use 240Mi.
    let pods = s.live_pods().await?;
    for pod in pods.iter().take(2) {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods/{}", s.ns, named(pod));
        s.client.delete(&path, None).await?;
    }
    let mut behavior = at_once();
    behavior["scaleDown"]["policies"] = json!([{"type": "Pods", "value": 9, "periodSeconds": 1}]);
    autoscale(s, "a", json!({"behavior": behavior, "minReplicas": 3})).await?;
    settled(s, "a", 3).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn late(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    autoscale(s, "a", json!({"behavior": at_once()})).await?;
    reason(s, "a", "ScalingActive", "FailedGetResourceMetric").await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await?;
    sized(s, "a", 2).await
}

async fn no_requests(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"cpu": "1m", "memory": "1Mi"})).await?;
    autoscale(s, "a", json!({"metrics": [utilization("memory", 100)], "behavior": at_once()})).await?;
    s.until(AUTOSCALERS, "a", "say that a request is missing", |hpa| {
        let message = &super::condition(hpa, "ScalingActive")["message"];
        message.as_str().is_some_and(|message| message.contains("missing request for memory in container c of Pod"))
    })
    .await?;
    s.delete(AUTOSCALERS, "a", "Background").await?;
    s.until_gone(AUTOSCALERS, "a").await
}

/// Metrics that nobody serves, and one of memory.
fn unserved() -> Value {
    let queue = json!({
        "metric": {"name": "queue", "selector": {"matchLabels": {"q": "jobs"}}},
        "target": {"type": "AverageValue", "averageValue": "30"},
    });
    let rate = json!({"metric": {"name": "rate"}, "target": {"type": "AverageValue", "averageValue": "1"}});
    json!([{"type": "External", "external": queue}, {"type": "Pods", "pods": rate}, memory("100Mi")])
}

async fn some_fail(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "200Mi"})).await?;
    autoscale(s, "a", json!({"metrics": unserved(), "behavior": at_once()})).await?;
    settled(s, "a", 4).await?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await?;
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"metrics": [memory("100Mi")]}})).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    s.until(AUTOSCALERS, "a", "have one metric", |hpa| {
        hpa["status"]["currentMetrics"].as_array().map(Vec::len) == Some(1)
    })
    .await?;
    sized(s, "a", 4).await
}

async fn no_scale_down(s: &Stage) -> Result<()> {
    deploy(s, "web", 3).await?;
    measure(s, "web", &json!({"memory": "1Mi"})).await?;
    autoscale(s, "a", json!({"metrics": unserved(), "behavior": at_once()})).await?;
    reason(s, "a", "ScalingActive", "FailedGetExternalMetric").await?;
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"metrics": [memory("100Mi")]}})).await?;
    settled(s, "a", 1).await
}
