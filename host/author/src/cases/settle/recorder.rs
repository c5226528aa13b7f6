//! The plugin of a case that settles: records the writes of each run, and stops endless runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use pintle_core::contract::check::{CheckedOutcome, MappedKeys};
use pintle_core::contract::manifest::{EffectiveLimits, Manifest};
use pintle_core::contract::outcome::{Action, MutationFailure, Outcome, ReconcileError, Wake};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::guest::{Guest, PluginFault, Run};
use pintle_core::ports::view::View;
use serde_json::Value;

use super::later;
use crate::cases::render::{self, Originals};

/// One run, with all its rounds.
#[derive(Clone, Debug)]
pub(super) struct RunRecord {
    pub(super) key: Key,
    /// In the format of expected outcomes.
    pub(super) shown: Value,
    /// Whether it has a write. Events do not count.
    wants: bool,
    /// Whether it requested a retry because something failed.
    is_retry: bool,
    /// Time of its next run, as requested by this run or an earlier one.
    pub(super) due: Option<Timestamp>,
    /// Failed writes of the key's previous run.
    pub(super) refused: Vec<String>,
}

impl RunRecord {
    /// Whether it has a write, and only the change by that write can enqueue the key again.
    pub(super) fn is_forgotten(&self) -> bool {
        self.wants && !self.is_retry && self.due.is_none()
    }

    /// Whether the key must run again, whatever else happens.
    pub(super) fn is_hungry(&self) -> bool {
        self.wants || self.is_retry
    }
}

#[derive(Default)]
struct Notes {
    runs: Vec<RunRecord>,
    /// Index of the last run of each key.
    last: BTreeMap<Key, usize>,
    /// Runs of each key since [`Recorder::begin`].
    counts: BTreeMap<Key, u32>,
    max_runs: u32,
    /// The first key that exceeded the limit.
    restless: Option<Key>,
    /// Failed writes of its last run.
    last_refused: Vec<String>,
    fault: Option<(Key, PluginFault)>,
    /// Keys that other runs, or changes of objects, wake later.
    woken: BTreeMap<Key, Timestamp>,
}

impl Notes {
    /// Records that the key has run, which fulfils its wake-up.
    fn ran(&mut self, key: &Key, now: Option<Timestamp>) {
        if now.is_some_and(|now| self.woken.get(key).is_some_and(|due| *due <= now)) {
            self.woken.remove(key);
        }
    }

    /// Records keys to run later.
    fn wake(&mut self, later: Vec<Wake>, now: Option<Timestamp>) {
        for Wake { key, after } in later {
            let Some(due) = after.zip(now).map(|(after, now)| super::later(now, after)) else { continue };
            let at = self.woken.entry(key).or_insert(due);
            *at = due.min(*at);
        }
    }
}

/// A guest that wraps the plugin's own.
pub(super) struct Recorder {
    guest: Arc<dyn Guest>,
    notes: Mutex<Notes>,
    /// The objects in the cluster; set before the first run.
    originals: Mutex<Option<Arc<dyn Originals + Send + Sync>>>,
}

impl Recorder {
    pub(super) fn new(guest: Arc<dyn Guest>) -> Self {
        Self { guest, notes: Mutex::default(), originals: Mutex::default() }
    }

    pub(super) fn look_at(&self, originals: Arc<dyn Originals + Send + Sync>) {
        *self.originals.lock() = Some(originals);
    }

    /// From now on, each key may run at most this often.
    pub(super) fn begin(&self, max_runs: u32) {
        let mut notes = self.notes.lock();
        notes.counts.clear();
        notes.max_runs = max_runs;
    }

    pub(super) fn n_runs(&self) -> usize {
        self.notes.lock().runs.len()
    }

    /// The last run of each key.
    pub(super) fn last(&self) -> BTreeMap<Key, RunRecord> {
        let notes = self.notes.lock();
        notes.last.iter().map(|(key, at)| (key.clone(), notes.runs[*at].clone())).collect()
    }

    /// Keys to wake later, with their times.
    pub(super) fn woken(&self) -> Vec<(Timestamp, Key)> {
        self.notes.lock().woken.iter().map(|(key, due)| (*due, key.clone())).collect()
    }

    /// The runs after the first `n`.
    pub(super) fn since(&self, n: usize) -> Vec<RunRecord> {
        self.notes.lock().runs[n..].to_vec()
    }

    /// The runs of a key.
    pub(super) fn of(&self, key: &Key) -> Vec<RunRecord> {
        self.notes.lock().runs.iter().filter(|run| run.key == *key).cloned().collect()
    }

    pub(super) fn fault(&self) -> Option<(Key, PluginFault)> {
        self.notes.lock().fault.clone()
    }

    /// A key that has exceeded the limit.
    pub(super) fn restless(&self) -> Option<Key> {
        self.notes.lock().restless.clone()
    }

    /// Failed writes of the runs of a key, with their counts.
    pub(super) fn refusals(&self, key: &Key) -> BTreeMap<String, usize> {
        let notes = self.notes.lock();
        let of_runs = notes.runs.iter().filter(|run| run.key == *key).flat_map(|run| &run.refused);
        let mut counts = BTreeMap::new();
        for refusal in of_runs.chain(&notes.last_refused) {
            *counts.entry(refusal.clone()).or_default() += 1;
        }
        counts
    }

    /// Whether a run of the key may start.
    fn may_run(&self, key: &Key, view: &dyn View) -> bool {
        let mut notes = self.notes.lock();
        let max_runs = notes.max_runs;
        let may = notes.counts.get(key).is_none_or(|n| *n < max_runs);
        if !may && notes.restless.is_none() {
            notes.restless = Some(key.clone());
            notes.last_refused = refusals(view.failures());
        }
        may
    }

    /// Records the end of a run. The case handles its delayed requests, because its clock is not the host's.
    fn note(&self, key: &Key, view: &dyn View, mut run: Run) -> Run {
        let result = match run.result {
            Ok(result) => result.map(CheckedOutcome::into_inner),
            Err(fault) => {
                self.notes.lock().fault.get_or_insert_with(|| (key.clone(), fault.clone()));
                run.result = Err(fault);
                return run;
            }
        };
        if result.as_ref().is_ok_and(|outcome| !outcome.needs.is_empty()) {
            run.result = self.checked(result).result;
            return run;
        }
        let originals = self.originals.lock().clone();
        let none = NoOriginals;
        let originals: &dyn Originals = originals.as_deref().map_or(&none, |originals| originals);
        let shown = render::result(&result, &[], originals);
        let declared = match &result {
            Ok(outcome) => outcome.error.as_ref(),
            Err(error) => Some(error),
        };
        let retry_after = declared.and_then(ReconcileError::after);
        let requeue_after = result.as_ref().ok().and_then(|outcome| outcome.requeue_after);
        let after = [requeue_after, retry_after].into_iter().flatten().min();
        let now: Option<Timestamp> = view.now().parse().ok();
        let asked = after.zip(now).map(|(after, now)| later(now, after));
        let record = RunRecord {
            key: key.clone(),
            shown,
            wants: result.as_ref().is_ok_and(wants_writes),
            is_retry: matches!(declared, Some(ReconcileError::Retry { .. })),
            due: asked,
            refused: refusals(view.failures()),
        };
        let mut woken = Vec::new();
        let result = match result {
            Ok(outcome) => {
                let (later, at_once) = outcome.wake.into_iter().partition(|wake| wake.after.is_some());
                woken = later;
                let error = outcome.error.map(without_delay);
                Ok(Outcome { requeue_after: None, wake: at_once, error, ..outcome })
            }
            Err(error) => Err(without_delay(error)),
        };
        let mut notes = self.notes.lock();
        *notes.counts.entry(key.clone()).or_default() += 1;
        // As in a queue: an earlier delay stays.
        let before = notes.last.get(key).and_then(|at| notes.runs[*at].due);
        let before = before.filter(|due| now.is_some_and(|now| *due > now));
        let due = [before, asked].into_iter().flatten().min();
        let at = notes.runs.len();
        notes.last.insert(key.clone(), at);
        notes.runs.push(RunRecord { due, ..record });
        notes.ran(key, now);
        notes.wake(woken, now);
        drop(notes);
        run.result = self.checked(result).result;
        run
    }

    fn checked(&self, result: Result<Outcome, ReconcileError>) -> Run {
        Run::checked(Ok(result), self.guest.manifest(), &self.guest.limits())
    }
}

/// Leaves the delay to the queue's backoff.
fn without_delay(error: ReconcileError) -> ReconcileError {
    match error {
        ReconcileError::Retry { message, .. } => ReconcileError::Retry { message, after: None },
        terminal @ ReconcileError::Terminal(_) => terminal,
    }
}

/// For a cluster that has not started.
struct NoOriginals;

impl Originals for NoOriginals {
    fn original(&self, _: &Kind, _: &ObjectKey) -> Option<Value> {
        None
    }
}

fn wants_writes(outcome: &Outcome) -> bool {
    let mut mutations = outcome.steps.iter().flat_map(|step| &step.mutations);
    mutations.any(|mutation| !matches!(mutation.action, Action::Event(_)))
}

fn refusals(failures: &[MutationFailure]) -> Vec<String> {
    let refusal = |failure: &MutationFailure| {
        let MutationFailure { verb, kind, object, subresource, code, reason, message, .. } = failure;
        let subresource = subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let code = if *code > 0 { format!("{code} ") } else { String::new() };
        format!("{verb} {kind}{subresource} {object}: {code}{reason}: {message}")
    };
    failures.iter().map(refusal).collect()
}

impl Guest for Recorder {
    fn manifest(&self) -> &Arc<Manifest> {
        self.guest.manifest()
    }

    fn limits(&self) -> EffectiveLimits {
        self.guest.limits()
    }

    fn maps(&self) -> bool {
        self.guest.maps()
    }

    fn n_instances(&self) -> usize {
        self.guest.n_instances()
    }

    fn instance_bytes(&self) -> u64 {
        self.guest.instance_bytes()
    }

    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run> {
        async move {
            if !self.may_run(key, &*view) {
                return self.checked(Ok(Outcome::default()));
            }
            let run = self.guest.reconcile(key, view.clone()).await;
            self.note(key, &*view, run)
        }
        .boxed()
    }

    fn keys_of<'a>(
        &'a self,
        kind: &'a Kind,
        old: Option<&'a str>,
        new: Option<&'a str>,
        view: Arc<dyn View>,
    ) -> BoxFuture<'a, Result<MappedKeys, PluginFault>> {
        async move {
            let now = view.now().parse().ok();
            let (at_once, later) = self.guest.keys_of(kind, old, new, view).await?.split_delayed();
            self.notes.lock().wake(later, now);
            Ok(at_once)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pintle_testing::{FakeGuest, FakeView};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn keys_that_a_change_delays_wait_for_the_clock_of_the_case() {
        let pod = Kind::new("", "v1", "Pod");
        let key = |name: &str| Key { queue: "pods".into(), kind: pod.clone(), object: ObjectKey::new("a", name) };
        let wakes = [Wake::from(key("soon")), Wake { key: key("later"), after: Some(Duration::from_secs(90)) }];
        let manifest = json!({
            "name": "pods", "version": "1.0.0", "contract": "0.2", "queues": [{"name": "pods"}],
            "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "plugin"}]}],
        });
        let manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
        let guest = FakeGuest::new(manifest, |_, _| Ok(Ok(Outcome::default())));
        let recorder = Recorder::new(Arc::new(guest.mapping(move |_, _| Ok(wakes.to_vec()))));
        recorder.begin(5);
        let view = |now: &str| Arc::new(FakeView { now: now.into(), ..FakeView::default() });

        let mapped = recorder.keys_of(&pod, None, Some("{}"), view("2026-01-01T00:00:00Z")).await.unwrap();
        assert_eq!(mapped.into_inner(), [Wake::from(key("soon"))]);
        let due: Timestamp = "2026-01-01T00:01:30Z".parse().unwrap();
        assert_eq!(recorder.woken(), [(due, key("later"))]);
        // Until it has run at that time or later.
        recorder.reconcile(&key("later"), view("2026-01-01T00:01:00Z")).await.result.unwrap().unwrap();
        assert_eq!(recorder.woken(), [(due, key("later"))]);
        recorder.reconcile(&key("later"), view("2026-01-01T00:01:30Z")).await.result.unwrap().unwrap();
        assert_eq!(recorder.woken(), []);
    }
}
