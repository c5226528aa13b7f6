//! Jobs whose Pods fail.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    JOBS, create, end, end_at, pod_spec, set_status, succeed, until_active, until_complete, until_counted, until_failed,
};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Job of Pods replaces one that has failed, and counts both", |s| Box::pin(replaced(s)))
        .comparing(JOBS),
    Scenario::new("a Job of Pods fails beyond its backoff limit", |s| Box::pin(backoff_limit(s))).comparing(JOBS),
    Scenario::new("a Job of Pods waits after a failure", |s| Box::pin(waits(s))).comparing(JOBS),
    Scenario::new("a Job of Pods fails at its deadline", |s| Box::pin(deadline(s))).comparing(JOBS),
    Scenario::new("a Job of Pods counts restarts of their containers", |s| Box::pin(restarts(s))).comparing(JOBS),
    Scenario::new("a Job of Pods fails by a rule about exit codes", |s| Box::pin(fails_by_rule(s))).comparing(JOBS),
    Scenario::new("a Job of Pods ignores disruptions by a rule", |s| Box::pin(ignores(s))).comparing(JOBS),
];

async fn replaced(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 2, "parallelism": 1})).await?;
    end(s, &until_active(s, "pi", 1).await?[0], 1).await?;
    until_counted(s, "pi", 0, 1).await?;
    succeed(s, &until_active(s, "pi", 1).await?).await?;
    until_counted(s, "pi", 1, 1).await?;
    succeed(s, &until_active(s, "pi", 1).await?).await?;
    until_complete(s, "pi").await
}

async fn backoff_limit(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 9, "parallelism": 3, "backoffLimit": 1})).await?;
    let pods = until_active(s, "pi", 3).await?;
    succeed(s, &pods[..1]).await?;
    until_counted(s, "pi", 1, 0).await?;
    end(s, &pods[1], 1).await?;
    until_counted(s, "pi", 1, 1).await?;
    let pods = until_active(s, "pi", 3).await?;
    // All that are left are deleted, and fail.
    end(s, &pods[0], 1).await?;
    until_failed(s, "pi", "BackoffLimitExceeded").await
}

async fn waits(s: &Stage) -> Result<()> {
    create(s, "pi", json!({"completions": 1})).await?;
    let failed_at = s.now_text();
    end_at(s, &until_active(s, "pi", 1).await?[0], 1, &failed_at).await?;
    until_counted(s, "pi", 0, 1).await?;
    let pods = until_active(s, "pi", 1).await?;
    let time = |text: &str| text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_second);
    let created = s.get("pods", &pods[0]).await?["metadata"]["creationTimestamp"].clone();
    let waited = time(created.as_str().unwrap_or_default())? - time(&failed_at)?;
    s.observe("waited at least 10 seconds", &json!(waited >= 10));
    succeed(s, &pods).await?;
    until_complete(s, "pi").await
}

async fn deadline(s: &Stage) -> Result<()> {
    // Long enough for its Pods to be there on a busy machine.
    create(s, "pi", json!({"completions": 3, "parallelism": 3, "activeDeadlineSeconds": 30})).await?;
    let pods = until_active(s, "pi", 3).await?;
    succeed(s, &pods[..1]).await?;
    until_failed(s, "pi", "DeadlineExceeded").await
}

async fn restarts(s: &Stage) -> Result<()> {
    let template = json!({"spec": pod_spec("OnFailure")});
    create(s, "pi", json!({"backoffLimit": 3, "parallelism": 2, "completions": 2, "template": template})).await?;
    let pods = until_active(s, "pi", 2).await?;
    let restarted = |n: u32| {
        let container = json!({
            "name": "c", "image": "image:1", "imageID": "", "ready": false, "restartCount": n,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        });
        json!({"phase": "Running", "containerStatuses": [container]})
    };
    set_status(s, &pods[0], &restarted(1)).await?;
    set_status(s, &pods[1], &restarted(2)).await?;
    until_failed(s, "pi", "BackoffLimitExceeded").await
}

async fn fails_by_rule(s: &Stage) -> Result<()> {
    let rules = json!([
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [3, 4]}},
    ]);
    create(s, "pi", json!({"completions": 2, "parallelism": 2, "podFailurePolicy": {"rules": rules}})).await?;
    end(s, &until_active(s, "pi", 2).await?[0], 3).await?;
    until_counted(s, "pi", 0, 1).await?;
    end(s, &until_active(s, "pi", 2).await?[0], 42).await?;
    until_failed(s, "pi", "PodFailurePolicy").await
}

async fn ignores(s: &Stage) -> Result<()> {
    let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    create(s, "pi", json!({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}})).await?;
    let pods = until_active(s, "pi", 1).await?;
    let condition: Value = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    set_status(s, &pods[0], &json!({"phase": "Failed", "conditions": [condition]})).await?;
    s.until_all("pods", "have a successor", |all| all.len() == 2).await?;
    let successors = until_active(s, "pi", 1).await?;
    until_counted(s, "pi", 0, 0).await?;
    succeed(s, &successors).await?;
    until_complete(s, "pi").await
}
