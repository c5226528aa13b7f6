//! A version that is new and wants to delete much is held until an operator agrees at the admin socket. A restart of the host does not
//! make a version new again.
//!
//! The plugin is the built-in ReplicaSet controller under another name, which the host does not carry. Scaling down deletes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use pintle_tests::{ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, components, eventually, target_dir};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

const NAME: &str = "replicas";
const RESOURCE: &str = "/apis/pintle.dev/v1alpha1/controllerplugins/replicas";
const SET: &str = "/apis/apps/v1/namespaces/default/replicasets/web";
/// More than a new version may delete in a minute.
const N_PODS: usize = 12;

struct Fixture {
    client: ApiClient,
    folder: TempDir,
    host: HostProcess,
    cluster: TestCluster,
}

impl Fixture {
    async fn start() -> Result<Fixture> {
        let cluster = TestCluster::embedded().await?;
        let folder = tempfile::Builder::new().prefix("deletions-").tempdir_in(target_dir())?;
        std::fs::create_dir_all(folder.path().join("plugins/below"))?;
        let flags = [
            HostProcess::controllers(&["namespace-controller"]),
            format!("--plugin-dir={}", folder.path().join("plugins").display()),
            "--install-crd".to_owned(),
            "--grant-requested".to_owned(),
        ];
        let host = cluster.host(&flags)?;
        host.answers().await?;
        Ok(Fixture { client: cluster.client.clone(), folder, host, cluster })
    }

    /// Writes a version of the plugin; returns its file and its digest.
    fn version(&self, file: &str, version: &str) -> Result<(PathBuf, String)> {
        let component = components::with_manifest(&components::plugin("replicaset-controller")?, |manifest| {
            manifest["name"] = NAME.into();
            manifest["version"] = version.into();
        })?;
        let path = self.folder.path().join(file);
        std::fs::write(&path, &component)?;
        Ok((path, Sha256::digest(&component).iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    async fn scale(&self, n: usize) -> Result<()> {
        self.client.patch(SET, PatchKind::Merge, &json!({"spec": {"replicas": n}})).await.map(drop)
    }

    async fn n_pods(&self) -> Result<usize> {
        let pods = self.client.get("/api/v1/namespaces/default/pods").await?;
        Ok(pods["items"].as_array().context("no items")?.len())
    }

    async fn has_pods(&self, n: usize) -> Result<()> {
        eventually(PATIENCE, format!("{n} Pods"), async || Ok((self.n_pods().await? == n).then_some(()))).await
    }

    async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        eventually(PATIENCE, what, async || {
            let plugin = self.host.plugin(&["describe", NAME])?["plugin"].take();
            Ok(holds(&plugin).then_some(()))
        })
        .await
    }

    async fn until_status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        eventually(PATIENCE, what, async || Ok(holds(&self.client.get(RESOURCE).await?).then_some(()))).await
    }
}

fn is_held(plugin: &Value) -> bool {
    let conditions = plugin["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "DeletionsHeld" && condition["status"] == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_of_a_new_version_wait_for_an_operator_and_a_restart_is_not_a_new_version() -> Result<()> {
    let mut fixture = Fixture::start().await?;
    let (_, first) = fixture.version("plugins/below/replicas.wasm", "1.0.0")?;
    let spec = json!({
        "source": {"file": "below/replicas.wasm"},
        "digest": first,
        "strategy": {"probation": {"runs": 1, "forMs": 100}},
    });
    let resource = json!({"apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": NAME}, "spec": spec});
    eventually(PATIENCE, "the resource to be written", async || {
        fixture.client.create("/apis/pintle.dev/v1alpha1/controllerplugins", &resource).await.map(Some)
    })
    .await?;
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "c"}]}});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": N_PODS, "selector": {"matchLabels": labels}, "template": template},
    });
    fixture.client.create("/apis/apps/v1/namespaces/default/replicasets", &set).await?;
    fixture.has_pods(N_PODS).await?;
    fixture
        .until_status("the status without a bound", |resource| {
            let status = &resource["status"];
            status["current"]["digest"] == first.as_str()
                && status["boundsDeletions"].is_null()
                && status["observedGeneration"] == resource["metadata"]["generation"]
        })
        .await?;

    // The same component after a restart.
    fixture.host.kill();
    fixture.scale(0).await?;
    fixture.host.restart()?;
    fixture.has_pods(0).await?;
    let events = fixture.client.get("/api/v1/events").await?.to_string();
    ensure!(!events.contains("DeletionsHeld"), "{events}");
    fixture.scale(N_PODS).await?;
    fixture.has_pods(N_PODS).await?;

    // A new version by the admin socket.
    let (file, second) = fixture.version("second.wasm", "2.0.0")?;
    fixture.host.plugin(&["swap", NAME, &file.display().to_string(), "--probation-for", "10m"])?;
    fixture
        .until("the new version", |plugin| {
            plugin["current"]["digest"] == second.as_str() && plugin["boundsDeletions"] == true
        })
        .await?;
    let refused = format!("{:#}", fixture.host.plugin(&["approve", NAME]).unwrap_err());
    ensure!(refused.contains("no deletions of plugin replicas are held"), "{refused}");
    fixture.scale(0).await?;
    fixture.until("the deletions to be held", is_held).await?;
    assert_eq!(fixture.n_pods().await?, N_PODS, "nothing is sent");
    fixture.host.plugin(&["approve", NAME])?;
    fixture.has_pods(0).await?;
    fixture.until("no bound any more", |plugin| !is_held(plugin) && plugin["boundsDeletions"].is_null()).await?;

    // Another component that a restart finds is new.
    fixture.scale(N_PODS).await?;
    fixture.has_pods(N_PODS).await?;
    fixture.host.kill();
    let (_, third) = fixture.version("plugins/below/replicas.wasm", "3.0.0")?;
    let change = json!({"spec": {"digest": third, "strategy": {"probation": {"runs": 100, "forMs": 600_000}}}});
    fixture.client.patch(RESOURCE, PatchKind::Merge, &change).await?;
    fixture.scale(0).await?;
    fixture.host.restart()?;
    fixture.host.answers().await?;
    fixture
        .until("the deletions of the third version to be held", |plugin| {
            plugin["current"]["digest"] == third.as_str() && is_held(plugin)
        })
        .await?;
    assert_eq!(fixture.n_pods().await?, N_PODS, "nothing is sent");
    drop(fixture.host);
    fixture.cluster.stop().await;
    Ok(())
}
