//! Claims of replicas: made with them, kept, or deleted with them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{KINDS, SETS, make, ready, scale, stateful_set};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

const CLAIMS: &str = "persistentvolumeclaims";

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("claims of a StatefulSet stay when it is scaled and deleted", |s| Box::pin(stay(s))).comparing(KINDS),
    Scenario::new("claims of a StatefulSet go with replicas that are not wanted", |s| Box::pin(go_scaled(s)))
        .comparing(KINDS),
    Scenario::new("claims of a StatefulSet go with it", |s| Box::pin(go_deleted(s))).comparing(KINDS),
    Scenario::new("claims of a StatefulSet get other owners with another policy", |s| Box::pin(another_policy(s)))
        .comparing(KINDS),
    Scenario::new("claims of a StatefulSet with another controller are left to it", |s| Box::pin(conflict(s)))
        .comparing(KINDS),
    Scenario::new("a StatefulSet reports a quota that refuses claims", |s| Box::pin(quota(s))).comparing(KINDS),
];

fn with_claims(when_deleted: &str, when_scaled: &str) -> Value {
    let resources = json!({"requests": {"storage": "1Gi"}});
    json!({
        "volumeClaimTemplates": [{
            "metadata": {"name": "data", "labels": {"tier": "db"}, "annotations": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": resources},
        }],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": when_scaled},
    })
}

async fn until_claims(s: &Stage, names: &[&str]) -> Result<()> {
    s.until_all(CLAIMS, &format!("be {names:?}"), |claims| {
        let found: Vec<_> = claims.iter().filter_map(|claim| claim["metadata"]["name"].as_str()).collect();
        found == names
    })
    .await
    .map(drop)
}

/// Waits until each claim has this kind of owner, or none.
async fn until_owned(s: &Stage, kind: Option<&str>) -> Result<()> {
    s.until_all(CLAIMS, &format!("be owned by {kind:?}"), |claims| {
        claims.iter().all(|claim| claim["metadata"]["ownerReferences"][0]["kind"].as_str() == kind)
    })
    .await
    .map(drop)
}

async fn delete_set(s: &Stage) -> Result<()> {
    s.delete(SETS, "web", "Background").await?;
    s.until_gone(SETS, "web").await?;
    s.until_all("pods", "be gone", <[Value]>::is_empty).await.map(drop)
}

async fn stay(s: &Stage) -> Result<()> {
    make(s, 2, with_claims("Retain", "Retain")).await?;
    scale(s, 1).await?;
    until_claims(s, &["data-web-0", "data-web-1"]).await?;
    let old = s.get(CLAIMS, "data-web-1").await?["metadata"]["uid"].clone();
    scale(s, 2).await?;
    ensure!(s.get(CLAIMS, "data-web-1").await?["metadata"]["uid"] == old, "another claim");
    delete_set(s).await?;
    until_claims(s, &["data-web-0", "data-web-1"]).await
}

async fn go_scaled(s: &Stage) -> Result<()> {
    make(s, 3, with_claims("Retain", "Delete")).await?;
    scale(s, 1).await?;
    until_claims(s, &["data-web-0"]).await?;
    scale(s, 2).await?;
    until_claims(s, &["data-web-0", "data-web-1"]).await?;
    delete_set(s).await?;
    until_claims(s, &["data-web-0", "data-web-1"]).await
}

async fn go_deleted(s: &Stage) -> Result<()> {
    make(s, 2, with_claims("Delete", "Retain")).await?;
    until_owned(s, Some("StatefulSet")).await?;
    scale(s, 1).await?;
    until_claims(s, &["data-web-0", "data-web-1"]).await?;
    delete_set(s).await?;
    until_claims(s, &[]).await
}

async fn another_policy(s: &Stage) -> Result<()> {
    make(s, 2, with_claims("Retain", "Retain")).await?;
    until_owned(s, None).await?;
    let policy = |when: &str| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": when}}});
    s.patch(SETS, "web", &policy("Delete")).await?;
    until_owned(s, Some("StatefulSet")).await?;
    s.patch(SETS, "web", &policy("Retain")).await?;
    until_owned(s, None).await?;
    ready(s, 2).await
}

/// A claim that is there already, and that a ConfigMap controls.
async fn conflict(s: &Stage) -> Result<()> {
    let keeper = s.get("configmaps", "kube-root-ca.crt").await?["metadata"]["uid"].clone();
    let spec = with_claims("Delete", "Delete");
    let mut claim = spec["volumeClaimTemplates"][0].clone();
    claim["metadata"] = json!({
        "name": "data-web-0",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": keeper, "controller": true},
        ],
    });
    s.create(CLAIMS, &claim).await?;
    make(s, 1, spec).await?;
    s.until_all("events", "tell of the conflict", |events| {
        events.iter().any(|e| e["reason"] == "ConflictingController")
    })
    .await?;
    Ok(())
}

async fn quota(s: &Stage) -> Result<()> {
    let hard = json!({"persistentvolumeclaims": "1", "pods": "9"});
    s.limit(&hard, &json!({"persistentvolumeclaims": "0", "pods": "0"})).await?;
    s.create(SETS, &stateful_set(2, with_claims("Retain", "Retain"))).await?;
    // Two events tell of it: one of the claim, one of the Pod.
    s.until_all("events", "tell of claim and Pod", |events| {
        let tells = |what: &str| {
            let is_it = |e: &Value| {
                e["reason"] == "FailedCreate" && e["message"].as_str().is_some_and(|message| message.starts_with(what))
            };
            events.iter().any(is_it)
        };
        tells("Create Claim data-web-1") && tells("Create Pod web-1")
    })
    .await
    .context("quota")?;
    s.until(SETS, "web", "have one ready Pod", |set| set["status"]["readyReplicas"] == 1).await
}
