//! Nodes in three zones that are ready and renew their Leases, and then some of them that do so no longer: what the controllers of
//! Nodes cost while nothing happens, and how fast they taint the lost Nodes and delete the Pods on them.
//!
//! There are no kubelets: this process renews the Leases, and Pods that are deleted stay, with the time of their deletion.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pintle_tests::process::Usage;
use pintle_tests::scenarios::subject::Running;
use pintle_tests::{ApiClient, ControlPlane, Options, PATIENCE, eventually};
use serde_json::{Value, json};

use super::finisher::{Fate, status};
use super::leases::Leases;
use super::pods::{self, node_name};
use super::watched::Watched;
use crate::arguments::Args;
use crate::objects::{create_all, patch_all, prepare};
use crate::report::{Implementation, Sample};
use crate::running::{probe_name, start_unprobed, usage_at_rest};

const CONTROLLERS: [&str; 2] = ["node-lifecycle-controller", "taint-eviction-controller"];

/// By default, a zone has one Node tainted in ten seconds, and the rate would be all that is measured.
const FLAG: &str = "--node-eviction-rate=1000";

const NODES: &str = "/api/v1/nodes";

/// How many zones the Nodes are in. A tenth of the Nodes of a zone is too few to disrupt it.
const N_ZONES: usize = 3;

/// What follows from the start of a subject, such as an event about each Node, is over after this time.
const SETTLE: Duration = Duration::from_secs(60);

/// How long Pods tolerate a Node that is lost.
const TOLERATION_SECONDS: u64 = 5;

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// A time of all conditions: only its changes matter.
const TIME: &str = "2026-01-01T00:00:00Z";

/// Nodes, some of which are lost after a time in which nothing happens.
#[derive(Clone, Copy)]
pub(crate) struct Nodes {
    pub(crate) n: usize,
    /// Of so many Nodes, one is lost. It has no divisor in common with the number of zones, so that each zone loses as many.
    pub(crate) one_in: usize,
    /// How long nothing happens but renewals.
    pub(crate) idle: Duration,
}

impl Nodes {
    /// Whether this is one of the Nodes that are lost.
    pub(super) fn loses(self, number: usize) -> bool {
        number.is_multiple_of(self.one_in)
    }

    /// The numbers of the Nodes that are lost.
    fn lost(self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.n).step_by(self.one_in)
    }
}

/// What was seen of a subject.
struct Seen {
    /// At the beginning of the time in which nothing happened.
    before: Usage,
    /// At its end, when Nodes were lost.
    idle: Usage,
    /// From the loss until all lost Nodes were tainted, and their Pods deleted.
    took: Duration,
}

/// Seconds: from the loss until all lost Nodes are tainted as unreachable and each of their Pods is deleted. The grace period of 50 s
/// and the toleration of the Pods are parts of them. Rate: lost Nodes in this time. Processor time: of the time in which nothing happens,
/// and of the loss. Memory: after the loss.
pub(super) async fn measure(args: &Args, implementation: Implementation, nodes: Nodes) -> Result<Sample> {
    // As in a cluster that has run for a while: new Nodes have no taint that the subject would have to take away.
    let apiserver_flags = vec!["--disable-admission-plugins=TaintNodesByCondition".to_owned()];
    let plane = ControlPlane::start(Options { apiserver_flags, ..Options::default() }).await?;
    let client = plane.client();
    prepare(&client).await?;
    create_all(&client, NODES, (0..nodes.n).map(node)).await?;
    run_pods(&client, nodes).await?;
    let leases = Leases::create(&client, nodes).await?;
    let measured = async {
        let subject = start_unprobed(args, &plane, implementation, &CONTROLLERS, &[FLAG]).await?;
        let subject = subject.context("nothing runs")?;
        let seen = observe(&client, &subject, &leases, nodes).await.with_context(|| subject.process().log_tail())?;
        anyhow::Ok((subject, seen))
    };
    let (subject, Seen { before, idle, took }) = leases.during(measured).await?;
    // Rest comes long before the other Nodes seem lost, too: the subject only ends what follows from the loss.
    let after = usage_at_rest(&subject).await?;
    eprintln!(
        "{}: {:.1} CPU seconds in {:?} without a change, {:.1} for the loss; {} bytes before the loss",
        implementation.name(),
        idle.cpu.saturating_sub(before.cpu).as_secs_f64(),
        nodes.idle,
        after.cpu.saturating_sub(idle.cpu).as_secs_f64(),
        idle.rss_bytes,
    );
    subject.stop().await;
    plane.stop().await;
    let seconds = took.as_secs_f64();
    Ok(Sample {
        pods_per_second: nodes.lost().len() as f64 / seconds,
        seconds,
        cpu_seconds: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
        rss_bytes: after.rss_bytes as f64,
        ..Sample::default()
    })
}

/// Waits for as long as nothing happens, then loses Nodes and waits until the subject has done what follows from it.
async fn observe(client: &ApiClient, subject: &Running, leases: &Leases, nodes: Nodes) -> Result<Seen> {
    probe(client).await?;
    // It does not come to rest: it always receives renewals.
    tokio::time::sleep(SETTLE).await;
    let before = subject.process().usage()?;
    tokio::time::sleep(nodes.idle).await;
    let idle = subject.process().usage()?;
    let mut tainted = Watched::open(client, NODES).await?;
    let mut evicted = Watched::open(client, &pods_of("bench")).await?;
    leases.lose();
    let begun = Instant::now();
    let n_lost = nodes.lost().len();
    tokio::try_join!(tainted.until(n_lost, is_unreachable), evicted.until(n_lost, is_deleted))?;
    let took = begun.elapsed();
    let n_tainted = client.list(NODES).await?.iter().filter(|node| is_unreachable(node)).count();
    ensure!(n_tainted == n_lost, "{n_tainted} Nodes are tainted where {n_lost} were lost");
    Ok(Seen { before, idle, took })
}

/// A Node that is ready, as a kubelet registers it and keeps it.
fn node(number: usize) -> Value {
    let mut node = pods::node(number);
    let labels = &mut node["metadata"]["labels"];
    labels["topology.kubernetes.io/region"] = json!("region");
    labels["topology.kubernetes.io/zone"] = json!(format!("zone-{}", number % N_ZONES));
    labels["kubernetes.io/arch"] = json!("amd64");
    // Without them, a subject would write each Node.
    labels["beta.kubernetes.io/os"] = json!("linux");
    labels["beta.kubernetes.io/arch"] = json!("amd64");
    let conditions = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("Ready", "True", "KubeletReady"),
    ];
    node["status"]["conditions"] = json!(conditions.map(|(kind, status, reason)| json!({
        "type": kind, "status": status, "reason": reason, "lastHeartbeatTime": TIME, "lastTransitionTime": TIME,
    })));
    node
}

fn pods_of(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn pod(name: &str, node: &str) -> Value {
    let tolerations = [UNREACHABLE, "node.kubernetes.io/not-ready"].map(
        |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}),
    );
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "tolerations": tolerations,
            "containers": [{"name": "app", "image": "registry.example/app:1"}],
        },
    })
}

/// Creates a Pod on each Node that is to be lost, and makes it ready.
async fn run_pods(client: &ApiClient, nodes: Nodes) -> Result<()> {
    let name = |number: usize| format!("pod-{number}");
    let path = pods_of("bench");
    create_all(client, &path, nodes.lost().map(|number| pod(&name(number), &node_name(number)))).await?;
    let statuses = nodes.lost().map(|number| format!("{path}/{}/status", name(number)));
    patch_all(client, statuses, &status(Fate::Ready)).await
}

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().any(|taint| taint["key"] == key && taint["effect"] == effect)
}

fn is_unreachable(node: &Value) -> bool {
    has_taint(node, UNREACHABLE, "NoExecute")
}

fn is_deleted(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// Waits until the subject has tainted a Node that is cordoned, and deleted a Pod that does not tolerate another taint of it: only then
/// are the caches of both controllers filled.
async fn probe(client: &ApiClient) -> Result<()> {
    let name = &probe_name();
    let mut node = node(0);
    node["metadata"]["name"] = json!(name);
    node["spec"] = json!({"unschedulable": true, "taints": [{"key": "probe", "effect": "NoExecute"}]});
    client.create(NODES, &node).await?;
    client.create(&pods_of("probe"), &pod(name, name)).await?;
    let node = format!("{NODES}/{name}");
    eventually(PATIENCE, "the taint of the probe", async || {
        let is_tainted = has_taint(&client.get(&node).await?, "node.kubernetes.io/unschedulable", "NoSchedule");
        Ok(is_tainted.then_some(()))
    })
    .await?;
    let pod = format!("{}/{name}", pods_of("probe"));
    eventually(PATIENCE, "the deletion of the Pod of the probe", async || {
        Ok(is_deleted(&client.get(&pod).await?).then_some(()))
    })
    .await?;
    client.delete(&pod, Some(&json!({"gracePeriodSeconds": 0}))).await?;
    client.delete(&node, None).await.map(drop)
}
