//! Pintle does what kube-controller-manager does, in each of many scenarios.
//!
//! What kube-controller-manager does is recorded (`src/scenarios/recorded`); `long/recordings.rs` compares the records with it.
//! A run contains a sample of the scenarios, within a budget of time. In the environment, `SCENARIO=words` selects the scenarios with
//! these words in their names, and `SCENARIOS=all` all.

use std::io::Write;

use anyhow::{Context, Result};
use pintle_tests::scenarios::{Sample, Subject, report, run_with_roles};

/// It has the roles of `host/deploy` and nothing else. They suffice, and each of their rules is needed.
#[tokio::test(flavor = "multi_thread")]
async fn pintle_ends_as_kube_controller_manager() -> Result<()> {
    let sample = Sample::chosen("real", |_| true)?.with_records();
    let pintle = Subject::pintle()?;
    let (got, judgement) = run_with_roles(&sample, &pintle).await?;
    let scenarios = sample.that_ran(&got)?;
    let report = report(&scenarios, ["kube-controller-manager", pintle.name()], [&sample.records, &got]);
    // The table is a result, so it is printed past the capture of the test harness.
    writeln!(std::io::stderr(), "{}real control plane: {}", report.text, sample.summary(&got))
        .context("print the table")?;
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
    assert!(judgement.refused.is_empty(), "the roles do not suffice: {:#?}", judgement.refused);
    assert!(judgement.unused.is_empty(), "the roles give what nobody needs: {:#?}", judgement.unused);
    assert!(judgement.wrongly_excused.is_empty(), "these are needed: {:#?}", judgement.wrongly_excused);
    writeln!(std::io::stderr(), "{} permissions, each used or excused with its reason", judgement.n_permissions)?;
    Ok(())
}
