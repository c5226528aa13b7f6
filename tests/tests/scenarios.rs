//! Pintle does what kube-controller-manager does, in each of many scenarios.

use std::io::Write;

use anyhow::Result;
use pintle_tests::scenarios::{Contender, chosen, play, report};

async fn compare(first: Contender, second: Contender) -> Result<()> {
    let scenarios = chosen();
    let wanted = play(&scenarios, &first).await?;
    let got = play(&scenarios, &second).await?;
    let (all_equal, text) = report(&scenarios, [first.name(), second.name()], [&wanted, &got]);
    // The table is a result, so it is printed past the capture of the test harness.
    writeln!(std::io::stderr(), "{text}")?;
    assert!(all_equal, "some scenarios differ");
    Ok(())
}

/// What differs between two runs of kube-controller-manager would be blamed on Pintle.
#[tokio::test(flavor = "multi_thread")]
async fn kube_controller_manager_ends_as_itself() -> Result<()> {
    compare(Contender::KubeControllerManager, Contender::KubeControllerManager).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pintle_ends_as_kube_controller_manager() -> Result<()> {
    compare(Contender::KubeControllerManager, Contender::pintle()?).await
}
