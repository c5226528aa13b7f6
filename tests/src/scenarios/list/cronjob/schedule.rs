//! Which times a schedule has.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{KINDS, active, create, event, look, observe_jobs, run, set_back};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a CronJob counts in its time zone", |s| Box::pin(zone(s))).comparing(KINDS),
    Scenario::new("a CronJob whose schedule changes waits for its next time", |s| Box::pin(changed(s)))
        .comparing(KINDS),
    Scenario::new("a CronJob that has missed many times starts one Job", |s| Box::pin(many(s))).comparing(KINDS),
    Scenario::new("a CronJob of a day that does not come is reported", |s| Box::pin(never(s))).comparing(KINDS),
    Scenario::new("a CronJob with a schedule or a time zone that is none is refused", |s| Box::pin(malformed(s)))
        .comparing(KINDS)
        .only_real("the embedded API server does not check schedules"),
    Scenario::new("a CronJob of every minute runs on the minute", |s| Box::pin(minute(s))).comparing(KINDS),
];

async fn zone(s: &Stage) -> Result<()> {
    create(s, json!({"timeZone": "Asia/Kathmandu", "schedule": "45 5 1 1 *"})).await?;
    set_back(s, "c").await?;
    // 05:45 there is midnight here.
    active(s, &[1]).await?;
    observe_jobs(s, "jobs").await
}

async fn changed(s: &Stage) -> Result<()> {
    create(s, json!({})).await?;
    run(s, 1).await?;
    s.patch("cronjobs", "c", &json!({"spec": {"schedule": super::on(2)}})).await?;
    look(s).await?;
    observe_jobs(s, "after the change").await?;
    // Any other change lets it start what it has missed.
    s.patch("cronjobs", "c", &json!({"metadata": {"annotations": {"a": "b"}}})).await?;
    active(s, &[1, 2]).await
}

async fn many(s: &Stage) -> Result<()> {
    create(s, json!({"schedule": "0 0 * * *"})).await?;
    set_back(s, "c").await?;
    event(s, "TooManyMissedTimes").await?;
    s.until("cronjobs", "c", "have a Job", |c| c["status"]["active"].as_array().is_some_and(|active| active.len() == 1))
        .await
}

async fn never(s: &Stage) -> Result<()> {
    create(s, json!({"schedule": "0 0 31 2 *"})).await?;
    event(s, "InvalidSchedule").await?;
    s.patch("cronjobs", "c", &json!({"spec": {"schedule": "0 0 1 1 *"}})).await?;
    set_back(s, "c").await?;
    active(s, &[1]).await
}

async fn malformed(s: &Stage) -> Result<()> {
    for spec in [
        json!({"schedule": "0 0 1 1"}),
        json!({"schedule": "0 0 1 13 *"}),
        json!({"schedule": "TZ=UTC 0 0 1 1 *"}),
        json!({"schedule": "@reboot"}),
        json!({"timeZone": "Europe/Nowhere"}),
        json!({"timeZone": "Local"}),
        json!({"concurrencyPolicy": "Sometimes"}),
        json!({"startingDeadlineSeconds": -1}),
    ] {
        ensure!(create(s, spec.clone()).await.is_err(), "{spec} is accepted");
    }
    look(s).await
}

/// The only one that waits for the clock: up to a minute.
async fn minute(s: &Stage) -> Result<()> {
    create(s, json!({"schedule": "* * * * *"})).await?;
    s.until_all("jobs", "be one", |jobs| jobs.len() == 1).await?;
    s.patch("cronjobs", "c", &json!({"spec": {"suspend": true}})).await?;
    s.until("cronjobs", "c", "have a Job", |c| c["status"]["active"].is_array()).await
}
