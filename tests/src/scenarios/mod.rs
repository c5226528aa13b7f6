//! Scenarios in which Pintle is compared with the real kube-controller-manager.
//!
//! ```text
//! list -> run each scenario in its own namespace -> settle -> the last state (snapshot) and the way to it (passage)
//!          |  (one control plane for each subject, simulated nodes)   -> without what is nondeterministic -> equal, or a diff
//!          '-> watches (history) -> rules that hold at any speed
//! ```
//!
//! Invariants:
//! 1. kube-controller-manager compared with itself gives no difference, also on a busy machine: the steps decide what is
//!    compared. A scenario runs once; any difference is a failure.
//! 2. What is nondeterministic is not compared, but it is checked: the rules bind each run on its own.
//! 3. A scenario waits for what it names and then for silence; it never relies on time alone.
//!
//! Not here: the control plane, the simulated nodes, the subjects themselves.

pub mod history;
pub mod list;
pub mod passage;
pub mod permissions;
pub mod recorded;
mod refused;
pub mod rules;
pub mod snapshot;
pub mod stage;
pub mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use serde_json::Value;
use similar::TextDiff;

use crate::controlplane::{ADMIN, Audit, SUBJECT, free_ports};
use crate::{HostProcess, Options, TestCluster};
use history::{Id, Recorder};
use permissions::{Judgement, Roles};
pub use rules::UserActions;
pub use stage::Stage;
pub use subject::Subject;

/// How many scenarios run at once: each mostly waits, but all of them on few cores.
const N_AT_ONCE: usize = 8;

/// How long a scenario may take in all.
const SCENARIO_DEADLINE: Duration = Duration::from_secs(900);

/// How often a host is asked whether it still runs.
const LOOK_AT_HOST: Duration = Duration::from_secs(1);

/// The steps of a scenario.
pub type Steps = for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, Result<()>>;

/// One scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Short and unique, a sentence without its period.
    pub name: &'static str,
    /// The actions of the user. They end when what they wait for has happened.
    pub steps: Steps,
    /// The results that are not compared, because they differ between runs. All others are compared.
    pub chance: Chance,
    /// Why they differ; empty if there are none.
    pub reason: &'static str,
    /// Changes that the user makes to objects of the controllers.
    pub user_actions: UserActions,
    /// Whether it changes the whole cluster, and so runs when no other scenario does.
    pub alone: bool,
    /// Why the embedded cluster cannot show it; empty if it can.
    pub only_real: &'static str,
    /// The file that contains the scenario, relative to the root of the workspace.
    pub source: &'static str,
}

/// Results of a scenario that depend on which of two watches is faster, and differ between two runs of one subject too.
///
/// With `RUNS=3`, the test of kube-controller-manager against itself prints which results varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chance {
    /// The number of steps in which a ReplicaSet is scaled. The sum, the start and the end are compared.
    pub steps: bool,
    /// The order in which conditions changed last, which is their order in the object.
    pub order: bool,
    /// How many Pods come and go. How many are left is compared.
    pub pods: bool,
    /// The states through which conditions pass. These differ on purpose: where kube-controller-manager writes a status and
    /// replaces it at once, Pintle writes only the second. The last state is compared.
    pub states: bool,
}

/// The name of a field of [`Chance`], the field, and a value in which all other fields are set.
type Field = (&'static str, fn(&Chance) -> bool, Chance);

impl Chance {
    /// Every result is compared.
    pub const NONE: Chance = Chance { steps: false, order: false, pods: false, states: false };

    /// Only deterministic results are compared.
    pub const ALL: Chance = Chance { steps: true, order: true, pods: true, states: true };

    const FIELDS: [Field; 4] = [
        ("steps", |varies| varies.steps, Chance { steps: false, ..Chance::ALL }),
        ("order", |varies| varies.order, Chance { order: false, ..Chance::ALL }),
        ("pods", |varies| varies.pods, Chance { pods: false, ..Chance::ALL }),
        ("states", |varies| varies.states, Chance { states: false, ..Chance::ALL }),
    ];
}

impl Scenario {
    /// A deterministic scenario of the file that calls this.
    #[track_caller]
    pub const fn new(name: &'static str, steps: Steps) -> Scenario {
        let user_actions = UserActions { pods: false, sets: false, replaces_subject: false };
        let source = std::panic::Location::caller().file();
        Scenario { name, steps, chance: Chance::NONE, reason: "", user_actions, alone: false, only_real: "", source }
    }

    /// It changes the whole cluster.
    #[must_use]
    pub const fn alone(mut self) -> Scenario {
        self.alone = true;
        self
    }

    /// The embedded cluster cannot show it, for this reason.
    #[must_use]
    pub const fn only_real(mut self, reason: &'static str) -> Scenario {
        self.only_real = reason;
        self
    }

    /// Declares what differs between runs, and why.
    #[must_use]
    pub const fn leaves(mut self, chance: Chance, reason: &'static str) -> Scenario {
        self.chance = chance;
        self.reason = reason;
        self
    }

    /// The user deletes, finishes or takes away Pods.
    #[must_use]
    pub const fn meddles_with_pods(mut self) -> Scenario {
        self.user_actions.pods = true;
        self
    }

    /// The user scales ReplicaSets of a Deployment.
    #[must_use]
    pub const fn meddles_with_sets(mut self) -> Scenario {
        self.user_actions.sets = true;
        self
    }
}

/// Scenario name -> the outcome, or the reason why the scenario did not finish.
pub type Outcomes = BTreeMap<&'static str, Result<Value, String>>;

/// The scenarios to run. `SCENARIO=text` in the environment keeps those whose names contain the text.
pub fn chosen() -> Vec<Scenario> {
    let filter = std::env::var("SCENARIO").unwrap_or_default();
    let mut all = list::all();
    all.retain(|s| s.name.contains(&filter));
    all
}

/// Runs the scenarios with one subject, on a control plane that is started for it.
///
/// # Errors
/// The control plane, the nodes or the subject did not start. A scenario that fails is an outcome.
pub async fn run(scenarios: &[Scenario], subject: &Subject) -> Result<Outcomes> {
    let options = Options { audit: Some(Audit::Writes), ..Options::default() };
    let cluster = TestCluster::real_with(options).await?.with_nodes(|_| {}).await?;
    let running = subject.start(cluster.plane()?).await?;
    let outcomes = run_audited(scenarios, subject, &cluster, running).await?;
    cluster.stop().await;
    Ok(outcomes)
}

/// As [`run`], with Pintle, which has the roles that are shipped for it and takes part in the leader election; and what it needed of them.
///
/// # Errors
/// As [`run`].
pub async fn run_with_roles(scenarios: &[Scenario], subject: &Subject) -> Result<(Outcomes, Judgement)> {
    let options = Options { audit: Some(Audit::Requests), subject_needs_roles: true, ..Options::default() };
    let cluster = TestCluster::real_with(options).await?.with_nodes(|_| {}).await?;
    let plane = cluster.plane()?;
    let roles = Roles::bind(plane).await?;
    let [port] = free_ports()?;
    let (certificate, key) = plane.serving();
    let flags = [
        "--leader-elect".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
    ];
    let of_subject = subject::flags();
    let flags: Vec<&str> = flags.iter().chain(&of_subject).map(String::as_str).collect();
    let running = subject.start_with(plane, &subject::CONTROLLERS, &flags).await?;
    let url = format!("https://127.0.0.1:{port}");
    permissions::read_metrics(&plane.client_of(&url, ADMIN), 200).await?;
    permissions::read_metrics(&plane.client_of(&url, SUBJECT), 403).await?;
    let outcomes = run_audited(scenarios, subject, &cluster, running).await?;
    let judgement = roles.judge(&cluster.plane()?.audit_log()?, scenarios.len() == list::all().len());
    cluster.stop().await;
    Ok((outcomes, judgement))
}

async fn run_audited(
    scenarios: &[Scenario],
    subject: &Subject,
    cluster: &TestCluster,
    running: subject::Running,
) -> Result<Outcomes> {
    let root_ca = stage::authority_of(&cluster.kubeconfig())?;
    let mut outcomes = run_on(scenarios, cluster, &root_ca).await;
    running.stop().await;
    let mut writes = cluster.plane()?.audit_log()?;
    writes.retain(|entry| !["get", "list", "watch"].contains(&entry.verb.as_str()));
    let mut refused = refused::by_namespace(&writes)?;
    for (i, scenario) in scenarios.iter().enumerate() {
        if let Some(Ok(outcome)) = outcomes.get_mut(scenario.name) {
            refused::add(outcome, &namespace_of(i), &mut refused);
        }
    }
    write_down(subject.name(), &outcomes)?;
    if scenarios.iter().all(|scenario| matches!(outcomes.get(scenario.name), Some(Ok(_)))) {
        ensure!(refused.is_empty(), "{} was refused writes outside of the scenarios: {refused:#?}", subject.name());
    }
    Ok(outcomes)
}

/// Runs the scenarios with Pintle on an embedded cluster that is started for it.
///
/// # Errors
/// As [`run`].
pub async fn run_embedded(scenarios: &[Scenario]) -> Result<Outcomes> {
    // The embedded cluster has none of its own.
    let root_ca = rcgen::generate_simple_self_signed(vec!["embedded".to_owned()])?.cert.pem();
    let cluster = TestCluster::embedded().await?.with_nodes(|_| {}).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, &root_ca).context("write the certificate authority")?;
    let flags = [HostProcess::controllers(&subject::CONTROLLERS), format!("--root-ca-file={}", authority.display())];
    let mut host = cluster.host(&[&flags[..], &subject::flags()].concat())?;
    let scenarios: Vec<Scenario> = scenarios.iter().filter(|scenario| scenario.only_real.is_empty()).copied().collect();
    let outcomes = {
        let running = run_on(&scenarios, &cluster, &root_ca);
        let mut look = tokio::time::interval(LOOK_AT_HOST);
        tokio::pin!(running);
        loop {
            tokio::select! {
                outcomes = &mut running => break outcomes,
                // Without a host every scenario would wait for its deadline.
                _ = look.tick() => ensure!(host.is_running(), "pintle has ended:\n{}", host.log_tail()),
            }
        }
    };
    write_down("embedded", &outcomes)?;
    drop(host);
    cluster.stop().await;
    Ok(outcomes)
}

async fn run_on(scenarios: &[Scenario], cluster: &TestCluster, root_ca: &str) -> Outcomes {
    let numbered = scenarios.iter().enumerate();
    let (alone, together): (Vec<_>, Vec<_>) = numbered.partition(|(_, scenario)| scenario.alone);
    let mut outcomes = run_some(together, N_AT_ONCE, cluster, root_ca).await;
    outcomes.extend(run_some(alone, 1, cluster, root_ca).await);
    outcomes
}

/// The namespace of a scenario, by its place.
fn namespace_of(place: usize) -> String {
    format!("scenario-{}", place + 1)
}

async fn run_some(
    scenarios: Vec<(usize, &Scenario)>,
    n_at_once: usize,
    cluster: &TestCluster,
    root_ca: &str,
) -> Outcomes {
    futures::stream::iter(scenarios)
        .map(|(i, scenario)| async move {
            let namespace = Stage::new(cluster.client.clone(), cluster.kubeconfig(), namespace_of(i));
            let namespace = namespace.with_root_ca(root_ca.to_owned());
            let outcome = match tokio::time::timeout(SCENARIO_DEADLINE, run_one(scenario, &namespace)).await {
                Ok(Ok(seen)) => Ok(seen),
                Ok(Err(error)) => Err(format!("{error:#}\n")),
                Err(_) => Err(format!("not finished after {SCENARIO_DEADLINE:?}\n")),
            };
            (scenario.name, outcome)
        })
        .buffer_unordered(n_at_once)
        .collect()
        .await
}

/// Writes the outcomes to `target/scenarios`, for reading.
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

async fn run_one(scenario: &Scenario, namespace: &Stage) -> Result<Value> {
    namespace.client.create_namespace(&namespace.ns).await?;
    let recorder = Recorder::start(namespace).await.context("watch the namespace")?;
    namespace.open().await.context("prepare the namespace")?;
    (scenario.steps)(namespace).await?;
    let left = namespace.settle().await.context("settle")?;
    let history = recorder.until(&by_id(&left)).await?;
    let broken = rules::broken(&history, scenario.user_actions);
    ensure!(broken.is_empty(), "rules are broken:\n{}", broken.join("\n"));
    let mut seen = snapshot::normalize(&left, &history, &namespace.root_ca);
    seen["observed"] = namespace.observed();
    Ok(seen)
}

/// The objects of [`Stage::settle`], by their plural and uid.
pub fn by_id(left: &Value) -> BTreeMap<Id, Value> {
    let mut all = BTreeMap::new();
    for plural in stage::COMPARED {
        for object in left[plural].as_array().into_iter().flatten() {
            all.insert((plural, history::text(object, "uid").to_owned()), object.clone());
        }
    }
    all
}

/// The comparison of the outcomes of two subjects.
#[derive(Debug)]
pub struct Report {
    /// A table of all, after the differences.
    pub text: String,
    /// An entry for each scenario that differs, did not finish, or broke a rule.
    pub wrong: Vec<String>,
}

/// Compares the outcomes of two subjects for the same scenarios.
pub fn report(scenarios: &[Scenario], names: [&str; 2], outcomes: [&Outcomes; 2]) -> Report {
    let [wanted, got] = outcomes;
    let mut table = String::new();
    let mut diffs = String::new();
    let mut wrong = Vec::new();
    let mut failed = String::new();
    let width = scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let name = scenario.name;
        let text = |seen: &Value| {
            let mut seen = snapshot::without_chance(seen, scenario.chance);
            refused::take(&mut seen);
            format!("{seen:#}\n")
        };
        // What is refused to the reference itself depends on how late its caches are.
        let is_compared = names[1] != Subject::KubeControllerManager.name();
        let refused = |seen: &Value| if is_compared { refused::take(&mut seen.clone()) } else { BTreeSet::new() };
        let result = match (wanted.get(name), got.get(name)) {
            (Some(Ok(wanted)), Some(Ok(got))) => {
                let surplus: Vec<String> = refused(got).difference(&refused(wanted)).cloned().collect();
                let [wanted, got] = [wanted, got].map(text);
                if wanted == got && surplus.is_empty() {
                    "equal"
                } else if wanted == got {
                    let _ = writeln!(diffs, "=== {name}\n+ refused: {}", surplus.join("\n+ refused: "));
                    wrong.push(format!("{name}: the API server refused writes that it did not refuse to {}", names[0]));
                    "refused writes"
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
        let _ = writeln!(table, "{name:width$}  {result}");
    }
    let [first, second] = names;
    let n = scenarios.len();
    let n_equal = table.lines().filter(|line| line.ends_with("  equal")).count();
    let text = format!("{diffs}{failed}{table}{n_equal} of {n} scenarios equal (- {first}, + {second})\n");
    Report { text, wrong }
}

/// The results that varied between runs of one subject, next to the declarations of the scenarios.
pub fn variance(scenarios: &[Scenario], runs: &[Outcomes]) -> String {
    let mut table = String::new();
    let width = scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let seen: Vec<&Value> = runs.iter().filter_map(|run| run.get(scenario.name)?.as_ref().ok()).collect();
        let n_kinds = |ignored: Chance| {
            let kinds = seen.iter().map(|s| snapshot::without_chance(s, ignored).to_string());
            kinds.collect::<BTreeSet<String>>().len()
        };
        let n_beside = n_kinds(Chance::ALL);
        let mut notes = String::new();
        if n_beside > 1 {
            let _ = write!(notes, "  beside: {n_beside} of {} UNEXPECTED", seen.len());
        }
        for (what, is_declared, others) in Chance::FIELDS {
            let (n, expected) = (n_kinds(others), is_declared(&scenario.chance));
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
