//! Targets: missing ones, custom ones, refused changes, and those that two autoscalers have.

use anyhow::Result;
use serde_json::{Value, json};

use super::{AUTOSCALERS, KINDS, at_once, autoscale, define, define_metrics, deploy, measure};
use super::{reason, sized};
use crate::api::PatchKind;
use crate::definitions::DEFINITIONS;
use crate::objects::set_fields;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod, replica_set};
use crate::{PATIENCE, eventually};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a HorizontalPodAutoscaler waits for its target", |s| Box::pin(late(s))).comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler of a kind that nobody knows says so", |s| Box::pin(unknown(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler of a kind without a scale says so", |s| Box::pin(no_scale(s)))
        .comparing(KINDS),
    Scenario::new("a HorizontalPodAutoscaler scales a custom kind", |s| Box::pin(custom(s)))
        .comparing(KINDS)
        .may_report(&[GONE]),
    Scenario::new("a HorizontalPodAutoscaler reports a size that is refused", |s| Box::pin(refused(s)))
        .comparing(KINDS)
        .may_report(&[GONE]),
    Scenario::new("a HorizontalPodAutoscaler needs a valid selector of its target", |s| Box::pin(selectors(s)))
        .comparing(KINDS)
        .may_report(&[GONE]),
    Scenario::new("two HorizontalPodAutoscalers of the same Pods both stop", |s| Box::pin(overlap(s)))
        .comparing(KINDS)
        // They name both in any order.
        .may_report(&["are controlled by more than one HPA"]),
];

/// In the events of an autoscaler whose kind has been taken away.
const GONE: &str = "no matches for kind";

/// Two Pods of nobody that run and use 100Mi of memory.
async fn run_measured_pods(s: &Stage) -> Result<()> {
    for name in ["web-0", "web-1"] {
        s.create("pods", &pod(name, "web")).await?;
        s.until("pods", name, "run", |pod| pod["status"]["phase"] == "Running").await?;
    }
    measure(s, "web", &json!({"memory": "100Mi"})).await
}

async fn late(s: &Stage) -> Result<()> {
    define_metrics(s).await?;
    // The target adopts Pods that run and are measured: at no time is it there without metrics.
    run_measured_pods(s).await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"});
    autoscale(s, "a", json!({"scaleTargetRef": target, "behavior": at_once()})).await?;
    reason(s, "a", "AbleToScale", "FailedGetScale").await?;
    s.create("replicasets", &replica_set("web", 2, json!({}))).await?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await?;
    sized(s, "a", 2).await
}

async fn fails(s: &Stage, target: Value) -> Result<()> {
    autoscale(s, "a", json!({"scaleTargetRef": target})).await?;
    reason(s, "a", "AbleToScale", "FailedGetScale").await?;
    s.delete(AUTOSCALERS, "a", "Background").await?;
    s.until_gone(AUTOSCALERS, "a").await
}

async fn unknown(s: &Stage) -> Result<()> {
    fails(s, json!({"apiVersion": "example.com/v1", "kind": "Nothing", "name": "web"})).await
}

async fn no_scale(s: &Stage) -> Result<()> {
    fails(s, json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "web"})).await
}

/// The group of the scenario's own kind.
fn group(s: &Stage) -> String {
    format!("{}.example.com", s.ns)
}

fn fleet(s: &Stage) -> String {
    format!("/apis/{}/v1/namespaces/{}/fleets/web", group(s), s.ns)
}

/// A kind with a scale, of at most four replicas, and an object `web` of it with two replicas and Pods.
async fn define_fleet(s: &Stage) -> Result<()> {
    define_metrics(s).await?;
    let replicas = json!({"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 4}}});
    let status = json!({
        "type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
    });
    let schema = json!({"type": "object", "properties": {"spec": replicas, "status": status}});
    let scale = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    define(
        s,
        &json!({
            "metadata": {"name": format!("fleets.{}", group(s))},
            "spec": {
                "group": group(s), "scope": "Namespaced", "names": {"plural": "fleets", "kind": "Fleet"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}, "scale": scale},
                }],
            },
        }),
    )
    .await?;
    let object = json!({
        "apiVersion": format!("{}/v1", group(s)), "kind": "Fleet", "metadata": {"name": "web"}, "spec": {"replicas": 2},
    });
    s.client.create(&format!("/apis/{}/v1/namespaces/{}/fleets", group(s), s.ns), &object).await?;
    run_measured_pods(s).await
}

/// The controller of the Fleet is the scenario.
async fn set_fleet(s: &Stage, replicas: i64, selector: &str) -> Result<()> {
    let status = json!({"status": {"replicas": replicas, "selector": selector}});
    s.client.patch(&format!("{}/status", fleet(s)), PatchKind::Merge, &status).await?;
    Ok(())
}

async fn autoscale_fleet(s: &Stage, spec: Value) -> Result<()> {
    let mut all = json!({
        "scaleTargetRef": {"apiVersion": format!("{}/v1", group(s)), "kind": "Fleet", "name": "web"},
        "behavior": at_once(),
    });
    set_fields(&mut all, &spec);
    autoscale(s, "a", all).await
}

/// Takes the scenario's kind away, and the autoscaler before it, whose scale would be missing.
async fn forget_fleet(s: &Stage) -> Result<()> {
    s.delete(AUTOSCALERS, "a", "Background").await?;
    s.until_gone(AUTOSCALERS, "a").await?;
    let path = format!("{DEFINITIONS}/fleets.{}", group(s));
    s.client.delete(&path, None).await?;
    super::super::until_gone(s, &path).await
}

async fn until_fleet(s: &Stage, replicas: i64) -> Result<()> {
    eventually(PATIENCE, format!("the Fleet to have {replicas} replicas"), async || {
        Ok((s.client.get(&fleet(s)).await?["spec"]["replicas"] == replicas).then_some(()))
    })
    .await
}

async fn custom(s: &Stage) -> Result<()> {
    define_fleet(s).await?;
    set_fleet(s, 2, "app=web").await?;
    measure(s, "web", &json!({"memory": "200Mi"})).await?;
    autoscale_fleet(s, json!({})).await?;
    until_fleet(s, 4).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    reason(s, "a", "AbleToScale", "ReadyForNewScale").await?;
    sized(s, "a", 4).await?;
    forget_fleet(s).await
}

async fn refused(s: &Stage) -> Result<()> {
    define_fleet(s).await?;
    set_fleet(s, 2, "app=web").await?;
    measure(s, "web", &json!({"memory": "900Mi"})).await?;
    autoscale_fleet(s, json!({"maxReplicas": 7})).await?;
    reason(s, "a", "AbleToScale", "FailedUpdateScale").await?;
    s.patch(AUTOSCALERS, "a", &json!({"spec": {"maxReplicas": 4}})).await?;
    until_fleet(s, 4).await?;
    sized(s, "a", 4).await?;
    forget_fleet(s).await
}

async fn selectors(s: &Stage) -> Result<()> {
    define_fleet(s).await?;
    autoscale_fleet(s, json!({})).await?;
    s.until(AUTOSCALERS, "a", "miss a selector", |hpa| {
        super::condition(hpa, "ScalingActive")["message"] == "the HPA target's scale is missing a selector"
    })
    .await?;
    set_fleet(s, 2, "app in web").await?;
    s.until(AUTOSCALERS, "a", "have a selector that does not parse", |hpa| {
        let message = &super::condition(hpa, "AbleToScale")["message"];
        message.as_str().is_some_and(|message| message.contains("found 'web' expected: '('"))
    })
    .await?;
    set_fleet(s, 2, "app=web").await?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await?;
    forget_fleet(s).await
}

async fn overlap(s: &Stage) -> Result<()> {
    deploy(s, "web", 2).await?;
    measure(s, "web", &json!({"memory": "100Mi"})).await?;
    autoscale(s, "a", json!({"behavior": at_once()})).await?;
    sized(s, "a", 2).await?;
    autoscale(s, "b", json!({"behavior": at_once()})).await?;
    for name in ["a", "b"] {
        s.until(AUTOSCALERS, name, "stop", |hpa| {
            super::condition(hpa, "ScalingActive")["reason"] == "AmbiguousSelector"
        })
        .await?;
    }
    s.delete(AUTOSCALERS, "b", "Background").await?;
    reason(s, "a", "ScalingActive", "ValidMetricFound").await
}
