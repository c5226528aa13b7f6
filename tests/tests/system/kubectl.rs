//! kubectl works on the embedded cluster as it does on a real one: every command of `src/kubectl/script.txt`.
//!
//! `KUBECTL_BLESS=1` writes what the embedded cluster printed into the scripts, for review.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use pintle_tests::kubectl::cluster::Dev;
use pintle_tests::kubectl::normalize::without_notices;
use pintle_tests::kubectl::play::{EMBEDDED, SCRIPT, diff, path, play, script};
use pintle_tests::kubectl::script::{Action, Step, matches};
use pintle_tests::kubectl::session::Printed;

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_cluster_serves_kubectl() -> Result<()> {
    check(SCRIPT).await
}

/// What simulated Pods cannot do is refused with a reason.
#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_cluster_says_what_it_has_not() -> Result<()> {
    check(EMBEDDED).await
}

async fn check(file: &str) -> Result<()> {
    let steps = script(file)?;
    let cluster = Dev::start().await?;
    let mut printed = play(cluster.kubeconfig(), &steps).await?;
    if file == SCRIPT {
        for printed in &mut printed {
            printed.lines = without_notices(std::mem::take(&mut printed.lines));
        }
    }
    if std::env::var_os("KUBECTL_BLESS").is_some() {
        bless(file, &steps, &printed)?;
    }
    let mut report = String::new();
    for (step, printed) in steps.iter().zip(&printed) {
        if let Some(failure) = &printed.failure {
            writeln!(report, "line {}: {}\n{failure}\n{}\n", step.line, printed.step, printed.lines.join("\n"))?;
        } else if !matches(&step.expected, &printed.lines) {
            let diff = diff(&step.expected, &printed.lines);
            writeln!(report, "line {}: {} (- wanted, + printed)\n{diff}", step.line, printed.step)?;
        }
    }
    assert!(report.is_empty(), "\n{report}");
    Ok(())
}

/// Puts what was printed into the script, except where a step waits for what it says.
fn bless(file: &str, steps: &[Step], printed: &[Printed]) -> Result<()> {
    let text = std::fs::read_to_string(path(file))?;
    let mut out = String::new();
    let mut blessed = false;
    for (i, line) in text.lines().enumerate() {
        let place = steps.iter().position(|step| step.line == i + 1);
        if let Some(place) = place {
            blessed = !matches!(steps[place].action, Action::Poll(_))
                && !matches(&steps[place].expected, &printed[place].lines);
        }
        if !(blessed && line.starts_with('|')) {
            writeln!(out, "{line}")?;
        }
        // The output follows the last line of the command.
        let ends = steps.iter().zip(printed).find(|(step, _)| step.line + step.action.shown().lines().count() == i + 2);
        if let Some((_, printed)) = ends
            && blessed
        {
            for line in &printed.lines {
                writeln!(out, "{}", format!("| {line}").trim_end())?;
            }
        }
    }
    std::fs::write(path(file), out).with_context(|| format!("write {file}"))
}
