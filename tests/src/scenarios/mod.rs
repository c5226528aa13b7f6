//! Scenarios in which Pintle is compared with the real kube-controller-manager.
//!
//! ```text
//! list -> play each on a namespace of its own -> settle -> what is left (snapshot) -> equal, or a diff
//!          (one control plane for each contender, simulated nodes)
//! ```
//!
//! Invariants:
//! 1. kube-controller-manager compared with itself gives no difference: what is compared is decided by
//!    the steps, not by chance.
//! 2. A scenario waits for what it names and then for silence; it never counts on time alone.
//!
//! Not here: the control plane, the simulated nodes, the contenders themselves.

pub mod contender;
pub mod list;
pub mod snapshot;
pub mod stage;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use pintle_sim::nodes::{Connect, SimNodes, SimNodesConfig};
use similar::TextDiff;

use crate::controlplane::{ControlPlane, Options};
pub use contender::Contender;
pub use stage::Stage;

/// How many scenarios run at once: each mostly waits, but all of them on few cores.
const N_AT_ONCE: usize = 8;

/// How long a scenario may take in all.
const SCENARIO_DEADLINE: Duration = Duration::from_secs(120);

/// What happens in a scenario.
pub type Steps = for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Result<()>>;

/// One scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Short and unique, a sentence without its period.
    pub name: &'static str,
    /// What is done. It ends when what it waits for has come.
    pub steps: Steps,
    /// How closely the steps in which ReplicaSets were scaled are compared.
    pub scaling: Scaling,
}

/// How closely the steps of scaling are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// Each step counts: the scenario leaves no choice.
    EachStep,
    /// First and last count: how many Pods became ready between two looks is chance.
    EndsOnly,
}

impl Scenario {
    /// A scenario whose every step of scaling is compared.
    pub const fn new(name: &'static str, steps: Steps) -> Scenario {
        Scenario { name, steps, scaling: Scaling::EachStep }
    }

    /// A scenario in which first and last step of scaling are compared.
    pub const fn in_steps(name: &'static str, steps: Steps) -> Scenario {
        Scenario { name, steps, scaling: Scaling::EndsOnly }
    }
}

/// Scenario name -> what was left at its end, as text; or why it did not come to its end.
pub type Outcomes = BTreeMap<&'static str, Result<String, String>>;

/// The scenarios to play. `SCENARIO=text` in the environment keeps those whose name holds the text.
pub fn chosen() -> Vec<Scenario> {
    let filter = std::env::var("SCENARIO").unwrap_or_default();
    let mut all = list::all();
    all.retain(|s| s.name.contains(&filter));
    all
}

/// Plays the scenarios with one contender, on a control plane that is started for it.
///
/// # Errors
/// The control plane, the nodes or the contender did not start. A scenario that fails is an outcome.
pub async fn play(scenarios: &[Scenario], contender: &Contender) -> Result<Outcomes> {
    let plane = ControlPlane::start(Options::default()).await?;
    let config = SimNodesConfig::new(Connect::KubeconfigFile(plane.kubeconfig()));
    let nodes = SimNodes::start(config).await.context("start the nodes")?;
    let running = contender.start(&plane).await?;
    let outcomes: Outcomes = futures::stream::iter(scenarios.iter().enumerate())
        .map(|(i, scenario)| {
            let plane = &plane;
            async move {
                let stage = Stage::new(plane.client(), plane.kubeconfig(), format!("scenario-{}", i + 1));
                let playing = tokio::time::timeout(SCENARIO_DEADLINE, play_one(scenario, &stage)).await;
                let outcome = match playing {
                    Ok(Ok(left)) => Ok(left),
                    Ok(Err(error)) => Err(format!("{error:#}\n")),
                    Err(_) => Err(format!("not at its end after {SCENARIO_DEADLINE:?}\n")),
                };
                (scenario.name, outcome)
            }
        })
        .buffer_unordered(N_AT_ONCE)
        .collect()
        .await;
    write_down(contender, &outcomes)?;
    running.stop().await;
    nodes.stop().await;
    plane.stop().await;
    Ok(outcomes)
}

/// Leaves what was left in `target/scenarios`, for reading.
fn write_down(contender: &Contender, outcomes: &Outcomes) -> Result<()> {
    let folder = crate::target_dir().join("scenarios").join(contender.name());
    std::fs::create_dir_all(&folder).context("make target/scenarios")?;
    for (name, outcome) in outcomes {
        let (Ok(text) | Err(text)) = outcome;
        let file = folder.join(format!("{}.txt", name.replace(' ', "-")));
        std::fs::write(file, text).context("write what was left")?;
    }
    Ok(())
}

async fn play_one(scenario: &Scenario, stage: &Stage) -> Result<String> {
    stage.open().await.context("open the stage")?;
    (scenario.steps)(stage).await?;
    let left = stage.settle().await.context("settle")?;
    Ok(format!("{:#}\n", snapshot::normalize(&left, scenario.scaling)))
}

/// A table of what two contenders made of the scenarios, and whether all is equal.
pub fn report(scenarios: &[Scenario], names: [&str; 2], outcomes: [&Outcomes; 2]) -> (bool, String) {
    let [wanted, got] = outcomes;
    let mut table = String::new();
    let mut diffs = String::new();
    let mut n_equal = 0;
    let width = scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let name = scenario.name;
        let verdict = match (wanted.get(name), got.get(name)) {
            (Some(Ok(wanted)), Some(Ok(got))) if wanted == got => {
                n_equal += 1;
                "equal"
            }
            (Some(Ok(wanted)), Some(Ok(got))) => {
                let diff = TextDiff::from_lines(wanted, got);
                let diff = diff.unified_diff().context_radius(6).to_string();
                let _ = writeln!(diffs, "=== {name}\n{diff}");
                "differs"
            }
            (wanted, got) => {
                for (who, outcome) in names.iter().zip([wanted, got]) {
                    if let Some(Err(error)) = outcome {
                        let _ = writeln!(diffs, "=== {name} ({who})\n{error}");
                    }
                }
                "failed"
            }
        };
        let _ = writeln!(table, "{name:width$}  {verdict}");
    }
    let [first, second] = names;
    let all = n_equal == scenarios.len();
    let n = scenarios.len();
    let text = format!("{diffs}{table}{n_equal} of {n} scenarios equal (- {first}, + {second})\n");
    (all, text)
}
