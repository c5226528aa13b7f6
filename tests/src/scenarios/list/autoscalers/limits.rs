//! Sizes: windows, policies, limits and tolerances.

use anyhow::Result;
use serde_json::json;

use super::{AUTOSCALERS, KINDS, at_once, autoscale, deploy, measure, reason, settled, sized};
use crate::objects::count;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a HorizontalPodAutoscaler adds Pods until they use what they should", |s| Box::pin(up(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler removes Pods once its window is over", |s| Box::pin(down(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler stays within its limits", |s| Box::pin(limits(s))).comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler follows new limits without metrics", |s| Box::pin(new_limits(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler reports the generation that it has observed", |s| Box::pin(observed(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler adds as many Pods as its policies allow", |s| Box::pin(policies(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler with a disabled direction keeps its Pods", |s| Box::pin(disabled(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler leaves alone what its tolerance covers", |s| Box::pin(tolerance(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler waits while somebody keeps its target at zero", |s| Box::pin(zero(s)))
        .comparing(KINDS)
        .may_report(&NO_METRICS),
];

/// A look at a target that has a size again, and no Pod yet, finds no metrics.
const NO_METRICS: [&str; 2] = ["FailedGetResourceMetric", "FailedComputeMetricsReplicas"];

async fn up(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "200Mi"})).await?;
    autoscale(s, "a", json!({})).await?;
    settled(s, "a", 4).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn down(s: &Stage) -> Result<()> {
    deploy(s, "web", 4).await?;
    measure(s, "web", &json!({"memory": "10Mi"})).await?;
    autoscale(s, "a", json!({})).await?;
    reason(s, "a", "AbleToScale", "ScaleDownStabilized").await?;
    settled(s, "a", 1).await
}

async fn limits(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "900Mi"})).await?;
    autoscale(s, "a", json!({"minReplicas": 2, "maxReplicas": 3, "behavior": at_once()})).await?;
    settled(s, "a", 3).await?;
    reason(s, "a", "ScalingLimited", "TooManyReplicas").await?;
    measure(s, "web", &json!({"memory": "1Mi"})).await?;
    settled(s, "a", 2).await?;
    reason(s, "a", "ScalingLimited", "TooFewReplicas").await
}

async fn new_limits(s: &Stage) -> Result<()> {
    deploy(s, "web", 3).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    autoscale(s, "a", json!({"behavior": at_once()})).await?;
    sized(s, "a", 3).await?;
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"maxReplicas": 2}})).await?;
    settled(s, "a", 2).await?;
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"maxReplicas": 9, "minReplicas": 4}})).await?;
    settled(s, "a", 4).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn observed(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    autoscale(s, "a", json!({"behavior": at_once()})).await?;
    sized(s, "a", 2).await?;
    s.patch(AUTOSCALERS, "a", &json!({"metadata": {"labels": {"x": "y"}}})).await?;
    for (max, size) in [(5, 2), (1, 1)] {
        s.patch(AUTOSCALERS, "a", &json!({"spec": {"maxReplicas": max}})).await?;
        s.until(AUTOSCALERS, "a", "observe its spec", |hpa| {
            // API servers before 1.37 count no generations.
            count(hpa, "observedGeneration") == hpa["metadata"]["generation"].as_u64().unwrap_or(0)
                && hpa["status"]["observedGeneration"].is_u64()
        })
        .await?;
        settled(s, "a", size).await?;
    }
    Ok(())
}

async fn policies(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "900Mi"})).await?;
    let mut behavior = at_once();
    behavior["scaleUp"]["policies"] = json!([
        {"type": "Pods", "value": 1, "periodSeconds": 1800}, {"type": "Percent", "value": 10, "periodSeconds": 1800},
    ]);
    autoscale(s, "a", json!({"behavior": behavior})).await?;
    settled(s, "a", 3).await?;
    reason(s, "a", "ScalingLimited", "ScaleUpLimit").await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn disabled(s: &Stage) -> Result<()> {
    deploy(s, "web", 3).await?;
    measure(s, "web", &json!({"memory": "1Mi"})).await?;
    let mut behavior = at_once();
    behavior["scaleDown"]["selectPolicy"] = json!("Disabled");
    autoscale(s, "a", json!({"behavior": behavior})).await?;
    reason(s, "a", "ScalingLimited", "ScaleDownLimit").await?;
    sized(s, "a", 3).await
}

async fn tolerance(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "130Mi"})).await?;
    let mut behavior = at_once();
    behavior["scaleUp"]["tolerance"] = json!("500m");
    autoscale(s, "a", json!({"behavior": behavior})).await?;
    sized(s, "a", 2).await?;
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"behavior": {"scaleUp": {"tolerance": "200m"}}}})).await?;
    settled(s, "a", 3).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await
}

async fn zero(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    autoscale(s, "a", json!({"behavior": at_once()})).await?;
    sized(s, "a", 2).await?;
    s.scale("deployments", "web", 0).await?;
    reason(s, "a", "ScalingActive", "ScalingDisabled").await?;
    settled(s, "a", 0).await?;
    s.scale("deployments", "web", 2).await?;
    s.rolled_out("web").await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await?;
    settled(s, "a", 2).await
}
