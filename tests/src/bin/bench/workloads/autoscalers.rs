//! HorizontalPodAutoscalers whose metrics change.
//!
//! Each has a Deployment of its own with one Pod, and no controller makes others: a target follows the metric of that Pod. The metrics API
//! is a CustomResourceDefinition.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pintle_tests::definitions::define_metrics;
use pintle_tests::{ApiClient, ControlPlane, Options, PATIENCE, eventually};
use serde_json::{Value, json};

use super::finisher::{Fate, status};
use super::watched::Watched;
use crate::arguments::Args;
use crate::objects::{create_all, deployment, patch_all, prepare};
use crate::report::{Implementation, Sample};
use crate::running::{probe_name, start_unprobed, usage_at_rest};

const CONTROLLER: &str = "horizontal-pod-autoscaler-controller";
const FLAG: &str = "--horizontal-pod-autoscaler-sync-period=5s";
const SYNC_PERIOD: Duration = Duration::from_secs(5);

/// How many sync periods without a change are measured.
const N_PERIODS: u32 = 6;

/// The memory that each Pod should use.
const TARGET: &str = "100Mi";
/// Three Pods are wanted.
const MUCH: &str = "300Mi";
/// One is enough.
const LITTLE: &str = "50Mi";

/// Rate and seconds: until each target is scaled up, then until each is scaled down again. Processor time: of a sync period after that.
pub(super) async fn measure(args: &Args, implementation: Implementation, n: usize) -> Result<Sample> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    define_metrics(&client).await?;
    targets(&client, "bench", (0..n).map(|number| format!("app-{number}")).collect()).await?;
    let subject = start_unprobed(args, &plane, implementation, &[CONTROLLER], &[FLAG]).await?;
    let subject = subject.context("nothing runs")?;
    probe(&client).await.with_context(|| subject.process().log_tail())?;
    usage_at_rest(&subject).await?;
    let mut scaled = Watched::open(&client, &targets_of("bench")).await?;
    let begun = Instant::now();
    let all = (0..n).map(|number| autoscaler(&format!("app-{number}")));
    create_all(&client, &autoscalers_of("bench"), all).await?;
    let replicas = |wanted: u64| move |target: &Value| target["spec"]["replicas"] == wanted;
    scaled.until(n, replicas(3)).await.with_context(|| subject.process().log_tail())?;
    let mut took = begun.elapsed();
    let metrics = (0..n).map(|number| format!("{}/app-{number}", metrics_of("bench")));
    patch_all(&client, metrics, &json!({"containers": containers(LITTLE)})).await?;
    let begun = Instant::now();
    scaled.until(n, replicas(1)).await.with_context(|| subject.process().log_tail())?;
    took += begun.elapsed();
    // The statuses that follow from it.
    tokio::time::sleep(SYNC_PERIOD).await;
    let before = subject.process().usage()?;
    tokio::time::sleep(SYNC_PERIOD * N_PERIODS).await;
    let after = subject.process().usage()?;
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64() / f64::from(N_PERIODS);
    subject.stop().await;
    plane.stop().await;
    let seconds = took.as_secs_f64();
    Ok(Sample {
        pods_per_second: 2.0 * n as f64 / seconds,
        seconds,
        cpu_seconds,
        rss_bytes: after.rss_bytes as f64,
        ..Sample::default()
    })
}

fn targets_of(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

fn autoscalers_of(namespace: &str) -> String {
    format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")
}

fn metrics_of(namespace: &str) -> String {
    format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods")
}

/// Makes Deployments with these names, a Pod of the same name for each, and much usage of it.
async fn targets(client: &ApiClient, namespace: &str, names: Vec<String>) -> Result<()> {
    create_all(client, &targets_of(namespace), names.iter().map(|name| deployment(name, 1))).await?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    create_all(
        client,
        &pods,
        names.iter().map(|name| {
            let template = deployment(name, 1)["spec"]["template"].take();
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "labels": template["metadata"]["labels"]}, "spec": template["spec"],
            })
        }),
    )
    .await?;
    patch_all(client, names.iter().map(|name| format!("{pods}/{name}/status")), &status(Fate::Ready)).await?;
    create_all(
        client,
        &metrics_of(namespace),
        names.iter().map(|name| {
            json!({
                "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
                "metadata": {"name": name, "labels": {"app": name}},
                // After any transition of a Pod.
                "timestamp": "2099-01-01T00:00:00Z", "window": "0s", "containers": containers(MUCH),
            })
        }),
    )
    .await
}

fn containers(memory: &str) -> Value {
    json!([{"name": "app", "usage": {"memory": memory}}])
}

fn autoscaler(name: &str) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{
                "type": "Resource",
                "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": TARGET}},
            }],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    })
}

/// Waits until the subject has scaled a target.
async fn probe(client: &ApiClient) -> Result<()> {
    let name = probe_name();
    let target = format!("{}/{name}", targets_of("probe"));
    targets(client, "probe", vec![name.clone()]).await?;
    client.create(&autoscalers_of("probe"), &autoscaler(&name)).await?;
    eventually(PATIENCE, "the probe to be scaled", async || {
        Ok((client.get(&target).await?["spec"]["replicas"] == 3).then_some(()))
    })
    .await?;
    client.delete(&format!("{}/{name}", autoscalers_of("probe")), None).await.map(drop)
}
