//! Trials: no Pod is doubled, at no instant, while watches are silent or late, or connections are dead.
//!
//! ```text
//! host (in this process) ──> Gate: dead connections ──> Proxy: late and silent watches ──> real API server
//!                                                                                               │ every write
//!                                          Report: surplus Pods of each ReplicaSet <── Recorder ┘
//! ```
//!
//! A trial is one ReplicaSet. Its Pods are created, the fault begins somewhere among these writes, and meanwhile the ReplicaSet
//! is changed again and again, so that its key wants to run, and scaled up once.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::FutureExt as _;
use pintle_core::ports::guest::Guest;
use pintle_kube::{Connection, Limits, Source};
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions};
use pintle_testing::Gate;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::controlplane::SUBJECT;
use crate::proxy::{Proxy, kubeconfig_through};
use crate::scenarios::history::{Effect, History, Id, Recorder};
use crate::scenarios::stage::{COMPARED, Stage};
use crate::{TestCluster, eventually};

/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Changes of each ReplicaSet during a fault, half a bound apart.
const CHANGES: usize = 5;
/// The metric that counts keys that were held for longer than the bound.
const OVERDUE: &str = "pintle_stale_cache_wait_timeouts_total";

/// The times of a host, and those of faults.
#[derive(Clone, Debug)]
pub struct Times {
    /// Bound of read-your-writes.
    pub bound: Duration,
    /// Pings of connections.
    pub limits: Limits,
    /// First delay of a watch that is opened again.
    pub backoff: Duration,
    /// How late events are: longer than the bound.
    pub late: Range<Duration>,
}

impl Times {
    /// Those of `pintle run`.
    pub fn real() -> Times {
        let config = ManagerConfig::default();
        let late = config.stale_bound + Duration::from_secs(5)..config.stale_bound + Duration::from_secs(15);
        Times { bound: config.stale_bound, limits: Limits::default(), backoff: config.caches.backoff_base, late }
    }
}

/// What goes wrong in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The watch of Pods stays open and sends nothing; its connection is alive.
    SilentWatch,
    /// Connections stay open and pass nothing: requests, answers, watches and pings are lost.
    DeadConnection,
    /// As `DeadConnection`, but the API server still receives requests: writes are done, and their answers are lost.
    LostAnswers,
    /// Events of Pods come late by more than the bound.
    LatePods,
    /// Events of ReplicaSets come late by more than the bound.
    LateReplicaSets,
    /// Events of Pods come late, and connections are dead.
    DeadAndLate,
}

/// All of them.
pub const FAULTS: [Fault; 6] = [
    Fault::SilentWatch,
    Fault::DeadConnection,
    Fault::LostAnswers,
    Fault::LatePods,
    Fault::LateReplicaSets,
    Fault::DeadAndLate,
];

impl Fault {
    /// The watches that are late.
    fn late(self) -> Option<&'static str> {
        match self {
            Self::SilentWatch | Self::DeadConnection | Self::LostAnswers => None,
            Self::LatePods | Self::DeadAndLate => Some("pods"),
            Self::LateReplicaSets => Some("replicasets"),
        }
    }

    fn is_dead(self) -> bool {
        matches!(self, Self::DeadConnection | Self::LostAnswers | Self::DeadAndLate)
    }
}

/// The result of trials.
#[derive(Debug, Default)]
pub struct Report {
    /// Selects what is random.
    pub seed: u64,
    /// ReplicaSets.
    pub n_trials: usize,
    /// Pods that were created.
    pub n_pods: usize,
    /// Each write after which a ReplicaSet had more Pods than replicas.
    pub surplus: Vec<String>,
    /// Time from the death of connections to the first new connection.
    pub noticed: Vec<Duration>,
    /// Keys that were held for longer than the bound, and the time of the slowest round, by fault.
    pub by_fault: BTreeMap<Fault, (u64, Duration)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, n_trials, n_pods, surplus, noticed, by_fault } = self;
        writeln!(f, "{n_trials} trials, {n_pods} Pods, {} surplus Pods (SEED={seed})", surplus.len())?;
        writeln!(f, "dead connections were noticed after {noticed:.1?}")?;
        for (fault, (n_overdue, slowest)) in by_fault {
            writeln!(
                f,
                "{fault:?}: {n_overdue} keys held for longer than the bound; the slowest round took {slowest:.1?}"
            )?;
        }
        surplus.iter().take(20).try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Runs rounds of trials, each with `n_sets` ReplicaSets, through all faults in turn.
///
/// # Errors
/// ReplicaSets did not get their Pods, or a fault had no effect: a test of nothing.
pub async fn trials(guest: Arc<dyn Guest>, times: Times, n_rounds: usize, n_sets: usize) -> Result<Report> {
    let seed = match std::env::var("SEED") {
        Ok(seed) => seed.parse().context("SEED is not a number")?,
        Err(_) => rand::random(),
    };
    let cluster = TestCluster::real().await?;
    let plane = cluster.plane()?;
    let proxy = Proxy::start(plane).await?;
    let gate = Gate::start(proxy.address()).await;
    let kubeconfig = kubeconfig_through(plane, SUBJECT, gate.address())?;
    let connection = Connection::open_with(&Source::Text(kubeconfig), times.limits).await?;
    let mut config = ManagerConfig { qps: None, stale_bound: times.bound, ..ManagerConfig::default() };
    config.caches.backoff_base = times.backoff;
    let manager = Arc::new(Manager::new(connection.reader(), Arc::new(connection.clone()), config));
    manager.add(guest, PluginOptions::default())?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = manager.clone();
    let running = tokio::spawn(async move { running.run(stopped.map(drop)).await });

    cluster.client.create_namespace("trials").await?;
    let stage = Stage::new(cluster.client.clone(), cluster.kubeconfig(), "trials".to_owned());
    // Admission requires it for each Pod.
    stage.create("serviceaccounts", &json!({"metadata": {"name": "default"}})).await?;
    let recorder = Recorder::start(&stage).await?;
    let fixture = Fixture { stage, recorder, proxy, gate, manager, times };
    let mut report = Report { seed, ..Report::default() };
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..n_rounds {
        let fault = FAULTS[round % FAULTS.len()];
        let started = Instant::now();
        let n_overdue = fixture.n_overdue();
        let done = fixture.round(&mut random, round, n_sets, fault, &mut report).await;
        done.with_context(|| format!("round {round}, {fault:?}, SEED={seed}\n{report}"))?;
        let n_overdue = fixture.n_overdue() - n_overdue;
        println!(
            "round {round}, {fault:?}: {:.1?}, {n_overdue} keys held for longer than the bound",
            started.elapsed()
        );
        let (n_total, slowest) = report.by_fault.entry(fault).or_default();
        *n_total += n_overdue;
        *slowest = (*slowest).max(started.elapsed());
    }
    let last = fixture.all().await?;
    report.count(&fixture.recorder.until(&last).await?);
    ensure!(report.n_trials == n_rounds * n_sets, "the history shows {} trials", report.n_trials);
    // With a dead connection, runs wait for the answers themselves, so that no key needs to be held.
    for (fault, (n_overdue, _)) in report.by_fault.iter().filter(|(fault, _)| !fault.is_dead()) {
        ensure!(
            *n_overdue > 0,
            "no key was held for longer than the bound with {fault:?}: nothing was tested\n{report}"
        );
    }
    drop(stop);
    running.await?;
    cluster.stop().await;
    Ok(report)
}

struct Fixture {
    stage: Stage,
    recorder: Recorder,
    proxy: Proxy,
    gate: Gate,
    manager: Arc<Manager>,
    times: Times,
}

impl Fixture {
    /// Keys that were held for longer than the bound so far.
    fn n_overdue(&self) -> u64 {
        let text = self.manager.metrics_text();
        let line = text.lines().find(|line| line.starts_with(OVERDUE));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }

    async fn all(&self) -> Result<BTreeMap<Id, Value>> {
        let mut all = BTreeMap::new();
        for plural in COMPARED {
            for object in self.stage.list(plural).await? {
                all.insert((plural, object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()), object);
            }
        }
        Ok(all)
    }

    /// Creates ReplicaSets, lets the fault begin at some write of theirs, changes them meanwhile, and waits for their Pods.
    async fn round(
        &self,
        random: &mut StdRng,
        round: usize,
        n_sets: usize,
        fault: Fault,
        report: &mut Report,
    ) -> Result<()> {
        let Times { bound, late, .. } = &self.times;
        if let Some(plural) = fault.late() {
            self.proxy.delay(plural, random.random_range(late.clone()));
        }
        // Name, replicas at first and at last, the change with which it is scaled.
        let sets: Vec<(String, usize, usize, usize)> = (0..n_sets)
            .map(|n| {
                let first = random.random_range(1..7);
                (format!("set-{round}-{n}"), first, first + random.random_range(1..4), random.random_range(0..CHANGES))
            })
            .collect();
        // Without late events, the fault begins after some of the writes: of ReplicaSets, Pods, status and events.
        let n_writes = sets.iter().map(|(_, first, ..)| 2 + 2 * first).sum::<usize>();
        let begins_at = self.recorder.n_seen() + random.random_range(n_sets..n_writes.max(n_sets + 1));
        let fail = async {
            eventually(PATIENCE, "the write at which the fault begins", async || {
                Ok((self.recorder.n_seen() >= begins_at).then_some(()))
            })
            .await?;
            if fault == Fault::SilentWatch {
                self.proxy.silence("pods");
            }
            if !fault.is_dead() {
                return Ok(None);
            }
            let n_before = self.gate.n_connections();
            match fault {
                Fault::LostAnswers => self.gate.lose_answers(),
                _ => self.gate.go_silent(),
            }
            let silent = Instant::now();
            eventually(PATIENCE, "a new connection", async || Ok((self.gate.n_connections() > n_before).then_some(())))
                .await?;
            anyhow::Ok(Some(silent.elapsed()))
        };
        let change = async {
            for (name, first, ..) in &sets {
                self.stage.create("replicasets", &replica_set(name, *first)).await?;
            }
            for change in 0..CHANGES {
                // Again and again, because the first key that is held for too long has the watch reopened for all.
                if change > 0 && fault == Fault::SilentWatch {
                    self.proxy.silence("pods");
                }
                for (name, _, last, scaled_at) in &sets {
                    let mut patch = json!({"metadata": {"annotations": {"change": change.to_string()}}});
                    if change == *scaled_at {
                        patch["spec"]["replicas"] = (*last).into();
                    }
                    self.stage.patch("replicasets", name, &patch).await?;
                }
                tokio::time::sleep(*bound / 2).await;
            }
            Ok(())
        };
        let (noticed, ()) = tokio::try_join!(fail, change)?;
        report.noticed.extend(noticed);
        eventually(PATIENCE, "every ReplicaSet to have its Pods", async || {
            for set in self.stage.list("replicasets").await? {
                let replicas = [&set["spec"]["replicas"], &set["status"]["replicas"]];
                let observed = [&set["metadata"]["generation"], &set["status"]["observedGeneration"]];
                let is_done = replicas[0] == replicas[1] && observed[0] == observed[1];
                ensure!(is_done, "{} {}", set["metadata"]["name"], set["status"]);
            }
            Ok(Some(()))
        })
        .await?;
        if let Some(plural) = fault.late() {
            self.proxy.delay(plural, Duration::ZERO);
        }
        Ok(())
    }
}

impl Report {
    /// Counts the Pods of each ReplicaSet after each write. Replicas only grow.
    fn count(&mut self, history: &History) {
        // By uid: name, replicas, Pods.
        let mut sets: BTreeMap<String, (String, i64, i64)> = BTreeMap::new();
        for write in &history.writes {
            let object = &write.object;
            match (write.plural, write.effect) {
                ("replicasets", Effect::Added | Effect::Modified) => {
                    let (_, replicas, _) = sets.entry(write.id().1).or_insert((write.name().to_owned(), 0, 0));
                    *replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
                }
                ("pods", Effect::Added | Effect::Deleted) => {
                    let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
                    let Some((name, replicas, n_pods)) = sets.get_mut(owner) else { continue };
                    let is_new = write.effect == Effect::Added;
                    *n_pods += if is_new { 1 } else { -1 };
                    self.n_pods += usize::from(is_new);
                    if is_new && n_pods > replicas {
                        self.surplus.push(format!("{name} has {n_pods} Pods, wants {replicas}"));
                    }
                }
                _ => {}
            }
        }
        self.n_trials = sets.len();
    }
}

fn replica_set(name: &str, replicas: usize) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"set": name}},
            "template": {"metadata": {"labels": {"set": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}
