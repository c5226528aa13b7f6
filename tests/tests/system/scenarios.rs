//! Pintle does what kube-controller-manager does, in each of many scenarios.
//!
//! What kube-controller-manager does is recorded (`src/scenarios/recorded`); `long/recordings.rs` compares the records with it.
//! `SCENARIO=words` in the environment keeps the scenarios with these words in their names.

use std::io::Write;

use anyhow::{Context, Result};
use pintle_tests::scenarios::{Subject, chosen, recorded, report, run_embedded, run_with_roles};

/// It has the roles of `host/deploy` and nothing else. They suffice, and each of their rules is needed.
#[tokio::test(flavor = "multi_thread")]
async fn pintle_ends_as_kube_controller_manager() -> Result<()> {
    let scenarios = chosen()?;
    let wanted = recorded::outcomes(&scenarios);
    let pintle = Subject::pintle()?;
    let (got, judgement) = run_with_roles(&scenarios, &pintle).await?;
    let report = report(&scenarios, ["kube-controller-manager", pintle.name()], [&wanted, &got]);
    // The table is a result, so it is printed past the capture of the test harness.
    std::io::stderr().write_all(report.text.as_bytes()).context("print the table")?;
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
    assert!(judgement.refused.is_empty(), "the roles do not suffice: {:#?}", judgement.refused);
    assert!(judgement.unused.is_empty(), "the roles give what nobody needs: {:#?}", judgement.unused);
    assert!(judgement.wrongly_excused.is_empty(), "these are needed: {:#?}", judgement.wrongly_excused);
    writeln!(std::io::stderr(), "{} permissions, each used or excused with its reason", judgement.n_permissions)?;
    Ok(())
}

/// No kube-controller-manager is here to compare with, so this shows that every scenario comes to its end and that no
/// write broke a rule.
#[tokio::test(flavor = "multi_thread")]
async fn pintle_keeps_the_rules_on_the_embedded_cluster() -> Result<()> {
    let failed: Vec<String> = run_embedded(&chosen()?)
        .await?
        .into_iter()
        .filter_map(|(name, outcome)| outcome.err().map(|error| format!("=== {name}\n{error}\n")))
        .collect();
    // Printed at once, as the table above: the first failure explains those that follow.
    std::io::stderr().write_all(failed.concat().as_bytes()).context("print the failures")?;
    assert!(failed.is_empty(), "{} scenarios failed", failed.len());
    Ok(())
}
