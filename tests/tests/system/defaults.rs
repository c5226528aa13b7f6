//! What a host does unless its operator asks for more.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_tests::{HostProcess, TestCluster, components, eventually, target_dir};
use tempfile::TempDir;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A component that is not built in, in a folder.
fn component(name: &str) -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("defaults-").tempdir_in(target_dir())?;
    let built = components::with_manifest(&components::plugin("serviceaccount-controller")?, |manifest| {
        manifest["name"] = name.into();
        manifest.as_object_mut().unwrap().remove("builtIn");
    })?;
    std::fs::write(folder.path().join(format!("{name}.wasm")), built)?;
    Ok(folder)
}

/// Name and source of the plugins that run.
fn plugins(host: &HostProcess) -> Result<Vec<(String, String)>> {
    let listing = host.plugin(&["list"])?;
    let text = |plugin: &serde_json::Value, field: &str| plugin[field].as_str().unwrap().to_owned();
    Ok(listing["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| (text(plugin, "name"), text(plugin, "source")))
        .collect())
}

/// The last line of a host that ends itself.
async fn refused(host: &mut HostProcess) -> Result<String> {
    let ended = eventually(PATIENCE, "the host to end", async || Ok(host.process.exited()));
    let status = ended.await.with_context(|| host.log_tail())?;
    ensure!(status.code() == Some(1), "{status}: {}", host.log_tail());
    Ok(host.log_tail().lines().last().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_controllers_do_not_start_beside_a_running_kube_controller_manager() -> Result<()> {
    let cluster = TestCluster::real().await?;
    let elects = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=1s",
    ];
    let kcm = cluster.plane()?.start_kcm(&["serviceaccount-controller"], &elects).await?;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    eventually(PATIENCE, "kube-controller-manager to lead", async || Ok(cluster.client.get(lease).await.ok())).await?;

    let selected = HostProcess::controllers(&["replicaset", "deployment"]);
    let why = refused(&mut cluster.host(std::slice::from_ref(&selected))?).await?;
    let flag = "`--controllers=*,-deployment-controller,-replicaset-controller`";
    ensure!(why.contains(flag) && why.contains("--beside-kube-controller-manager"), "{why}");
    let folder = component("robots")?;
    let alone = cluster.host(&[folder.path().join("robots.wasm").display().to_string()])?;
    alone.answers().await?;
    drop(alone);
    let beside = cluster.host(&[selected.clone(), "--beside-kube-controller-manager".to_owned()])?;
    beside.answers().await?;
    drop(beside);

    // It ends without releasing the Lease.
    drop(kcm);
    let after = cluster.host(&[selected])?;
    after.answers().await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn named_components_run_alone_unless_built_in_controllers_are_asked_for() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let folder = component("robots")?;
    let started = async |folder: &Path, controllers: &[&str]| -> Result<Vec<(String, String)>> {
        let mut flags = vec![folder.join("robots.wasm").display().to_string()];
        flags.extend(controllers.iter().map(|list| format!("--controllers={list}")));
        let host = cluster.host(&flags)?;
        host.answers().await?;
        plugins(&host)
    };
    let of = |name: &str, source: &str| (name.to_owned(), source.to_owned());
    let own = of("robots", "command line");
    assert_eq!(started(folder.path(), &[]).await?, std::slice::from_ref(&own));
    let beside = [of("namespace-controller", "built-in"), own.clone()];
    assert_eq!(started(folder.path(), &["namespace"]).await?, beside);
    let all = started(folder.path(), &["*"]).await?;
    assert!(all.contains(&own) && all.len() > 5, "{all:?}");
    cluster.stop().await;
    Ok(())
}
