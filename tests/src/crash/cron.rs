//! A CronJob whose time has come: it fires, its Job completes, and the CronJob takes note.
//!
//! Rules, at each write:
//! 1. a Job of a name is created once: the name is the time for which it was due;
//! 2. what the CronJob names as active was created for it;
//! 3. the time of the last schedule never goes back.
//!
//! Nothing is left active, and no event tells of an unexpected or missing Job.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, ensure};
use pintle_sim::{EventType, SimCluster, WriteRecord};
use serde_json::json;

use super::{Story, User, replay};
use crate::objects;

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
/// Far enough in the past that a time has been missed, near enough that it is not one of many.
const PAST: std::time::Duration = std::time::Duration::from_secs(90);

/// The story.
pub const FIRE: Story = Story {
    name: "CronJob",
    controllers: &["cronjob-controller", "job-controller", "garbage-collector-controller"],
    flags: &[],
    tell: |user| Box::pin(tell(user)),
    is_done,
    check,
};

async fn tell(user: &User<'_>) -> Result<()> {
    let pod = json!({
        "metadata": {"annotations": {"sim.pintle.dev/run-for": "50ms"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "tick:1"}]},
    });
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *", "suspend": true, "successfulJobsHistoryLimit": 10,
            "jobTemplate": {"spec": {"template": pod}},
        },
    });
    user.create(CRON_JOBS, &cron_job).await?;
    user.patch(&format!("{CRON_JOBS}/tick/status"), &objects::last_due(user.cluster.clock().now(), PAST)).await?;
    user.patch(&format!("{CRON_JOBS}/tick"), &json!({"spec": {"suspend": false}})).await?;
    let kinds = [("batch", "cronjobs"), ("batch", "jobs")];
    user.until("the first Job", &kinds, |cluster| !cluster.objects("batch", "jobs").is_empty()).await?;
    user.patch(&format!("{CRON_JOBS}/tick"), &json!({"spec": {"suspend": true}})).await?;
    user.until("the CronJob to take note", &kinds, is_done).await
}

fn is_done(cluster: &SimCluster) -> bool {
    let cron_jobs = cluster.objects("batch", "cronjobs");
    let [cron_job] = &cron_jobs[..] else { return false };
    let jobs = cluster.objects("batch", "jobs");
    let status = &cron_job["status"];
    cron_job["spec"]["suspend"] == true
        && status["active"].as_array().is_none_or(Vec::is_empty)
        && status["lastSuccessfulTime"].is_string()
        && !jobs.is_empty()
        && jobs.iter().all(|job| job["status"]["succeeded"] == 1)
        && cluster.objects("", "pods").len() == jobs.len()
}

fn check(history: &[Arc<WriteRecord>]) -> Result<()> {
    let (mut names, mut uids, mut last) = (BTreeSet::new(), BTreeSet::new(), String::new());
    replay(history, |write| {
        let object = write.after.value();
        match write.resource.as_str() {
            "jobs" if write.effect == EventType::Added => {
                uids.insert(write.after.uid.to_string());
                ensure!(names.insert(write.after.key.clone()), "a second Job of one time");
            }
            "jobs" => ensure!(write.effect != EventType::Deleted, "a Job is deleted"),
            "cronjobs" => {
                for active in object["status"]["active"].as_array().into_iter().flatten() {
                    let uid = active["uid"].as_str().unwrap_or_default();
                    ensure!(uids.contains(uid), "an active Job that nobody created: {active}");
                }
                let time = object["status"]["lastScheduleTime"].as_str().unwrap_or_default().to_owned();
                ensure!(time >= last, "the last schedule was {last}, and is {time}");
                last = time;
            }
            "events" => {
                let reason = &object["reason"];
                ensure!(!["UnexpectedJob", "MissingJob"].iter().any(|wrong| reason == wrong), "{}", object["message"]);
            }
            _ => {}
        }
        Ok(())
    })
}
