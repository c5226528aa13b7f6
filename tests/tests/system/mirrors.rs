//! `kubectl get controllerplugins` lists the built-in controllers of a host: resources that mirror them, and take effect when they are
//! edited.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::{HostProcess, PatchKind, TestCluster, eventually, kubectl, target_dir};
use serde_json::{Value, json};

const RESOURCES: &str = "/apis/pintle.dev/v1alpha1/controllerplugins";
const NAMES: [&str; 3] = ["namespace-controller", "replicaset-controller", "serviceaccount-controller"];

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A host with these controllers, which takes part in an election.
fn host(cluster: &TestCluster, names: &[&str]) -> Result<HostProcess> {
    let times =
        ["--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms"];
    let own = [HostProcess::controllers(names), "--install-crd".to_owned()];
    cluster.host(&own.into_iter().chain(times.map(str::to_owned)).collect::<Vec<_>>())
}

/// Version, digest and phase by name.
type Plugins = BTreeMap<String, [Value; 3]>;

/// Of what `kubectl get controllerplugins -o json` prints, and the uids.
async fn resources(cluster: &TestCluster) -> Result<(Plugins, BTreeMap<String, String>)> {
    let printed = kubectl(&cluster.kubeconfig(), &["get", "controllerplugins", "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&printed)?;
    let (mut plugins, mut uids) = (Plugins::new(), BTreeMap::new());
    for item in list["items"].as_array().unwrap() {
        let (name, current) = (item["metadata"]["name"].as_str().unwrap(), &item["status"]["current"]);
        let values = [&current["version"], &current["digest"], &item["status"]["phase"]].map(Value::clone);
        plugins.insert(name.to_owned(), values);
        uids.insert(name.to_owned(), item["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    Ok((plugins, uids))
}

/// Of what `pintle plugin list -o json` prints, and the sources.
fn listed(host: &HostProcess) -> Result<(Plugins, BTreeMap<String, Value>)> {
    let listing = host.plugin(&["list"])?;
    let (mut plugins, mut sources) = (Plugins::new(), BTreeMap::new());
    for item in listing["items"].as_array().unwrap() {
        let (name, current) = (item["name"].as_str().unwrap().to_owned(), &item["current"]);
        plugins.insert(name.clone(), [&current["version"], &current["digest"], &item["phase"]].map(Value::clone));
        sources.insert(name, item["source"].clone());
    }
    Ok((plugins, sources))
}

/// Waits until both answers are the same, all of these run, and all are built in; returns the uids.
async fn same_answers(cluster: &TestCluster, host: &HostProcess, names: &[&str]) -> Result<BTreeMap<String, String>> {
    eventually(PATIENCE, "the same answer of kubectl and of pintle", async || {
        let (ours, sources) = listed(host)?;
        let (theirs, uids) = resources(cluster).await?;
        ensure!(ours == theirs, "pintle: {ours:?}\nkubectl: {theirs:?}");
        ensure!(ours.keys().eq(names), "{ours:?}");
        let (built_in, running) = (json!("built-in"), json!("Running"));
        ensure!(sources.values().all(|source| *source == built_in), "{sources:?}");
        ensure!(ours.values().all(|[_, _, phase]| *phase == running), "{ours:?}");
        Ok(Some(uids))
    })
    .await
    .with_context(|| host.log_tail())
}

/// Waits until the plugin has this source and this phase.
async fn until(host: &HostProcess, name: &str, source: &str, phase: &str) -> Result<()> {
    eventually(PATIENCE, format!("{name} to be {phase}, by its {source}"), async || {
        let plugin = host.plugin(&["describe", name])?["plugin"].take();
        ensure!(plugin["source"] == source && plugin["phase"] == phase, "{plugin}");
        Ok(Some(()))
    })
    .await
    .with_context(|| host.log_tail())
}

/// Writing requests that a host has sent: its metrics.
async fn writes(host: &mut HostProcess) -> Result<Vec<String>> {
    let client = host.ready().await?;
    let text = client.request("GET", "/metrics", &[], None).await?.text();
    let is_write = |line: &&str| ["POST", "PATCH", "DELETE"].iter().any(|verb| line.contains(&format!("\"{verb}\"")));
    let requests = text.lines().filter(|line| line.starts_with("rest_client_requests_total"));
    Ok(requests.filter(is_write).map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_and_pintle_list_the_same_on_the_embedded_cluster() -> Result<()> {
    life(TestCluster::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_and_pintle_list_the_same_on_the_real_control_plane() -> Result<()> {
    life(TestCluster::real().await?).await
}

async fn life(cluster: TestCluster) -> Result<()> {
    let (client, [edited, applied, other]) = (&cluster.client, NAMES);
    let mut leader = host(&cluster, &NAMES)?;
    leader.ready().await?;
    let first = same_answers(&cluster, &leader, &NAMES).await?;

    // An edited mirror is a declaration, and a deleted one comes back as a mirror.
    let disable = json!({"spec": {"disabled": true}});
    client.patch(&format!("{RESOURCES}/{edited}"), PatchKind::Merge, &disable).await?;
    until(&leader, edited, "resource", "Disabled").await?;
    client.delete(&format!("{RESOURCES}/{edited}"), None).await?;
    let second = same_answers(&cluster, &leader, &NAMES).await?;
    ensure!(first[edited] != second[edited] && first[other] == second[other], "{first:?} {second:?}");

    // Each kind of apply replaces its source.
    let file = tempfile::Builder::new().suffix(".json").tempfile_in(target_dir())?;
    let source = json!({"configMap": {"namespace": "default", "name": "c", "key": "k"}});
    let object = json!({
        "apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": applied},
        "spec": {"source": source},
    });
    std::fs::write(file.path(), object.to_string())?;
    let path = file.path().display().to_string();
    for how in [&["apply", "-f"][..], &["apply", "--server-side", "--force-conflicts", "-f"]] {
        kubectl(&cluster.kubeconfig(), &[how, &[&path]].concat()).await?;
        eventually(PATIENCE, "the source of the declaration", async || {
            let object = client.get(&format!("{RESOURCES}/{applied}")).await?;
            ensure!(object["spec"]["source"] == source, "{object}");
            ensure!(object["status"]["conditions"][0]["reason"] == "Unpinned", "{object}");
            Ok(Some(()))
        })
        .await?;
        client.delete(&format!("{RESOURCES}/{applied}"), None).await?;
        same_answers(&cluster, &leader, &NAMES).await?;
    }

    // A host on standby writes nothing.
    let mut standby = host(&cluster, &NAMES)?;
    standby.ready().await?;
    until(&standby, edited, "built-in", "Standby").await?;
    client.delete(&format!("{RESOURCES}/{edited}"), None).await?;
    let before = same_answers(&cluster, &leader, &NAMES).await?;
    let (ours, theirs) = (writes(&mut leader).await?, writes(&mut standby).await?);
    ensure!(!ours.is_empty() && theirs.is_empty(), "{ours:?} {theirs:?}");
    standby.stop().await;

    // After a restart, they run at once, from the binary.
    leader.stop().await;
    let mut leader = host(&cluster, &NAMES)?;
    leader.answers().await?;
    let (_, sources) = listed(&leader)?;
    ensure!(sources.values().all(|source| *source == json!("built-in")) && sources.len() == 3, "{sources:?}");
    leader.ready().await?;
    let after = same_answers(&cluster, &leader, &NAMES).await?;
    ensure!(before == after, "{before:?} {after:?}");
    let log = std::fs::read_to_string(leader.process.log())?;
    ensure!(!log.contains("does not start") && !log.contains("applied from its ControllerPlugin"), "{log}");

    // A controller that the host no longer runs has no mirror.
    leader.stop().await;
    let leader = host(&cluster, &[edited, other])?;
    let last = same_answers(&cluster, &leader, &[edited, other]).await?;
    ensure!(last[edited] == after[edited] && last[other] == after[other], "{after:?} {last:?}");
    leader.stop().await;
    cluster.stop().await;
    Ok(())
}
