//! Checks of a plugin beyond the expected outcomes: the same outcome each time, whatever ran before.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::check::CheckedOutcome;
use pintle_core::contract::outcome::{Answers, Need, Outcome, ReconcileError};
use pintle_core::object::id::Key;
use pintle_core::ports::guest::{Guest, PluginFault, Usage};
use pintle_core::ports::view::View;
use serde_json::{Value, json};
use tracing::instrument::{WithDispatch, WithSubscriber as _};
use tracing::subscriber::NoSubscriber;

use super::cluster::CaseCluster;
use super::export::Recorder;
use super::input::Case;
use super::plugin::Guests;
use super::settle::{self, Settled};
use super::{order, render};

/// Most calls of one run, as in the host.
const MAX_ROUNDS: usize = 8;

/// The result of a case.
pub(crate) struct Tried {
    pub(crate) name: String,
    pub(crate) key: Key,
    pub(crate) expected: Value,
    /// Absent after a fault.
    pub(crate) seen: Option<Value>,
    /// The seen outcome, in the form of the expected one.
    pub(crate) shown: Option<Value>,
    /// It differs from the expected one.
    pub(crate) differs: bool,
    /// Problems, in sentences. Empty if the case passed.
    pub(crate) problems: Vec<String>,
    /// The outcome of another run with the same input, if it differs.
    pub(crate) other: Option<Value>,
    pub(crate) usage: Usage,
    /// The result of settling, if the case settles.
    pub(crate) settled: Option<Settled>,
    /// The expected end; null if there is none.
    pub(crate) expected_end: Value,
    /// The end differs from the expected one.
    pub(crate) end_differs: bool,
    /// It differed, and the expectation was updated.
    pub(crate) is_new: bool,
}

impl Tried {
    /// Makes the seen outcome the expected one.
    pub(crate) fn updated(&mut self) {
        (self.differs, self.end_differs, self.is_new) = (false, false, true);
        self.problems
            .retain(|problem| ![DIFFERS, UNWRITTEN, UNWRITTEN_ROW, ENDS_OTHERWISE, NO_END].contains(&&**problem));
    }

    /// The objects at the end.
    pub(crate) fn end(&self) -> Option<&Value> {
        self.settled.as_ref()?.result.as_ref().ok()
    }

    fn add(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Compares with another run of the same input.
    fn differs_from(&mut self, other: Option<Value>, problem: &str) {
        if other.is_some() && other != self.seen {
            self.add(problem.to_owned());
            self.other = self.other.take().or(other);
        }
    }
}

/// The first problem of a case, unless it ended with a fault.
const DIFFERS: &str = "the outcome is not the expected one";
const UNWRITTEN: &str = "the case has no expected outcome; --update writes this one after a line `---`";

/// For a row of a table.
const UNWRITTEN_ROW: &str = "the row has no `expect`; --update writes it";

/// For a case that settles.
const ENDS_OTHERWISE: &str = "the plugin settles, and the objects in the end are not the expected ones";
const NO_END: &str =
    "the plugin settles, and the case has no expected end; --update writes it after a second line `---`";

/// For a case with another outcome on a reused instance.
const KEEPS: &str = "the outcome depends on earlier runs of the instance, or on a clock or random numbers other than the lister's: look for a global \
    variable, a cache or a counter, and take the time from lister.now. Random numbers of WASI depend on earlier runs if the run-time \
    library of the language draws some in the first run of an instance";

/// Cost of many runs on one instance.
pub(crate) struct Cost {
    pub(crate) n_runs: u32,
    /// Linear memory after the first run of every case, after a quarter of the runs, and at the end.
    pub(crate) memory_bytes: Memory,
    /// Median time of a run on the instance.
    pub(crate) live: Duration,
    /// Median time of a run on a separate instance, including its creation.
    pub(crate) fresh: Duration,
    /// Why the cost is a problem, if it is.
    pub(crate) problem: Option<String>,
}

/// In bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) first: u64,
    pub(crate) warm: u64,
    pub(crate) last: u64,
}

/// One run with all its rounds: its rendered outcome, or the fault that ended it.
struct Ran {
    shown: Result<Value, PluginFault>,
    /// Absent after a fault.
    wanted: Option<Wanted>,
    usage: Usage,
}

/// The writes of a run, with everything that determines whether they are granted.
struct Wanted {
    answers: Answers,
    asked: Vec<Need>,
    outcome: Option<Outcome>,
}

/// Log lines of a first run are shown; those of its repetitions would be the same.
fn silently<F: Future>(run: F) -> WithDispatch<F> {
    run.with_subscriber(NoSubscriber::default())
}

/// Opens the clusters of the cases, in order.
///
/// # Errors
/// A case does not fit the manifest.
pub(crate) async fn open(guests: &Guests, cases: &[Case]) -> anyhow::Result<Vec<CaseCluster>> {
    let mut clusters = Vec::new();
    for case in cases {
        let opened = CaseCluster::open(case, guests.fresh.manifest()).await;
        clusters.push(opened.map_err(|why| why.context(format!("case {}", case.name)))?);
    }
    Ok(clusters)
}

/// Runs every case on a fresh instance, twice, and then all of them on one instance, forwards and backwards.
///
/// `clusters` are those of the cases. Errors of a run are problems of its case.
pub(crate) async fn run(guests: &Guests, cases: &[Case], clusters: &[CaseCluster]) -> Vec<Tried> {
    let mut all = Vec::new();
    for (case, cluster) in cases.iter().zip(clusters) {
        let mut tried = tried(case, cluster, once(&guests.fresh, cluster).await);
        // After a fault there is nothing to compare.
        if tried.seen.is_some() {
            let again = silently(once(&guests.fresh, cluster)).await;
            tried.differs_from(
                again.shown.ok(),
                "two fresh instances gave different outcomes for the same input: something in it is left to chance",
            );
        }
        all.push(tried);
    }
    let there_and_back = (0..cases.len()).chain((0..cases.len()).rev());
    for at in there_and_back {
        if all[at].seen.is_none() {
            continue;
        }
        let ran = silently(once(&guests.live, &clusters[at])).await;
        match ran.shown {
            Ok(seen) => all[at].differs_from(Some(seen), KEEPS),
            Err(fault) => all[at].add(format!("after other cases on the same instance: {fault}")),
        }
    }
    all
}

/// Settles the cases with `settle`, with the definitions of a folder, and all others if `all`: these are only reported.
pub(crate) async fn settle(guests: &Guests, crds: &Path, cases: &[Case], tried: &mut [Tried], all: bool) {
    for (case, tried) in cases.iter().zip(tried) {
        let demands = case.input.settle.is_some();
        // A fault would occur again.
        if !(demands || all) || tried.seen.is_none() {
            continue;
        }
        let mut settled = settle::settle(guests, crds, case).await;
        if demands {
            match &mut settled.result {
                Ok(end) if *end == case.end => {}
                Ok(end) => {
                    tried.end_differs = true;
                    tried.add(if case.end.is_null() { NO_END } else { ENDS_OTHERWISE }.to_owned());
                    *end = order::like(&case.end, std::mem::take(end));
                }
                Err(unsettled) => tried.add(unsettled.problem.clone()),
            }
        }
        tried.settled = Some(settled);
    }
}

/// Runs on separate instances are slow in some languages, and a median needs no more.
const MAX_FRESH_RUNS: u32 = 100;

/// Runs the cases in turn on one instance, `n_runs` runs in total; and some on separate instances, for comparison.
pub(crate) async fn endure(guests: &Guests, clusters: &[CaseCluster], n_runs: u32) -> Cost {
    let n_first = u32::try_from(clusters.len()).unwrap_or(u32::MAX);
    let mut cost =
        Cost { n_runs: 0, memory_bytes: Memory::default(), live: Duration::ZERO, fresh: Duration::ZERO, problem: None };
    let mut live_times = Vec::new();
    let mut shown: Vec<Value> = Vec::new();
    for (at, cluster) in clusters.iter().enumerate().cycle().take(n_runs as usize) {
        let ran = once(&guests.live, cluster).await;
        cost.n_runs += 1;
        live_times.push(ran.usage.elapsed);
        match ran.shown {
            Err(fault) => {
                cost.problem = Some(format!("run {} on one instance ended with a fault: {fault}", cost.n_runs));
                break;
            }
            Ok(seen) if shown.get(at).is_some_and(|first| *first != seen) => {
                let key = &cluster.key;
                cost.problem =
                    Some(format!("run {} on one instance gave another outcome for {key} than before", cost.n_runs));
                break;
            }
            Ok(seen) if at == shown.len() => shown.push(seen),
            Ok(_) => {}
        }
        let Memory { first, warm, last } = &mut cost.memory_bytes;
        let now = ran.usage.memory_bytes;
        if now < *last {
            cost.problem =
                Some(format!("the instance was replaced before run {}: it grew past its bound", cost.n_runs));
            break;
        }
        *last = now;
        if cost.n_runs <= n_runs / 4 {
            *warm = now;
        }
        if cost.n_runs <= n_first {
            *first = now;
        }
    }
    let mut fresh_times = Vec::new();
    for cluster in clusters.iter().cycle().take(n_runs.min(MAX_FRESH_RUNS) as usize) {
        fresh_times.push(once(&guests.fresh, cluster).await.usage.elapsed);
    }
    (cost.live, cost.fresh) = (median(live_times), median(fresh_times));
    cost
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn tried(case: &Case, cluster: &CaseCluster, ran: Ran) -> Tried {
    let denied = |Wanted { answers, asked, outcome }| cluster.denials(&answers, &asked, outcome.as_ref());
    let mut problems = ran.wanted.map(denied).unwrap_or_default();
    let (seen, shown, differs) = match ran.shown {
        Ok(seen) => {
            let shown = case.shown(seen.clone());
            let differs = shown != case.expected;
            if differs {
                let unwritten = if case.shown.is_some() { UNWRITTEN_ROW } else { UNWRITTEN };
                problems.push(if case.expected.is_null() { unwritten } else { DIFFERS }.to_owned());
            }
            (Some(seen), Some(shown), differs)
        }
        Err(fault) => {
            problems.push(format!("the run ended with a fault: {fault}"));
            (None, None, false)
        }
    };
    Tried {
        name: case.name.clone(),
        key: cluster.key.clone(),
        expected: case.expected.clone(),
        seen,
        shown,
        differs,
        problems,
        other: None,
        usage: ran.usage,
        settled: None,
        expected_end: case.end.clone(),
        end_differs: false,
        is_new: false,
    }
}

/// Runs the case once, and returns the recorded reads of its last call, and the fault, if it ended with one.
pub(crate) async fn record(
    guest: &Arc<dyn Guest>,
    cluster: &CaseCluster,
) -> (Option<Arc<Recorder>>, Option<PluginFault>) {
    let last = Mutex::new(None);
    let ran = once_with(guest, cluster, |view| {
        let recorder = Arc::new(Recorder::new(view));
        *last.lock() = Some(recorder.clone());
        recorder
    });
    let fault = ran.await.shown.err();
    (last.into_inner(), fault)
}

async fn once(guest: &Arc<dyn Guest>, cluster: &CaseCluster) -> Ran {
    once_with(guest, cluster, |view| view).await
}

/// Calls until there are no more needs; `show` creates the view of each call.
async fn once_with(
    guest: &Arc<dyn Guest>,
    cluster: &CaseCluster,
    show: impl Fn(Arc<dyn View>) -> Arc<dyn View>,
) -> Ran {
    cluster.begin().await;
    let mut asked: Vec<Need> = Vec::new();
    let mut answers = Answers::new();
    let mut usage = Usage::default();
    for _ in 0..MAX_ROUNDS {
        let run = guest.reconcile(&cluster.key, show(cluster.view(&answers))).await;
        usage = usage.most(run.usage);
        let result = match run.result {
            Ok(result) => result.map(CheckedOutcome::into_inner),
            Err(fault) => return Ran { shown: Err(fault), wanted: None, usage },
        };
        let needs = result.as_ref().map(|outcome| outcome.needs.clone()).unwrap_or_default();
        if needs.is_empty() {
            let shown = Ok(render::result(&result, &asked, cluster));
            return Ran { shown, wanted: Some(Wanted { answers, asked, outcome: result.ok() }), usage };
        }
        for need in needs {
            let answer = cluster.answer(&need).await;
            // Repeated needs are answered again.
            answers.retain(|(answered, _)| *answered != need);
            answers.push((need.clone(), answer));
            if !asked.contains(&need) {
                asked.push(need);
            }
        }
    }
    let result: Result<Outcome, ReconcileError> = Ok(Outcome::default());
    let mut shown = render::result(&result, &asked, cluster);
    shown["endless"] =
        json!(format!("still asks for reads after {MAX_ROUNDS} rounds, which the host takes for a fault"));
    Ran { shown: Ok(shown), wanted: None, usage }
}
