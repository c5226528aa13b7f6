//! What becomes of Jobs that have finished. No Job controller runs: the scenarios write the status of Jobs.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Group, until_gone};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["ttl-after-finished-controller"], &[SCENARIOS])];

/// A finalizer that only the scenario removes.
const HOLD: &str = "example.com/hold";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a finished Job goes in the foreground when its TTL is over", |s| Box::pin(foreground(s))),
    Scenario::new("a failed Job goes when its TTL is over", |s| Box::pin(failed(s))),
    Scenario::new("a TTL that is set or lowered after a Job has finished counts", |s| Box::pin(lowered(s))),
    Scenario::new("a TTL that is raised keeps a finished Job", |s| Box::pin(raised(s))),
    Scenario::new("a Job that has not finished stays, and so does one without a TTL", |s| Box::pin(others(s))),
    Scenario::new("a Job that finished in the future stays", |s| Box::pin(future(s))),
];

fn path(s: &Stage, name: &str) -> String {
    format!("/apis/batch/v1/namespaces/{}/jobs/{name}", s.ns)
}

async fn job(s: &Stage, name: &str, ttl: Option<u32>) -> Result<Value> {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}]}});
    // The scenario is the controller of its Jobs.
    let spec = json!({"ttlSecondsAfterFinished": ttl, "template": template, "managedBy": "example.com/scenario"});
    let job = json!({"metadata": {"name": name}, "spec": spec});
    s.client.create(&format!("/apis/batch/v1/namespaces/{}/jobs", s.ns), &job).await
}

async fn set_ttl(s: &Stage, name: &str, ttl: u32) -> Result<()> {
    let patch = json!({"spec": {"ttlSecondsAfterFinished": ttl}});
    s.client.patch(&path(s, name), PatchKind::Merge, &patch).await.map(drop)
}

/// Writes the conditions with which a Job ends, the last of them so many seconds from now.
async fn end(s: &Stage, name: &str, kinds: [&str; 2], seconds: i64) -> Result<()> {
    let text = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let now = s.now();
    let then = Timestamp::from_second(now.as_second() + seconds).context("a time")?;
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": text(then)});
    let mut status = json!({"startTime": text(now), "conditions": kinds.map(condition)});
    if kinds[1] == "Complete" {
        status["completionTime"] = text(now).into();
        status["succeeded"] = 1.into();
    }
    let path = format!("{}/status", path(s, name));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": status})).await.map(drop)
}

async fn complete(s: &Stage, name: &str) -> Result<()> {
    end(s, name, ["SuccessCriteriaMet", "Complete"], 0).await
}

/// Notes which of these Jobs are there, and that none of them is being deleted.
async fn observe_left(s: &Stage, names: &[&str]) -> Result<()> {
    let mut left = Vec::new();
    for name in names {
        if let Some(job) = s.client.find(&path(s, name)).await? {
            ensure!(job["metadata"]["deletionTimestamp"].is_null(), "{name} is being deleted");
            left.push(*name);
        }
    }
    s.observe("left", &json!(left));
    Ok(())
}

/// A Job without a reason to stay is gone, so that the controller has looked at those before it.
async fn look(s: &Stage) -> Result<()> {
    job(s, "marker", Some(0)).await?;
    complete(s, "marker").await?;
    until_gone(s, &path(s, "marker")).await
}

async fn foreground(s: &Stage) -> Result<()> {
    let created = job(s, "pi", Some(1)).await?;
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": created["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true});
    let held = json!({"metadata": {"name": "held", "finalizers": [HOLD], "ownerReferences": [owner]}});
    s.create("configmaps", &held).await?;
    complete(s, "pi").await?;
    s.until("configmaps", "held", "be deleted", |held| !held["metadata"]["deletionTimestamp"].is_null()).await?;
    let job = s.client.get(&path(s, "pi")).await?;
    ensure!(!job["metadata"]["deletionTimestamp"].is_null(), "{job:#}");
    s.observe("finalizers", &job["metadata"]["finalizers"]);
    s.patch("configmaps", "held", &json!({"metadata": {"finalizers": null}})).await?;
    until_gone(s, &path(s, "pi")).await?;
    s.until_gone("configmaps", "held").await
}

async fn failed(s: &Stage) -> Result<()> {
    job(s, "pi", Some(1)).await?;
    end(s, "pi", ["FailureTarget", "Failed"], 0).await?;
    until_gone(s, &path(s, "pi")).await
}

async fn lowered(s: &Stage) -> Result<()> {
    job(s, "without", None).await?;
    job(s, "long", Some(3600)).await?;
    complete(s, "without").await?;
    complete(s, "long").await?;
    look(s).await?;
    observe_left(s, &["without", "long"]).await?;
    set_ttl(s, "without", 0).await?;
    set_ttl(s, "long", 0).await?;
    until_gone(s, &path(s, "without")).await?;
    until_gone(s, &path(s, "long")).await
}

async fn raised(s: &Stage) -> Result<()> {
    // Both would go at the same time, which is late enough to raise one of them before.
    for name in ["same", "raised"] {
        job(s, name, Some(1)).await?;
        end(s, name, ["SuccessCriteriaMet", "Complete"], 40).await?;
    }
    set_ttl(s, "raised", 3600).await?;
    until_gone(s, &path(s, "same")).await?;
    look(s).await?;
    observe_left(s, &["same", "raised"]).await
}

async fn others(s: &Stage) -> Result<()> {
    job(s, "without", None).await?;
    complete(s, "without").await?;
    job(s, "running", Some(0)).await?;
    job(s, "ending", Some(0)).await?;
    let then = s.now_text();
    let status = json!({"startTime": then, "conditions": [
        {"type": "FailureTarget", "status": "True", "lastTransitionTime": then},
    ]});
    let path = format!("{}/status", path(s, "ending"));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": status})).await?;
    look(s).await?;
    observe_left(s, &["without", "running", "ending"]).await
}

async fn future(s: &Stage) -> Result<()> {
    job(s, "late", Some(0)).await?;
    end(s, "late", ["SuccessCriteriaMet", "Complete"], 3600).await?;
    look(s).await?;
    observe_left(s, &["late"]).await
}
