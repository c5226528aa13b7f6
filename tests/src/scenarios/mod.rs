//! Scenarios in which Pintle is compared with the real kube-controller-manager.
//!
//! ```text
//! list -> play each on a namespace of its own -> settle -> what is left (snapshot) and how it came so (passage)
//!          |  (one control plane for each contender, simulated nodes)      -> without what chance decides -> equal, or a diff
//!          '-> watches (history) -> rules that hold however fast things went
//! ```
//!
//! Invariants:
//! 1. kube-controller-manager compared with itself gives no difference, also on a busy machine: what is compared is decided by
//!    the steps, not by chance. A scenario is played once; what differs is a failure.
//! 2. What chance decides is left out of the comparison, but never unchecked: the rules bind each run by itself.
//! 3. A scenario waits for what it names and then for silence; it never counts on time alone.
//!
//! Not here: the control plane, the simulated nodes, the contenders themselves.

pub mod contender;
pub mod history;
pub mod list;
pub mod passage;
pub mod recorded;
pub mod rules;
pub mod snapshot;
pub mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_sim::{SimCluster, SimConfig};
use serde_json::Value;
use similar::TextDiff;

use crate::ApiClient;
use crate::controlplane::{ControlPlane, Options};
use crate::crash::Host;
pub use contender::Contender;
use history::{Id, Recorder};
pub use rules::Meddling;
pub use stage::Stage;

/// How many scenarios run at once: each mostly waits, but all of them on few cores.
const N_AT_ONCE: usize = 8;

/// How long a scenario may take in all.
const SCENARIO_DEADLINE: Duration = Duration::from_secs(900);

/// How often a host is asked whether it still runs.
const LOOK_AT_HOST: Duration = Duration::from_secs(1);

/// What happens in a scenario.
pub type Steps = for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Result<()>>;

/// One scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Short and unique, a sentence without its period.
    pub name: &'static str,
    /// What is done. It ends when what it waits for has come.
    pub steps: Steps,
    /// What chance decides in it, and is therefore not compared. All else is.
    pub chance: Chance,
    /// Why; empty if it decides nothing.
    pub why_chance: &'static str,
    /// What its user does over the controllers' heads.
    pub meddling: Meddling,
    /// The file that has it, relative to the root of the workspace.
    pub source: &'static str,
}

/// What in a scenario depends on which of two watches is faster, and differs between two runs of one contender too.
///
/// `RUNS=3` makes the test of kube-controller-manager against itself tell what was seen to vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chance {
    /// In how many steps a ReplicaSet is scaled. By how much in all, and where it begins and ends, is compared.
    pub steps: bool,
    /// In which order conditions changed last, and so stand.
    pub order: bool,
    /// How many Pods come and go. How many are left is compared.
    pub pods: bool,
    /// Through which states conditions pass. Not chance, but on purpose: where kube-controller-manager writes a status and
    /// replaces it at once, Pintle writes the second alone. The last state is compared.
    pub states: bool,
}

/// The name of a field of [`Chance`], the field, and a value in which all other fields are set.
type OneChance = (&'static str, fn(&Chance) -> bool, Chance);

impl Chance {
    /// Chance decides nothing.
    pub const NONE: Chance = Chance { steps: false, order: false, pods: false, states: false };

    /// All that chance may decide.
    pub const ALL: Chance = Chance { steps: true, order: true, pods: true, states: true };

    const EACH: [OneChance; 4] = [
        ("steps", |chance| chance.steps, Chance { steps: false, ..Chance::ALL }),
        ("order", |chance| chance.order, Chance { order: false, ..Chance::ALL }),
        ("pods", |chance| chance.pods, Chance { pods: false, ..Chance::ALL }),
        ("states", |chance| chance.states, Chance { states: false, ..Chance::ALL }),
    ];
}

impl Scenario {
    /// A scenario in which nothing is left to chance, of the file that calls this.
    #[track_caller]
    pub const fn new(name: &'static str, steps: Steps) -> Scenario {
        let meddling = Meddling { with_pods: false, with_sets: false, with_contender: false };
        let source = std::panic::Location::caller().file();
        Scenario { name, steps, chance: Chance::NONE, why_chance: "", meddling, source }
    }

    /// Leaves something to chance, for this reason.
    #[must_use]
    pub const fn leaves(mut self, chance: Chance, why: &'static str) -> Scenario {
        self.chance = chance;
        self.why_chance = why;
        self
    }

    /// The user deletes, finishes or takes away Pods.
    #[must_use]
    pub const fn meddles_with_pods(mut self) -> Scenario {
        self.meddling.with_pods = true;
        self
    }

    /// The user scales ReplicaSets of a Deployment.
    #[must_use]
    pub const fn meddles_with_sets(mut self) -> Scenario {
        self.meddling.with_sets = true;
        self
    }
}

/// Scenario name -> all that was seen of it, or why it did not come to its end.
pub type Outcomes = BTreeMap<&'static str, Result<Value, String>>;

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
    let root_ca = stage::authority_of(&plane.kubeconfig())?;
    let outcomes =
        play_on(scenarios, |ns| Stage::new(plane.client(), plane.kubeconfig(), ns).with_root_ca(root_ca.clone())).await;
    write_down(contender.name(), &outcomes)?;
    running.stop().await;
    nodes.stop().await;
    plane.stop().await;
    Ok(outcomes)
}

/// Plays the scenarios with Pintle on an embedded cluster that is started for it.
///
/// # Errors
/// As [`play`].
pub async fn play_embedded(scenarios: &[Scenario]) -> Result<Outcomes> {
    // The embedded cluster has none of its own.
    let root_ca = rcgen::generate_simple_self_signed(vec!["embedded".to_owned()])?.cert.pem();
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let (kubeconfig, authority) = (folder.path().join("kubeconfig"), folder.path().join("ca.crt"));
    std::fs::write(&kubeconfig, cluster.kubeconfig()).context("write the kubeconfig")?;
    std::fs::write(&authority, &root_ca).context("write the certificate authority")?;
    let config = SimNodesConfig::new(Connect::Endpoint(cluster.base_url()));
    let nodes = SimNodes::start(config).await.context("start the nodes")?;
    let flags = [format!("--root-ca-file={}", authority.display())];
    let mut host = Host::start_with("scenarios", &cluster.kubeconfig(), &contender::CONTROLLERS, &flags)?;
    let playing = play_on(scenarios, |ns| {
        let client = ApiClient::new(&cluster.base_url(), None, None);
        Stage::new(client, kubeconfig.clone(), ns).with_root_ca(root_ca.clone())
    });
    let mut look = tokio::time::interval(LOOK_AT_HOST);
    tokio::pin!(playing);
    let outcomes = loop {
        tokio::select! {
            outcomes = &mut playing => break outcomes,
            // Without a host every scenario would wait for its deadline.
            _ = look.tick() => ensure!(host.is_running(), "pintle has ended:\n{}", host.log_tail()),
        }
    };
    write_down("embedded", &outcomes)?;
    drop(host);
    nodes.stop().await;
    Ok(outcomes)
}

async fn play_on(scenarios: &[Scenario], stage: impl Fn(String) -> Stage) -> Outcomes {
    let stage = &stage;
    futures::stream::iter(scenarios.iter().enumerate())
        .map(|(i, scenario)| async move {
            let stage = stage(format!("scenario-{}", i + 1));
            let playing = tokio::time::timeout(SCENARIO_DEADLINE, play_one(scenario, &stage)).await;
            let outcome = match playing {
                Ok(Ok(seen)) => Ok(seen),
                Ok(Err(error)) => Err(format!("{error:#}\n")),
                Err(_) => Err(format!("not at its end after {SCENARIO_DEADLINE:?}\n")),
            };
            (scenario.name, outcome)
        })
        .buffer_unordered(N_AT_ONCE)
        .collect()
        .await
}

/// Leaves what was seen in `target/scenarios`, for reading.
fn write_down(who: &str, outcomes: &Outcomes) -> Result<()> {
    let folder = crate::target_dir().join("scenarios").join(who);
    std::fs::create_dir_all(&folder).context("make target/scenarios")?;
    for (name, outcome) in outcomes {
        let text = outcome.as_ref().map_or_else(String::clone, |seen| format!("{seen:#}\n"));
        let file = folder.join(format!("{}.txt", name.replace(' ', "-")));
        std::fs::write(file, text).context("write what was seen")?;
    }
    Ok(())
}

async fn play_one(scenario: &Scenario, stage: &Stage) -> Result<Value> {
    stage.client.create_namespace(&stage.ns).await?;
    let recorder = Recorder::start(stage).await.context("watch the stage")?;
    stage.open().await.context("open the stage")?;
    (scenario.steps)(stage).await?;
    let left = stage.settle().await.context("settle")?;
    let history = recorder.until(&by_id(&left)).await?;
    let broken = rules::broken(&history, scenario.meddling);
    ensure!(broken.is_empty(), "rules are broken:\n{}", broken.join("\n"));
    Ok(snapshot::normalize(&left, &history, &stage.root_ca))
}

fn by_id(left: &Value) -> BTreeMap<Id, Value> {
    let mut all = BTreeMap::new();
    for plural in stage::COMPARED {
        for object in left[plural].as_array().into_iter().flatten() {
            all.insert((plural, history::text(object, "uid").to_owned()), object.clone());
        }
    }
    all
}

/// What two contenders made of some scenarios.
#[derive(Debug)]
pub struct Report {
    /// A table of all, after the differences.
    pub text: String,
    /// Those that differ, did not come to their end, or broke a rule, one entry each.
    pub wrong: Vec<String>,
}

/// Compares what two contenders made of the same scenarios.
pub fn report(scenarios: &[Scenario], names: [&str; 2], outcomes: [&Outcomes; 2]) -> Report {
    let [wanted, got] = outcomes;
    let mut table = String::new();
    let mut diffs = String::new();
    let mut wrong = Vec::new();
    let mut failed = String::new();
    let width = scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let name = scenario.name;
        let text = |seen: &Value| format!("{:#}\n", snapshot::without_chance(seen, scenario.chance));
        let verdict = match (wanted.get(name), got.get(name)) {
            (Some(Ok(wanted)), Some(Ok(got))) => {
                let [wanted, got] = [wanted, got].map(text);
                if wanted == got {
                    "equal"
                } else {
                    let diff = TextDiff::from_lines(&wanted, &got);
                    let diff = diff.unified_diff().context_radius(6).to_string();
                    let _ = writeln!(diffs, "=== {name}\n{diff}");
                    wrong.push(format!("{name} differs"));
                    "differs"
                }
            }
            (wanted, got) => {
                for (who, outcome) in names.iter().zip([wanted, got]) {
                    if let Some(Err(error)) = outcome {
                        let _ = writeln!(failed, "=== {name} ({who})\n{error}");
                        wrong.push(format!("{name} failed ({who})"));
                    }
                }
                "failed"
            }
        };
        let _ = writeln!(table, "{name:width$}  {verdict}");
    }
    let [first, second] = names;
    let n = scenarios.len();
    let n_equal = table.lines().filter(|line| line.ends_with("  equal")).count();
    let text = format!("{diffs}{failed}{table}{n_equal} of {n} scenarios equal (- {first}, + {second})\n");
    Report { text, wrong }
}

/// What varied between runs of one contender, next to what its scenario leaves to chance.
pub fn variance(scenarios: &[Scenario], runs: &[Outcomes]) -> String {
    let mut table = String::new();
    let width = scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let seen: Vec<&Value> = runs.iter().filter_map(|run| run.get(scenario.name)?.as_ref().ok()).collect();
        let n_kinds = |left_out: Chance| {
            let kinds = seen.iter().map(|s| snapshot::without_chance(s, left_out).to_string());
            kinds.collect::<BTreeSet<String>>().len()
        };
        let n_beside = n_kinds(Chance::ALL);
        let mut notes = String::new();
        if n_beside > 1 {
            let _ = write!(notes, "  beside: {n_beside} of {} UNEXPECTED", seen.len());
        }
        for (what, is_left_out, others) in Chance::EACH {
            let (n, expected) = (n_kinds(others), is_left_out(&scenario.chance));
            if n > n_beside || expected {
                let note = if expected { "" } else { " UNEXPECTED" };
                let _ = write!(notes, "  {what}: {n} of {}{note}", seen.len());
            }
        }
        if !notes.is_empty() {
            let _ = writeln!(table, "{:width$}{notes}", scenario.name);
        }
    }
    format!("different outcomes, of so many runs:\n{table}")
}
