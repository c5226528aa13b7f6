//! Objects that any user may create, and that would stop a controller which trusts their contents.
//!
//! None may be a fault of a built-in controller, and none may delay a Deployment in another
//! namespace without end.

mod large_inputs;

use anyhow::{Context, Result};
use pintle_tests::hostile_objects::{corpus, no_faults, play};
use pintle_tests::scenarios::subject::CONTROLLERS;
use pintle_tests::{HostProcess, TestCluster};

#[tokio::test(flavor = "multi_thread")]
async fn no_object_is_a_fault_and_each_comes_to_its_end_on_the_embedded_cluster() -> Result<()> {
    let cluster = TestCluster::embedded().await?.with_nodes(|_| {}).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let authority = folder.path().join("ca.crt");
    let root_ca = rcgen::generate_simple_self_signed(vec!["embedded".to_owned()])?.cert.pem();
    std::fs::write(&authority, root_ca).context("write the certificate authority")?;
    let flags = [HostProcess::controllers(&CONTROLLERS), format!("--root-ca-file={}", authority.display())];
    let mut host = cluster.host(&flags)?;
    let metrics = host.ready().await?;
    // Smaller crowds, because this runs for every change.
    let entries = corpus(5);
    let played = play(&cluster.client, &entries).await.with_context(|| host.log_tail());
    no_faults(&metrics).await.with_context(|| host.log_tail())?;
    played?.print("pintle on the embedded cluster")?;
    cluster.stop().await;
    Ok(())
}
