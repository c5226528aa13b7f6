//! Pintle does what kube-controller-manager does, in each of many scenarios.

use std::io::Write;

use anyhow::{Context, Result};
use pintle_tests::scenarios::{Contender, chosen, compare, play, play_embedded, variance};

/// Prints past the capture of the test harness, for a table is a result.
fn show(text: &str) -> Result<()> {
    writeln!(std::io::stderr(), "{text}").context("print a table")
}

/// `RUNS=3` in the environment has kube-controller-manager play three times, to see what varies. None if it is not set.
fn n_runs() -> Result<Option<usize>> {
    let text = std::env::var("RUNS").ok();
    text.map(|text| text.parse().context("RUNS is not a number")).transpose()
}

/// What differs between two runs of kube-controller-manager would be blamed on Pintle, so a scenario must leave it to
/// chance.
#[tokio::test(flavor = "multi_thread")]
async fn kube_controller_manager_ends_as_itself() -> Result<()> {
    let contender = Contender::KubeControllerManager;
    if let Some(n) = n_runs()? {
        let mut runs = Vec::new();
        for _ in 0..n {
            runs.push(play(&chosen(), &contender).await?);
        }
        show(&variance(&chosen(), &runs))?;
    }
    let wrong = compare(&chosen(), [&contender; 2], show).await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pintle_ends_as_kube_controller_manager() -> Result<()> {
    let contenders = [Contender::KubeControllerManager, Contender::pintle()?];
    let wrong = compare(&chosen(), contenders.each_ref(), show).await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// No kube-controller-manager is here to compare with, so this shows that every scenario comes to its end and that no
/// write broke a rule.
#[tokio::test(flavor = "multi_thread")]
async fn pintle_keeps_the_rules_on_the_embedded_cluster() -> Result<()> {
    let failed: Vec<String> = play_embedded(&chosen())
        .await?
        .into_iter()
        .filter_map(|(name, outcome)| outcome.err().map(|error| format!("=== {name}\n{error}")))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}
