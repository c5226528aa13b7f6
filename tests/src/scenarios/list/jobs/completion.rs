//! Jobs that complete, that wait, and whose size changes.

use anyhow::Result;
use serde_json::{Value, json};

use super::{JOBS, create, start, succeed, until_active, until_complete, until_condition, until_counted};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Job of Pods completes when enough have succeeded", |s| Box::pin(completes(s))).comparing(JOBS),
    Scenario::new("a Job of Pods without completions needs one success", |s| Box::pin(one_success(s))).comparing(JOBS),
    Scenario::new("a Job of Pods without any completes at once", |s| Box::pin(nothing(s))).comparing(JOBS),
    Scenario::new("a Job of Pods is suspended and resumed", |s| Box::pin(suspended(s))).comparing(JOBS),
    Scenario::new("a Job of Pods that begins suspended has none", |s| Box::pin(begins_suspended(s))).comparing(JOBS),
    Scenario::new("a Job of Pods grows and shrinks", |s| Box::pin(grows(s))).comparing(JOBS),
    Scenario::new("a Job of Pods of another controller is left alone", |s| Box::pin(managed(s))).comparing(JOBS),
];

async fn completes(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 3, "parallelism": 2})).await?;
    let pods = until_active(s, "pi", 2).await?;
    start(s, &pods[0]).await?;
    s.until("jobs", "pi", "have a ready Pod", |job| job["status"]["ready"] == 1).await?;
    s.observe("begun", &s.get("jobs", "pi").await?["status"]["uncountedTerminatedPods"]);
    succeed(s, &pods[..1]).await?;
    until_counted(s, "pi", 1, 0).await?;
    succeed(s, &until_active(s, "pi", 2).await?).await?;
    until_complete(s, "pi").await
}

async fn one_success(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"parallelism": 3, "backoffLimit": 3, "completions": null})).await?;
    let pods = until_active(s, "pi", 3).await?;
    super::end(s, &pods[0], 1).await?;
    until_counted(s, "pi", 0, 1).await?;
    let pods = until_active(s, "pi", 3).await?;
    succeed(s, &pods[..1]).await?;
    until_counted(s, "pi", 1, 1).await?;
    // The others are not replaced, whatever becomes of them.
    super::end(s, &pods[1], 1).await?;
    until_counted(s, "pi", 1, 2).await?;
    succeed(s, &until_active(s, "pi", 1).await?).await?;
    until_complete(s, "pi").await
}

async fn nothing(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 0})).await?;
    create(s, "idle", json!({"parallelism": 0})).await?;
    until_complete(s, "pi").await?;
    s.until("jobs", "idle", "be started", |job| !job["status"]["startTime"].is_null()).await
}

async fn suspended(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 3, "parallelism": 2})).await?;
    let pods = until_active(s, "pi", 2).await?;
    succeed(s, &pods[..1]).await?;
    until_counted(s, "pi", 1, 0).await?;
    until_active(s, "pi", 2).await?;
    s.patch("jobs", "pi", &json!({"spec": {"suspend": true}})).await?;
    until_condition(s, "pi", "Suspended", "True", "JobSuspended").await?;
    until_active(s, "pi", 0).await?;
    let status = s.get("jobs", "pi").await?["status"].clone();
    s.observe("start time of a suspended Job", &json!(status["startTime"].is_string()));
    s.observe("counts of a suspended Job", &json!([status["succeeded"], status["failed"], status["ready"]]));
    s.patch("jobs", "pi", &json!({"spec": {"suspend": false}})).await?;
    until_condition(s, "pi", "Suspended", "False", "JobResumed").await?;
    s.until("jobs", "pi", "be started again", |job| job["status"]["startTime"].is_string()).await?;
    succeed(s, &until_active(s, "pi", 2).await?).await?;
    until_complete(s, "pi").await
}

async fn begins_suspended(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"suspend": true, "activeDeadlineSeconds": 3600})).await?;
    until_condition(s, "pi", "Suspended", "True", "JobSuspended").await?;
    s.observe("Pods", &json!(s.list("pods").await?.len()));
    s.patch("jobs", "pi", &json!({"spec": {"suspend": false}})).await?;
    succeed(s, &until_active(s, "pi", 1).await?).await?;
    until_complete(s, "pi").await
}

async fn grows(s: &Stage) -> Result<()> {
    let resize = async |parallelism: u32| s.patch("jobs", "pi", &json!({"spec": {"parallelism": parallelism}})).await;
    create(s, "pi", json!({"completions": 6, "parallelism": 1})).await?;
    until_active(s, "pi", 1).await?;
    resize(4).await?;
    let pods = until_active(s, "pi", 4).await?;
    // Those that are not ready go first.
    start(s, &pods[3]).await?;
    s.until("jobs", "pi", "have a ready Pod", |job| job["status"]["ready"] == 1).await?;
    resize(1).await?;
    let left = until_active(s, "pi", 1).await?;
    s.observe("the ready Pod is left", &json!(left == pods[3..]));
    resize(0).await?;
    until_active(s, "pi", 0).await?;
    resize(9).await?;
    let pods = until_active(s, "pi", 6).await?;
    succeed(s, &pods).await?;
    until_complete(s, "pi").await
}

async fn managed(s: &Stage) -> Result<()> {
    create(s, "other", json!({"managedBy": "example.com/controller"})).await?;
    create(s, "own", json!({"managedBy": "kubernetes.io/job-controller"})).await?;
    succeed(s, &until_active(s, "own", 1).await?).await?;
    until_complete(s, "own").await?;
    let status: Value = s.get("jobs", "other").await?["status"].clone();
    s.observe("status of the other", &status);
    Ok(())
}
