//! What becomes of Jobs that have started.

use anyhow::Result;
use serde_json::{Value, json};

use super::{KINDS, active, complete, create, end, event, fail, job_of, look, observe_jobs, run};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a CronJob notes how its Jobs end", |s| Box::pin(ended(s))).comparing(KINDS),
    Scenario::new("a CronJob keeps as many finished Jobs as its history has", |s| Box::pin(limits(s))).comparing(KINDS),
    // kube-controller-manager may look at the CronJob as it was before its own write, and miss the Job that it has deleted.
    Scenario::new("a CronJob without a history deletes Jobs that finish", |s| Box::pin(none(s)))
        .comparing(KINDS)
        .may_report(&[" MissingJob: "]),
    Scenario::new("a CronJob deletes finished Jobs when its history becomes shorter", |s| Box::pin(shorter(s)))
        .comparing(KINDS),
    Scenario::new("a CronJob misses a Job that somebody deletes", |s| Box::pin(missing(s))).comparing(KINDS),
    Scenario::new("a CronJob does not expect a Job that somebody creates for it", |s| Box::pin(unexpected(s)))
        .comparing(KINDS),
];

/// Whether the last success was on this day of January.
fn succeeded_on(c: &Value, day: u64) -> bool {
    c["status"]["lastSuccessfulTime"] == format!("2026-01-{:02}T00:00:01Z", day + 1)
}

async fn ended(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    run(s, 2).await?;
    complete(s, 2).await?;
    active(s, &[]).await?;
    s.until("cronjobs", "c", "have succeeded", |c| succeeded_on(c, 2)).await?;
    run(s, 3).await?;
    fail(s, 3).await?;
    active(s, &[]).await?;
    // An older success changes nothing.
    run(s, 1).await?;
    complete(s, 1).await?;
    active(s, &[]).await?;
    let last = s.get("cronjobs", "c").await?;
    s.observe("the last success is the first one", &json!(succeeded_on(&last, 2)));
    observe_jobs(s, "jobs").await
}

async fn limits(s: &Stage) -> Result<()> {
    create(s, json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1})).await?;
    for day in 1..=6 {
        run(s, day).await?;
        if day <= 4 {
            complete(s, day).await?;
        } else {
            fail(s, day).await?;
        }
        active(s, &[]).await?;
    }
    for day in [1, 2, 5] {
        s.until_gone("jobs", &job_of(day)).await?;
    }
    observe_jobs(s, "jobs").await
}

async fn none(s: &Stage) -> Result<()> {
    create(s, json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0})).await?;
    run(s, 1).await?;
    complete(s, 1).await?;
    s.until_gone("jobs", &job_of(1)).await?;
    s.until("cronjobs", "c", "have succeeded", |c| succeeded_on(c, 1)).await?;
    run(s, 2).await?;
    fail(s, 2).await?;
    s.until_gone("jobs", &job_of(2)).await?;
    active(s, &[]).await
}

async fn shorter(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    for day in [3, 1, 2] {
        run(s, day).await?;
        complete(s, day).await?;
        active(s, &[]).await?;
    }
    observe_jobs(s, "by default").await?;
    s.patch("cronjobs", "c", &json!({"spec": {"successfulJobsHistoryLimit": 1}})).await?;
    for day in [1, 2] {
        s.until_gone("jobs", &job_of(day)).await?;
    }
    observe_jobs(s, "jobs").await
}

async fn missing(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    run(s, 1).await?;
    s.delete("jobs", &job_of(1), "Background").await?;
    event(s, "MissingJob").await?;
    active(s, &[]).await?;
    // It does not start again.
    look(s).await?;
    observe_jobs(s, "jobs").await
}

async fn unexpected(s: &Stage) -> Result<()> {
    let c = create(s, json!({"concurrencyPolicy": "Forbid"})).await?;
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": c["metadata"]["uid"],
        "controller": true});
    let metadata = json!({"name": "manual", "ownerReferences": [owner], "annotations": {"cronjob.kubernetes.io/instantiate": "manual"}});
    s.create("jobs", &json!({"metadata": metadata, "spec": c["spec"]["jobTemplate"]["spec"]})).await?;
    event(s, "UnexpectedJob").await?;
    // It does not count as active, but its success does.
    run(s, 1).await?;
    end(s, "manual", 1, ["SuccessCriteriaMet", "Complete"]).await?;
    s.until("cronjobs", "c", "have succeeded", |c| succeeded_on(c, 1)).await?;
    active(s, &[1]).await
}
