//! The scenarios, compared with the records of kube-controller-manager. `SCENARIO` in the environment selects them.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use pintle_tests::scenarios::{
    Outcomes, RULED, Scenario, Stage, chosen, recorded, report, run_one, subject, until_metrics_are_read,
};
use serde_json::Value;

use super::{Shared, Simulation, all};

/// Virtual time that a scenario may take.
const DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// What the user of a scenario leaves between two requests: longer than any message travels, so that controllers see the objects in the
/// order in which they are created, whatever the seed. In the records, nearly always so.
const PAUSE: Duration = Duration::from_millis(20);

/// Every how many scenarios one runs twice.
const EVERY: usize = 20;

/// Runs one scenario in a cluster of its own. Returns its outcome, the history of the cluster and the virtual time.
fn simulate(shared: &Shared, scenario: &Scenario) -> (Result<Value>, String, Duration) {
    pintle_simulated::run(async {
        let begun = tokio::time::Instant::now();
        let mut history = String::new();
        let outcome = on_cluster(shared, scenario, &mut history).await;
        (outcome, history, begun.elapsed())
    })
}

async fn on_cluster(shared: &Shared, scenario: &Scenario, history: &mut String) -> Result<Value> {
    let simulation = Simulation::start(shared, shared.seed).await?;
    let cluster = &simulation.cluster;
    let mut host = simulation.host(&subject::CONTROLLERS, &["--leader-elect=false"]).await?;
    let stage = Stage::new(simulation.client.clone().with_pause(PAUSE), PathBuf::new(), "scenario-1".to_owned())
        .at(cluster.clock());
    let stage = stage.with_root_ca(shared.root_ca.clone()).comparing(scenario.kinds).recording(&RULED);
    let run = async {
        if scenario.metrics {
            until_metrics_are_read(&stage).await?;
        }
        run_one(scenario, &stage, Some(&recorded::read(scenario)?)).await
    };
    let outcome = tokio::select! {
        biased;
        outcome = tokio::time::timeout(DEADLINE, run) => {
            outcome.unwrap_or_else(|_| bail!("not finished after {DEADLINE:?} of virtual time"))
        }
        ended = &mut host.running => bail!("the host has ended: {:?}", ended?),
    };
    *history = cluster.history();
    host.stop().await.context("stop the host")?;
    // The cluster ends with its runtime.
    outcome
}

/// The scenarios that a cluster without processes and sockets can show.
fn possible() -> Result<Vec<Scenario>> {
    let mut scenarios = chosen()?;
    scenarios.retain(|scenario| scenario.only_real.is_empty());
    Ok(scenarios)
}

#[test]
fn scenarios_end_as_recorded() -> Result<()> {
    let shared = Shared::new()?;
    let scenarios = possible()?;
    let begun = Instant::now();
    let results = all(&scenarios, |scenario| {
        let begun = Instant::now();
        let (outcome, _, time) = simulate(&shared, scenario);
        (outcome.map_err(|why| format!("{why:#}\n")), time, begun.elapsed())
    });
    let virtual_time: Duration = results.iter().map(|(_, time, _)| *time).sum();
    let mut slowest: Vec<_> = scenarios.iter().zip(&results).map(|(one, (.., took))| (*took, one.name)).collect();
    slowest.sort_unstable_by(|a, b| b.cmp(a));
    let outcomes: Outcomes = scenarios.iter().map(|one| one.name).zip(results.into_iter().map(|one| one.0)).collect();
    let report = report(&scenarios, ["recorded", "simulated"], [&recorded::outcomes(&scenarios), &outcomes]);
    let mut out = std::io::stderr();
    write!(out, "{}", report.text)?;
    for (took, name) in slowest.iter().take(5) {
        writeln!(out, "{took:8.1?}  {name}")?;
    }
    writeln!(out, "{virtual_time:.0?} of virtual time in {:.0?} (SEED={:x})", begun.elapsed(), shared.seed)?;
    ensure!(report.wrong.is_empty(), "{} scenarios differ (SEED={:x})", report.wrong.len(), shared.seed);
    Ok(())
}

/// The message has the first line that one of the histories has and the other has not.
#[test]
fn two_runs_with_one_seed_have_the_same_history() -> Result<()> {
    let shared = Shared::new()?;
    let scenarios: Vec<_> = possible()?.into_iter().step_by(EVERY).collect();
    let seed = shared.seed;
    let pairs = all(&scenarios, |scenario| [(); 2].map(|()| simulate(&shared, scenario).1));
    for (scenario, [first, second]) in scenarios.iter().zip(&pairs) {
        let name = scenario.name;
        ensure!(!first.is_empty(), "{name}: nothing has happened (SEED={seed:x})");
        let different = first.lines().zip(second.lines()).find(|(first, second)| first != second);
        ensure!(different.is_none(), "{name} (SEED={seed:x}):\n{different:#?}");
        ensure!(first == second, "{name}: one history goes on (SEED={seed:x})");
    }
    Ok(())
}
