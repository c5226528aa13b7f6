//! The embedded server answers as the real kube-apiserver does.

use anyhow::Result;
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::behaviour::manifests::Table;
use pintle_tests::behaviour::{cases, compare, report};
use pintle_tests::{ApiClient, ControlPlane, Options};

#[tokio::test(flavor = "multi_thread")]
async fn embedded_server_answers_as_the_real_one() -> Result<()> {
    let cases = cases()?;
    let plane = ControlPlane::start(Options::default()).await?;
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let embedded = ApiClient::from_kubeconfig_text(&cluster.kubeconfig()).await?;
    let differences = compare(&cases, &plane.client(), &embedded).await?;
    let manifests = Table::read()?;
    let otherwise = if std::env::var("MANIFESTS").is_ok_and(|mode| mode == "record") {
        manifests.record(&plane.client()).await?;
        Vec::new()
    } else {
        manifests.play(&plane.client()).await?
    };
    plane.stop().await;
    println!("{} of {} cases differ from the real server", differences.len(), cases.len());
    assert!(differences.is_empty(), "\n{}", report(cases.len(), &differences));
    assert!(otherwise.is_empty(), "the real server answers otherwise:\n{}", otherwise.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_are_accepted_and_refused_as_by_the_real_server() -> Result<()> {
    let manifests = Table::read()?;
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let otherwise = manifests.play(&ApiClient::from_kubeconfig_text(&cluster.kubeconfig()).await?).await?;
    let (n_rows, n_others) = (manifests.n_rows(), otherwise.len());
    assert!(otherwise.is_empty(), "{}\n{n_others} of {n_rows} manifests are answered otherwise", otherwise.join("\n"));
    Ok(())
}
