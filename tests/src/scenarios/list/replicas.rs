//! ReplicaSets and ReplicationControllers on their own.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Group;
use crate::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod, replica_set, replication_controller};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[
    (&["replicaset-controller"], &[OF_REPLICA_SETS]),
    (&["replicationcontroller-controller"], &[OF_REPLICATION_CONTROLLERS]),
];

const OF_REPLICA_SETS: &[Scenario] = &[
    Scenario::new("a ReplicaSet is scaled up and down", |s| Box::pin(up_and_down(s, SET))),
    Scenario::new("a ReplicaSet adopts Pods that match", |s| Box::pin(adopts(s, SET))),
    Scenario::new("a ReplicaSet releases a Pod that no longer matches", |s| Box::pin(releases(s, SET))),
    Scenario::new("a ReplicaSet deletes surplus Pods that it adopted", |s| Box::pin(surplus(s))),
    Scenario::new("two ReplicaSets of one selector keep their own Pods", |s| Box::pin(one_selector(s))),
    Scenario::new("the Pods that cost least to delete go first", |s| Box::pin(deletion_cost(s))),
    Scenario::new("Pods that are not ready go before those that are", |s| Box::pin(unready_first(s))),
    Scenario::new("a failed Pod is replaced and stays", |s| Box::pin(finished(s, SET, "Failed"))),
    Scenario::new("a ReplicaSet with another template keeps its Pods", |s| Box::pin(other_template(s))),
    Scenario::new("a ReplicaSet reports a quota that refuses Pods", |s| Box::pin(quota(s, SET))),
    Scenario::new("a ReplicaSet counts what is available and fully labeled", |s| Box::pin(counts(s))),
];

const OF_REPLICATION_CONTROLLERS: &[Scenario] = &[
    Scenario::new("a ReplicationController is scaled up and down", |s| Box::pin(up_and_down(s, CONTROLLER))),
    Scenario::new("a ReplicationController adopts Pods that match", |s| Box::pin(adopts(s, CONTROLLER))),
    Scenario::new("a ReplicationController releases a Pod that no longer matches", |s| {
        Box::pin(releases(s, CONTROLLER))
    }),
    Scenario::new("a finished Pod of a ReplicationController is replaced", |s| {
        Box::pin(finished(s, CONTROLLER, "Succeeded"))
    }),
    Scenario::new("a ReplicationController reports a quota that refuses Pods", |s| Box::pin(quota(s, CONTROLLER))),
];

/// What a ReplicaSet and a ReplicationController have in common here.
#[derive(Clone, Copy)]
struct Kind {
    plural: &'static str,
    make: fn(&str, u32, Value) -> Value,
}

const SET: Kind = Kind { plural: "replicasets", make: replica_set };

const CONTROLLER: Kind = Kind { plural: "replicationcontrollers", make: replication_controller };

async fn make(s: &Stage, kind: Kind, replicas: u32) -> Result<()> {
    s.create(kind.plural, &(kind.make)("web", replicas, json!({}))).await?;
    s.ready(kind.plural, "web", replicas.into()).await
}

async fn until_n_pods(s: &Stage, n: usize) -> Result<()> {
    s.until_all("pods", &format!("be {n}"), |pods| pods.len() == n).await?;
    Ok(())
}

async fn up_and_down(s: &Stage, kind: Kind) -> Result<()> {
    make(s, kind, 2).await?;
    for n in [6, 1, 0, 3] {
        s.scale(kind.plural, "web", n).await?;
        s.ready(kind.plural, "web", n.into()).await?;
        until_n_pods(s, n as usize).await?;
    }
    Ok(())
}

async fn adopts(s: &Stage, kind: Kind) -> Result<()> {
    s.create("pods", &pod("orphan", "web")).await?;
    let theirs = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "controller": true,
        "uid": s.get("configmaps", "kube-root-ca.crt").await?["metadata"]["uid"]}]);
    let mut taken = pod("taken", "web");
    taken["metadata"]["ownerReferences"] = theirs;
    taken["metadata"]["ownerReferences"][0]["name"] = json!("kube-root-ca.crt");
    s.create("pods", &taken).await?;
    make(s, kind, 2).await?;
    until_n_pods(s, 3).await
}

async fn releases(s: &Stage, kind: Kind) -> Result<()> {
    make(s, kind, 2).await?;
    let pods = s.live_pods().await?;
    let name = pods[0]["metadata"]["name"].as_str().context("no name")?.to_owned();
    s.patch("pods", &name, &json!({"metadata": {"labels": {"app": "other"}}})).await?;
    s.until("pods", &name, "be released", |p| p["metadata"]["ownerReferences"].is_null()).await?;
    until_n_pods(s, 3).await?;
    s.ready(kind.plural, "web", 2).await
}

async fn surplus(s: &Stage) -> Result<()> {
    for name in ["one", "two", "three"] {
        s.create("pods", &pod(name, "web")).await?;
    }
    make(s, SET, 0).await?;
    until_n_pods(s, 0).await
}

async fn one_selector(s: &Stage) -> Result<()> {
    for name in ["left", "right"] {
        let mut set = replica_set(name, 2, json!({}));
        set["spec"]["selector"] = json!({"matchLabels": {"app": "shared"}});
        set["spec"]["template"]["metadata"]["labels"] = json!({"app": "shared"});
        s.create("replicasets", &set).await?;
        s.ready("replicasets", name, 2).await?;
    }
    s.scale("replicasets", "left", 1).await?;
    s.ready("replicasets", "left", 1).await?;
    until_n_pods(s, 3).await
}

/// Marks the Pods `n` = 0, 1, 2, ... in any order, and gives each what `annotations` makes of it.
async fn mark(s: &Stage, annotations: fn(usize) -> Value) -> Result<()> {
    for (n, pod) in s.live_pods().await?.iter().enumerate() {
        let name = pod["metadata"]["name"].as_str().context("no name")?;
        let labels = json!({"n": n.to_string()});
        s.patch("pods", name, &json!({"metadata": {"labels": labels, "annotations": annotations(n)}})).await?;
    }
    Ok(())
}

async fn deletion_cost(s: &Stage) -> Result<()> {
    make(s, SET, 4).await?;
    mark(s, |n| json!({"controller.kubernetes.io/pod-deletion-cost": (10 * n).to_string()})).await?;
    s.until("replicasets", "web", "be as before", |o| o["status"]["readyReplicas"] == 4).await?;
    s.scale("replicasets", "web", 2).await?;
    s.ready("replicasets", "web", 2).await?;
    until_n_pods(s, 2).await
}

async fn unready_first(s: &Stage) -> Result<()> {
    make(s, SET, 3).await?;
    mark(s, |n| match n {
        1 => json!({"sim.pintle.dev/never-ready": "true"}),
        _ => json!({}),
    })
    .await?;
    s.until("replicasets", "web", "have two ready", |o| o["status"]["readyReplicas"] == 2).await?;
    s.scale("replicasets", "web", 2).await?;
    s.ready("replicasets", "web", 2).await?;
    until_n_pods(s, 2).await
}

async fn finished(s: &Stage, kind: Kind, phase: &str) -> Result<()> {
    make(s, kind, 2).await?;
    let pods = s.live_pods().await?;
    let name = pods[0]["metadata"]["name"].as_str().context("no name")?;
    let status = json!({"status": {"phase": phase}});
    let path = format!("{}/status", s.one("pods", name));
    s.client.patch(&path, PatchKind::Merge, &status).await?;
    until_n_pods(s, 3).await?;
    s.ready(kind.plural, "web", 2).await
}

async fn other_template(s: &Stage) -> Result<()> {
    make(s, SET, 1).await?;
    let template = json!({"spec": {"containers": [{"name": "c", "image": "image:2"}]}});
    s.patch("replicasets", "web", &json!({"spec": {"template": template}})).await?;
    s.ready("replicasets", "web", 1).await?;
    s.scale("replicasets", "web", 2).await?;
    s.ready("replicasets", "web", 2).await
}

async fn quota(s: &Stage, kind: Kind) -> Result<()> {
    s.limit(&json!({"pods": "2"}), &json!({"pods": "0"})).await?;
    s.create(kind.plural, &(kind.make)("web", 3, json!({}))).await?;
    s.until(kind.plural, "web", "tell of the failure", |o| {
        o["status"]["conditions"][0]["type"] == "ReplicaFailure" && o["status"]["readyReplicas"] == 1
    })
    .await?;
    ensure!(s.live_pods().await?.len() == 2, "more Pods than the quota");
    Ok(())
}

async fn counts(s: &Stage) -> Result<()> {
    let mut set = replica_set("web", 2, json!({"minReadySeconds": 1}));
    set["spec"]["template"]["metadata"]["labels"]["extra"] = json!("yes");
    s.create("replicasets", &set).await?;
    s.until("replicasets", "web", "be available", |o| o["status"]["availableReplicas"] == 2).await?;
    let pods = s.live_pods().await?;
    let name = pods[0]["metadata"]["name"].as_str().context("no name")?;
    s.patch("pods", name, &json!({"metadata": {"labels": {"extra": null}}})).await?;
    s.until("replicasets", "web", "count labels", |o| o["status"]["fullyLabeledReplicas"] == 1).await
}
