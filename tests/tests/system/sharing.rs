//! Several hosts of one cluster: they share groups of plugins, or the API server elects the leader.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use anyhow::{Result, ensure};
use pintle_tests::{ApiClient, HostProcess, Options, PATIENCE, PatchKind, TestCluster, eventually};
use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const CANDIDATES: &str = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Short times, so that a killed host is replaced soon, and long enough for a busy machine to renew its Leases.
const TIMES: [&str; 3] =
    ["--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms"];

fn flags(more: &[&str]) -> Vec<String> {
    let controllers = HostProcess::controllers(&["deployment", "replicaset", "garbagecollector"]);
    std::iter::once(controllers).chain(TIMES.iter().chain(more).map(|flag| (*flag).to_owned())).collect()
}

/// For each host, the Leases of these that it holds.
async fn held<const N: usize>(
    client: &ApiClient,
    hosts: &[HostProcess],
    leases: [&str; N],
) -> Result<Vec<Vec<String>>> {
    let mut held = vec![Vec::new(); hosts.len()];
    for name in leases {
        let lease = client.get(&format!("{LEASES}/{name}")).await?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if let Some(host) = hosts.iter().position(|host| !holder.is_empty() && host.is_of(holder)) {
            held[host].push(name.to_owned());
        }
    }
    Ok(held)
}

/// Waits until the hosts hold so many of the Leases of the groups each, in any order; returns which.
async fn shared(client: &ApiClient, hosts: &[HostProcess], counts: &[usize]) -> Result<Vec<Vec<String>>> {
    eventually(PATIENCE, format!("the hosts to lead {counts:?} groups"), async || {
        let held = held(client, hosts, ["pintle", "pintle-sets", "pintle-gc"]).await?;
        let mut found: Vec<usize> = held.iter().map(Vec::len).collect();
        found.sort_unstable();
        ensure!(found == counts, "they lead {held:?}");
        Ok(Some(held))
    })
    .await
}

/// Waits until the Deployment has exactly so many Pods, after it was scaled to them.
async fn scale(client: &ApiClient, replicas: usize) -> Result<()> {
    client.patch(&format!("{DEPLOYMENTS}/web"), PatchKind::Merge, &json!({"spec": {"replicas": replicas}})).await?;
    eventually(PATIENCE, format!("{replicas} Pods"), async || {
        let pods = client.list(PODS).await?;
        let n_pods = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count();
        ensure!(n_pods == replicas, "there are {n_pods}");
        Ok(Some(()))
    })
    .await
}

async fn create_deployment(client: &ApiClient) -> Result<()> {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    client.create(DEPLOYMENTS, &json!({"metadata": {"name": "web"}, "spec": spec})).await?;
    Ok(())
}

/// The phase of each plugin of a host, by its name.
fn phases(host: &HostProcess) -> Result<Vec<(String, String)>> {
    let listing = host.plugin(&["list"])?;
    let text = |plugin: &Value, field: &str| plugin[field].as_str().unwrap_or_default().to_owned();
    Ok(listing["items"].as_array().unwrap().iter().map(|item| (text(item, "name"), text(item, "phase"))).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_share_the_controllers_and_take_over_those_of_a_host_that_goes() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let client = &cluster.client;
    create_deployment(client).await?;
    let flags = flags(&[
        "--beside-kube-controller-manager",
        "--leader-elect-group=sets=replicaset",
        "--leader-elect-group=gc=garbagecollector",
    ]);
    let mut hosts = Vec::new();
    // One after the other, so that the first one leads all and hands over.
    for counts in [&[3][..], &[1, 2], &[1, 1, 1]] {
        hosts.push(cluster.host(&flags)?);
        hosts.last_mut().unwrap().ready().await?;
        shared(client, &hosts, counts).await?;
    }
    // The controller of Deployments and the one of ReplicaSets are in different processes.
    scale(client, 4).await?;
    let held = shared(client, &hosts, &[1, 1, 1]).await?;
    for (host, held) in hosts.iter().zip(&held) {
        let leads = match &*held[0] {
            "pintle" => "deployment-controller",
            "pintle-sets" => "replicaset-controller",
            _ => "garbage-collector-controller",
        };
        eventually(PATIENCE, format!("{leads} to run alone"), async || {
            let phases = phases(host)?;
            let runs = |(name, phase): &(String, String)| phase == if name == leads { "Running" } else { "Standby" };
            ensure!(phases.len() == 3 && phases.iter().all(runs), "{phases:?}");
            Ok(Some(()))
        })
        .await?;
    }

    // A host is killed.
    let of_sets = held.iter().position(|held| held[0] == "pintle-sets").unwrap();
    hosts.swap_remove(of_sets).kill();
    shared(client, &hosts, &[1, 2]).await?;
    scale(client, 2).await?;

    // It comes back; another one stops in order.
    hosts.push(cluster.host(&flags)?);
    hosts.last_mut().unwrap().ready().await?;
    shared(client, &hosts, &[1, 1, 1]).await?;
    hosts.swap_remove(0).stop().await;
    shared(client, &hosts, &[1, 2]).await?;
    scale(client, 3).await?;
    let sets = client.list(SETS).await?;
    ensure!(sets.len() == 1, "the ReplicaSet was created twice: {sets:?}");
    for host in hosts {
        host.stop().await;
    }
    cluster.stop().await;
    Ok(())
}

/// KEP-4355. The API server elects the candidate with the oldest version, and the oldest of those.
#[tokio::test(flavor = "multi_thread")]
async fn with_its_gate_on_the_api_server_elects_the_leader() -> Result<()> {
    let gate = "--feature-gates=CoordinatedLeaderElection=true";
    let apiserver_flags = vec![gate.to_owned(), "--runtime-config=coordination.k8s.io/v1beta1=true".to_owned()];
    let cluster = TestCluster::real_with(Options { apiserver_flags, ..Options::default() }).await?;
    let client = &cluster.client;
    client.create("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await?;
    create_deployment(client).await?;
    let flags = flags(&[gate, "--leader-elect=true"]);
    let mut hosts = Vec::new();
    for _ in 0..2 {
        hosts.push(cluster.host(&flags)?);
        hosts.last_mut().unwrap().ready().await?;
    }
    let leads = async |hosts: &[HostProcess]| {
        eventually(PATIENCE, "a host to be elected", async || {
            let held = held(client, hosts, ["kube-controller-manager"]).await?;
            Ok(held.iter().position(|held| !held.is_empty()))
        })
        .await
    };
    let first = leads(&hosts).await?;
    scale(client, 2).await?;
    let lease = client.get(&format!("{LEASES}/kube-controller-manager")).await?;
    ensure!(lease["spec"]["strategy"] == "OldestEmulationVersion", "the API server has not elected: {lease}");
    eventually(PATIENCE, "a LeaseCandidate of each host", async || {
        let candidates = client.list(CANDIDATES).await?;
        ensure!(candidates.len() == 2, "{candidates:?}");
        Ok(Some(()))
    })
    .await?;

    // Its candidate goes with it, and the other one is elected.
    hosts.swap_remove(first).stop().await;
    let candidates = client.list(CANDIDATES).await?;
    ensure!(candidates.len() == 1, "{candidates:?}");
    ensure!(leads(&hosts).await? == 0);
    scale(client, 4).await?;

    // A candidate that behaves as an older version is preferred: it takes part, and never renews the Lease.
    let older = json!({
        "metadata": {"name": "older"},
        "spec": {
            "leaseName": "kube-controller-manager", "strategy": "OldestEmulationVersion",
            "binaryVersion": "1.35.0", "emulationVersion": "1.35.0", "renewTime": "2100-01-01T00:00:00.000000Z",
        },
    });
    client.create(CANDIDATES, &older).await?;
    eventually(PATIENCE, "the host to hand over", async || {
        let log = hosts[0].log_tail();
        ensure!(log.contains("hands the Lease over"), "{log}");
        Ok(Some(()))
    })
    .await?;
    client.delete(&format!("{CANDIDATES}/older"), None).await?;
    ensure!(leads(&hosts).await? == 0);
    scale(client, 1).await?;
    for host in hosts {
        host.stop().await;
    }
    cluster.stop().await;
    Ok(())
}
