//! Deployments: scaling, pausing, history, adoption.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Group, MANY_AT_ONCE, STEPS};
use crate::scenarios::stage::{Stage, deployment};
use crate::scenarios::{Chance, Scenario};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["deployment-controller", "replicaset-controller"], &[SCENARIOS])];

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Deployment of three comes up", |s| Box::pin(comes_up(s))),
    Scenario::new("a Deployment is scaled up", |s| Box::pin(scaled(s, 2, 5))),
    Scenario::new("a Deployment is scaled down", |s| Box::pin(scaled(s, 5, 2))),
    Scenario::new("a Deployment is scaled to zero", |s| Box::pin(scaled(s, 3, 0))),
    Scenario::new("a deleted Pod is replaced", |s| Box::pin(deleted_pod(s))).meddles_with_pods(),
    Scenario::new("a paused Deployment does not roll, but scales", |s| Box::pin(paused(s, false))),
    Scenario::new("a resumed Deployment rolls", |s| Box::pin(paused(s, true))).leaves(
        Chance { states: true, ..STEPS },
        "DeploymentResumed is replaced at once, and steps are as in any rollout",
    ),
    Scenario::new("a Deployment that is paused from the start makes nothing", |s| Box::pin(paused_from_the_start(s))),
    Scenario::new("undo goes back to the last revision", |s| Box::pin(undo(s, None))).leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("undo goes back to a revision by number", |s| Box::pin(undo(s, Some(1)))).leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("the old rollback annotation is obeyed", |s| Box::pin(rollback_annotation(s, "1")))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rollback to a revision that does not exist is reported", |s| {
        Box::pin(rollback_annotation(s, "7"))
    })
    .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("old ReplicaSets go beyond the history limit", |s| Box::pin(history_limit(s)))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("annotations of a Deployment reach its ReplicaSet", |s| Box::pin(annotations(s))),
    Scenario::new("a change outside the template makes no ReplicaSet", |s| Box::pin(outside_the_template(s))).leaves(
        Chance { order: true, ..Chance::NONE },
        "Pods may count as unavailable for a moment when minReadySeconds comes in",
    ),
    Scenario::new("a ReplicaSet that was scaled by hand is scaled back", |s| Box::pin(scaled_by_hand(s)))
        .leaves(Chance { pods: true, ..Chance::NONE }, "the ReplicaSet may be scaled back before it makes the Pods")
        .meddles_with_sets(),
    Scenario::new("a Deployment adopts what another left", |s| Box::pin(adopts(s)))
        .leaves(Chance { states: true, ..Chance::NONE }, "FoundNewReplicaSet is replaced at once"),
    Scenario::new("a hash collision is counted and passed", |s| Box::pin(collision(s))),
    Scenario::new("a ReplicaSet whose labels change is released and replaced", |s| Box::pin(released(s)))
        .meddles_with_pods(),
    Scenario::new("a Deployment reports a quota that refuses Pods as a condition", |s| Box::pin(quota(s))).leaves(
        Chance { order: true, ..Chance::NONE },
        "the refusal is reported before the Pods that were made are available, or after",
    ),
    Scenario::new("a Pod is available after minReadySeconds", |s| Box::pin(min_ready_seconds(s))),
];

async fn comes_up(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 3, json!({}))).await?;
    s.rolled_out("web").await
}

async fn scaled(s: &Stage, from: u32, to: u32) -> Result<()> {
    s.create("deployments", &deployment("web", from, json!({}))).await?;
    s.rolled_out("web").await?;
    s.scale("deployments", "web", to).await?;
    s.rolled_out("web").await?;
    s.until_all("pods", "be as many", |pods| pods.len() == to as usize).await?;
    Ok(())
}

async fn deleted_pod(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 3, json!({}))).await?;
    s.rolled_out("web").await?;
    let pods = s.live_pods().await?;
    let name = pods[0]["metadata"]["name"].as_str().context("no name")?.to_owned();
    s.delete("pods", &name, "Background").await?;
    s.until_gone("pods", &name).await?;
    s.until_all("pods", "be three", |pods| pods.len() == 3).await?;
    s.rolled_out("web").await
}

async fn paused(s: &Stage, resume: bool) -> Result<()> {
    s.create("deployments", &deployment("web", 2, json!({}))).await?;
    s.rolled_out("web").await?;
    s.patch("deployments", "web", &json!({"spec": {"paused": true}})).await?;
    s.condition("web", "Progressing", "Unknown", "DeploymentPaused").await?;
    s.set_image("web", "image:2").await?;
    s.scale("deployments", "web", 3).await?;
    s.until("deployments", "web", "have three Pods", |d| d["status"]["readyReplicas"] == 3).await?;
    if resume {
        s.patch("deployments", "web", &json!({"spec": {"paused": false}})).await?;
        s.rolled_out("web").await?;
    }
    Ok(())
}

async fn paused_from_the_start(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 2, json!({"paused": true}))).await?;
    s.condition("web", "Progressing", "Unknown", "DeploymentPaused").await
}

/// Three revisions; each is complete before the next.
async fn three_revisions(s: &Stage, spec: serde_json::Value) -> Result<()> {
    s.create("deployments", &deployment("web", 2, spec)).await?;
    s.rolled_out("web").await?;
    for image in ["image:2", "image:3"] {
        s.set_image("web", image).await?;
        s.rolled_out("web").await?;
    }
    s.until_all("pods", "be of one revision", |pods| pods.len() == 2).await?;
    Ok(())
}

async fn undo(s: &Stage, revision: Option<u64>) -> Result<()> {
    three_revisions(s, json!({})).await?;
    s.undo("deployments", "web", revision).await?;
    s.rolled_out("web").await?;
    let template = s.get("deployments", "web").await?;
    let image = &template["spec"]["template"]["spec"]["containers"][0]["image"];
    ensure!(image == if revision.is_some() { "image:1" } else { "image:2" }, "rolled to {image}");
    s.until_all("pods", "be of one revision", |pods| pods.len() == 2).await?;
    Ok(())
}

async fn rollback_annotation(s: &Stage, revision: &str) -> Result<()> {
    three_revisions(s, json!({})).await?;
    let annotation = "deprecated.deployment.rollback.to";
    s.patch("deployments", "web", &json!({"metadata": {"annotations": {annotation: revision}}})).await?;
    s.until("deployments", "web", "lose the annotation", |d| d["metadata"]["annotations"][annotation].is_null())
        .await?;
    s.rolled_out("web").await?;
    s.until_all("pods", "be of one revision", |pods| pods.len() == 2).await?;
    Ok(())
}

async fn history_limit(s: &Stage) -> Result<()> {
    three_revisions(s, json!({"revisionHistoryLimit": 1})).await?;
    s.until_all("replicasets", "be two", |sets| sets.len() == 2).await?;
    Ok(())
}

async fn annotations(s: &Stage) -> Result<()> {
    let mut web = deployment("web", 1, json!({}));
    web["metadata"]["annotations"] = json!({"first": "1", "kubectl.kubernetes.io/last-applied-configuration": "x"});
    s.create("deployments", &web).await?;
    s.rolled_out("web").await?;
    s.patch("deployments", "web", &json!({"metadata": {"annotations": {"second": "2"}}})).await?;
    s.until_all("replicasets", "have both", |sets| {
        let annotations = &sets[0]["metadata"]["annotations"];
        annotations["first"] == "1" && annotations["second"] == "2"
    })
    .await?;
    Ok(())
}

async fn outside_the_template(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 2, json!({}))).await?;
    s.rolled_out("web").await?;
    let spec = json!({"minReadySeconds": 1, "strategy": {"rollingUpdate": {"maxSurge": 2}}, "revisionHistoryLimit": 3});
    s.patch("deployments", "web", &json!({"spec": spec, "metadata": {"labels": {"a": "b"}}})).await?;
    s.until_all("replicasets", "follow", |sets| sets[0]["spec"]["minReadySeconds"] == 1).await?;
    s.rolled_out("web").await
}

async fn scaled_by_hand(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 2, json!({}))).await?;
    s.rolled_out("web").await?;
    let set = s.replica_set_of("image:1").await?;
    let generation = s.get("replicasets", &set).await?["metadata"]["generation"].clone();
    s.scale("replicasets", &set, 4).await?;
    s.until("replicasets", &set, "be scaled back", |o| {
        o["spec"]["replicas"] == 2 && o["metadata"]["generation"] != generation && o["status"]["replicas"] == 2
    })
    .await?;
    s.until_all("pods", "be two", |pods| pods.len() == 2).await?;
    // Whether the two surplus Pods were ever made is a race that nothing decides; if they were, they have gone again.
    Ok(())
}

/// Leaves ReplicaSets and Pods of `web` without an owner.
async fn orphan_all(s: &Stage) -> Result<()> {
    s.delete("deployments", "web", "Orphan").await?;
    s.until_gone("deployments", "web").await?;
    s.until_all("replicasets", "be nobody's", |sets| {
        sets.iter().all(|set| set["metadata"]["ownerReferences"].is_null())
    })
    .await?;
    Ok(())
}

async fn adopts(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 2, json!({}))).await?;
    s.rolled_out("web").await?;
    let before = s.live_pods().await?;
    orphan_all(s).await?;
    s.create("deployments", &deployment("web", 2, json!({}))).await?;
    s.rolled_out("web").await?;
    let after = s.live_pods().await?;
    ensure!(before.len() == after.len(), "Pods were made anew");
    for (b, a) in before.iter().zip(&after) {
        ensure!(b["metadata"]["uid"] == a["metadata"]["uid"], "a Pod was made anew");
    }
    Ok(())
}

/// A ReplicaSet that has the name which the Deployment wants, and another template.
async fn collision(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 1, json!({}))).await?;
    s.rolled_out("web").await?;
    let set = s.replica_set_of("image:1").await?;
    orphan_all(s).await?;
    s.scale("replicasets", &set, 0).await?;
    s.until_all("pods", "be gone", <[_]>::is_empty).await?;
    let other = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other:1"}]}}}});
    s.patch("replicasets", &set, &other).await?;
    s.ready("replicasets", &set, 0).await?;
    s.create("deployments", &deployment("web", 1, json!({}))).await?;
    s.rolled_out("web").await?;
    s.until("deployments", "web", "count a collision", |d| d["status"]["collisionCount"] == 1).await
}

async fn released(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 1, json!({}))).await?;
    s.rolled_out("web").await?;
    let set = s.replica_set_of("image:1").await?;
    s.patch("replicasets", &set, &json!({"metadata": {"labels": {"app": "other"}}})).await?;
    s.until("replicasets", &set, "be nobody's", |o| o["metadata"]["ownerReferences"].is_null()).await?;
    s.until("deployments", "web", "meet its old name", |d| d["status"]["collisionCount"] == 1).await?;
    s.rolled_out("web").await
}

async fn quota(s: &Stage) -> Result<()> {
    s.limit(&json!({"pods": "2"}), &json!({"pods": "0"})).await?;
    s.create("deployments", &deployment("web", 3, json!({}))).await?;
    s.condition("web", "ReplicaFailure", "True", "FailedCreate").await?;
    s.until("deployments", "web", "have what the quota leaves", |d| d["status"]["readyReplicas"] == 1).await
}

async fn min_ready_seconds(s: &Stage) -> Result<()> {
    // Long enough to be seen on a busy machine.
    s.create("deployments", &deployment("web", 2, json!({"minReadySeconds": 20}))).await?;
    s.until("deployments", "web", "be ready, not available", |d| {
        d["status"]["readyReplicas"] == 2 && d["status"]["availableReplicas"].is_null()
    })
    .await?;
    s.rolled_out("web").await
}
