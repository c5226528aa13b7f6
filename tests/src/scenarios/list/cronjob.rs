//! CronJobs.
//!
//! They are due once a year, so that nothing happens unless a scenario sets `status.lastScheduleTime` back: then the last of the times
//! that were missed is due. No controller runs their Jobs (`managedBy`): the scenarios write the status of these.

mod history;
mod schedule;
mod start;

use anyhow::Result;
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::objects::set_fields;
use crate::scenarios::stage::Stage;

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["cronjob-controller"], &[start::SCENARIOS, history::SCENARIOS, schedule::SCENARIOS])];

/// What is compared.
const KINDS: &[&str] = &["cronjobs", "jobs"];

/// Before any time that a scenario waits for; without its seconds.
const LONG_AGO: &str = "2025-06-01T00:00:";

/// The first of January 2026, as the minutes in the name of a Job.
const NEW_YEAR: u64 = 29_453_760;

/// The time of a day of January.
fn on(day: u64) -> String {
    format!("0 0 {day} 1 *")
}

/// The name of the Job of the CronJob `c` for a day of January 2026.
fn job_of(day: u64) -> String {
    format!("c-{}", NEW_YEAR + (day - 1) * 24 * 60)
}

/// The spec of a Job that no controller runs.
fn job_spec() -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}]});
    json!({"managedBy": "example.com/scenario", "template": {"spec": pod}})
}

/// Creates the CronJob `c` of the first of January, with this in its spec.
async fn create(s: &Stage, spec: Value) -> Result<Value> {
    create_named(s, "c", spec).await
}

async fn create_named(s: &Stage, name: &str, spec: Value) -> Result<Value> {
    let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": job_spec()});
    let mut object = json!({"metadata": {"name": name}, "spec": {"schedule": on(1), "jobTemplate": template}});
    set_fields(&mut object["spec"], &spec);
    s.create("cronjobs", &object).await
}

/// Lets the CronJob `c` be due, for a day of January.
async fn due(s: &Stage, day: u64) -> Result<()> {
    s.patch("cronjobs", "c", &json!({"spec": {"schedule": on(day)}})).await?;
    // Another time than before: that only the schedule changes would wait for its next time.
    set_last(s, "c", &format!("{LONG_AGO}{day:02}Z")).await
}

/// Lets a CronJob be due, for the last time of its schedule.
async fn set_back(s: &Stage, name: &str) -> Result<()> {
    set_last(s, name, &format!("{LONG_AGO}00Z")).await
}

async fn set_last(s: &Stage, name: &str, time: &str) -> Result<()> {
    let path = format!("{}/status", s.one("cronjobs", name));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": {"lastScheduleTime": time}})).await.map(drop)
}

fn has_fired(cron_job: &Value) -> bool {
    cron_job["status"]["lastScheduleTime"].as_str().is_some_and(|time| !time.starts_with(LONG_AGO))
}

/// Waits until the status of the CronJob `c` names these Jobs and no others, and its last time has come.
async fn active(s: &Stage, days: &[u64]) -> Result<()> {
    let jobs: Vec<String> = days.iter().map(|day| job_of(*day)).collect();
    s.until("cronjobs", "c", &format!("have the active Jobs {jobs:?}"), |c| {
        let active = c["status"]["active"].as_array().into_iter().flatten();
        let mut active: Vec<&str> = active.filter_map(|reference| reference["name"].as_str()).collect();
        active.sort_unstable();
        active == jobs && has_fired(c)
    })
    .await
}

/// Lets a Job of the CronJob `c` run, and waits until it is in the status.
async fn run(s: &Stage, day: u64) -> Result<()> {
    due(s, day).await?;
    active(s, &[day]).await
}

/// Writes the status with which a Job without Pods ends, a day after its time.
async fn end(s: &Stage, name: &str, day: u64, kinds: [&str; 2]) -> Result<()> {
    let [start, end] = [format!("2026-01-{day:02}T00:00:01Z"), format!("2026-01-{:02}T00:00:01Z", day + 1)];
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": end});
    let mut status = json!({"startTime": start, "conditions": kinds.map(condition)});
    if kinds[1] == "Complete" {
        status["completionTime"] = end.clone().into();
    }
    let path = format!("{}/status", s.one("jobs", name));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": status})).await.map(drop)
}

async fn complete(s: &Stage, day: u64) -> Result<()> {
    end(s, &job_of(day), day, ["SuccessCriteriaMet", "Complete"]).await
}

async fn fail(s: &Stage, day: u64) -> Result<()> {
    end(s, &job_of(day), day, ["FailureTarget", "Failed"]).await
}

/// Waits for an event about a CronJob.
async fn event(s: &Stage, reason: &str) -> Result<()> {
    let is_it = |event: &Value| event["involvedObject"]["kind"] == "CronJob" && event["reason"] == reason;
    s.until_all("events", &format!("have one with the reason {reason}"), |events| events.iter().any(is_it))
        .await
        .map(drop)
}

/// The controller has looked at what was before: another CronJob, which is due, has its Job.
async fn look(s: &Stage) -> Result<()> {
    create_named(s, "marker", json!({})).await?;
    set_back(s, "marker").await?;
    s.until("cronjobs", "marker", "have a Job", |marker| marker["status"]["active"].is_array() && has_fired(marker))
        .await
}

/// Notes the names of the Jobs, and the times that they are for.
async fn observe_jobs(s: &Stage, what: &str) -> Result<()> {
    let jobs = s.list("jobs").await?;
    let time = |job: &Value| job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"].clone();
    // Texts that look like times are not compared.
    let seen: Vec<Value> =
        jobs.iter().map(|job| json!([job["metadata"]["name"], format!("for {}", time(job))])).collect();
    s.observe(what, &seen.into());
    Ok(())
}
