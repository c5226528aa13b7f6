//! `pintle rbac` on both API servers, and a host that has the printed roles alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::audited::{ACCOUNTS, Audited, items, rbac};
use pintle_tests::deploy::CONTROLLER;
use pintle_tests::{ControlPlane, HostProcess, PATIENCE, components, eventually, kubectl};
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Two controllers read all kinds, which would hide what the roles of others lack.
const WITH_OWN_READS: &str = "--controllers=*,-garbage-collector-controller,-namespace-controller";

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    fs::write(&file, text)?;
    Ok(file)
}

/// Applies what is printed, as YAML and as JSON, and has `kubectl auth reconcile` find nothing to do.
async fn apply(kubeconfig: &Path, folder: &Path, args: &[&str]) -> Result<()> {
    let yaml = write(folder, "rbac.yaml", &rbac(args)?)?;
    let json = write(folder, "rbac.json", &rbac(&[args, &["-o", "json"]].concat())?)?;
    let (yaml, json) = (yaml.to_str().unwrap(), json.to_str().unwrap());
    kubectl(kubeconfig, &["apply", "-f", yaml]).await?;
    // The YAML has been validated; of a `List` kubectl wants schemas in a form that the embedded API server does not have.
    let again = kubectl(kubeconfig, &["apply", "--validate=false", "-f", json]).await?;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "YAML and JSON differ: {again}");
    kubectl(kubeconfig, &["auth", "reconcile", "-f", yaml]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_api_servers_take_what_is_printed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let embedded = write(folder.path(), "kubeconfig", &cluster.kubeconfig())?;
    let plane = ControlPlane::shared().await?;
    for kubeconfig in [embedded, plane.kubeconfig()] {
        apply(&kubeconfig, folder.path(), &[]).await?;
        apply(&kubeconfig, folder.path(), &["--use-service-account-credentials"]).await?;
    }
    cluster.shutdown().await;
    Ok(())
}

/// A component that watches these kinds.
fn component(folder: &Path, kinds: &BTreeSet<String>) -> Result<PathBuf> {
    let watches: Vec<Value> = kinds.iter().map(|kind| json!({ "kind": kind })).collect();
    let bytes = components::with_manifest(&components::plugin("serviceaccount-controller")?, |manifest| {
        manifest["name"] = json!("all");
        manifest["watches"] = json!(watches);
    })?;
    let file = folder.join("all.wasm");
    fs::write(&file, bytes)?;
    Ok(file)
}

#[tokio::test]
async fn the_names_of_all_built_in_resources_are_known_without_a_cluster() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let client = plane.client();
    let groups = client.get("/apis").await?;
    let versions =
        groups["groups"].as_array().into_iter().flatten().flat_map(|group| group["versions"].as_array().unwrap());
    let versions = versions.map(|version| version["groupVersion"].as_str().unwrap());
    let mut kinds = BTreeSet::new();
    for version in std::iter::once("v1").chain(versions) {
        let path = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
        for resource in client.get(&path).await?["resources"].as_array().into_iter().flatten() {
            if !resource["name"].as_str().unwrap().contains('/') {
                kinds.insert(format!("{version}/{}", resource["kind"].as_str().unwrap()));
            }
        }
    }
    let folder = tempfile::tempdir()?;
    let file = component(folder.path(), &kinds)?;
    let (file, kubeconfig) = (file.to_str().unwrap(), plane.kubeconfig());
    let print = |more: &[&str]| rbac(&[&["--controllers=all", file][..], more].concat());
    let asked = print(&["--kubeconfig", kubeconfig.to_str().unwrap()])?;
    assert_eq!(print(&[])?, asked);
    println!("{} kinds", kinds.len());
    assert!(kinds.len() > 60, "{kinds:?}");
    Ok(())
}

/// Waits until there are so many Pods.
async fn pods(cluster: &Audited, host: &HostProcess, wanted: usize) -> Result<()> {
    let seen = eventually(PATIENCE, format!("{wanted} Pods"), async || {
        let pods = cluster.client.list(PODS).await?;
        let there = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count();
        Ok((there == wanted).then_some(()))
    });
    seen.await.with_context(|| host.log_tail())
}

async fn scale(cluster: &Audited, replicas: usize) -> Result<()> {
    let patch = json!({"spec": {"replicas": replicas}});
    cluster.client.patch(&format!("{DEPLOYMENTS}/web"), pintle_tests::PatchKind::Merge, &patch).await?;
    Ok(())
}

/// What each account has done.
fn deeds_by_account(cluster: &Audited) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut deeds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for deed in cluster.deeds()? {
        deeds.entry(deed.account).or_default().insert(deed.what);
    }
    Ok(deeds)
}

fn deployment() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

/// First with accounts of upstream's names, under upstream's own roles; then all under the host's account with the printed roles.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_other_permissions_brings_up_pods_under_the_right_names() -> Result<()> {
    let cluster = Audited::start().await?;
    let own = items(&rbac(&["--use-service-account-credentials", WITH_OWN_READS, "-o", "json"])?)?;
    // The roles of the controllers' own accounts are upstream's.
    let is_hosts = |object: &&Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        let is_of_controller = name.starts_with("pintle:controller:");
        (name.starts_with("pintle:") && !is_of_controller) || (object["kind"] == "ServiceAccount" && name == "pintle")
    };
    let of_host: Vec<Value> = own.iter().filter(is_hosts).cloned().collect();
    let of_every_host = of_host.iter().filter(|object| object["metadata"]["labels"][CONTROLLER].is_null()).count();
    assert_eq!(of_every_host, 13, "an account, and a binding for each of six roles");
    cluster.create("host.json", &of_host).await?;
    let flags = ["--leader-elect", WITH_OWN_READS, "--use-service-account-credentials"].map(str::to_owned);
    let (host, _) = cluster.host(&flags).await?;
    cluster.client.create(DEPLOYMENTS, &deployment()).await?;
    pods(&cluster, &host, 2).await?;
    // The account goes, and with it every token of it.
    cluster.client.delete(&format!("{ACCOUNTS}/replicaset-controller"), None).await?;
    scale(&cluster, 4).await?;
    pods(&cluster, &host, 4).await?;
    let wanted = [
        (
            "deployment-controller",
            &["create replicasets", "patch replicasets", "update deployments/status", "create events"][..],
        ),
        ("replicaset-controller", &["create pods", "update replicasets/status", "create events"]),
        ("service-account-controller", &["create serviceaccounts"]),
        ("root-ca-cert-publisher", &["create configmaps"]),
        (
            "pintle",
            &["watch pods", "create serviceaccounts", "create serviceaccounts/token", "watch leases", "update leases"],
        ),
    ];
    let missing = eventually(PATIENCE, "every controller's writes in the audit log", async || {
        let deeds = deeds_by_account(&cluster)?;
        let mut missing = wanted.iter().flat_map(|(who, what)| what.iter().map(move |what| (*who, *what)));
        let first = missing.find(|(who, what)| !deeds.get(*who).is_some_and(|deeds| deeds.contains(*what)));
        first.map_or(Ok(Some(())), |(who, what)| bail!("{who} did not {what}: {deeds:#?}"))
    });
    missing.await.with_context(|| host.log_tail())?;
    let deeds = deeds_by_account(&cluster)?;
    println!("{deeds:#?}");
    let writes = |who: &str| -> Vec<&str> {
        let reads = |deed: &&str| ["get ", "list ", "watch "].iter().any(|read| deed.starts_with(read));
        deeds[who].iter().map(String::as_str).filter(|deed| !reads(deed)).collect()
    };
    let of_host = ["create events", "create leases", "create serviceaccounts", "create serviceaccounts/token"];
    assert_eq!(writes("pintle"), [&of_host[..], &["update leases"]].concat());
    assert!(writes("replicaset-controller").iter().all(|deed| !deed.contains("deployments")));
    let log = fs::read_to_string(host.process.log())?;
    assert!(log.contains("service account created in kube-system"), "{log}");
    host.stop().await;

    // The accounts are of no use any more; the host does everything, by the roles that are printed for that.
    let roles = "clusterroles,clusterrolebindings,roles,rolebindings";
    kubectl(&cluster.plane.kubeconfig(), &["delete", roles, "--all-namespaces", "-l", CONTROLLER]).await?;
    cluster.forget()?;
    cluster.create("all.json", &items(&rbac(&[WITH_OWN_READS, "-o", "json"])?)?).await?;
    let (host, _) = cluster.host(&flags[..2]).await?;
    scale(&cluster, 6).await?;
    pods(&cluster, &host, 6).await?;
    let deeds = eventually(PATIENCE, "the host's writes in the audit log", async || {
        let deeds = deeds_by_account(&cluster)?;
        Ok(deeds.get("pintle").is_some_and(|deeds| deeds.contains("create pods")).then_some(deeds))
    });
    let deeds = deeds.await?;
    println!("{deeds:#?}");
    assert!(!deeds.contains_key("replicaset-controller"), "{deeds:#?}");
    host.stop().await;
    Ok(())
}

/// The roles that an administrator has applied are those of another Lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_prints_the_command_that_grants_what_it_lacks() -> Result<()> {
    let cluster = Audited::start().await?;
    let flags = [
        "--controllers=deployment,replicaset",
        "--beside-kube-controller-manager",
        "--leader-elect-resource-name=blue",
    ];
    cluster.create("first.json", &items(&rbac(&[&flags[..2], &["-o", "json"]].concat())?)?).await?;
    let (host, _) = cluster.host(&flags.map(str::to_owned)).await?;
    let log = || fs::read_to_string(host.process.log());
    let command = eventually(PATIENCE, "a message about the Lease", async || {
        let log = log()?;
        let line = log.lines().find(|line| line.contains("may not read the Lease of its leader election"));
        let command = line.and_then(|line| line.split("`pintle rbac ").nth(1)?.split(" | kubectl apply -f -`").next());
        Ok(command.map(str::to_owned))
    });
    let command = command.await.with_context(|| host.log_tail())?;
    let args = shlex::split(&command).context("not a command")?;
    let args: Vec<&str> = args.iter().map(String::as_str).chain(["-o", "json"]).collect();
    cluster.create("second.json", &items(&rbac(&args)?)?).await?;
    eventually(PATIENCE, "the host to lead", async || Ok(log()?.contains("became leader").then_some(())))
        .await
        .with_context(|| host.log_tail())?;
    host.stop().await;
    Ok(())
}
