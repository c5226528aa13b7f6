//! The embedded server answers as the real kube-apiserver does.

use anyhow::Result;
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::behaviour::{cases, compare, report};
use pintle_tests::{ApiClient, ControlPlane, Options};

async fn real() -> Result<ControlPlane> {
    ControlPlane::start(Options::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_server_answers_as_the_real_one() -> Result<()> {
    let cases = cases()?;
    let plane = real().await?;
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let embedded = ApiClient::from_kubeconfig_text(&cluster.kubeconfig())?;
    let differences = compare(&cases, &plane.client(), &embedded).await?;
    plane.stop().await;
    println!("{} of {} cases differ from the real server", differences.len(), cases.len());
    assert!(differences.is_empty(), "\n{}", report(cases.len(), &differences));
    Ok(())
}

/// What differs between two runs on the real server would be blamed on the embedded one.
#[tokio::test(flavor = "multi_thread")]
async fn real_server_answers_as_itself() -> Result<()> {
    let cases = cases()?;
    let (first, second) = tokio::try_join!(real(), real())?;
    let differences = compare(&cases, &first.client(), &second.client()).await?;
    assert!(differences.is_empty(), "\n{}", report(cases.len(), &differences));
    first.stop().await;
    second.stop().await;
    Ok(())
}
