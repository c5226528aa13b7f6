//! The real kube-apiserver answers the script of API behaviours as itself: what differs between two runs of it would be blamed on the
//! embedded server.

use anyhow::Result;
use pintle_tests::behaviour::{cases, compare, report};
use pintle_tests::{ControlPlane, Options};

#[tokio::test(flavor = "multi_thread")]
async fn real_server_answers_as_itself() -> Result<()> {
    let cases = cases()?;
    let (first, second) =
        tokio::try_join!(ControlPlane::start(Options::default()), ControlPlane::start(Options::default()))?;
    let differences = compare(&cases, &first.client(), &second.client()).await?;
    assert!(differences.is_empty(), "\n{}", report(cases.len(), &differences));
    first.stop().await;
    second.stop().await;
    Ok(())
}
