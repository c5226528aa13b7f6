//! Several hosts of one cluster: one leads, the others stand by.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::controlplane::SUBJECT;
use pintle_tests::proxy::{Proxy, kubeconfig_through};
use pintle_tests::scenarios::history::Recorder;
use pintle_tests::scenarios::stage::{Stage, replica_set};
use pintle_tests::scenarios::{UserActions, by_id, rules};
use pintle_tests::{ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, eventually};
use serde_json::{Value, json};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/kube-system/events";

/// Waits until a host of these leads; returns its position.
async fn leader(client: &ApiClient, hosts: &[HostProcess]) -> Result<usize> {
    eventually(PATIENCE, "a host to lead", async || {
        let lease = client.get(LEASE).await?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        Ok(hosts.iter().position(|host| !holder.is_empty() && host.is_of(holder)))
    })
    .await
}

/// Waits until so many terms have begun, and been told.
async fn terms(client: &ApiClient, n: usize) -> Result<()> {
    eventually(PATIENCE, format!("{n} terms"), async || {
        let messages = messages(client).await?;
        ensure!(messages.iter().filter(|message| message.ends_with(" became leader")).count() == n, "{messages:?}");
        Ok(Some(()))
    })
    .await
}

/// The events of the Lease.
async fn messages(client: &ApiClient) -> Result<Vec<String>> {
    let events = client.list(EVENTS).await?;
    let of_lease = |event: &&Value| event["involvedObject"]["name"] == "kube-controller-manager";
    Ok(events.iter().filter(of_lease).map(|event| event["message"].as_str().unwrap().to_owned()).collect())
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
        let times = ["lease-duration=10s", "renew-deadline=8s", "retry-period=500ms"];
        let times = times.map(|time| format!("--leader-elect-{time}"));
        let own = [HostProcess::controllers(&["replicaset"]), "--leader-elect=true".to_owned()];
        cluster.host(&[&own[..], &times[..]].concat())
    };
    let mut hosts = vec![start()?, start()?];
    for host in &mut hosts {
        host.ready().await?;
    }
    let first = leader(client, &hosts).await?;
    phase(&hosts[first], "Running").await?;
    phase(&hosts[1 - first], "Standby").await?;
    scale(client, 2).await?;
    terms(client, 1).await?;

    // It stops in order.
    hosts.swap_remove(first).stop().await;
    scale(client, 4).await?;
    phase(&hosts[0], "Running").await?;
    terms(client, 2).await?;

    // It is killed.
    hosts.push(start()?);
    hosts[1].ready().await?;
    hosts[0].kill();
    scale(client, 1).await?;
    hosts.remove(0);
    terms(client, 3).await?;

    // It sleeps for longer than its Lease, and wakes as one that stands by.
    hosts.push(start()?);
    hosts[1].ready().await?;
    hosts[0].process.pause();
    ensure!(leader(client, &hosts[1..]).await? == 0);
    hosts[0].process.resume();
    phase(&hosts[0], "Standby").await?;
    scale(client, 3).await?;
    phase(&hosts[1], "Running").await?;

    terms(client, 4).await?;
    eventually(PATIENCE, "the end of a term to be told", async || {
        let messages = messages(client).await?;
        ensure!(messages.iter().any(|message| message.ends_with(" stopped leading")), "{messages:?}");
        Ok(Some(()))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

/// The next leader begins within milliseconds, while its watch of Pods is behind by seconds: it creates none again.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_waits_until_its_caches_show_what_the_last_one_wrote() -> Result<()> {
    const REPLICAS: u32 = 20;
    let cluster = TestCluster::real().await?;
    let plane = cluster.plane()?;
    let stage = Stage::new(plane.client(), plane.kubeconfig(), "hand-over".to_owned());
    stage.client.create_namespace(&stage.ns).await?;
    // Admission requires it for each Pod.
    stage.create("serviceaccounts", &json!({"metadata": {"name": "default"}})).await?;
    stage.create("replicasets", &replica_set("web", 0, json!({}))).await?;
    let recorder = Recorder::start(&stage).await?;
    let flags = |times: [&str; 3]| {
        let times = times.map(|time| format!("--leader-elect-{time}"));
        let own = [HostProcess::controllers(&["replicaset"]), "--leader-elect=true".to_owned()];
        [&own[..], &times[..]].concat()
    };
    // It may wait for its caches as long as the Lease lasts, which is longer than a busy machine needs.
    let patient = flags(["lease-duration=120s", "renew-deadline=80s", "retry-period=2s"]);
    let proxies = [Proxy::start(plane).await?, Proxy::start(plane).await?];
    let through = |proxy: &Proxy| kubeconfig_through(plane, SUBJECT, proxy.address());

    let mut first = HostProcess::start(&std::fs::read_to_string(plane.kubeconfig_for(SUBJECT))?, &patient)?;
    first.ready().await?;
    let mut second = HostProcess::start(&through(&proxies[0])?, &patient)?;
    second.ready().await?;
    phase(&second, "Standby").await?;
    proxies[0].delay("pods", Duration::from_secs(4));
    stage.scale("replicasets", "web", REPLICAS).await?;
    let count = |n: u32| move |pods: &[Value]| pods.len() == n as usize;
    stage.until_all("pods", "be there", count(REPLICAS)).await?;
    first.stop().await;
    phase(&second, "Running").await?;
    ensure!(!second.log_tail().contains("the caches do not show"), "{}", second.log_tail());
    stage.scale("replicasets", "web", REPLICAS + 2).await?;
    stage.until_all("pods", "be there", count(REPLICAS + 2)).await?;

    // A watch that shows nothing any more: the term begins at last, as late as after a crash.
    let mut third = HostProcess::start(
        &through(&proxies[1])?,
        &flags(["lease-duration=10s", "renew-deadline=8s", "retry-period=500ms"]),
    )?;
    third.ready().await?;
    phase(&third, "Standby").await?;
    proxies[1].silence("pods");
    stage.scale("replicasets", "web", REPLICAS + 4).await?;
    stage.until_all("pods", "be there", count(REPLICAS + 4)).await?;
    let settled = stage.settle().await?;
    let history = recorder.until(&by_id(&stage, &settled)).await?;
    let broken = rules::broken(&history, UserActions { replaces_subject: true, ..UserActions::default() });
    ensure!(broken.is_empty(), "rules are broken:\n{}", broken.join("\n"));
    second.stop().await;
    phase(&third, "Running").await?;
    ensure!(third.log_tail().contains("the caches do not show what the last leader wrote"), "{}", third.log_tail());
    third.kill();
    cluster.stop().await;
    Ok(())
}
