//! One run of one key: view, call, needs, writes.
//!
//! ```text
//! snapshot ──> guest.reconcile ──> needs? ──perform──> again with a fresh snapshot (at most MAX_ROUNDS times)
//!                              └─> outcome ──> plan ──> state ──> writes ──> result
//! ```
//!
//! Invariants:
//! 1. After a fault, nothing of the outcome is applied.
//! 2. The guest's future is polled to completion.
//! 3. A run that waits for the API server holds no snapshot and no read log, and the memory it holds is in the plugin's
//!    account.
//!
//! Not here: the consequences of a result for the queue (`dispatch`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use pintle_cache::{Caches, MAX_WORK, RunContext, Subscription};
use pintle_core::contract::check;
use pintle_core::contract::outcome::{
    Answers, Moment, MutationFailure, NeedError, Observation, Outcome, ReconcileError, Wake,
};
use pintle_core::object::id::{Key, Kind};
use pintle_core::policy::keys::{MIN_REQUEUE, RunEnd};
use pintle_core::policy::pending::PendingWrite;
use pintle_core::policy::queue::Priority;
use pintle_core::ports::guest::{FaultKind, LogLine, PluginFault, Run};
use pintle_core::ports::view::View;
use pintle_core::text::cut;

use super::mapping::MAX_KEYS;
use super::needs::{self, Answered, Source};
use super::shadow::Sample;
use super::{Controller, Version};
use crate::failures::{Failure, MAX_MESSAGE_BYTES};
use crate::large;
use crate::traces::{CountingView, RunTrace};
use crate::writer::{NOT_GRANTED, Report, Rights, WriteProbe, kind_of};

/// Maximum calls of one run, including the first.
pub(crate) const MAX_ROUNDS: usize = 8;

/// Maximum age of a discovery that proves that a kind does not exist. Plugins can invent kinds; this bounds the
/// requests that they cause.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(5);
/// Delay of a key whose outcome does not fit in the plugin's account.
const CROWDED_PAUSE: Duration = Duration::from_secs(1);
/// Delay of a key whose run requested dependents while a kind was not listed yet.
const UNLISTED_PAUSE: Duration = Duration::from_secs(1);

/// The result of a run.
#[derive(Debug)]
pub(crate) enum RunResult {
    /// The outcome was applied, except for the failures in the report. `error`: the run failed nevertheless.
    Done {
        requeue_after: Option<Duration>,
        run_labels: Vec<(String, String)>,
        error: Option<ReconcileError>,
        report: Report,
    },
    /// Nothing of the outcome is applied, and the key runs again after this time. Its state and failures are kept.
    NothingYet { again: Duration },
    /// The plugin returned an error instead of an outcome.
    Declared(ReconcileError),
    /// A fault of the plugin.
    Fault(PluginFault),
}

impl RunResult {
    /// The plugin's labels of the run.
    pub(super) fn labels(&self) -> &[(String, String)] {
        match self {
            Self::Done { run_labels, .. } => run_labels,
            Self::NothingYet { .. } | Self::Declared(_) | Self::Fault(_) => &[],
        }
    }

    /// The HTTP status code that describes the result: that of the first failed write, 500 for other failures.
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::Done { error, report, .. } => match report.failures.first() {
                None if error.is_none() => 200,
                Some(failure) if failure.code > 0 => failure.code,
                None | Some(_) => 500,
            },
            Self::NothingYet { .. } => 200,
            Self::Declared(_) | Self::Fault(_) => 500,
        }
    }
}

impl RunResult {
    /// Cuts the plugin's own texts, which are kept and logged from here on.
    fn shorten(&mut self) {
        let message = match self {
            Self::Fault(fault) => &mut fault.message,
            Self::Declared(error) | Self::Done { error: Some(error), .. } => match error {
                ReconcileError::Retry { message, .. } | ReconcileError::Terminal(message) => message,
            },
            Self::Done { error: None, .. } | Self::NothingYet { .. } => return,
        };
        if message.len() > MAX_MESSAGE_BYTES {
            *message = cut(message, MAX_MESSAGE_BYTES).to_owned();
        }
    }
}

impl RunResult {
    /// Takes the writes that the caches must show, and the probes for writes whose result is unknown, with their delay.
    pub(super) fn take_writes(&mut self) -> (Vec<PendingWrite>, BTreeSet<WriteProbe>, Duration) {
        match self {
            Self::Done { report, .. } => {
                (std::mem::take(&mut report.writes), std::mem::take(&mut report.probes), report.probe_after)
            }
            Self::NothingYet { .. } | Self::Declared(_) | Self::Fault(_) => Default::default(),
        }
    }
}

impl RunResult {
    /// The end of the run for the key table.
    pub(super) fn run_end(&self) -> RunEnd<'_> {
        match self {
            Self::Done { requeue_after, error, report, .. } if report.failures.is_empty() => {
                RunEnd::Done { requeue_after: *requeue_after, error: error.as_ref() }
            }
            Self::Done { requeue_after, error, report, .. } => RunEnd::Failed {
                requeue_after: *requeue_after,
                error: error.as_ref(),
                failures: &report.failures,
                retry_after: report.retry_after.unwrap_or_default(),
                is_denied: report.n_denied > 0,
                only_conflicts: report.only_conflicts,
            },
            Self::NothingYet { again } => RunEnd::NothingYet { again: *again },
            Self::Declared(error) => RunEnd::Declared(error),
            Self::Fault(_) => RunEnd::Fault,
        }
    }

    /// The label `result` of metrics.
    pub(super) fn label(&self) -> &'static str {
        match self.run_end() {
            RunEnd::Done { error: None, requeue_after: None } => "success",
            RunEnd::Done { error: None, requeue_after: Some(_) } | RunEnd::NothingYet { .. } => "requeue_after",
            RunEnd::Done { error: Some(ReconcileError::Terminal(_)), .. }
            | RunEnd::Declared(ReconcileError::Terminal(_)) => "terminal_error",
            RunEnd::Done { .. } | RunEnd::Declared(_) | RunEnd::Failed { .. } => "error",
            RunEnd::Fault => "fault",
        }
    }
}

impl RunResult {
    /// The failed writes.
    pub(super) fn failures(&self) -> &[MutationFailure] {
        match self {
            Self::Done { report, .. } => &report.failures,
            Self::NothingYet { .. } | Self::Declared(_) | Self::Fault(_) => &[],
        }
    }

    /// The fault of the run, for humans. A write that is not granted counts as one.
    pub(super) fn fault(&self) -> Option<(FaultKind, String)> {
        match self {
            Self::Fault(fault) => Some((fault.kind, fault.to_string())),
            Self::Done { report, .. } if report.n_denied > 0 => {
                let is_denied = |failure: &&MutationFailure| failure.reason == NOT_GRANTED;
                let denied = report.failures.iter().find(is_denied).or(report.failures.first())?;
                Some((FaultKind::Grant, format!("{}: {}", FaultKind::Grant, denied.message)))
            }
            Self::Done { .. } | Self::NothingYet { .. } | Self::Declared(_) => None,
        }
    }

    /// Why the run failed, for humans. Conflicts with other writers are left out.
    pub(super) fn error(&self) -> Option<String> {
        match self {
            Self::Done { error, report, .. } => match report.failures.first() {
                None => error.as_ref().map(ToString::to_string),
                Some(_) if report.only_conflicts => None,
                Some(first) => Some(format!("{} {} {}: {}", first.verb, first.kind, first.object, first.message)),
            },
            Self::NothingYet { .. } => None,
            Self::Declared(error) => Some(error.to_string()),
            Self::Fault(fault) => Some(fault.to_string()),
        }
    }

    /// The plugin's own error or fault, with the message. Writes that the API server rejected are left out.
    fn failure(&self) -> Option<(Failure, &str)> {
        match self {
            Self::Fault(fault) => Some((Failure::Fault(fault.kind), &fault.message)),
            Self::NothingYet { .. } => None,
            Self::Declared(error) => Some(declared(error)),
            Self::Done { error, report, .. } => {
                let denied = report.failures.iter().find(|failure| failure.reason == NOT_GRANTED);
                let denied = denied.map(|denied| (Failure::Fault(FaultKind::Grant), denied.message.as_str()));
                denied.or_else(|| error.as_ref().map(declared))
            }
        }
    }
}

fn declared(error: &ReconcileError) -> (Failure, &str) {
    match error {
        ReconcileError::Retry { message, .. } => (Failure::Retry, message),
        ReconcileError::Terminal(message) => (Failure::Terminal, message),
    }
}

/// Whether the API server refused a write in a way that lasts until the plugin, the permissions or the object changes.
pub(super) fn is_refused(failure: &&MutationFailure) -> bool {
    matches!(failure.code, 403 | 422)
}

/// Describes a failed write and the answer of the API server.
pub(super) fn refusal(failure: &MutationFailure) -> String {
    let MutationFailure { verb, kind, object, subresource, code, reason, message, .. } = failure;
    let subresource = subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    format!("{verb} {kind}{subresource} {object}: {code} {reason}: {message}")
}

/// Start time of a run, by the wall clock and since the host started.
#[derive(Clone, Debug)]
pub(super) struct Began {
    now: String,
    uptime: Duration,
}

/// The last call of a run: its input and its log.
pub(super) struct LastCall {
    pub(super) view: Arc<dyn View>,
    pub(super) log: Vec<LogLine>,
}

fn fault(kind: FaultKind, message: impl Into<String>) -> RunResult {
    RunResult::Fault(PluginFault { kind, message: message.into() })
}

impl Controller {
    /// Runs a key once, with one version throughout.
    ///
    /// # Cancel safety
    /// Must be polled to completion.
    pub(super) async fn run(
        self: &Arc<Self>,
        version: &Arc<Version>,
        key: &Key,
        trace: Option<&RunTrace>,
    ) -> RunResult {
        // A version that takes keys has a subscription; only a later version ends it, permanently.
        let Some(cache) = version.cache() else {
            let message = "another version has taken over".into();
            return RunResult::Declared(ReconcileError::Retry { message, after: None });
        };
        let mut sample = self.sample();
        let mut last = None;
        let mut result = self.rounds(version, &cache, key, &mut sample, &mut last, trace).await;
        result.shorten();
        if let Some((last, (failure, message))) = last.zip(result.failure()) {
            self.observers.run_failed(version, key, last, failure, message);
        }
        if let Some(sample) = sample {
            let (controller, key) = (self.clone(), key.clone());
            self.tasks.tracker.spawn(async move {
                let comparison = std::panic::AssertUnwindSafe(controller.clone().compare(key, sample)).catch_unwind();
                if let Err(panic) = comparison.await {
                    controller.caches.supervisor().panicked("shadow", &*panic);
                }
            });
        }
        result
    }

    async fn rounds(
        &self,
        version: &Arc<Version>,
        cache: &Subscription,
        key: &Key,
        sample: &mut Option<Sample>,
        last: &mut Option<LastCall>,
        trace: Option<&RunTrace>,
    ) -> RunResult {
        let mut answered = Answered::new(&self.held);
        // All rounds have the same time: a need that contains it is performed once.
        let began = self.begin();
        let repeated = || self.observers.metrics.repeated("GET");
        let manifest = version.manifest();
        let source = Source {
            reader: &*self.reads.plugin,
            caches: &self.caches,
            stopped: &self.tasks.stopped,
            repeated: &repeated,
            manifest,
            trace,
            outside: &*self.reads.outside,
            fence: self.reads.fence.as_deref(),
            pages: &self.reads.pages,
            max_answer_bytes: usize::try_from(version.limits.answer_bytes).unwrap_or(usize::MAX),
        };
        for round in 1..=MAX_ROUNDS {
            let context = self.context(version, Some(key), answered.answers.clone(), &began);
            let (view, beside) = views(cache, context, sample.as_ref());
            let run = call(version, key, view.clone(), trace).await;
            self.observers.metrics.used(run.usage, &version.limits);
            if let Some((sample, beside)) = sample.as_mut().zip(beside) {
                sample.round(beside, &run.result);
            }
            *last = Some(LastCall { view: view.clone(), log: run.log });
            let outcome = match run.result {
                Err(fault) => return RunResult::Fault(fault),
                Ok(Err(error)) => return RunResult::Declared(error),
                Ok(Ok(outcome)) => outcome,
            };
            let n_bytes = outcome.n_bytes();
            let outcome = outcome.into_inner();
            if outcome.needs.is_empty() {
                return self.carry_out(version, cache, key, (view, last), (outcome, n_bytes), trace).await;
            }
            let rights = Rights { grants: &version.grants, manifest: version.manifest(), key, view: &*view };
            let asked = match needs::ask(outcome.needs, &mut answered, &source, &rights) {
                Ok(asked) => asked,
                Err(crowded) => return fault(FaultKind::HostCall, crowded.to_string()),
            };
            for _ in 0..asked.n_denied {
                self.observers.metrics.fault(FaultKind::Grant);
            }
            if let Some(denial) = asked.denial() {
                self.read_denied(key, denial);
            }
            if round == MAX_ROUNDS {
                break;
            }
            // The next round has another view.
            *last = None;
            drop(view);
            refresh_unknown_kinds(&self.caches, asked.kinds()).await;
            needs::perform(asked, &mut answered, &source).await;
        }
        fault(FaultKind::Output, format!("the run still had needs after {MAX_ROUNDS} rounds"))
    }

    /// Reports a denied read as a fault; the run continues with the denial as the answer.
    fn read_denied(&self, key: &Key, denial: &NeedError) {
        let text = format!("{}: {}", FaultKind::Grant, denial.message);
        let mut inner = self.inner.lock();
        let is_first = inner.keys.attempt(key) == 0;
        inner.health.count(FaultKind::Grant, &text);
        drop(inner);
        if is_first {
            self.observers.faulted(&self.version(), key, &text);
        }
    }

    /// The start time of a run that begins now.
    pub(super) fn begin(&self) -> Began {
        Began { now: self.wall_time(), uptime: (self.uptime)() }
    }

    /// The inputs of a run in addition to the caches; for a mapping, without a key.
    pub(super) fn context(&self, version: &Version, key: Option<&Key>, answers: Answers, began: &Began) -> RunContext {
        let Began { now, uptime } = began.clone();
        let inner = self.inner.lock();
        RunContext {
            now,
            uptime,
            config: version.config.clone(),
            state: inner.state.snapshot(),
            attempt: key.map_or(0, |key| inner.keys.attempt(key)).min(check::MAX_U32),
            failures: key.map(|key| inner.keys.failures(key)).unwrap_or_default(),
            answers,
            max_read_bytes: version.limits.read_bytes,
            max_work: MAX_WORK,
            account: Some(self.held.clone()),
        }
    }

    async fn carry_out(
        &self,
        version: &Arc<Version>,
        cache: &Subscription,
        key: &Key,
        (view, last): (Arc<dyn View>, &mut Option<LastCall>),
        (outcome, n_bytes): (Outcome, u64),
        trace: Option<&RunTrace>,
    ) -> RunResult {
        // A run that sees no remaining dependents removes finalizers: dependents missing from the view would be lost.
        if let Some(kind) = view.incomplete_dependents() {
            tracing::info!(
                plugin = %self.name, %key, %kind,
                "the run asked for dependents while a kind is not listed yet: nothing is written, and the key runs again"
            );
            return RunResult::NothingYet { again: UNLISTED_PAUSE };
        }
        let mutations = outcome.steps.iter().flat_map(|step| &step.mutations);
        refresh_unknown_kinds(&self.caches, mutations.filter_map(|mutation| kind_of(&mutation.action))).await;
        // Each text is held here and in the request. An outcome without writes does not wait.
        let mut held = self.held.open();
        if !outcome.steps.is_empty() && !held.grow(2 * n_bytes) {
            tracing::info!(
                plugin = %self.name, %key, n_bytes,
                "the runs of the plugin hold as much as they may: nothing is written, and the key runs again"
            );
            return RunResult::NothingYet { again: CROWDED_PAUSE };
        }
        let rights = Rights { grants: &version.grants, manifest: version.manifest(), key, view: &*view };
        let planned = || self.writer.plan(&rights, outcome.steps, |kind| self.caches.resource(kind));
        let n_text_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
        let plan = match large::on_text(n_text_bytes, planned).await {
            Ok(plan) => plan,
            Err(fault) => return RunResult::Fault(fault),
        };
        let n_deletions = plan.n_deletions(|kind, namespace| cache.n_in(kind, namespace) as u64);
        if !self.may_delete(version, cache, n_deletions) {
            // The key runs again after the operator has confirmed, or another version has taken over.
            return RunResult::NothingYet { again: Duration::ZERO };
        }
        let (of_key, samples): (Vec<_>, Vec<_>) =
            outcome.observations.into_iter().partition(|sample| version.declared.is_per_key(&sample.metric));
        // State, woken keys and the key's metric values belong to an accepted outcome.
        if plan.n_denied() == 0 {
            if let Err(why) = self.accept(version, cache, key, outcome.state, outcome.wake) {
                return fault(FaultKind::Output, why);
            }
            self.keep_values(version, key, &of_key);
        }
        let (now, later): (Vec<_>, Vec<_>) = samples.into_iter().partition(|sample| sample.at == Moment::Now);
        self.observe(version, &now);
        // Whether the plugin failed the run is already known; the answers of the API server do not change it.
        let denied = plan.denial().map(|denial| denial.message(&self.name));
        let denied = denied.as_deref().map(|message| (Failure::Fault(FaultKind::Grant), message));
        let failed = denied.or_else(|| outcome.error.as_ref().map(declared));
        if let Some((last, (failure, message))) = last.take().zip(failed) {
            self.observers.run_failed(version, key, last, failure, message);
        }
        drop(view);
        let report = self.writer.carry_out(plan, trace).await;
        let counts = |sample: &Observation| match sample.at {
            Moment::Now => false,
            Moment::Done(place) => report.done.contains(&place),
            Moment::Failed(place) => !report.done.contains(&place),
        };
        let later: Vec<_> = later.into_iter().filter(counts).collect();
        self.observe(version, &later);
        let Outcome { requeue_after, run_labels, error, .. } = outcome;
        RunResult::Done { requeue_after, run_labels, error, report }
    }

    /// Stores the state of an accepted outcome, and enqueues the keys that it wakes.
    ///
    /// # Errors
    /// If a limit is exceeded, with a one-line message; then neither has happened.
    fn accept(
        &self,
        version: &Version,
        cache: &Subscription,
        key: &Key,
        state: Vec<(String, Option<String>)>,
        wake: Vec<Wake>,
    ) -> Result<(), String> {
        let n_objects = if wake.is_empty() { 0 } else { cache.n_keys() };
        let mut inner = self.inner.lock();
        if !wake.is_empty() {
            inner.keys.make_room(wake.iter().map(|wake| &wake.key), n_objects, MAX_KEYS)?;
        }
        inner.state.write(&state, version.limits.state_bytes)?;
        if wake.is_empty() {
            return Ok(());
        }
        let now = super::now();
        for Wake { key: woken, after } in wake {
            // As with `requeue-after-ms`, a key that wakes itself runs after a pause.
            let after = if woken == *key { Some(after.unwrap_or_default().max(MIN_REQUEUE)) } else { after };
            inner.add(woken, None, after, Priority::Normal, now);
        }
        inner.keys.count_bytes();
        self.wake_dispatcher(inner);
        Ok(())
    }

    fn observe(&self, version: &Version, samples: &[Observation]) {
        self.observers.dropped_samples(version.declared.observe(samples));
    }

    /// Replaces the metric values that belong to the key.
    fn keep_values(&self, version: &Arc<Version>, key: &Key, samples: &[Observation]) {
        if !version.declared.has_values_of_keys() {
            return;
        }
        let mut inner = self.inner.lock();
        // The values belong to the current version. After a swap, the key runs again.
        if !Arc::ptr_eq(&self.version(), version) {
            return;
        }
        let n_dropped = inner.key_gauges.replace(&version.declared, key, samples);
        drop(inner);
        self.observers.dropped_samples(n_dropped);
    }
}

/// Calls the guest, and records its reads if the run is recorded.
async fn call(version: &Version, key: &Key, view: Arc<dyn View>, trace: Option<&RunTrace>) -> Run {
    let Some(trace) = trace else { return version.guest.reconcile(key, view).await };
    let (part, view) = (trace.part(), CountingView::new(view));
    let run = version.guest.reconcile(key, view.clone()).await;
    trace.called(part, &run, &view);
    run
}

/// The view of the run, and the view for a version in shadow mode.
fn views(cache: &Subscription, context: RunContext, sample: Option<&Sample>) -> (Arc<dyn View>, Option<Arc<dyn View>>) {
    let candidate = sample.map(|sample| &sample.shadowing.candidate);
    match candidate.and_then(|candidate| Some((candidate, candidate.cache()?))) {
        None => (cache.snapshot().view(context), None),
        Some((candidate, others)) => {
            let of_other = RunContext {
                config: candidate.config.clone(),
                max_read_bytes: candidate.limits.read_bytes,
                ..context.clone()
            };
            let (own, other) = cache.snapshots(&others);
            (own.view(context), Some(other.view(of_other)))
        }
    }
}

/// Refreshes discovery for unknown kinds: they may have been created since the last discovery.
async fn refresh_unknown_kinds<'k>(caches: &Arc<Caches>, mut kinds: impl Iterator<Item = &'k Kind>) {
    if kinds.any(|kind| caches.resource(kind).is_none()) {
        // If it fails, the kind stays unknown, and the run gets that answer.
        let _ = caches.refreshed(UNKNOWN_PAUSE).await;
    }
}
