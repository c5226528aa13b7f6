//! Jobs, StatefulSets and a DaemonSet: how fast their Pods are made and counted.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use pintle_tests::objects::has_condition;
use pintle_tests::{ApiClient, ControlPlane, Options, PATIENCE, eventually};
use serde_json::{Value, json};

use super::finisher::{Fate, Finisher};
use super::watched::Watched;
use crate::arguments::Args;
use crate::objects::{count, create_all, prepare};
use crate::report::{Implementation, Sample};
use crate::running::{probe_name, start_unprobed, usage_at_rest};

/// Workloads of one kind, all alike.
#[derive(Clone, Copy)]
pub(crate) enum Workloads {
    Jobs { n: usize, completions: usize, parallelism: usize },
    StatefulSets { n: usize, replicas: usize },
    DaemonSet { nodes: usize },
}

impl Workloads {
    fn controller(self) -> &'static str {
        match self {
            Workloads::Jobs { .. } => "job-controller",
            Workloads::StatefulSets { .. } => "statefulset-controller",
            Workloads::DaemonSet { .. } => "daemonset-controller",
        }
    }

    fn path(self, namespace: &str) -> String {
        match self {
            Workloads::Jobs { .. } => format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
            Workloads::StatefulSets { .. } => format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"),
            Workloads::DaemonSet { .. } => format!("/apis/apps/v1/namespaces/{namespace}/daemonsets"),
        }
    }

    fn fate(self) -> Fate {
        match self {
            Workloads::Jobs { .. } => Fate::Succeeded,
            Workloads::StatefulSets { .. } => Fate::Ready,
            Workloads::DaemonSet { .. } => Fate::BoundAndReady,
        }
    }

    /// How many there are, and the Pods of all of them.
    fn sizes(self) -> (usize, usize) {
        match self {
            Workloads::Jobs { n, completions, .. } => (n, n * completions),
            Workloads::StatefulSets { n, replicas } => (n, n * replicas),
            Workloads::DaemonSet { nodes } => (1, nodes),
        }
    }

    fn object(self, name: &str) -> Value {
        let labels = json!({"app": name});
        let containers = json!([{"name": "app", "image": "registry.example/app:1"}]);
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let selector = json!({"matchLabels": labels});
        match self {
            Workloads::Jobs { completions, parallelism, .. } => json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                "spec": {
                    "completions": completions, "parallelism": parallelism,
                    "template": {"spec": {"containers": containers, "restartPolicy": "Never"}},
                },
            }),
            Workloads::StatefulSets { replicas, .. } => json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
                "spec": {
                    "replicas": replicas, "podManagementPolicy": "Parallel", "serviceName": name,
                    "selector": selector, "template": template,
                },
            }),
            Workloads::DaemonSet { .. } => json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
                "spec": {"selector": selector, "template": template},
            }),
        }
    }

    /// One with a single Pod, which nobody runs.
    fn probe(self, name: &str) -> Value {
        match self {
            Workloads::Jobs { .. } => Workloads::Jobs { n: 1, completions: 1, parallelism: 1 }.object(name),
            Workloads::StatefulSets { .. } => Workloads::StatefulSets { n: 1, replicas: 1 }.object(name),
            Workloads::DaemonSet { .. } => {
                let mut object = self.object(name);
                object["spec"]["template"]["spec"]["nodeSelector"] = json!({HOSTNAME: node_name(0)});
                object
            }
        }
    }

    /// Whether the status of one says that all is done.
    fn is_done(self, object: &Value) -> bool {
        let status = &object["status"];
        match self {
            Workloads::Jobs { completions, .. } => {
                has_condition(object, "Complete", "True") && status["succeeded"] == completions
            }
            Workloads::StatefulSets { replicas, .. } => {
                ["replicas", "readyReplicas", "availableReplicas"].iter().all(|field| status[*field] == replicas)
            }
            Workloads::DaemonSet { nodes } => {
                ["desiredNumberScheduled", "numberReady", "numberAvailable"].iter().all(|field| status[*field] == nodes)
            }
        }
    }
}

const HOSTNAME: &str = "kubernetes.io/hostname";

pub(super) fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// A node that is ready, as a kubelet registers it.
pub(super) fn node(number: usize) -> Value {
    let name = node_name(number);
    let capacity = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, "kubernetes.io/os": "linux"}},
        "status": {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}

/// From the creation of the first workload until the status of each says that all its Pods are as wanted.
pub(super) async fn measure(args: &Args, implementation: Implementation, workloads: Workloads) -> Result<Sample> {
    // It gives each new node a taint, which only a controller that is not measured takes away.
    let apiserver_flags = vec!["--disable-admission-plugins=TaintNodesByCondition".to_owned()];
    let plane = ControlPlane::start(Options { apiserver_flags, ..Options::default() }).await?;
    let client = plane.client();
    prepare(&client).await?;
    if let Workloads::DaemonSet { nodes } = workloads {
        create_all(&client, "/api/v1/nodes", (0..nodes).map(node)).await?;
    }
    let subject = start_unprobed(args, &plane, implementation, &[workloads.controller()], &[]).await?;
    let subject = subject.context("nothing runs")?;
    probe(&client, workloads).await.with_context(|| subject.process().log_tail())?;
    let before = usage_at_rest(&subject).await?;
    let mut finisher = Finisher::start(&client, workloads.fate()).await?;
    let path = workloads.path("bench");
    let mut watched = Watched::open(&client, &path).await?;
    let (n, total) = workloads.sizes();
    let begun = Instant::now();
    let done = async {
        create_all(&client, &path, (0..n).map(|number| workloads.object(&format!("app-{number}")))).await?;
        watched.until(n, |object| workloads.is_done(object)).await
    };
    finisher.during(done).await.with_context(|| subject.process().log_tail())?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = usage_at_rest(&subject).await?;
    let made = count(&client).await?;
    if made != total as u64 {
        bail!("{made} Pods where {total} were wanted");
    }
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    drop(finisher);
    subject.stop().await;
    plane.stop().await;
    Ok(Sample {
        pods_per_second: total as f64 / seconds,
        seconds,
        cpu_seconds,
        rss_bytes: after.rss_bytes as f64,
        ..Sample::default()
    })
}

/// Waits until the subject has made the Pod of a small workload: only then are its caches filled.
async fn probe(client: &ApiClient, workloads: Workloads) -> Result<()> {
    client.create(&workloads.path("probe"), &workloads.probe(&probe_name())).await?;
    eventually(PATIENCE, "the Pod of the probe", async || {
        Ok((!client.list("/api/v1/namespaces/probe/pods").await?.is_empty()).then_some(()))
    })
    .await
}
