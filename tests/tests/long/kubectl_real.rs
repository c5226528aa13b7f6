//! kubectl prints the same on the embedded cluster as on a real one: every command of `src/kubectl/script.txt`.

use std::fmt::Write as _;

use anyhow::Result;
use pintle_tests::kubectl::cluster::{self, Dev};
use pintle_tests::kubectl::normalize::without_notices;
use pintle_tests::kubectl::play::{SCRIPT, diff, play, script};
use pintle_tests::kubectl::script::matches;

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_prints_the_same_on_a_real_cluster() -> Result<()> {
    let steps = script(SCRIPT)?;
    let embedded = Dev::start().await?;
    let (real, _host) = cluster::real().await?;
    // One after the other: each is meant to come to rest in time on a busy machine.
    let wanted = play(real.kubeconfig(), &steps).await?;
    let mut got = play(embedded.kubeconfig(), &steps).await?;
    for printed in &mut got {
        printed.lines = without_notices(std::mem::take(&mut printed.lines));
    }
    let mut report = String::new();
    for (step, (wanted, got)) in steps.iter().zip(wanted.iter().zip(&got)) {
        let same = match step.wording {
            None => wanted == got,
            Some(_) => wanted.failure == got.failure && [wanted, got].iter().all(|p| matches(&step.expected, &p.lines)),
        };
        if !same {
            let diff = diff(&wanted.lines, &got.lines);
            let failures = (&wanted.failure, &got.failure);
            writeln!(report, "line {}: {} {failures:?} (- real, + embedded)\n{diff}", wanted.line, wanted.step)?;
        }
    }
    assert!(report.is_empty(), "\n{report}");
    real.stop().await;
    Ok(())
}
