//! What a host does unless its operator asks for more.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;

use anyhow::Result;
use pintle_tests::{HostProcess, TestCluster, components, target_dir};
use tempfile::TempDir;

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
