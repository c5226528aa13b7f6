//! Whether a Job starts when its time has come.

use anyhow::Result;
use serde_json::json;

use super::{KINDS, active, create, due, event, job_of, job_spec, look, observe_jobs, run, set_back};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a CronJob creates a Job when its time has come", |s| Box::pin(allowed(s))).comparing(KINDS),
    Scenario::new("a CronJob lets Jobs run beside each other", |s| Box::pin(beside(s))).comparing(KINDS),
    // Each look at the CronJob reports it, and how often it is looked at is chance.
    Scenario::new("a CronJob that forbids it starts no Job beside another", |s| Box::pin(forbidden(s)))
        .comparing(KINDS)
        .may_report(&["JobAlreadyActive"]),
    Scenario::new("a CronJob replaces the Job that runs", |s| Box::pin(replaced(s))).comparing(KINDS),
    Scenario::new("a CronJob that is suspended starts nothing until it goes on", |s| Box::pin(suspended(s)))
        .comparing(KINDS),
    Scenario::new("a CronJob does not start a Job after its deadline", |s| Box::pin(too_late(s))).comparing(KINDS),
    Scenario::new("a CronJob whose Job a quota refuses starts it later", |s| Box::pin(quota(s))).comparing(KINDS),
    Scenario::new("a CronJob leaves a Job alone that has the name of its next one", |s| Box::pin(taken(s)))
        .comparing(KINDS),
    Scenario::new("a CronJob uses a new template for the next Job only", |s| Box::pin(template(s))).comparing(KINDS),
    Scenario::new("a CronJob takes its Jobs along when it is deleted", |s| Box::pin(deleted(s))).comparing(KINDS),
];

async fn allowed(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    run(s, 1).await?;
    observe_jobs(s, "jobs").await
}

async fn beside(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    run(s, 1).await?;
    due(s, 2).await?;
    active(s, &[1, 2]).await?;
    observe_jobs(s, "jobs").await
}

async fn forbidden(s: &Stage) -> Result<()> {
    create(s, json!({"concurrencyPolicy": "Forbid"})).await?;
    run(s, 1).await?;
    due(s, 2).await?;
    event(s, "JobAlreadyActive").await?;
    observe_jobs(s, "jobs").await?;
    // The time is still due when the Job before has gone.
    s.delete("jobs", &job_of(1), "Background").await?;
    active(s, &[2]).await
}

async fn replaced(s: &Stage) -> Result<()> {
    create(s, json!({"concurrencyPolicy": "Replace"})).await?;
    run(s, 1).await?;
    run(s, 2).await?;
    s.until_gone("jobs", &job_of(1)).await?;
    observe_jobs(s, "jobs").await
}

async fn suspended(s: &Stage) -> Result<()> {
    create(s, json!({"suspend": true})).await?;
    set_back(s, "c").await?;
    look(s).await?;
    observe_jobs(s, "suspended").await?;
    s.patch("cronjobs", "c", &json!({"spec": {"suspend": false}})).await?;
    active(s, &[1]).await
}

async fn too_late(s: &Stage) -> Result<()> {
    create(s, json!({"startingDeadlineSeconds": 60})).await?;
    set_back(s, "c").await?;
    look(s).await?;
    observe_jobs(s, "too late").await?;
    s.patch("cronjobs", "c", &json!({"spec": {"startingDeadlineSeconds": null}})).await?;
    active(s, &[1]).await
}

async fn quota(s: &Stage) -> Result<()> {
    let hard = |n: &str| json!({"count/jobs.batch": n});
    let path = format!("/api/v1/namespaces/{}/resourcequotas", s.ns);
    s.client.create(&path, &json!({"metadata": {"name": "jobs"}, "spec": {"hard": hard("0")}})).await?;
    // Nobody may count for it.
    let set = async |n: &str| {
        let one = format!("{path}/jobs");
        s.client.patch(&one, PatchKind::Merge, &json!({"spec": {"hard": hard(n)}})).await?;
        let status = json!({"status": {"hard": hard(n), "used": hard("0")}});
        s.client.patch(&format!("{one}/status"), PatchKind::Merge, &status).await.map(drop)
    };
    set("0").await?;
    let probe = json!({"metadata": {"name": "probe"}, "spec": job_spec()});
    let dry_run = format!("{}?dryRun=All", s.all("jobs"));
    eventually(PATIENCE, "a quota that is obeyed", async || {
        Ok(s.client.create(&dry_run, &probe).await.err().map(drop))
    })
    .await?;
    create(s, json!({})).await?;
    set_back(s, "c").await?;
    event(s, "FailedCreate").await?;
    set("5").await?;
    active(s, &[1]).await
}

async fn taken(s: &Stage) -> Result<()> {
    s.create("jobs", &json!({"metadata": {"name": job_of(1)}, "spec": job_spec()})).await?;
    create(s, json!({})).await?;
    set_back(s, "c").await?;
    look(s).await?;
    observe_jobs(s, "jobs").await?;
    // kube-controller-manager tries the name again and again, and would use the new schedule before the last time is set.
    s.patch("cronjobs", "c", &json!({"spec": {"suspend": true}})).await?;
    due(s, 2).await?;
    s.patch("cronjobs", "c", &json!({"spec": {"suspend": false}})).await?;
    active(s, &[2]).await
}

async fn template(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    run(s, 1).await?;
    let metadata = json!({"labels": {"a": "c"}, "annotations": {"x": "z"}});
    let template = json!({"metadata": metadata, "spec": {"backoffLimit": 2}});
    s.patch("cronjobs", "c", &json!({"spec": {"jobTemplate": template}})).await?;
    due(s, 2).await?;
    active(s, &[1, 2]).await
}

async fn deleted(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    run(s, 1).await?;
    s.delete("cronjobs", "c", "Background").await?;
    s.until_gone("jobs", &job_of(1)).await?;
    create(s, json!({})).await?;
    run(s, 1).await?;
    s.delete("cronjobs", "c", "Orphan").await?;
    s.until_gone("cronjobs", "c").await
}
