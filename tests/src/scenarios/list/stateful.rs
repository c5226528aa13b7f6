//! StatefulSets. Nothing binds their claims; the simulated nodes run the Pods nevertheless.

use anyhow::Result;
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::objects::{count, has_condition, is_observed};
use crate::scenarios::stage::{Stage, deployment};

mod claims;
mod scaling;
mod updates;

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["statefulset-controller"], &[scaling::SCENARIOS, updates::SCENARIOS, claims::SCENARIOS])];

const SETS: &str = "statefulsets";

/// What is compared beside what all scenarios compare.
const KINDS: &[&str] = &["statefulsets", "controllerrevisions", "persistentvolumeclaims"];

/// A StatefulSet `web` with what a scenario adds to its spec.
fn stateful_set(replicas: u32, spec: Value) -> Value {
    let mut object = deployment("web", replicas, spec);
    object["spec"]["serviceName"] = json!("web");
    object
}

fn parallel() -> Value {
    json!({"podManagementPolicy": "Parallel"})
}

/// Creates it and waits for its replicas.
async fn make(s: &Stage, replicas: u32, spec: Value) -> Result<()> {
    s.create(SETS, &stateful_set(replicas, spec)).await?;
    ready(s, replicas.into()).await
}

/// Waits until it has `n` ready Pods and no others, as it says itself.
async fn ready(s: &Stage, n: u64) -> Result<()> {
    s.ready(SETS, "web", n).await?;
    s.until_all("pods", &format!("be {n}"), |pods| pods.len() as u64 == n).await?;
    Ok(())
}

/// Waits until all `n` replicas are ready and of the newest revision, which is the current one.
async fn rolled_out(s: &Stage, n: u64) -> Result<()> {
    s.until(SETS, "web", "be rolled out", |set| {
        is_observed(set)
            && ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas"]
                .iter()
                .all(|field| count(set, field) == n)
            && set["status"]["currentRevision"] == set["status"]["updateRevision"]
    })
    .await
}

/// Waits until so many replicas are of the newest revision and all `n` are ready.
async fn updated(s: &Stage, n_updated: u64, n: u64) -> Result<()> {
    s.until(SETS, "web", &format!("have {n_updated} updated replicas"), |set| {
        is_observed(set)
            && count(set, "updatedReplicas") == n_updated
            && count(set, "readyReplicas") == n
            && count(set, "currentReplicas") == n - n_updated
    })
    .await
}

async fn scale(s: &Stage, n: u32) -> Result<()> {
    s.scale(SETS, "web", n).await?;
    ready(s, n.into()).await
}

async fn set_image(s: &Stage, image: &str) -> Result<()> {
    set_template(s, image, json!({})).await
}

/// Another image, and annotations that the template gets or loses.
async fn set_template(s: &Stage, image: &str, annotations: Value) -> Result<()> {
    let template = json!({
        "metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c", "image": image}]},
    });
    s.patch(SETS, "web", &json!({"spec": {"template": template}})).await.map(drop)
}

/// Makes a Pod fail, or end otherwise.
async fn end_pod(s: &Stage, name: &str, phase: &str) -> Result<()> {
    let path = format!("{}/status", s.one("pods", name));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": {"phase": phase}})).await.map(drop)
}

/// The uid of a Pod.
async fn uid(s: &Stage, pod: &str) -> Result<Value> {
    Ok(s.get("pods", pod).await?["metadata"]["uid"].clone())
}

/// Waits until there is another Pod of the name, which is ready.
async fn until_replaced(s: &Stage, pod: &str, old: &Value) -> Result<()> {
    s.until_all("pods", &format!("have another {pod}"), |pods| {
        pods.iter()
            .any(|p| p["metadata"]["name"] == pod && p["metadata"]["uid"] != *old && has_condition(p, "Ready", "True"))
    })
    .await
    .map(drop)
}
