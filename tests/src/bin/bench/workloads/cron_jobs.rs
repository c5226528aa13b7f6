//! CronJobs that are due at the same time.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Unit};
use pintle_tests::{ApiClient, ControlPlane, Options, PATIENCE, PatchKind, eventually};
use serde_json::{Value, json};

use super::watched::Watched;
use crate::arguments::Args;
use crate::objects::{create_all, prepare};
use crate::report::{Implementation, Sample};
use crate::running::{probe_name, start_unprobed, usage_at_rest};

const CONTROLLER: &str = "cronjob-controller";
const PATH: &str = "/apis/batch/v1/namespaces/bench/cronjobs";

/// What is left until they are due when they are created, at least.
const LEAD: Duration = Duration::from_secs(10);

/// From the minute in which all are due until each has made its Job.
pub(super) async fn measure(args: &Args, implementation: Implementation, n: usize) -> Result<Sample> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let subject = start_unprobed(args, &plane, implementation, &[CONTROLLER], &[]).await?.context("nothing runs")?;
    probe(&client).await.with_context(|| subject.process().log_tail())?;
    let before = usage_at_rest(&subject).await?;
    let mut jobs = Watched::open(&client, "/apis/batch/v1/namespaces/bench/jobs").await?;
    let due = next_minute(Timestamp::now() + LEAD)?;
    // Once: a second time would come while the subject is waited for.
    let schedule = due.to_zoned(TimeZone::UTC).strftime("%-M %-H %-d %-m *").to_string();
    create_all(&client, PATH, (0..n).map(|number| cron_job(&format!("app-{number}"), &schedule))).await?;
    let due = SystemTime::from(due);
    tokio::time::sleep(due.duration_since(SystemTime::now()).context("the time came too early")?).await;
    jobs.until(n, |_| true).await.with_context(|| subject.process().log_tail())?;
    let seconds = due.elapsed()?.as_secs_f64();
    let after = usage_at_rest(&subject).await?;
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    subject.stop().await;
    plane.stop().await;
    Ok(Sample {
        pods_per_second: n as f64 / seconds,
        seconds,
        cpu_seconds,
        rss_bytes: after.rss_bytes as f64,
        ..Sample::default()
    })
}

fn next_minute(from: Timestamp) -> Result<Timestamp> {
    let minute = jiff::TimestampRound::new().smallest(Unit::Minute).mode(jiff::RoundMode::Trunc);
    Ok(from.round(minute)? + 1.minute())
}

/// Waits until the subject has taken a Job that is not there out of a status: it has seen the CronJob and all Jobs.
async fn probe(client: &ApiClient) -> Result<()> {
    const COLLECTION: &str = "/apis/batch/v1/namespaces/probe/cronjobs";
    let name = &probe_name();
    let path = format!("{COLLECTION}/{name}");
    let mut object = cron_job(name, "0 0 1 1 *");
    object["spec"]["suspend"] = true.into();
    client.create(COLLECTION, &object).await?;
    let gone = json!({
        "apiVersion": "batch/v1", "kind": "Job", "namespace": "probe", "name": "gone",
        "uid": "00000000-0000-0000-0000-000000000000",
    });
    client.patch(&format!("{path}/status"), PatchKind::Merge, &json!({"status": {"active": [gone]}})).await?;
    eventually(PATIENCE, "the status of the probe", async || {
        let found = client.get(&path).await?;
        Ok(found["status"]["active"].as_array().is_none_or(Vec::is_empty).then_some(()))
    })
    .await
}

fn cron_job(name: &str, schedule: &str) -> Value {
    let containers = json!([{"name": "app", "image": "registry.example/app:1"}]);
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {
            "schedule": schedule, "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": {"template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}},
        },
    })
}
