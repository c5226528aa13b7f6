//! The embedded server answers as the real kube-apiserver does.

use anyhow::Result;
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::behaviour::{cases, compare, report};
use pintle_tests::{ApiClient, ControlPlane, Options};

#[tokio::test(flavor = "multi_thread")]
async fn embedded_server_answers_as_the_real_one() -> Result<()> {
    let cases = cases()?;
    let plane = ControlPlane::start(Options::default()).await?;
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let embedded = ApiClient::from_kubeconfig_text(&cluster.kubeconfig())?;
    let differences = compare(&cases, &plane.client(), &embedded).await?;
    plane.stop().await;
    println!("{} of {} cases differ from the real server", differences.len(), cases.len());
    assert!(differences.is_empty(), "\n{}", report(cases.len(), &differences));
    Ok(())
}
