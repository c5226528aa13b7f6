//! Several hosts of one cluster: one leads, the others stand by.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::{ApiClient, HostProcess, PatchKind, TestCluster, eventually};
use serde_json::{Value, json};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/kube-system/events";

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until a host of these leads; returns its position.
async fn leader(client: &ApiClient, hosts: &[HostProcess]) -> Result<usize> {
    eventually(PATIENCE, "a host to lead", async || {
        let lease = client.get(LEASE).await?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        Ok(hosts.iter().position(|host| !holder.is_empty() && host.is_of(holder)))
    })
    .await
}

/// Waits until all plugins of a host are in this phase.
async fn phase(host: &HostProcess, phase: &str) -> Result<()> {
    eventually(PATIENCE, format!("the plugins to be {phase}"), async || {
        let listing = host.plugin(&["list"])?;
        let phases: BTreeSet<&str> =
            listing["items"].as_array().unwrap().iter().map(|plugin| plugin["phase"].as_str().unwrap()).collect();
        ensure!(phases == BTreeSet::from([phase]), "they are {phases:?}");
        Ok(Some(()))
    })
    .await
    .with_context(|| host.log_tail())
}

/// Scales the ReplicaSet, and waits until it has exactly its Pods.
async fn scale(client: &ApiClient, replicas: usize) -> Result<()> {
    client.patch(&format!("{SETS}/web"), PatchKind::Merge, &json!({"spec": {"replicas": replicas}})).await?;
    eventually(PATIENCE, format!("{replicas} Pods"), async || {
        let pods = client.list(PODS).await?;
        let n_pods = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count();
        ensure!(n_pods == replicas, "there are {n_pods}");
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_hosts_runs_the_plugins_and_the_other_takes_over_whatever_ends_the_first() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let client = &cluster.client;
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    client.create(SETS, &json!({"metadata": {"name": "web"}, "spec": spec})).await?;
    let start = || {
        let times = ["lease-duration=4s", "renew-deadline=3s", "retry-period=500ms"];
        let times = times.map(|time| format!("--leader-elect-{time}"));
        cluster.host(&[&[HostProcess::controllers(&["replicaset"])], &times[..]].concat())
    };
    let mut hosts = vec![start()?, start()?];
    for host in &mut hosts {
        host.ready().await?;
    }
    let first = leader(client, &hosts).await?;
    phase(&hosts[first], "Running").await?;
    phase(&hosts[1 - first], "Standby").await?;
    scale(client, 2).await?;

    // It stops in order.
    hosts.swap_remove(first).stop().await;
    scale(client, 4).await?;
    phase(&hosts[0], "Running").await?;

    // It is killed.
    hosts.push(start()?);
    hosts[1].ready().await?;
    hosts[0].kill();
    scale(client, 1).await?;
    hosts.remove(0);

    // It sleeps for longer than its Lease, and wakes as one that stands by.
    hosts.push(start()?);
    hosts[1].ready().await?;
    hosts[0].process.pause();
    ensure!(leader(client, &hosts[1..]).await? == 0);
    hosts[0].process.resume();
    phase(&hosts[0], "Standby").await?;
    scale(client, 3).await?;
    phase(&hosts[1], "Running").await?;

    let events = client.list(EVENTS).await?;
    let of_lease = |event: &&Value| event["involvedObject"]["name"] == "kube-controller-manager";
    let messages: Vec<&str> = events.iter().filter(of_lease).map(|event| event["message"].as_str().unwrap()).collect();
    ensure!(messages.iter().filter(|message| message.ends_with(" became leader")).count() == 4, "{messages:?}");
    ensure!(messages.iter().any(|message| message.ends_with(" stopped leading")), "{messages:?}");
    cluster.stop().await;
    Ok(())
}
