//! Replicas come, go and are replaced; Pods are adopted and released.

use anyhow::Result;
use serde_json::{Value, json};

use super::{KINDS, SETS, end_pod, make, parallel, ready, scale, stateful_set, uid, until_replaced};
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod};

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a StatefulSet comes up in order", |s| Box::pin(make(s, 3, json!({})))).comparing(KINDS),
    Scenario::new("a parallel StatefulSet comes up at once", |s| Box::pin(make(s, 4, parallel()))).comparing(KINDS),
    Scenario::new("a StatefulSet is scaled up and down in order", |s| Box::pin(scaled(s, json!({})))).comparing(KINDS),
    Scenario::new("a parallel StatefulSet is scaled up and down", |s| Box::pin(scaled(s, parallel()))).comparing(KINDS),
    Scenario::new("a StatefulSet is scaled to nothing while a Pod is not ready", |s| Box::pin(broken_down(s)))
        .comparing(KINDS),
    Scenario::new("a failed Pod of a StatefulSet is replaced", |s| Box::pin(replaced(s, Some("Failed"))))
        .meddles_with_pods()
        .comparing(KINDS),
    Scenario::new("a finished Pod of a StatefulSet is replaced", |s| Box::pin(replaced(s, Some("Succeeded"))))
        .meddles_with_pods()
        .comparing(KINDS),
    Scenario::new("a deleted Pod of a StatefulSet comes back", |s| Box::pin(replaced(s, None)))
        .meddles_with_pods()
        .comparing(KINDS),
    Scenario::new("a StatefulSet counts from another ordinal", |s| Box::pin(ordinals(s))).comparing(KINDS),
    Scenario::new("a StatefulSet adopts a Pod with the name of a replica", |s| Box::pin(adopts(s))).comparing(KINDS),
    Scenario::new("a StatefulSet releases a Pod that no longer matches", |s| Box::pin(releases(s)))
        .meddles_with_pods()
        .comparing(KINDS),
    Scenario::new("a StatefulSet that orphans leaves its Pods and revisions", |s| Box::pin(orphans(s)))
        .comparing(KINDS),
    Scenario::new("a StatefulSet takes over what its namesake left", |s| Box::pin(namesake(s))).comparing(KINDS),
    Scenario::new("a StatefulSet deleted in the foreground goes last", |s| Box::pin(foreground(s))).comparing(KINDS),
    Scenario::new("a StatefulSet waits for minReadySeconds", |s| Box::pin(min_ready(s))).comparing(KINDS),
    Scenario::new("a StatefulSet reports a quota that refuses Pods", |s| Box::pin(quota(s))).comparing(KINDS),
];

async fn scaled(s: &Stage, spec: Value) -> Result<()> {
    make(s, 2, spec).await?;
    scale(s, 4).await?;
    scale(s, 1).await
}

async fn broken_down(s: &Stage) -> Result<()> {
    make(s, 2, json!({})).await?;
    s.patch("pods", "web-1", &json!({"metadata": {"annotations": {"sim.pintle.dev/never-ready": "true"}}})).await?;
    s.until(SETS, "web", "have one ready Pod", |set| set["status"]["readyReplicas"] == 1).await?;
    s.scale(SETS, "web", 0).await?;
    s.until_all("pods", "be gone", <[Value]>::is_empty).await?;
    s.ready(SETS, "web", 0).await
}

/// Deletes a Pod, or lets it end.
async fn replaced(s: &Stage, phase: Option<&str>) -> Result<()> {
    make(s, 3, json!({})).await?;
    let old = uid(s, "web-1").await?;
    match phase {
        Some(phase) => end_pod(s, "web-1", phase).await?,
        None => s.delete("pods", "web-1", "Background").await?,
    }
    until_replaced(s, "web-1", &old).await?;
    ready(s, 3).await
}

async fn ordinals(s: &Stage) -> Result<()> {
    make(s, 2, json!({"ordinals": {"start": 3}})).await?;
    s.patch(SETS, "web", &json!({"spec": {"ordinals": {"start": 4}}})).await?;
    s.until_gone("pods", "web-3").await?;
    ready(s, 2).await?;
    s.patch(SETS, "web", &json!({"spec": {"ordinals": null}})).await?;
    s.until_gone("pods", "web-4").await?;
    ready(s, 2).await
}

async fn adopts(s: &Stage) -> Result<()> {
    s.create("pods", &pod("web-0", "web")).await?;
    s.create("pods", &pod("other-1", "web")).await?;
    s.create("pods", &pod("web-2", "other")).await?;
    s.until("pods", "web-0", "run", |p| p["status"]["phase"] == "Running").await?;
    s.create(SETS, &stateful_set(2, json!({}))).await?;
    s.ready(SETS, "web", 2).await
}

async fn releases(s: &Stage) -> Result<()> {
    make(s, 2, json!({})).await?;
    s.patch("pods", "web-1", &json!({"metadata": {"labels": {"app": "other"}}})).await?;
    s.until("pods", "web-1", "be released", |p| p["metadata"]["ownerReferences"].is_null()).await?;
    // Its name is taken as long as it is there.
    s.until(SETS, "web", "have one Pod", |set| set["status"]["replicas"] == 1).await?;
    let old = uid(s, "web-1").await?;
    s.delete("pods", "web-1", "Background").await?;
    until_replaced(s, "web-1", &old).await?;
    ready(s, 2).await
}

async fn orphans(s: &Stage) -> Result<()> {
    make(s, 2, json!({})).await?;
    s.delete(SETS, "web", "Orphan").await?;
    s.until_gone(SETS, "web").await
}

async fn namesake(s: &Stage) -> Result<()> {
    orphans(s).await?;
    let old = uid(s, "web-0").await?;
    s.create(SETS, &stateful_set(2, json!({}))).await?;
    ready(s, 2).await?;
    anyhow::ensure!(uid(s, "web-0").await? == old, "web-0 was not adopted");
    Ok(())
}

async fn foreground(s: &Stage) -> Result<()> {
    make(s, 2, json!({})).await?;
    s.delete(SETS, "web", "Foreground").await?;
    s.until_gone(SETS, "web").await?;
    s.until_all("pods", "be gone", <[Value]>::is_empty).await?;
    Ok(())
}

async fn min_ready(s: &Stage) -> Result<()> {
    s.create(SETS, &stateful_set(3, json!({"minReadySeconds": 2}))).await?;
    s.until(SETS, "web", "have three available Pods", |set| set["status"]["availableReplicas"] == 3).await
}

async fn quota(s: &Stage) -> Result<()> {
    s.limit(&json!({"pods": "2"}), &json!({"pods": "0"})).await?;
    s.create(SETS, &stateful_set(2, json!({}))).await?;
    s.until_all("events", "tell of the failure", |events| events.iter().any(|e| e["reason"] == "FailedCreate")).await?;
    s.until(SETS, "web", "have one ready Pod", |set| set["status"]["readyReplicas"] == 1).await
}
