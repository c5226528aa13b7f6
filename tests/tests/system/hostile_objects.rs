//! Objects that any user may create, and that would stop a controller which trusts their contents.
//!
//! None may be a fault of a built-in controller, and none may delay a Deployment in another
//! namespace without end.

mod large_inputs;

use anyhow::{Context, Result, ensure};
use pintle_tests::hostile_objects::{corpus, no_faults, play};
use pintle_tests::scenarios::subject::CONTROLLERS;
use pintle_tests::{HostProcess, PATIENCE, TestCluster, eventually};
use serde_json::json;

/// The runs with the largest objects take a second on an idle machine, which is a tenth of the deadline by default.
async fn be_patient(cluster: &TestCluster, host: &HostProcess) -> Result<()> {
    const SLOWEST: &str = "replicaset-controller";
    let resource = format!("/apis/pintle.dev/v1alpha1/controllerplugins/{SLOWEST}");
    let limits = json!({
        "apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": SLOWEST},
        "spec": {"source": {"builtin": SLOWEST}, "limits": {"deadlineMs": 60_000}},
    });
    eventually(PATIENCE, "the limits to be taken", async || {
        let object = cluster.client.apply(&resource, "tests", true, &limits).await?;
        let plugin = host.plugin(&["describe", SLOWEST])?["plugin"].take();
        ensure!(plugin["source"] == "resource" && plugin["phase"] == "Running", "{object} {plugin}");
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_object_is_a_fault_and_each_comes_to_its_end_on_the_embedded_cluster() -> Result<()> {
    let cluster = TestCluster::embedded().await?.with_nodes(|_| {}).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let authority = folder.path().join("ca.crt");
    let root_ca = rcgen::generate_simple_self_signed(vec!["embedded".to_owned()])?.cert.pem();
    std::fs::write(&authority, root_ca).context("write the certificate authority")?;
    let flags = [
        HostProcess::controllers(&CONTROLLERS),
        format!("--root-ca-file={}", authority.display()),
        "--install-crd".to_owned(),
    ];
    let mut host = cluster.host(&flags)?;
    host.ready().await?;
    be_patient(&cluster, &host).await?;
    let metrics = host.ready().await?;
    // Smaller crowds, because this runs for every change.
    let entries = corpus(5);
    let played = play(&cluster.client, &entries).await.with_context(|| host.log_tail());
    no_faults(&metrics).await.with_context(|| host.log_tail())?;
    played?.print("pintle on the embedded cluster")?;
    cluster.stop().await;
    Ok(())
}
