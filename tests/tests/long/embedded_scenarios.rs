//! The scenarios on the embedded cluster: each comes to its end, and every write keeps the rules. The environment selects them as in
//! `scenarios.rs`.

use std::io::Write;

use anyhow::{Context, Result};
use pintle_tests::scenarios::{Sample, run_embedded};

/// No kube-controller-manager is here to compare with, so this shows that every scenario comes to its end and that no
/// write broke a rule.
#[tokio::test(flavor = "multi_thread")]
async fn pintle_keeps_the_rules_on_the_embedded_cluster() -> Result<()> {
    let sample = Sample::chosen("embedded", |scenario| scenario.only_real.is_empty())?;
    let outcomes = run_embedded(&sample).await?;
    sample.that_ran(&outcomes)?;
    let summary = sample.summary(&outcomes);
    let failed: Vec<String> = outcomes
        .into_iter()
        .filter_map(|(name, outcome)| outcome.err().map(|error| format!("=== {name}\n{error}\n")))
        .collect();
    // Printed at once, as the table above: the first failure explains those that follow.
    writeln!(std::io::stderr(), "{}embedded cluster: {summary}", failed.concat()).context("print the failures")?;
    assert!(failed.is_empty(), "{} scenarios failed", failed.len());
    Ok(())
}
