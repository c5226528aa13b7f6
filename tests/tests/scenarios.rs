//! Pintle does what kube-controller-manager does, in each of many scenarios.

use std::io::Write;

use anyhow::{Context, Result};
use pintle_tests::scenarios::{Contender, Scenario, chosen, play, play_embedded, report, variance};

/// Prints past the capture of the test harness, for a table is a result.
fn show(text: &str) -> Result<()> {
    writeln!(std::io::stderr(), "{text}").context("print a table")
}

/// How often kube-controller-manager plays; `RUNS=3` in the environment lets it play three times.
fn n_runs() -> Result<usize> {
    let text = std::env::var("RUNS").unwrap_or_else(|_| "2".to_owned());
    text.parse().context("RUNS is not a number")
}

/// What differs between two runs of kube-controller-manager would be blamed on Pintle, so a scenario must leave it to
/// chance. The table tells what varied.
#[tokio::test(flavor = "multi_thread")]
async fn kube_controller_manager_ends_as_itself() -> Result<()> {
    let scenarios = chosen();
    let contender = Contender::KubeControllerManager;
    let mut runs = vec![play(&scenarios, &contender).await?];
    let mut all_equal = true;
    for _ in 1..n_runs()? {
        let run = play(&scenarios, &contender).await?;
        let (is_equal, text) = report(&scenarios, [contender.name(); 2], [&runs[0], &run]);
        show(&text)?;
        all_equal &= is_equal;
        runs.push(run);
    }
    show(&variance(&scenarios, &runs))?;
    assert!(all_equal, "some scenarios differ");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pintle_ends_as_kube_controller_manager() -> Result<()> {
    let scenarios: Vec<Scenario> = chosen();
    let [first, second] = [Contender::KubeControllerManager, Contender::pintle()?];
    let wanted = play(&scenarios, &first).await?;
    let got = play(&scenarios, &second).await?;
    let (all_equal, text) = report(&scenarios, [first.name(), second.name()], [&wanted, &got]);
    show(&text)?;
    assert!(all_equal, "some scenarios differ");
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
