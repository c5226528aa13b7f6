//! What a budget expects and wants.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::{BUDGETS, KINDS, budget, counts, create_owned, create_pods, event, forget, has_condition};
use crate::api::PatchKind;
use crate::definitions::{self, DEFINITIONS};
use crate::eventually;
use crate::scenarios::Scenario;
use crate::scenarios::list::{MANY_AT_ONCE, STEPS};
use crate::scenarios::stage::{Stage, deployment, replica_set, replication_controller};

/// How long kube-controller-manager may take to know a new kind.
const DISCOVERED: Duration = Duration::from_secs(120);

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a budget of a percentage follows the size of a ReplicaSet", |s| Box::pin(percentage(s)))
        .comparing(KINDS),
    Scenario::new("a budget of what may be missing rounds up", |s| Box::pin(missing(s))).comparing(KINDS),
    Scenario::new("a budget counts a Deployment once while it rolls", |s| Box::pin(rolls(s)))
        .comparing(KINDS)
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a budget counts each of two owners", |s| Box::pin(two_owners(s))).comparing(KINDS),
    Scenario::new("a budget follows its own changes", |s| Box::pin(own_changes(s))).comparing(KINDS),
    Scenario::new("a budget with another selector counts other Pods", |s| Box::pin(another_selector(s)))
        .comparing(KINDS),
    Scenario::new("a budget with an empty selector counts all Pods", |s| Box::pin(empty_selector(s))).comparing(KINDS),
    Scenario::new("a budget without a selector counts no Pods", |s| Box::pin(no_selector(s))).comparing(KINDS),
    Scenario::new("a budget reports Pods without an owner", |s| Box::pin(unmanaged(s))).comparing(KINDS),
    Scenario::new("a budget of Pods that were orphaned expects none", |s| Box::pin(orphaned(s))).comparing(KINDS),
    Scenario::new("a budget of Pods whose owner has no scale allows nothing", |s| Box::pin(no_scale(s)))
        .comparing(KINDS),
    Scenario::new("a budget of Pods of a custom kind reads its scale", |s| Box::pin(custom(s))).comparing(KINDS),
    Scenario::new("a budget keeps the conditions of others", |s| Box::pin(conditions(s))).comparing(KINDS),
];

async fn percentage(s: &Stage) -> Result<()> {
    s.create("replicasets", &replica_set("web", 3, json!({}))).await?;
    s.ready("replicasets", "web", 3).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": "50%"}))).await?;
    counts(s, "b", [1, 3, 2, 3]).await?;
    s.scale("replicasets", "web", 5).await?;
    counts(s, "b", [2, 5, 3, 5]).await?;
    s.scale("replicasets", "web", 2).await?;
    counts(s, "b", [1, 2, 1, 2]).await
}

async fn missing(s: &Stage) -> Result<()> {
    s.create("replicationcontrollers", &replication_controller("web", 5, json!({}))).await?;
    s.ready("replicationcontrollers", "web", 5).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"maxUnavailable": "30%"}))).await?;
    counts(s, "b", [2, 5, 3, 5]).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"maxUnavailable": 4}})).await?;
    counts(s, "b", [4, 5, 1, 5]).await
}

async fn rolls(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 4, json!({}))).await?;
    s.rolled_out("web").await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"maxUnavailable": 1}))).await?;
    counts(s, "b", [1, 4, 3, 4]).await?;
    s.set_image("web", "image:2").await?;
    s.rolled_out("web").await?;
    s.until_all("pods", "be four", |pods| pods.len() == 4).await?;
    counts(s, "b", [1, 4, 3, 4]).await
}

async fn two_owners(s: &Stage) -> Result<()> {
    let labels = json!({"template": {"metadata": {"labels": {"of": "both"}}}});
    s.create("replicasets", &replica_set("one", 2, labels.clone())).await?;
    s.create("replicationcontrollers", &replication_controller("two", 3, labels)).await?;
    s.ready("replicasets", "one", 2).await?;
    s.ready("replicationcontrollers", "two", 3).await?;
    let mut both = budget("b", "", &json!({"minAvailable": "70%"}));
    both["spec"]["selector"] =
        json!({"matchExpressions": [{"key": "of", "operator": "In", "values": ["both", "none"]}]});
    s.create(BUDGETS, &both).await?;
    counts(s, "b", [1, 5, 4, 5]).await
}

async fn own_changes(s: &Stage) -> Result<()> {
    s.create("replicasets", &replica_set("web", 3, json!({}))).await?;
    s.ready("replicasets", "web", 3).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": 1}))).await?;
    counts(s, "b", [2, 3, 1, 3]).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"minAvailable": "100%"}})).await?;
    counts(s, "b", [0, 3, 3, 3]).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"minAvailable": null, "maxUnavailable": "100%"}})).await?;
    counts(s, "b", [3, 3, 0, 3]).await
}

async fn another_selector(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b"]).await?;
    create_pods(s, "other", &["c", "d", "e"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": 1}))).await?;
    counts(s, "b", [1, 2, 1, 2]).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}})).await?;
    counts(s, "b", [2, 3, 1, 3]).await
}

async fn empty_selector(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b"]).await?;
    create_pods(s, "other", &["c"]).await?;
    let mut all = budget("all", "", &json!({"minAvailable": 1}));
    all["spec"]["selector"] = json!({});
    s.create(BUDGETS, &all).await?;
    counts(s, "all", [2, 3, 1, 3]).await?;
    create_pods(s, "third", &["d"]).await?;
    counts(s, "all", [3, 4, 1, 4]).await
}

async fn no_selector(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a"]).await?;
    s.create(BUDGETS, &json!({"metadata": {"name": "none"}, "spec": {"minAvailable": 0}})).await?;
    counts(s, "none", [0, 0, 0, 0]).await?;
    event(s, "NoPods", "none").await?;
    Ok(())
}

async fn unmanaged(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"maxUnavailable": 1}))).await?;
    counts(s, "b", [0, 2, 0, 0]).await?;
    event(s, "UnmanagedPods", "b").await?;
    // What the event recommends.
    s.patch(BUDGETS, "b", &json!({"spec": {"maxUnavailable": null, "minAvailable": 1}})).await?;
    counts(s, "b", [1, 2, 1, 2]).await
}

async fn orphaned(s: &Stage) -> Result<()> {
    s.create("replicasets", &replica_set("web", 2, json!({}))).await?;
    s.ready("replicasets", "web", 2).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": "50%"}))).await?;
    counts(s, "b", [1, 2, 1, 2]).await?;
    s.delete("replicasets", "web", "Orphan").await?;
    counts(s, "b", [0, 2, 0, 0]).await?;
    event(s, "UnmanagedPods", "b").await?;
    Ok(())
}

/// Waits until a budget could not be calculated.
async fn fails(s: &Stage, name: &str) -> Result<()> {
    s.until(BUDGETS, name, "fail", |budget| {
        let mut conditions = budget["status"]["conditions"].as_array().into_iter().flatten();
        budget["status"]["disruptionsAllowed"] == 0 && conditions.any(|condition| condition["reason"] == "SyncFailed")
    })
    .await
}

async fn no_scale(s: &Stage) -> Result<()> {
    let owner = s.create("configmaps", &json!({"metadata": {"name": "owner"}})).await?;
    create_owned(s, "v1", "ConfigMap", &owner, &["a", "b"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"maxUnavailable": "50%"}))).await?;
    fails(s, "b").await?;
    event(s, "CalculateExpectedPodCountFailed", "b").await?;
    // It recovers once the owners do not matter, and fails again when they do: what it counted before is not trusted.
    s.patch(BUDGETS, "b", &json!({"spec": {"maxUnavailable": null, "minAvailable": 1}})).await?;
    counts(s, "b", [1, 2, 1, 2]).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"minAvailable": "50%"}})).await?;
    fails(s, "b").await
}

async fn custom(s: &Stage) -> Result<()> {
    // A group of its own, because other scenarios are in the same cluster.
    let group = format!("{}.example.com", s.ns);
    let replicas = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let definition = json!({
        "metadata": {"name": format!("crowds.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "crowds", "singular": "crowd", "kind": "Crowd"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": replicas, "status": replicas}}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
            }],
        },
    });
    definitions::define(&s.client, &definition).await?;
    let api_version = format!("{group}/v1");
    let crowds = format!("/apis/{api_version}/namespaces/{}/crowds", s.ns);
    let crowd = json!({"apiVersion": api_version, "kind": "Crowd", "metadata": {"name": "c"}, "spec": {"replicas": 5}});
    let crowd = s.client.create(&crowds, &crowd).await?;
    create_owned(s, &api_version, "Crowd", &crowd, &["a", "b", "c"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"maxUnavailable": "40%"}))).await?;
    // kube-controller-manager knows a new kind after at most 30 seconds, and then looks again when the budget changes.
    let mut n = 0;
    eventually(DISCOVERED, "the kind to be discovered", async || {
        n += 1;
        let seen = s.patch(BUDGETS, "b", &json!({"metadata": {"annotations": {"n": n.to_string()}}})).await?;
        Ok((seen["status"]["expectedPods"] == 5).then_some(()))
    })
    .await?;
    counts(s, "b", [0, 3, 3, 5]).await?;
    let smaller = json!({"spec": {"replicas": 3}});
    s.client.patch(&format!("{crowds}/c"), PatchKind::Merge, &smaller).await?;
    // Nothing tells that the size has changed but the next Pod.
    create_owned(s, &api_version, "Crowd", &crowd, &["d"]).await?;
    counts(s, "b", [3, 4, 1, 3]).await?;
    let kept = s.get(BUDGETS, "b").await?;
    s.observe("allowed", &json!(has_condition(&kept, "DisruptionAllowed", "True")));
    // With the Pods, so that the definition can go and nothing is compared of its group.
    s.client.delete(&s.one(BUDGETS, "b"), None).await?;
    for name in ["a", "b", "c", "d"] {
        s.delete("pods", name, "Background").await?;
        s.until_gone("pods", name).await?;
    }
    s.client.delete(&format!("{DEFINITIONS}/crowds.{group}"), None).await?;
    forget(s, "CalculateExpectedPodCountFailed").await
}

async fn conditions(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": 1}))).await?;
    counts(s, "b", [1, 2, 1, 2]).await?;
    let mut conditions = s.get(BUDGETS, "b").await?["status"]["conditions"].clone();
    let other = json!({
        "type": "Approved", "status": "True", "reason": "Somebody", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.insert(0, other);
    }
    let path = format!("{}/status", s.one(BUDGETS, "b"));
    let patch = json!({"status": {"conditions": conditions}});
    s.client.patch(&path, PatchKind::Merge, &patch).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"minAvailable": 2}})).await?;
    counts(s, "b", [0, 2, 2, 2]).await
}
