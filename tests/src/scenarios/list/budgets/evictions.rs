//! Evictions, which the API server grants by the status of a budget.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{BUDGETS, KINDS, budget, counts, create_owned, create_pods, event, forget};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, deployment, pod};

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a budget allows evictions until too few Pods are left", |s| Box::pin(until_refused(s)))
        .comparing(KINDS),
    Scenario::new("a budget allows the next eviction once the last Pod is replaced", |s| Box::pin(replaced(s)))
        .comparing(KINDS)
        .meddles_with_pods(),
    Scenario::new("a budget that is deleted refuses nothing", |s| Box::pin(deleted(s))).comparing(KINDS),
    Scenario::new("a budget refuses the eviction of a Pod of two budgets", |s| Box::pin(two(s))).comparing(KINDS),
    Scenario::new("a budget that fails refuses evictions", |s| Box::pin(failed(s))).comparing(KINDS),
    Scenario::new("a budget does not count Pods that are not ready", |s| Box::pin(not_ready(s))).comparing(KINDS),
    Scenario::new("a budget forgets an eviction that deletes nothing", |s| Box::pin(not_deleted(s))).comparing(KINDS),
];

/// Asks for an eviction. Returns the status code of the answer.
async fn evict(s: &Stage, name: &str) -> Result<u16> {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": s.ns}});
    let path = format!("{}/eviction", s.one("pods", name));
    Ok(s.client.request("POST", &path, &[], Some(serde_json::to_vec(&body)?)).await?.status)
}

async fn expect(s: &Stage, name: &str, code: u16) -> Result<()> {
    let answer = evict(s, name).await?;
    ensure!(answer == code, "the eviction of {name} is answered by {answer} instead of {code}");
    s.observe(&format!("eviction of {name}"), &json!(code));
    Ok(())
}

async fn until_refused(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b", "c", "d"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": 2}))).await?;
    counts(s, "b", [2, 4, 2, 4]).await?;
    for name in ["a", "b"] {
        expect(s, name, 201).await?;
    }
    expect(s, "c", 429).await?;
    for name in ["a", "b"] {
        s.until_gone("pods", name).await?;
    }
    counts(s, "b", [0, 2, 2, 2]).await?;
    expect(s, "d", 429).await
}

async fn replaced(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 3, json!({}))).await?;
    s.rolled_out("web").await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"maxUnavailable": 1}))).await?;
    for _ in 0..3 {
        counts(s, "b", [1, 3, 2, 3]).await?;
        let pods = s.live_pods().await?;
        let name = pods[0]["metadata"]["name"].as_str().unwrap_or_default();
        let answer = evict(s, name).await?;
        ensure!(answer == 201, "the eviction is answered by {answer}");
        s.until_gone("pods", name).await?;
        s.rolled_out("web").await?;
    }
    counts(s, "b", [1, 3, 2, 3]).await
}

async fn deleted(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": "100%"}))).await?;
    counts(s, "b", [0, 2, 0, 0]).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"minAvailable": 2}})).await?;
    counts(s, "b", [0, 2, 2, 2]).await?;
    expect(s, "a", 429).await?;
    s.delete(BUDGETS, "b", "Background").await?;
    s.until_gone(BUDGETS, "b").await?;
    expect(s, "a", 201).await?;
    s.until_gone("pods", "a").await
}

async fn two(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b"]).await?;
    s.create(BUDGETS, &budget("first", "web", &json!({"minAvailable": 0}))).await?;
    s.create(BUDGETS, &budget("second", "web", &json!({"minAvailable": 1}))).await?;
    counts(s, "first", [2, 2, 0, 2]).await?;
    counts(s, "second", [1, 2, 1, 2]).await?;
    expect(s, "a", 500).await?;
    // Any change of a Pod is a reason to warn. Which of the budgets the warning names is chance.
    s.patch("pods", "b", &json!({"metadata": {"labels": {"changed": "yes"}}})).await?;
    let warning = event(s, "MultiplePodDisruptionBudgets", "b").await?;
    let message = warning["message"].as_str().unwrap_or_default();
    s.observe("warning", &json!(message.replace("\"first\"", "<one>").replace("\"second\"", "<one>")));
    s.observe("source", &warning["source"]["component"]);
    forget(s, "MultiplePodDisruptionBudgets").await
}

async fn failed(s: &Stage) -> Result<()> {
    let owner = s.create("configmaps", &json!({"metadata": {"name": "owner"}})).await?;
    create_owned(s, "v1", "ConfigMap", &owner, &["a"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": 0}))).await?;
    counts(s, "b", [1, 1, 0, 1]).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"minAvailable": "0%"}})).await?;
    s.until(BUDGETS, "b", "allow nothing", |budget| budget["status"]["disruptionsAllowed"] == 0).await?;
    expect(s, "a", 429).await
}

async fn not_ready(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a"]).await?;
    let mut broken = pod("broken", "web");
    broken["metadata"]["annotations"] = json!({"sim.pintle.dev/never-ready": "true"});
    s.create("pods", &broken).await?;
    s.until("pods", "broken", "run", |pod| pod["status"]["phase"] == "Running").await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": 2}))).await?;
    counts(s, "b", [0, 1, 2, 2]).await?;
    expect(s, "a", 429).await?;
    // By the default policy it is guarded as well while the budget is not met.
    expect(s, "broken", 429).await?;
    s.patch(BUDGETS, "b", &json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})).await?;
    counts(s, "b", [0, 1, 2, 2]).await?;
    let answer = evict(s, "broken").await?;
    ensure!(answer == 201, "by the policy it may be evicted: {answer}");
    s.until_gone("pods", "broken").await?;
    counts(s, "b", [0, 1, 2, 1]).await
}

async fn not_deleted(s: &Stage) -> Result<()> {
    create_pods(s, "web", &["a", "b"]).await?;
    s.create(BUDGETS, &budget("b", "web", &json!({"minAvailable": 1}))).await?;
    counts(s, "b", [1, 2, 1, 2]).await?;
    // As if the API server had evicted one 80 seconds ago, and stopped before it deleted the Pod. It counts as gone for 120.
    let begun = s.now() - jiff::SignedDuration::from_secs(80);
    let begun = begun.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"status": {"disruptedPods": {"a": begun, "gone": begun}}});
    s.client.patch(&format!("{}/status", s.one(BUDGETS, "b")), PatchKind::Merge, &status).await?;
    s.until(BUDGETS, "b", "count the Pod as gone", |budget| {
        let disrupted = &budget["status"]["disruptedPods"];
        budget["status"]["currentHealthy"] == 1 && disrupted["a"] == begun && disrupted["gone"].is_null()
    })
    .await?;
    expect(s, "b", 429).await?;
    counts(s, "b", [1, 2, 1, 2]).await?;
    let warning: Value = event(s, "NotDeleted", "a").await?;
    s.observe("about", &warning["involvedObject"]["kind"]);
    Ok(())
}
