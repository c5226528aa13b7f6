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

mod autoscaler_rules;
mod budget_rules;
pub mod history;
pub mod list;
pub mod passage;
pub mod permissions;
pub mod recorded;
mod refused;
pub mod rules;
pub mod sample;
pub mod snapshot;
pub mod stage;
mod stateful_rules;
pub mod subject;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use serde_json::Value;
use similar::TextDiff;
use tokio::time::Instant;

use crate::controlplane::{ADMIN, Audit, AuditEntry, SUBJECT};
use crate::ports::free_ports;
use crate::{ControlPlane, HostProcess, Options, TestCluster};
use history::{History, Id, Recorder};
pub use list::autoscalers::measure;
use permissions::{Judgement, Roles};
pub use rules::UserActions;
use sample::Pace;
pub use sample::Sample;
pub use stage::{RULED, Stage};
pub use subject::Subject;

/// How many scenarios run at once: each mostly waits.
const N_AT_ONCE: usize = 12;

/// How long a scenario may take in all.
const SCENARIO_DEADLINE: Duration = Duration::from_secs(3600);

/// How long a scenario that breaks a rule, or differs from its record, waits for writes that are late.
const LATE_WRITES: Duration = Duration::from_secs(120);

/// How often a host is asked whether it still runs.
const LOOK_AT_HOST: Duration = Duration::from_secs(1);

/// The feature gates of controllers that are off by default.
pub const GATES: &str = "--feature-gates=GenericWorkload=true";

/// What kube-apiserver serves for these controllers.
pub const GATED_APIS: &str = "--runtime-config=scheduling.k8s.io/v1beta1=true";

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
    /// Texts in events that kube-controller-manager records in some runs and not in others, or with other names. They are not compared.
    pub chance_events: &'static [&'static str],
    /// Changes that the user makes to objects of the controllers.
    pub user_actions: UserActions,
    /// Kinds whose objects are compared beside those of every scenario ([`stage::COMPARED`]), in the plural.
    pub kinds: &'static [&'static str],
    /// Whether it changes the whole cluster, and so runs when no other scenario does.
    pub alone: bool,
    /// Whether it needs `custom.metrics.k8s.io` and `external.metrics.k8s.io`, which other scenarios must not see.
    pub metrics: bool,
    /// Whether it needs [`GATES`], and so runs on a control plane of those that do.
    pub gated: bool,
    /// Why the embedded cluster cannot show it; empty if it can.
    pub only_real: &'static str,
    /// The file that contains the scenario, relative to the root of the workspace.
    pub source: &'static str,
    /// The built-in controllers that it is about.
    pub controllers: &'static [&'static str],
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
        let user_actions = UserActions { pods: false, sets: false, slices: false, replaces_subject: false };
        let source = std::panic::Location::caller().file();
        Scenario {
            name,
            steps,
            chance: Chance::NONE,
            reason: "",
            chance_events: &[],
            user_actions,
            kinds: &[],
            alone: false,
            metrics: false,
            gated: false,
            only_real: "",
            source,
            controllers: &[],
        }
    }

    /// Objects of these kinds, in the plural, are compared too.
    #[must_use]
    pub const fn comparing(mut self, kinds: &'static [&'static str]) -> Scenario {
        self.kinds = kinds;
        self
    }

    /// It changes the whole cluster.
    #[must_use]
    pub const fn alone(mut self) -> Scenario {
        self.alone = true;
        self
    }

    /// It needs custom and external metrics: it runs after those that do not.
    #[must_use]
    pub const fn with_metrics(mut self) -> Scenario {
        self.metrics = true;
        self
    }

    /// It needs what is off by default: the [`GATES`] of controllers.
    #[must_use]
    pub const fn gated(mut self) -> Scenario {
        self.gated = true;
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

    /// Events with one of these texts may be recorded or not.
    #[must_use]
    pub const fn may_report(mut self, texts: &'static [&'static str]) -> Scenario {
        self.chance_events = texts;
        self
    }

    /// What is compared of an outcome.
    fn compared(&self, seen: &Value, ignored: Chance) -> Value {
        let mut seen = snapshot::without_chance(seen, ignored);
        let is_chance = |event: &Value| {
            event.as_str().is_some_and(|event| self.chance_events.iter().any(|text| event.contains(text)))
        };
        if let Some(events) = seen["events"].as_array_mut() {
            events.retain(|event| !is_chance(event));
        }
        // The order of fields is the API server's.
        seen.sort_all_objects();
        seen
    }

    /// The same as text, without the writes that were refused.
    fn text(&self, seen: &Value) -> String {
        let mut seen = self.compared(seen, self.chance);
        refused::take(&mut seen);
        format!("{seen:#}\n")
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

    /// The user changes or deletes EndpointSlices of a controller.
    #[must_use]
    pub const fn meddles_with_slices(mut self) -> Scenario {
        self.user_actions.slices = true;
        self
    }
}

/// Scenario name -> the outcome, or the reason why the scenario did not finish.
pub type Outcomes = BTreeMap<&'static str, Result<Value, String>>;

/// The scenarios to run. `SCENARIO=text` in the environment keeps those whose names contain the text.
///
/// # Errors
/// There is none.
pub fn chosen() -> Result<Vec<Scenario>> {
    let filter = std::env::var("SCENARIO").unwrap_or_default();
    let mut all = list::all();
    all.retain(|s| s.name.contains(&filter));
    ensure!(!all.is_empty(), "SCENARIO={filter:?}: no scenario has this in its name");
    Ok(all)
}

/// Runs all of these scenarios with one subject, on control planes that are started for it.
///
/// # Errors
/// A control plane, the nodes or the subject did not start. A scenario that fails is an outcome.
pub async fn run(scenarios: &[Scenario], subject: &Subject) -> Result<Outcomes> {
    Ok(run_on_planes(&Sample::whole(scenarios.to_vec()), subject, None).await?.0)
}

/// Runs a sample as [`run`], with Pintle, which has the roles that are shipped for it and takes part in the leader election; and what it
/// needed of them. Scenarios that did not begin within the budget have no outcome.
///
/// # Errors
/// As [`run`].
pub async fn run_with_roles(sample: &Sample, subject: &Subject) -> Result<(Outcomes, Judgement)> {
    let roles = Roles::read()?;
    let (outcomes, log) = run_on_planes(sample, subject, Some(&roles)).await?;
    let all = outcomes.len() == list::all().len();
    Ok((outcomes, roles.judge(&log, all)))
}

/// The outcomes, and the audit log of all control planes: of writes, and with roles of all requests.
async fn run_on_planes(
    sample: &Sample,
    subject: &Subject,
    roles: Option<&Roles>,
) -> Result<(Outcomes, Vec<AuditEntry>)> {
    let mut outcomes = Outcomes::new();
    let mut log = Vec::new();
    let pace = sample.pace();
    for gated in [false, true] {
        let mut scenarios = sample.scenarios.clone();
        scenarios.retain(|scenario| scenario.gated == gated);
        if scenarios.is_empty() {
            continue;
        }
        let options = Options {
            kubernetes: sample.kubernetes,
            audit: Some(if roles.is_some() { Audit::Requests } else { Audit::Writes }),
            subject_needs_roles: roles.is_some(),
            apiserver_flags: if gated { [GATES, GATED_APIS].map(str::to_owned).to_vec() } else { Vec::new() },
            ..Options::default()
        };
        let cluster = TestCluster::real_with(options).await?.with_nodes(|_| {}).await?;
        let plane = cluster.plane()?;
        let mut flags = subject::flags().to_vec();
        if gated {
            flags.push(GATES.to_owned());
        }
        let running = match roles {
            Some(roles) => {
                roles.bind(plane).await?;
                start_serving(subject, plane, flags).await?
            }
            None => start(subject, plane, &flags).await?,
        };
        let (of_plane, entries) = run_audited(&scenarios, &pace, subject, &cluster, running).await?;
        outcomes.extend(of_plane);
        log.extend(entries);
        cluster.stop().await;
    }
    write_down(subject.name(), &outcomes)?;
    Ok((outcomes, log))
}

async fn start(subject: &Subject, plane: &ControlPlane, flags: &[String]) -> Result<subject::Running> {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    subject.start_with(plane, &subject::CONTROLLERS, &flags).await
}

/// Starts the subject as a candidate that serves metrics to those who may read them.
async fn start_serving(subject: &Subject, plane: &ControlPlane, mut flags: Vec<String>) -> Result<subject::Running> {
    let [port] = free_ports()?;
    let (certificate, key) = plane.serving();
    flags.extend([
        "--leader-elect".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
    ]);
    let running = start(subject, plane, &flags).await?;
    let url = format!("https://127.0.0.1:{port}");
    permissions::read_metrics(&plane.client_of(&url, ADMIN), 200).await?;
    permissions::read_metrics(&plane.client_of(&url, SUBJECT), 403).await?;
    Ok(running)
}

/// The outcomes, with the writes that were refused, and the audit log.
async fn run_audited(
    scenarios: &[Scenario],
    pace: &Pace<'_>,
    subject: &Subject,
    cluster: &TestCluster,
    running: subject::Running,
) -> Result<(Outcomes, Vec<AuditEntry>)> {
    let root_ca = stage::authority_of(&cluster.kubeconfig())?;
    let mut outcomes = run_on(scenarios, pace, cluster, &root_ca).await?;
    let own_log = running.process().log().to_owned();
    let own_log = std::fs::read_to_string(&own_log).with_context(|| own_log.display().to_string())?;
    running.stop().await;
    let log = cluster.plane()?.audit_log()?;
    let is_write = |entry: &&AuditEntry| !["get", "list", "watch"].contains(&entry.verb.as_str());
    let writes: Vec<AuditEntry> = log.iter().filter(is_write).cloned().collect();
    let mut refused = refused::by_namespace(&writes)?;
    for (i, scenario) in scenarios.iter().enumerate() {
        let Some(Ok(outcome)) = outcomes.get_mut(scenario.name) else { continue };
        let namespace = namespace_of(i);
        if pace.record(scenario).is_some_and(|record| scenario.text(record) != scenario.text(outcome)) {
            let requests = refused::all_of(&writes, &namespace).join("\n");
            let reported = warnings_of(&own_log, &namespace).join("\n");
            writeln!(std::io::stderr(), "=== {}: refused writes:\n{requests}\nlog:\n{reported}", scenario.name)
                .context("print what a scenario that differs was refused")?;
        }
        refused::add(outcome, &namespace, &mut refused);
    }
    // What is refused to the reference depends on how late its caches are.
    if !matches!(subject, Subject::KubeControllerManager) && outcomes.values().all(Result::is_ok) {
        ensure!(refused.is_empty(), "{} was refused writes outside of the scenarios: {refused:#?}", subject.name());
    }
    Ok((outcomes, log))
}

/// The warnings and errors of a log that name a namespace.
fn warnings_of<'a>(log: &'a str, namespace: &str) -> Vec<&'a str> {
    let is_named = |line: &str| {
        line.match_indices(namespace).any(|(at, _)| {
            let next = line.as_bytes().get(at + namespace.len());
            next.is_none_or(|next| !next.is_ascii_alphanumeric())
        })
    };
    log.lines().filter(|line| (line.contains("WARN") || line.contains("ERROR")) && is_named(line)).collect()
}

/// Runs a sample with Pintle on an embedded cluster that is started for it.
///
/// # Errors
/// As [`run`].
pub async fn run_embedded(sample: &Sample) -> Result<Outcomes> {
    // The embedded cluster has none of its own.
    let root_ca = rcgen::generate_simple_self_signed(vec!["embedded".to_owned()])?.cert.pem();
    let cluster = TestCluster::embedded().await?.with_nodes(|_| {}).await?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, &root_ca).context("write the certificate authority")?;
    let flags = [HostProcess::controllers(&subject::CONTROLLERS), format!("--root-ca-file={}", authority.display())];
    let mut host = cluster.host(&[&flags[..], &subject::flags()].concat())?;
    let pace = sample.pace();
    let outcomes = {
        let running = run_on(&sample.scenarios, &pace, &cluster, &root_ca);
        let mut look = tokio::time::interval(LOOK_AT_HOST);
        tokio::pin!(running);
        loop {
            tokio::select! {
                outcomes = &mut running => break outcomes?,
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

async fn run_on(scenarios: &[Scenario], pace: &Pace<'_>, cluster: &TestCluster, root_ca: &str) -> Result<Outcomes> {
    let numbered = scenarios.iter().enumerate();
    let (with_metrics, others): (Vec<_>, Vec<_>) = numbered.partition(|(_, scenario)| scenario.metrics);
    let mut outcomes = run_these(others, pace, cluster, root_ca).await;
    if !with_metrics.is_empty() {
        let _metrics = cluster.serve_metrics().await.context("serve metrics")?;
        until_metrics_are_read(&Stage::new(cluster.client.clone(), cluster.kubeconfig(), String::new())).await?;
        outcomes.extend(run_these(with_metrics, pace, cluster, root_ca).await);
    }
    Ok(outcomes)
}

/// Waits until the autoscalers of a cluster read custom and external metrics.
///
/// # Errors
/// They do not in time.
pub async fn until_metrics_are_read(stage: &Stage) -> Result<()> {
    let probe = stage.beside("metrics-probe".to_owned());
    list::autoscalers::other_metrics::until_read(&probe).await.context("wait until metrics are read")
}

async fn run_these(
    scenarios: Vec<(usize, &Scenario)>,
    pace: &Pace<'_>,
    cluster: &TestCluster,
    root_ca: &str,
) -> Outcomes {
    let (alone, together): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(|(_, scenario)| scenario.alone);
    let mut outcomes = run_some(together, pace, N_AT_ONCE, cluster, root_ca).await;
    outcomes.extend(run_some(alone, pace, 1, cluster, root_ca).await);
    outcomes
}

/// The namespace of a scenario, by its place.
fn namespace_of(place: usize) -> String {
    format!("scenario-{}", place + 1)
}

async fn run_some(
    scenarios: Vec<(usize, &Scenario)>,
    pace: &Pace<'_>,
    n_at_once: usize,
    cluster: &TestCluster,
    root_ca: &str,
) -> Outcomes {
    let begins = pace.part(scenarios.len());
    futures::stream::iter(scenarios)
        .map(|(i, scenario)| async move {
            if !begins(scenario) {
                return None;
            }
            let namespace = Stage::new(cluster.client.clone(), cluster.kubeconfig(), namespace_of(i));
            let namespace = namespace.with_root_ca(root_ca.to_owned()).comparing(scenario.kinds).recording(&RULED);
            let outcome =
                match tokio::time::timeout(SCENARIO_DEADLINE, run_one(scenario, &namespace, pace.record(scenario)))
                    .await
                {
                    Ok(Ok(seen)) => Ok(seen),
                    Ok(Err(error)) => Err(format!("{error:#}\n")),
                    Err(_) => Err(format!("not finished after {SCENARIO_DEADLINE:?}\n")),
                };
            Some((scenario.name, outcome))
        })
        .buffer_unordered(n_at_once)
        .filter_map(std::future::ready)
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

/// Runs the steps of a scenario and waits for the end: silence, with all rules kept and in the state of the record if there is one. What is
/// written late, such as events on a busy machine, is waited for; a state that stays another is a result.
///
/// # Errors
/// A step failed, or a rule is broken.
pub async fn run_one(scenario: &Scenario, namespace: &Stage, record: Option<&Value>) -> Result<Value> {
    namespace.client.create_namespace(&namespace.ns).await?;
    let recorder = Recorder::start(namespace).await.context("watch the namespace")?;
    namespace.open().await.context("prepare the namespace")?;
    (scenario.steps)(namespace).await?;
    let until = Instant::now() + LATE_WRITES;
    loop {
        let left = namespace.settle().await.context("settle")?;
        let history = recorder.until(&by_id(namespace, &left)).await?;
        let broken = rules::broken(&history, scenario.user_actions);
        let (left, history) = only_compared(namespace, left, history);
        let mut seen = snapshot::normalize(&left, &history, &namespace.root_ca);
        seen["observed"] = namespace.observed();
        let is_recorded = record.is_none_or(|record| scenario.text(record) == scenario.text(&seen));
        if broken.is_empty() && is_recorded || Instant::now() > until {
            ensure!(broken.is_empty(), "rules are broken:\n{}", broken.join("\n"));
            return Ok(seen);
        }
    }
}

/// What is left, and how it came so, without the kinds that only rules are about.
fn only_compared(stage: &Stage, mut left: Value, mut history: History) -> (Value, History) {
    let is_compared = |plural: &str| stage.compared().any(|compared| compared == plural);
    if let Some(kinds) = left.as_object_mut() {
        kinds.retain(|plural, _| is_compared(plural));
    }
    history.base.retain(|(plural, _), _| is_compared(plural));
    history.writes.retain(|write| is_compared(write.plural));
    (left, history)
}

/// The objects of [`Stage::settle`], by their plural and uid.
pub fn by_id(stage: &Stage, left: &Value) -> BTreeMap<Id, Value> {
    let mut all = BTreeMap::new();
    for plural in stage.recorded() {
        for object in left[plural].as_array().into_iter().flatten() {
            all.insert((plural, history::text(object, "uid").to_owned()), object.clone());
        }
    }
    all
}

/// The comparison of the outcomes of two subjects.
#[derive(Debug)]
pub struct Report {
    /// The differences, then a table of the scenarios that are not equal, then the number of those that are.
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
    let mut n_equal = 0;
    let width = scenarios.iter().map(|s| s.name.len()).max().unwrap_or(0);
    for scenario in scenarios {
        let name = scenario.name;
        // What is refused to the reference itself depends on how late its caches are.
        let is_compared = names[1] != Subject::KubeControllerManager.name();
        let refused = |seen: &Value| if is_compared { refused::take(&mut seen.clone()) } else { BTreeSet::new() };
        let result = match (wanted.get(name), got.get(name)) {
            (Some(Ok(wanted)), Some(Ok(got))) => {
                let surplus: Vec<String> = refused(got).difference(&refused(wanted)).cloned().collect();
                let [wanted, got] = [wanted, got].map(|seen| scenario.text(seen));
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
        match result {
            "equal" => n_equal += 1,
            _ => drop(writeln!(table, "{name:width$}  {result}")),
        }
    }
    let [first, second] = names;
    let n = scenarios.len();
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
            let kinds = seen.iter().map(|seen| scenario.compared(seen, ignored).to_string());
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
