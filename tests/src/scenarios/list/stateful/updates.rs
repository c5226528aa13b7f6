//! Templates are rolled out, by partition or by hand, and rolled back.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    KINDS, SETS, is_observed, make, parallel, ready, rolled_out, scale, set_image, set_template, uid, until_replaced,
    updated,
};
use crate::api::PatchKind;
use crate::objects::has_condition;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a StatefulSet rolls from its last replica to its first", |s| Box::pin(rolls(s, json!({}))))
        .comparing(KINDS),
    Scenario::new("a parallel StatefulSet rolls one replica at a time", |s| Box::pin(rolls(s, parallel())))
        .comparing(KINDS),
    Scenario::new("a StatefulSet rolls down to its partition", |s| Box::pin(partition(s))).comparing(KINDS),
    Scenario::new("a StatefulSet with OnDelete waits for the user", |s| Box::pin(on_delete(s)))
        .meddles_with_pods()
        .comparing(KINDS),
    Scenario::new("a StatefulSet with a broken template is stuck until its Pod is deleted", |s| Box::pin(stuck(s)))
        .meddles_with_pods()
        .comparing(KINDS),
    Scenario::new("a parallel StatefulSet with a broken template recovers", |s| Box::pin(recovers(s))).comparing(KINDS),
    Scenario::new("a parallel StatefulSet replaces outdated Pods that are not ready first", |s| Box::pin(unready(s)))
        .meddles_with_pods()
        .comparing(KINDS),
    Scenario::new("a StatefulSet with OnDelete is updated when the user has deleted all its Pods", |s| {
        Box::pin(all_deleted(s))
    })
    .meddles_with_pods()
    .comparing(KINDS),
    Scenario::new("a StatefulSet keeps the conditions of others", |s| Box::pin(conditions(s))).comparing(KINDS),
    Scenario::new("a StatefulSet is rolled back to a revision that it has", |s| Box::pin(rolled_back(s)))
        .comparing(KINDS),
    Scenario::new("a StatefulSet keeps no more revisions than its limit", |s| Box::pin(limited(s))).comparing(KINDS),
    Scenario::new("a StatefulSet is scaled while it rolls to its partition", |s| Box::pin(scaled(s))).comparing(KINDS),
];

fn partitioned(partition: u32) -> Value {
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}})
}

async fn rolls(s: &Stage, spec: Value) -> Result<()> {
    make(s, 3, spec).await?;
    set_image(s, "image:2").await?;
    rolled_out(s, 3).await
}

async fn partition(s: &Stage) -> Result<()> {
    make(s, 3, partitioned(2)).await?;
    set_image(s, "image:2").await?;
    updated(s, 1, 3).await?;
    // One below the partition comes back as it was.
    s.patch(SETS, "web", &json!({"spec": partitioned(1)})).await?;
    updated(s, 2, 3).await?;
    s.patch(SETS, "web", &json!({"spec": partitioned(0)})).await?;
    rolled_out(s, 3).await
}

async fn on_delete(s: &Stage) -> Result<()> {
    make(s, 3, json!({"updateStrategy": {"type": "OnDelete"}})).await?;
    set_image(s, "image:2").await?;
    s.until(SETS, "web", "have another revision", |set| {
        set["status"]["updateRevision"] != set["status"]["currentRevision"]
    })
    .await?;
    for pod in ["web-0", "web-2"] {
        let old = uid(s, pod).await?;
        s.delete("pods", pod, "Background").await?;
        until_replaced(s, pod, &old).await?;
    }
    updated(s, 2, 3).await
}

async fn break_template(s: &Stage) -> Result<()> {
    set_template(s, "image:2", json!({"sim.pintle.dev/never-ready": "true"})).await?;
    s.until_all("pods", "have a broken one", |pods| {
        let is_broken = |p: &Value| {
            p["metadata"]["name"] == "web-2"
                && p["spec"]["containers"][0]["image"] == "image:2"
                && p["status"]["phase"] == "Running"
        };
        pods.iter().any(is_broken)
    })
    .await?;
    s.until(SETS, "web", "count it", |set| set["status"]["updatedReplicas"] == 1 && set["status"]["readyReplicas"] == 2)
        .await
}

async fn stuck(s: &Stage) -> Result<()> {
    make(s, 3, json!({})).await?;
    break_template(s).await?;
    let old = uid(s, "web-2").await?;
    set_template(s, "image:3", json!({"sim.pintle.dev/never-ready": null})).await?;
    s.until(SETS, "web", "see the template", |set| is_observed(set) && set["status"]["updatedReplicas"].is_null())
        .await?;
    ensure!(uid(s, "web-2").await? == old, "the broken Pod was deleted");
    s.delete("pods", "web-2", "Background").await?;
    until_replaced(s, "web-2", &old).await?;
    rolled_out(s, 3).await
}

async fn recovers(s: &Stage) -> Result<()> {
    make(s, 3, parallel()).await?;
    break_template(s).await?;
    set_template(s, "image:3", json!({"sim.pintle.dev/never-ready": null})).await?;
    rolled_out(s, 3).await
}

async fn unready(s: &Stage) -> Result<()> {
    let mut spec = parallel();
    spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    make(s, 3, spec).await?;
    s.patch("pods", "web-0", &json!({"metadata": {"annotations": {"sim.pintle.dev/never-ready": "true"}}})).await?;
    s.until(SETS, "web", "count it", |set| set["status"]["readyReplicas"] == 2).await?;
    set_image(s, "image:2").await?;
    rolled_out(s, 3).await
}

async fn all_deleted(s: &Stage) -> Result<()> {
    make(s, 2, json!({"updateStrategy": {"type": "OnDelete"}})).await?;
    set_image(s, "image:2").await?;
    for (pod, n_updated) in [("web-0", 1), ("web-1", 2)] {
        let old = uid(s, pod).await?;
        s.delete("pods", pod, "Background").await?;
        until_replaced(s, pod, &old).await?;
        s.until(SETS, "web", "count it", |set| set["status"]["updatedReplicas"] == n_updated).await?;
    }
    rolled_out(s, 2).await
}

async fn conditions(s: &Stage) -> Result<()> {
    make(s, 1, json!({})).await?;
    let condition = json!({"type": "example.com/Checked", "status": "True", "reason": "Checked"});
    let path = format!("{}/status", s.one(SETS, "web"));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": {"conditions": [condition]}})).await?;
    scale(s, 2).await?;
    s.until(SETS, "web", "have the condition", |set| has_condition(set, "example.com/Checked", "True")).await
}

async fn rolled_back(s: &Stage) -> Result<()> {
    make(s, 2, json!({})).await?;
    set_image(s, "image:2").await?;
    rolled_out(s, 2).await?;
    s.undo("statefulsets", "web", None).await?;
    rolled_out(s, 2).await?;
    s.until_all("controllerrevisions", "be two", |revisions| revisions.len() == 2).await?;
    ready(s, 2).await
}

async fn limited(s: &Stage) -> Result<()> {
    make(s, 1, json!({"revisionHistoryLimit": 1})).await?;
    for image in ["image:2", "image:3", "image:4"] {
        set_image(s, image).await?;
        rolled_out(s, 1).await?;
    }
    s.until_all("controllerrevisions", "be two", |revisions| revisions.len() == 2).await?;
    Ok(())
}

async fn scaled(s: &Stage) -> Result<()> {
    make(s, 3, partitioned(2)).await?;
    set_image(s, "image:2").await?;
    updated(s, 1, 3).await?;
    scale(s, 5).await?;
    updated(s, 3, 5).await?;
    scale(s, 1).await?;
    scale(s, 2).await
}
