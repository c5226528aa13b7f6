//! `settle`: a case whose outcomes are carried out repeatedly, until the plugin writes nothing more.
//!
//! *Flow*: objects of the case ──restore──> embedded API server <──HTTP── the host's own runtime (informers, rules,
//! queues, writer, read-your-writes) ──> the plugin, whose runs are recorded by [`recorder`] ──> rest ──> the next step
//! of the case ──> the objects at the end ([`end`]).
//!
//! *Invariants*: 1. time is the cluster's manual clock: it advances by steps of the case, and to the time that a run
//! requested;
//! 2. after each step, the plugin settles, and writes nothing if every key runs again a second later (is stable);
//! 3. keys that write something run again without being enqueued, so that the case reaches its end; a plugin that needs
//!    this to reach it fails;
//! 4. a plugin that never settles ends the case after a bounded number of runs of one key.
//!
//! *Not here*: other controllers, nodes. The steps of a case simulate them.

mod end;
mod outside;
mod recorder;
mod server;
mod steps;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};
use pintle_core::contract::manifest::{Instances, Manifest};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use serde_json::Value;
use tracing::subscriber::NoSubscriber;

use self::recorder::{Recorder, RunRecord};
use self::server::Hosted;
pub(crate) use self::steps::Settle;
use super::input::{Case, Input};
use super::plugin::Guests;

/// Most consecutive runs that write nothing and request another one: time does not bring what they wait for.
const MAX_IDLE_REQUEUES: u32 = 3;
/// Delay of the runs that test stability, which reveals runs that depend on the time.
const MOMENT: SignedDuration = SignedDuration::from_secs(1);
/// Runs that are shown if a plugin does not settle.
const N_SHOWN: usize = 3;

/// The result of a case that settles.
pub(crate) struct Settled {
    /// Total number of runs, including repetitions.
    pub(crate) n_runs: usize,
    /// The created, changed and deleted objects; or why the case did not get that far.
    pub(crate) result: Result<Value, Unsettled>,
}

/// Two runs of a key, the second of which no host would have started.
struct Stall {
    before: RunRecord,
    after: RunRecord,
}

impl Stall {
    fn unsettled(&self, place: &str, manifest: &Manifest) -> Unsettled {
        let Self { before, after } = self;
        let key = &before.key;
        let problem = format!(
            "{place}the plugin settles only because the case runs {key} again: in a cluster, nothing enqueues it after its writes"
        );
        let mut details = String::new();
        for (title, run) in [("a run writes:", before), ("its writes enqueue nothing, and one more run writes:", after)]
        {
            let _ = writeln!(details, "{title}");
            details += &indented(&yaml(&run.shown));
        }
        let _ = writeln!(
            details,
            "add what the first run changes to `enqueue` of the manifest of {} (to `changed` of a rule that has it), or requeue the key",
            manifest.name
        );
        Unsettled { problem, details }
    }
}

/// The reason why a case does not settle.
#[derive(Debug)]
pub(crate) struct Unsettled {
    /// One sentence.
    pub(crate) problem: String,
    /// Runs, fields and errors, in lines.
    pub(crate) details: String,
}

impl From<anyhow::Error> for Unsettled {
    fn from(why: anyhow::Error) -> Self {
        Self { problem: format!("{why:#}"), details: String::new() }
    }
}

/// Settles a case, with its own `settle` or the default one.
///
/// # Cancel safety
/// The case continues to its end on another thread.
pub(crate) async fn settle(guests: &Guests, crds: &Path, case: &Case) -> Settled {
    let manifest = guests.fresh.manifest();
    // As a host would run it.
    let guest = if manifest.instances == Instances::Pooled { &guests.live } else { &guests.fresh };
    let recorder = Arc::new(Recorder::new(guest.clone()));
    let job = Job {
        input: case.input.clone(),
        settle: case.input.settle.clone().unwrap_or_default(),
        crds: crds.to_owned(),
        recorder: recorder.clone(),
    };
    let result = match tokio::task::spawn_blocking(move || job.run()).await {
        Ok(result) => result,
        Err(panic) => Err(anyhow::anyhow!("the host panicked: {panic}").into()),
    };
    Settled { n_runs: recorder.n_runs(), result }
}

/// The inputs of a thread that settles one case.
struct Job {
    input: Input,
    settle: Settle,
    /// Folder of definitions.
    crds: PathBuf,
    recorder: Arc<Recorder>,
}

impl Job {
    /// One thread does everything: between two of its tasks, all cache changes have reached the plugin's queues.
    fn run(self) -> Result<Value, Unsettled> {
        // The single run has shown the plugin's lines.
        tracing::subscriber::with_default(NoSubscriber::default(), || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.context("start a runtime")?;
            runtime.block_on(self.carry_out())
        })
    }

    async fn carry_out(self) -> Result<Value, Unsettled> {
        fits(&self.input)?;
        let now: Timestamp = self.input.now.parse().with_context(|| format!("now: {:?}", self.input.now))?;
        let hosted = Hosted::start(&self.input, now, &self.crds, &self.recorder).await?;
        let story = Story { hosted, recorder: self.recorder, settle: self.settle };
        let result = story.tell(&self.input).await;
        story.hosted.stop().await;
        result
    }
}

/// # Errors
/// The case has a field that describes one run, not a cluster.
fn fits(input: &Input) -> anyhow::Result<()> {
    let single = [
        ("attempt", input.attempt > 0),
        ("failures", !input.failures.is_empty()),
        ("state", !input.state.is_empty()),
        ("live", input.live.is_some()),
        ("raw", !input.raw.is_empty()),
        ("discovery", !input.discovery.is_nothing()),
    ];
    if let Some((name, _)) = single.iter().find(|(_, is_there)| *is_there) {
        bail!("the case has `{name}`, which describes a single run: a case that settles begins with `objects` alone");
    }
    Ok(())
}

/// A case that is being settled.
struct Story {
    hosted: Hosted,
    recorder: Arc<Recorder>,
    settle: Settle,
}

impl Story {
    async fn tell(&self, input: &Input) -> Result<Value, Unsettled> {
        let key = case_key(input, &self.hosted.manifest)?;
        let begun = self.hosted.n_restored;
        self.come_to_rest("", vec![key]).await?;
        for (at, step) in self.settle.then.iter().enumerate() {
            let place = format!("after step {} ({step}), ", at + 1);
            let keys = self.hosted.take(step).await.map_err(|why| {
                let what = format!("step {} ({step}) of the case failed: {why:#}", at + 1);
                Unsettled { problem: what, details: String::new() }
            })?;
            self.come_to_rest(&place, keys).await?;
        }
        Ok(end::changes(&self.hosted.cluster.history()[begun..]))
    }

    /// Settles, and checks that it is stable. `place` is the prefix of problems.
    async fn come_to_rest(&self, place: &str, keys: Vec<Key>) -> Result<(), Unsettled> {
        let begun = self.hosted.cluster.history().len();
        self.recorder.begin(self.settle.runs);
        self.hosted.enqueue(keys);
        if let Some(stall) = self.settle_down(place, begun).await? {
            return Err(stall.unsettled(place, &self.hosted.manifest));
        }
        let n_before = self.recorder.n_runs();
        self.recorder.begin(self.settle.runs);
        let (clock, now) = (self.hosted.cluster.clock(), self.hosted.cluster.clock().now());
        let soon = now.checked_add(MOMENT).unwrap_or(now);
        let is_due = self.waiting().iter().any(|(due, _)| *due <= soon);
        if !is_due {
            clock.set(soon);
        }
        self.hosted.enqueue(self.recorder.last().into_keys().collect());
        self.rest(place, begun).await?;
        let again = self.recorder.since(n_before);
        let Some(wanting) = again.iter().find(|run| run.is_hungry()) else {
            // The times at the end of a case are those of its steps.
            clock.set(now);
            return Ok(());
        };
        let when = if is_due { "" } else { ", a second later," };
        let problem = format!(
            "{place}the plugin settles and is not stable: one more run of {}{when} writes something",
            wanting.key
        );
        let mut details = yaml(&wanting.shown);
        details += &end::flips(&self.hosted.cluster.history()[begun..]);
        Err(Unsettled { problem, details })
    }

    /// Keys scheduled for later, with their times.
    fn waiting(&self) -> Vec<(Timestamp, Key)> {
        let last = self.recorder.last();
        let requeued = last.into_values().filter_map(|run| Some((run.due?, run.key)));
        requeued.chain(self.recorder.woken()).collect()
    }

    /// Runs keys until none writes anything. Returns the first run that was necessary for this and that no host would
    /// have started.
    async fn settle_down(&self, place: &str, begun: usize) -> Result<Option<Stall>, Unsettled> {
        let clock = self.hosted.cluster.clock();
        let horizon = later(clock.now(), self.settle.within);
        let mut n_idle: BTreeMap<Key, u32> = BTreeMap::new();
        let mut stall = None;
        // The last runs of keys that were enqueued without a reason, and the number of all runs at that time.
        let mut forced: (Vec<RunRecord>, usize) = (Vec::new(), 0);
        loop {
            self.rest(place, begun).await?;
            let (before, n_before) = std::mem::take(&mut forced);
            stall = stall.or_else(|| self.stall(before, &self.recorder.since(n_before)));
            let last = self.recorder.last();
            let hungry: Vec<&RunRecord> = last.values().filter(|run| run.is_hungry()).collect();
            if !hungry.is_empty() {
                // A retry that was requested for later happens later.
                if let Some(due) = hungry.iter().filter_map(|run| run.due).max().filter(|due| *due > clock.now()) {
                    clock.set(due);
                }
                let n_before = self.recorder.n_runs();
                n_idle.retain(|key, _| !hungry.iter().any(|run| run.key == *key));
                self.hosted.enqueue(hungry.iter().map(|run| run.key.clone()).collect());
                forced = (hungry.into_iter().cloned().collect(), n_before);
                continue;
            }
            let waits = |key: &Key| n_idle.get(key).is_none_or(|n| *n < MAX_IDLE_REQUEUES);
            let waiting: Vec<_> =
                self.waiting().into_iter().filter(|(due, key)| *due <= horizon && waits(key)).collect();
            let Some(next) = waiting.iter().map(|(due, _)| *due).min() else { return Ok(stall) };
            if next > clock.now() {
                clock.set(next);
            }
            let due = waiting.into_iter().filter(|(due, _)| *due <= clock.now()).map(|(_, key)| key);
            let due: Vec<Key> = due.inspect(|key| *n_idle.entry(key.clone()).or_default() += 1).collect();
            self.hosted.enqueue(due);
        }
    }

    /// The first of the last runs after which nothing would have enqueued its key, although one more run would write
    /// something else.
    fn stall(&self, last: Vec<RunRecord>, again: &[RunRecord]) -> Option<Stall> {
        if !self.hosted.awaits_all_rules() {
            return None;
        }
        // A later tick or resync continues.
        let is_regular = |key: &Key| {
            let mut queues = self.hosted.manifest.queues.iter().filter(|queue| queue.name == *key.queue);
            queues.any(|queue| queue.resync().is_some() || queue.tick().is_some())
        };
        let mut asked_for_none = last.into_iter().filter(|run| run.is_forgotten() && !is_regular(&run.key));
        asked_for_none.find_map(|before| {
            let after = again.iter().find(|run| run.key == before.key)?;
            let is_stall = after.is_forgotten() && after.refused.is_empty() && after.shown != before.shown;
            is_stall.then(|| Stall { before, after: after.clone() })
        })
    }

    /// Waits until nothing is running or queued, and the caches are up to date.
    async fn rest(&self, place: &str, begun: usize) -> Result<(), Unsettled> {
        self.hosted.rest().await?;
        let faulted = self.recorder.fault().map(|(key, fault)| (key.to_string(), fault.to_string()));
        if let Some((key, fault)) = faulted.or_else(|| self.hosted.faulting()) {
            return Err(Unsettled {
                problem: format!("{place}a run of {key} ended with a fault: {fault}"),
                details: String::new(),
            });
        }
        match self.recorder.restless() {
            Some(key) => Err(self.unsettled(place, &key, begun)),
            None => Ok(()),
        }
    }

    fn unsettled(&self, place: &str, key: &Key, begun: usize) -> Unsettled {
        let runs = self.recorder.of(key);
        let mut details = String::new();
        for (at, run) in runs.iter().enumerate().skip(runs.len().saturating_sub(N_SHOWN)) {
            let _ = writeln!(details, "run {} writes:", at + 1);
            details += &indented(&yaml(&run.shown));
        }
        details += &end::flips(&self.hosted.cluster.history()[begun..]);
        let refusals = self.recorder.refusals(key);
        if !refusals.is_empty() {
            details += "the API server or the grants refused:\n";
            for (refusal, n_times) in refusals {
                let _ = writeln!(details, "  {refusal} ({n_times} times)");
            }
        }
        let n_runs = self.settle.runs;
        let problem = if self.hosted.cluster.history().len() == begun {
            format!("{place}the plugin does not settle: all writes of {n_runs} runs of {key} were refused")
        } else {
            format!("{place}the plugin does not settle: after {n_runs} runs of {key}, it still writes something")
        };
        Unsettled { problem, details }
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

fn yaml(value: &Value) -> String {
    serde_norway::to_string(value).unwrap_or_default()
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The key of the case.
fn case_key(input: &Input, manifest: &Manifest) -> anyhow::Result<Key> {
    let queue = match &input.key.queue {
        Some(queue) => queue.clone(),
        None => manifest.queues.first().context("the manifest declares no queue")?.name.clone(),
    };
    let object = ObjectKey::new(&input.key.namespace, &input.key.name);
    Ok(Key { queue: queue.into(), kind: input.key.kind.clone(), object })
}

/// The name of a JSON object in messages.
fn name_of(object: &Value) -> (Kind, ObjectKey) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    let kind = Kind::from_api_version(&text(&object["apiVersion"]), &text(&object["kind"]));
    (kind, ObjectKey::new(&text(&meta["namespace"]), &text(&meta["name"])))
}
