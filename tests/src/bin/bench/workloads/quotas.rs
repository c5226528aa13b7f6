//! A quota in a namespace where many Pods are created and then deleted.
//!
//! The API server counts an object that it admits; what is deleted is counted by the controller.

use std::time::Instant;

use anyhow::{Context, Result};
use pintle_tests::{ApiClient, ControlPlane, Failure, Options, PATIENCE, eventually};
use serde_json::{Value, json};

use super::watched::Watched;
use crate::arguments::Args;
use crate::objects::{delete_all, in_flight, prepare};
use crate::report::{Implementation, Sample};
use crate::running::{probe_name, start_unprobed, usage_at_rest};

const CONTROLLER: &str = "resourcequota-controller";

/// Rate and seconds: until the status has all Pods as used, then until it has none.
pub(super) async fn measure(args: &Args, implementation: Implementation, n: usize) -> Result<Sample> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let subject = start_unprobed(args, &plane, implementation, &[CONTROLLER], &[]).await?.context("nothing runs")?;
    probe(&client).await.with_context(|| subject.process().log_tail())?;
    let mut quotas = Watched::open(&client, &quotas_of("bench")).await?;
    client.create(&quotas_of("bench"), &quota("all")).await?;
    // Until then, the API server admits no Pod.
    quotas.until(1, |quota| uses(quota, 0)).await.with_context(|| subject.process().log_tail())?;
    let before = usage_at_rest(&subject).await?;
    let begun = Instant::now();
    let created = in_flight((0..n).map(|number| create(&client, "bench", pod(&name(number)))));
    let counted = async { tokio::try_join!(created, quotas.until(1, |quota| uses(quota, n))) };
    counted.await.with_context(|| subject.process().log_tail())?;
    let options = json!({"gracePeriodSeconds": 0});
    let paths = (0..n).map(|number| format!("{}/{}", pods_of("bench"), name(number)));
    let deleted = delete_all(&client, paths, &options);
    let counted = async { tokio::try_join!(deleted, quotas.until(1, |quota| uses(quota, 0))) };
    counted.await.with_context(|| subject.process().log_tail())?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = usage_at_rest(&subject).await?;
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    subject.stop().await;
    plane.stop().await;
    Ok(Sample {
        pods_per_second: 2.0 * n as f64 / seconds,
        seconds,
        cpu_seconds,
        rss_bytes: after.rss_bytes as f64,
        ..Sample::default()
    })
}

fn quotas_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/resourcequotas")
}

fn pods_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn name(number: usize) -> String {
    format!("pod-{number}")
}

/// It permits more than is created.
fn quota(name: &str) -> Value {
    let hard = json!({"count/configmaps": "100", "pods": "10000", "requests.cpu": "10000", "requests.memory": "10Ti"});
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}

/// Whether so many Pods are used of a quota.
fn uses(quota: &Value, n: usize) -> bool {
    let used = quota["status"]["used"]["pods"].as_str().unwrap_or_default();
    // 3,000 is `3k` in the API.
    let used = match used.strip_suffix('k') {
        Some(thousands) => thousands.parse::<usize>().map(|thousands| thousands * 1_000),
        None => used.parse(),
    };
    used == Ok(n)
}

fn pod(name: &str) -> Value {
    let requests = json!({"cpu": "100m", "memory": "64Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [
            {"name": "app", "image": "registry.example/app:1", "resources": {"requests": requests}},
        ]},
    })
}

/// Creates a Pod, again if too many others were counted meanwhile.
async fn create(client: &ApiClient, namespace: &str, pod: Value) -> Result<Value> {
    loop {
        match client.create(&pods_of(namespace), &pod).await {
            Err(error) if error.downcast_ref::<Failure>().is_some_and(|failure| failure.reason == "Conflict") => {}
            outcome => return outcome,
        }
    }
}

/// Waits until the subject has counted a Pod that was deleted.
async fn probe(client: &ApiClient) -> Result<()> {
    let name = &probe_name();
    client.create(&quotas_of("probe"), &quota(name)).await?;
    let path = format!("{}/{name}", quotas_of("probe"));
    until_used(client, &path, 0).await?;
    // The API server may not have seen it yet.
    eventually(PATIENCE, "the Pod of the probe", async || create(client, "probe", pod(name)).await.map(Some)).await?;
    until_used(client, &path, 1).await?;
    client.delete(&format!("{}/{name}", pods_of("probe")), Some(&json!({"gracePeriodSeconds": 0}))).await?;
    until_used(client, &path, 0).await
}

async fn until_used(client: &ApiClient, quota: &str, n: usize) -> Result<()> {
    eventually(PATIENCE, format!("{quota} to have used {n} Pods"), async || {
        Ok(uses(&client.get(quota).await?, n).then_some(()))
    })
    .await
}
