//! What is deleted with what, and what a namespace holds.

use anyhow::Result;
use serde_json::json;

use super::Group;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, deployment, replica_set};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["garbage-collector-controller"], &[SCENARIOS])];

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Deployment deleted in the background takes all with it", |s| Box::pin(cascade(s, "Background"))),
    Scenario::new("a Deployment deleted in the foreground goes last", |s| Box::pin(cascade(s, "Foreground"))),
    Scenario::new("a Deployment that orphans leaves all behind", |s| Box::pin(orphan(s))),
    Scenario::new("a ReplicaSet that orphans leaves its Pods", |s| Box::pin(orphaned_pods(s))),
    Scenario::new("a dependent that comes while its owner waits goes too", |s| Box::pin(late(s))),
    Scenario::new("a dependent with another owner stays", |s| Box::pin(second_owner(s))),
    Scenario::new("a dependent of an owner that never was goes", |s| Box::pin(absent_owner(s))),
    Scenario::new("the default service account and the certificates come back", |s| Box::pin(come_back(s))),
];

async fn three(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 3, json!({}))).await?;
    s.rolled_out("web").await
}

async fn cascade(s: &Stage, policy: &str) -> Result<()> {
    three(s).await?;
    s.delete("deployments", "web", policy).await?;
    s.until_gone("deployments", "web").await?;
    s.until_all("replicasets", "be gone", <[_]>::is_empty).await?;
    s.until_all("pods", "be gone", <[_]>::is_empty).await?;
    // Pods may be deleted by the garbage collector or by what is left of the ReplicaSet controller's
    // work; who was faster shows in events alone.
    Ok(())
}

async fn orphan(s: &Stage) -> Result<()> {
    three(s).await?;
    s.delete("deployments", "web", "Orphan").await?;
    s.until_gone("deployments", "web").await?;
    s.until_all("replicasets", "be nobody's", |sets| sets[0]["metadata"]["ownerReferences"].is_null()).await?;
    Ok(())
}

async fn orphaned_pods(s: &Stage) -> Result<()> {
    s.create("replicasets", &replica_set("web", 2, json!({}))).await?;
    s.ready("replicasets", "web", 2).await?;
    s.delete("replicasets", "web", "Orphan").await?;
    s.until_gone("replicasets", "web").await?;
    s.until_all("pods", "be nobody's", |pods| {
        pods.len() == 2 && pods.iter().all(|p| p["metadata"]["ownerReferences"].is_null())
    })
    .await?;
    Ok(())
}

/// What a controller makes that does not know yet that its object is being deleted.
async fn late(s: &Stage) -> Result<()> {
    config_map(s, "owner", &[]).await?;
    config_map(s, "first", &["owner"]).await?;
    s.patch("configmaps", "first", &json!({"metadata": {"finalizers": ["example.com/hold"]}})).await?;
    s.delete("configmaps", "owner", "Foreground").await?;
    s.until("configmaps", "first", "be deleted", |c| !c["metadata"]["deletionTimestamp"].is_null()).await?;
    config_map(s, "late", &["owner"]).await?;
    s.patch("configmaps", "first", &json!({"metadata": {"finalizers": null}})).await?;
    s.until_gone("configmaps", "late").await?;
    s.until_gone("configmaps", "owner").await
}

async fn config_map(s: &Stage, name: &str, owners: &[&str]) -> Result<()> {
    let mut references = Vec::new();
    for owner in owners {
        let uid = s.get("configmaps", owner).await?["metadata"]["uid"].clone();
        references.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": true,
        }));
    }
    let object = json!({"metadata": {"name": name, "ownerReferences": references}});
    s.create("configmaps", &object).await?;
    Ok(())
}

async fn second_owner(s: &Stage) -> Result<()> {
    config_map(s, "first", &[]).await?;
    config_map(s, "second", &[]).await?;
    config_map(s, "both", &["first", "second"]).await?;
    config_map(s, "one", &["first"]).await?;
    s.delete("configmaps", "first", "Background").await?;
    s.until_gone("configmaps", "one").await?;
    s.until("configmaps", "both", "lose its owner that is gone", |c| {
        c["metadata"]["ownerReferences"].as_array().is_some_and(|o| o.len() == 1)
    })
    .await
}

async fn absent_owner(s: &Stage) -> Result<()> {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "never",
        "uid": "11111111-2222-3333-4444-555555555555"});
    let object = json!({"metadata": {"name": "child", "ownerReferences": [owner]}});
    s.create("configmaps", &object).await?;
    s.until_gone("configmaps", "child").await
}

async fn come_back(s: &Stage) -> Result<()> {
    s.delete("serviceaccounts", "default", "Background").await?;
    s.until("serviceaccounts", "default", "come back", |_| true).await?;
    s.patch("configmaps", "kube-root-ca.crt", &json!({"data": {"ca.crt": "wrong"}})).await?;
    s.until("configmaps", "kube-root-ca.crt", "be mended", |c| c["data"]["ca.crt"] != "wrong").await?;
    s.delete("configmaps", "kube-root-ca.crt", "Background").await?;
    s.until("configmaps", "kube-root-ca.crt", "come back", |_| true).await
}
