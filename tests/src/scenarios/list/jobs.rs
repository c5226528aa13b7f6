//! Jobs with their controller. The nodes leave their Pods alone: the scenarios write what becomes of each.

use anyhow::Result;
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::objects::{count, ended};
use crate::scenarios::stage::Stage;

mod completion;
mod failure;
mod indexes;
mod pods;

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["job-controller"], &[completion::SCENARIOS, failure::SCENARIOS, indexes::SCENARIOS, pods::SCENARIOS])];

/// The kind that scenarios compare beside Pods.
const JOBS: &[&str] = &["jobs"];

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Creates a Job with this spec.
async fn create(s: &Stage, name: &str, spec: Value) -> Result<()> {
    let mut object = json!({"metadata": {"name": name}, "spec": spec});
    if object["spec"]["template"]["spec"].is_null() {
        object["spec"]["template"]["spec"] = pod_spec("Never");
    }
    s.create("jobs", &object).await?;
    Ok(())
}

/// What Pods are made from: the scheduler of the simulated nodes leaves them alone.
fn pod_spec(restart_policy: &str) -> Value {
    json!({
        "restartPolicy": restart_policy, "schedulerName": "nobody", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "image:1"}],
    })
}

/// The Pods of a Job that have neither ended nor are being deleted, by name.
async fn active(s: &Stage, job: &str) -> Result<Vec<Value>> {
    let mut pods = s.list("pods").await?;
    pods.retain(|pod| is_active_of(pod, job));
    Ok(pods)
}

fn is_active_of(pod: &Value, job: &str) -> bool {
    is_active(pod) && is_of(pod, job)
}

fn is_of(pod: &Value, job: &str) -> bool {
    pod["metadata"]["labels"]["job-name"] == job
}

fn is_active(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    phase != "Succeeded" && phase != "Failed" && pod["metadata"]["deletionTimestamp"].is_null()
}

/// Waits until a Job has so many active Pods, and its status shows it. Returns their names.
async fn until_active(s: &Stage, job: &str, n: usize) -> Result<Vec<String>> {
    s.until("jobs", job, &format!("have {n} active Pods"), |job| {
        count(job, "active") == n as u64 && job["status"]["terminating"].as_u64() == Some(0)
    })
    .await?;
    let is_it = |pod: &&Value| is_active_of(pod, job);
    let what = format!("be {n} that are active");
    let pods = s.until_all("pods", &what, |pods| pods.iter().filter(is_it).count() == n).await?;
    Ok(pods.iter().filter(is_it).map(name_of).collect())
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the status counts so many Pods, and names none that it has to count.
async fn until_counted(s: &Stage, job: &str, succeeded: u64, failed: u64) -> Result<()> {
    s.until("jobs", job, &format!("count {succeeded} succeeded and {failed} failed Pods"), |job| {
        let named = &job["status"]["uncountedTerminatedPods"];
        (count(job, "succeeded"), count(job, "failed")) == (succeeded, failed) && *named == json!({})
    })
    .await
}

/// Waits until a Job has this condition, for this reason.
async fn until_condition(s: &Stage, job: &str, kind: &str, status: &str, reason: &str) -> Result<()> {
    s.until("jobs", job, &format!("be {kind} {reason}"), |job| {
        let is_it = |condition: &Value| {
            condition["type"] == kind && condition["status"] == status && condition["reason"] == reason
        };
        job["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_it))
    })
    .await
}

async fn until_complete(s: &Stage, job: &str) -> Result<()> {
    until_condition(s, job, "Complete", "True", "CompletionsReached").await
}

async fn until_failed(s: &Stage, job: &str, reason: &str) -> Result<()> {
    until_condition(s, job, "Failed", "True", reason).await
}

async fn set_status(s: &Stage, pod: &str, status: &Value) -> Result<()> {
    let path = format!("{}/status", s.one("pods", pod));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": status})).await?;
    Ok(())
}

/// Ends a Pod with this exit code of its container. It did so long ago, so that its successor need not wait.
async fn end(s: &Stage, pod: &str, code: i32) -> Result<()> {
    end_at(s, pod, code, "2026-01-01T00:00:00Z").await
}

async fn end_at(s: &Stage, pod: &str, code: i32, at: &str) -> Result<()> {
    set_status(s, pod, &ended(code, at)).await
}

/// Lets all of these Pods succeed.
async fn succeed(s: &Stage, pods: &[String]) -> Result<()> {
    for pod in pods {
        end(s, pod, 0).await?;
    }
    Ok(())
}

/// Makes a Pod run and be ready.
async fn start(s: &Stage, pod: &str) -> Result<()> {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    set_status(s, pod, &json!({"phase": "Running", "conditions": [ready]})).await
}

/// The active Pod of an index.
async fn of_index(s: &Stage, index: u32) -> Result<String> {
    let index = index.to_string();
    active_one(s, &format!("have an active one of index {index}"), |pod| pod["metadata"]["annotations"][INDEX] == index)
        .await
}

/// Waits for an active Pod that looks so, and returns its name.
async fn active_one(s: &Stage, what: &str, looks: impl Fn(&Value) -> bool) -> Result<String> {
    let is_it = |pod: &Value| is_active(pod) && looks(pod);
    let pods = s.until_all("pods", what, |pods| pods.iter().any(is_it)).await?;
    Ok(pods.iter().find(|pod| is_it(pod)).map(name_of).unwrap_or_default())
}
