//! A controller manager ends in the middle of a Job, a StatefulSet, a DaemonSet and a CronJob, and the next one ends them: no Pod is made
//! or deleted that would not have been, and no revision is added.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::objects::{count, has_condition, is_observed, last_due, template};
use pintle_tests::scenarios::history::{Effect, History};
use pintle_tests::scenarios::stage::Stage;
use pintle_tests::scenarios::subject::Running;
use pintle_tests::scenarios::{Subject, by_id};
use pintle_tests::{ControlPlane, PatchKind, TestCluster};
use serde_json::{Value, json};

use super::{Going, check_rules, open, pods_of, take_turns};

const KINDS: &[&str] =
    &["controllerrevisions", "cronjobs", "daemonsets", "jobs", "persistentvolumeclaims", "statefulsets"];

const IMAGE: &str = "image:1";
const COMPLETIONS: u64 = 6;
const REPLICAS: u64 = 4;
const PARTITION: u64 = 2;
/// The nodes of a test cluster.
const NODES: u64 = 3;

fn other_image() -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "image:2"}]}}}})
}

/// A StatefulSet at its partition, a DaemonSet and a Job that have half of their Pods, and a CronJob whose Job runs.
async fn go_midway(s: &Stage) -> Result<()> {
    let endless = json!({});
    let runs_for = |time: &str| json!({"sim.pintle.dev/run-for": time});
    let set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": REPLICAS, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "podManagementPolicy": "Parallel", "template": template("db", IMAGE, "Always", &endless),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": PARTITION}},
        },
    });
    s.create("statefulsets", &set).await?;
    let daemons = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "minReadySeconds": 3,
            "template": template("agent", IMAGE, "Always", &endless),
        },
    });
    s.create("daemonsets", &daemons).await?;
    s.until("statefulsets", "db", "be ready", |set| count(set, "readyReplicas") == REPLICAS).await?;
    s.until("daemonsets", "agent", "be available", |set| count(set, "numberAvailable") == NODES).await?;

    let cron_job = json!({
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *", "suspend": true,
            "jobTemplate": {"spec": {"template": template("tick", IMAGE, "Never", &runs_for("8s"))}},
        },
    });
    s.create("cronjobs", &cron_job).await?;
    let status = last_due(jiff::Timestamp::now(), Duration::from_secs(90));
    s.client.patch(&format!("{}/status", s.one("cronjobs", "tick")), PatchKind::Merge, &status).await?;
    s.patch("cronjobs", "tick", &json!({"spec": {"suspend": false}})).await?;
    s.until("cronjobs", "tick", "fire", |tick| {
        tick["status"]["active"].as_array().is_some_and(|active| !active.is_empty())
    })
    .await?;
    s.patch("cronjobs", "tick", &json!({"spec": {"suspend": true}})).await?;

    s.patch("statefulsets", "db", &other_image()).await?;
    s.until("statefulsets", "db", "be at its partition", |set| {
        is_observed(set)
            && count(set, "updatedReplicas") == REPLICAS - PARTITION
            && count(set, "readyReplicas") == REPLICAS
    })
    .await?;
    let job = json!({
        "metadata": {"name": "sum"},
        "spec": {
            "completionMode": "Indexed", "completions": COMPLETIONS, "parallelism": 2,
            "template": template("sum", IMAGE, "Never", &runs_for("3s")),
        },
    });
    s.create("jobs", &job).await?;
    s.patch("daemonsets", "agent", &other_image()).await?;
    s.until("daemonsets", "agent", "have its first new Pod", |set| count(set, "updatedNumberScheduled") > 0).await?;
    s.until("jobs", "sum", "have succeeded in part", |job| count(job, "succeeded") > 0).await
}

/// Fails if nothing is left to do for the one who takes over.
async fn is_midway(s: &Stage) -> Result<()> {
    let job = s.get("jobs", "sum").await?;
    ensure!(count(&job, "succeeded") < COMPLETIONS, "the Job is through: {}", job["status"]);
    let daemons = s.get("daemonsets", "agent").await?;
    ensure!(count(&daemons, "updatedNumberScheduled") < NODES, "the DaemonSet is through: {}", daemons["status"]);
    Ok(())
}

async fn go_over_midway(s: &Stage, plane: &ControlPlane, from: Running, going: Going, to: &Subject) -> Result<Running> {
    let recorder = open(s).await?;
    go_midway(s).await.context("go midway")?;
    going.end(from).await;
    is_midway(s).await?;
    let n_before = recorder.so_far()?.writes.len();
    let to = to.start(plane).await?;
    s.until("jobs", "sum", "complete", |job| has_condition(job, "Complete", "True")).await?;
    s.until("daemonsets", "agent", "be rolled out", |set| {
        is_observed(set)
            && count(set, "updatedNumberScheduled") == NODES
            && count(set, "numberAvailable") == NODES
            && count(set, "currentNumberScheduled") == NODES
    })
    .await?;
    s.until("cronjobs", "tick", "take note of its Job", |tick| {
        tick["status"]["active"].as_array().is_none_or(Vec::is_empty)
            && tick["status"]["lastSuccessfulTime"].is_string()
    })
    .await?;
    let at_partition = recorder.until(&by_id(s, &s.settle().await?)).await?;
    // The partition holds: nobody has touched a Pod of the StatefulSet since.
    let touched = at_partition.writes[n_before.min(at_partition.writes.len())..]
        .iter()
        .filter(|write| write.plural == "pods" && write.object["metadata"]["labels"]["app"] == "db");
    ensure!(touched.count() == 0, "a Pod of the StatefulSet was touched at its partition");
    s.patch("statefulsets", "db", &json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await?;
    s.until("statefulsets", "db", "be rolled out", |set| {
        is_observed(set)
            && count(set, "updatedReplicas") == REPLICAS
            && set["status"]["currentRevision"] == set["status"]["updateRevision"]
    })
    .await?;
    check(&recorder.until(&by_id(s, &s.settle().await?)).await?)?;
    Ok(to)
}

fn check(history: &History) -> Result<()> {
    check_rules(history)?;
    let pods: BTreeMap<&str, (u64, u64)> =
        ["agent", "db", "sum", "tick"].into_iter().map(|app| (app, pods_of(history, app))).collect();
    let n_ticks =
        history.of("jobs").filter(|job| job.effect == Effect::Added && job.name().starts_with("tick-")).count() as u64;
    ensure!(
        pods == BTreeMap::from([
            ("agent", (2 * NODES, NODES)),
            ("db", (2 * REPLICAS, REPLICAS)),
            ("sum", (COMPLETIONS, 0)),
            ("tick", (n_ticks, 0)),
        ]),
        "Pods made and gone: {pods:?}, {n_ticks} Jobs of the CronJob"
    );
    let n_revisions = history.of("controllerrevisions").filter(|revision| revision.effect == Effect::Added).count();
    ensure!(n_revisions == 4, "{n_revisions} revisions were made for two templates each");
    let mut wrong = history.of("events").filter(|event| {
        ["MissingJob", "UnexpectedJob", "FailedCreate", "FailedDaemonPod"]
            .iter()
            .any(|reason| event.object["reason"] == *reason)
    });
    match wrong.next() {
        None => Ok(()),
        Some(event) => anyhow::bail!("{}: {}", event.object["reason"], event.object["message"]),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_jobs_and_sets_in_the_middle_ends_what_the_other_began() -> Result<()> {
    let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
    let (kcm, pintle) = (Subject::KubeControllerManager, Subject::pintle()?);
    let turns = [(Going::Killed, &pintle), (Going::Killed, &kcm), (Going::Stopped, &pintle), (Going::Stopped, &kcm)];
    take_turns(cluster, "workloads", KINDS, &turns, go_over_midway).await
}
