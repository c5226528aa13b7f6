//! kube-controller-manager still does what is recorded of it.
//!
//! `RECORD=1` in the environment (`cargo xtask record`) writes the records. `RUNS=5` has it run five times and prints what varied between
//! these runs, next to what the scenarios leave to chance. `SCENARIO=words` keeps the scenarios with these words in their names.

use std::io::Write;

use anyhow::{Context, Result};
use pintle_tests::scenarios::{Subject, chosen, recorded, report, run, variance};

/// Prints past the capture of the test harness, because a table is a result.
fn show(text: &str) -> Result<()> {
    std::io::stderr().write_all(text.as_bytes()).context("print a table")
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_controller_manager_ends_as_recorded() -> Result<()> {
    let kcm = Subject::KubeControllerManager;
    let scenarios = chosen()?;
    if let Ok(runs) = std::env::var("RUNS") {
        let mut results = Vec::new();
        for _ in 0..runs.parse::<usize>().context("RUNS is not a number")? {
            results.push(run(&scenarios, &kcm).await?);
        }
        show(&variance(&scenarios, &results))?;
    }
    let got = run(&scenarios, &kcm).await?;
    if std::env::var_os("RECORD").is_some() {
        return recorded::write(&scenarios, &got);
    }
    let report = report(&scenarios, ["recorded", kcm.name()], [&recorded::outcomes(&scenarios), &got]);
    show(&report.text)?;
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
    Ok(())
}
