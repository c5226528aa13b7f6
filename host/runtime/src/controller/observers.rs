//! The observers of a plugin: metrics, counts for overviews, the log, events, traces, recorded failures, and notes for
//! the next leader.
//!
//! Flow: the controller decides under its lock; the observers get the results afterwards, and never the lock.
//!
//! Not here: the decisions (`ended`, `pintle_core::policy::keys`), the parts of a recorded run (`traces`).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use pintle_core::contract::outcome::{Event, MutationFailure, ReconcileError};
use pintle_core::lifecycle;
use pintle_core::lifecycle::fields::DeclaredFields;
use pintle_core::lifecycle::kinds::MissingKind;
use pintle_core::lifecycle::supervisor::Change;
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::overview::{Latency, RunCounts};
use pintle_core::policy::election::LastWrites;
use pintle_core::policy::keys::{Disposition, Next};
use pintle_core::policy::pending::PendingWrite;
use pintle_core::policy::queue::{LONGEST_HOLD, Suspect};
use pintle_core::policy::rules::RuleCache;
use pintle_core::ports::trace::{RunTracer, SpanRef, TracedWait};
use pintle_core::text::cut;
use tokio::sync::watch;

use super::Version;
use super::ended::{Consequences, HealthChange};
use super::health::MAX_TEXT_BYTES;
use super::run::{LastCall, RunResult, is_refused, refusal};
use crate::failures::{FailedRun, Failure, FailureIdentity, Failures, MAX_MESSAGE_BYTES};
use crate::metrics::PluginMetrics;
use crate::recorder::{Recorder, WallClock};
use crate::traces::RunTrace;
use crate::writer::{NOT_LEADING, Report};

/// Maximum bytes of a plugin's error text in the log.
const MAX_ERROR_BYTES: usize = 1024;
/// The consequence of a fault for its object, at the end of each event.
const CONSEQUENCE: &str = "; the plugin tries this object again after a backoff, other objects are not affected";

/// The observers of one plugin.
pub(crate) struct Observers {
    pub(super) name: Arc<str>,
    pub(super) metrics: PluginMetrics,
    /// Records events of the host.
    pub(super) recorder: Recorder,
    pub(super) clock: WallClock,
    /// Records runs as traces, if tracing is enabled.
    pub(super) tracer: Option<Arc<dyn RunTracer>>,
    /// Records failed runs.
    pub(super) failures: Arc<Failures>,
    /// Last writes of all plugins, for the next leader.
    pub(super) last_writes: Arc<Mutex<LastWrites>>,
    /// Counts significant status changes of all plugins.
    pub(super) changes: watch::Sender<u64>,
    /// Uid of the plugin's `ControllerPlugin`, for events; empty if there is none.
    pub(super) resource_uid: Mutex<String>,
    /// What the API server serves of the kinds and fields in the manifest.
    pub(super) served: Mutex<Served>,
    /// Runs by result, and their durations.
    pub(super) runs: Mutex<(RunCounts, Latency)>,
}

/// What the API server serves of the kinds and fields in a manifest, as last reported.
#[derive(Default)]
pub(super) struct Served {
    /// Watched kinds that it does not serve.
    pub(super) absent: Vec<MissingKind>,
    /// Declared fields that seem to be wrong.
    pub(super) fields: DeclaredFields,
}

/// A finished run.
pub(super) struct EndedRun<'a> {
    pub(super) key: &'a Key,
    /// Consecutive failures of the key before this run.
    pub(super) attempt: u32,
    /// The version that ran.
    pub(super) version: &'a Version,
    /// The current version.
    pub(super) present: &'a Version,
    pub(super) result: &'a RunResult,
    pub(super) took: Duration,
    /// The consequences for key and plugin; absent if this host is no longer the leader.
    pub(super) followed: Option<&'a (Disposition, Consequences)>,
}

/// A wait of a key for the caches.
pub(super) struct StaleWait {
    pub(super) begun: Instant,
    /// Span of the run before it, if recorded, and the start of the wait.
    pub(super) traced: Option<(SpanRef, SystemTime)>,
}

impl Observers {
    /// Reports writes of a run before the caches show them.
    pub(super) fn wrote(&self, writes: &[PendingWrite]) {
        if !writes.is_empty() {
            self.last_writes.lock().note(&self.name, writes);
        }
    }

    /// Keeps a failed run for replay.
    pub(super) fn run_failed(&self, version: &Version, key: &Key, last: LastCall, failure: Failure, message: &str) {
        let LastCall { view, log } = last;
        let message = cut(message, MAX_MESSAGE_BYTES).to_owned();
        let identity = FailureIdentity { key: key.clone(), digest: version.digest().to_owned(), failure, message };
        self.failures.keep(&self.name, identity, view.now(), |identity| FailedRun {
            identity,
            manifest: version.manifest().clone(),
            now: view.now().to_owned(),
            uptime: view.uptime(),
            attempt: view.attempt(),
            failures: view.failures().to_vec(),
            config: view.config(),
            read_set: view.read_set(),
            log,
        });
    }

    /// Reports the end of a run.
    pub(super) fn run_ended(&self, run: &EndedRun<'_>, trace: Option<RunTrace>) {
        self.metrics.reconcile_time.observe(run.took.as_secs_f64());
        let declared = &run.version.declared;
        self.dropped_samples(declared.ran(&run.key.queue, run.result.code(), run.result.labels(), run.took));
        if let Some((end, consequences)) = run.followed {
            self.counted(run, end);
            match run.result {
                RunResult::Done { report, .. } if !report.failures.is_empty() => self.writes_failed(run, report),
                RunResult::Done { error: Some(error), .. } | RunResult::Declared(error) => {
                    self.error_declared(run.key, run.attempt, error);
                }
                RunResult::Fault(fault) => {
                    self.metrics.fault(fault.kind);
                    let (key, attempt) = (run.key, run.attempt);
                    // Log the full error once; later attempts of the key repeat it, unless a new version faults.
                    if consequences.is_new_fault {
                        tracing::error!(plugin = %self.name, %key, %fault, "the plugin faulted");
                    } else {
                        tracing::debug!(plugin = %self.name, %key, attempt, %fault, "the plugin faulted again");
                    }
                }
                RunResult::Done { .. } | RunResult::NothingYet { .. } => {}
            }
            if let Some(text) = consequences.fault.as_ref().filter(|_| is_reported(end.suspect)) {
                self.faulted(run.present, run.key, text);
            }
            // Once until the key succeeds.
            if let Some(refused) = run.result.failures().iter().find(is_refused).filter(|_| run.attempt == 0) {
                self.write_refused(run.present, run.key, refused);
            }
            self.given_up(run.key, end.next);
            if let Some(why) = &consequences.begun_loop {
                self.loop_began(run.present, run.key, why);
            }
            if let Some(health) = &consequences.health {
                self.health_changed(health);
            }
            if consequences.is_significant {
                self.mark_changed();
            }
        }
        if let Some(trace) = trace {
            self.end_trace(trace, run);
        }
    }

    fn counted(&self, run: &EndedRun<'_>, end: &Disposition) {
        let EndedRun { key, attempt, took, .. } = *run;
        let result = run.result.label();
        self.metrics.reconciled(result, took);
        if end.wait.is_some() {
            self.metrics.stale_waits.inc();
        }
        let mut runs = self.runs.lock();
        runs.0.count(result);
        runs.1.observe(took);
        drop(runs);
        tracing::debug!(plugin = %self.name, %key, attempt, ?took, result, held = end.wait.is_some(), "reconciled");
    }

    fn writes_failed(&self, run: &EndedRun<'_>, report: &Report) {
        let Some(first) = report.failures.first() else { return };
        let (key, attempt, n_failures) = (run.key, run.attempt, report.n_failed);
        if report.only_conflicts {
            tracing::debug!(plugin = %self.name, %key, attempt, n_failures, "conflict: the key is requeued");
        } else if first.reason == NOT_LEADING {
            tracing::debug!(plugin = %self.name, %key, n_failures, "writes were not sent: this host does not lead");
        } else if report.n_denied > 0 && attempt > 0 {
            // Log the full error once: a missing grant stays missing.
            tracing::debug!(plugin = %self.name, %key, attempt, error = first.message, "writes failed again");
        } else {
            tracing::warn!(
                plugin = %self.name, %key, attempt, n_failures, n_denied = report.n_denied, verb = first.verb,
                kind = %first.kind, object = %first.object, code = first.code, reason = first.reason,
                error = first.message, "writes failed"
            );
        }
    }

    fn error_declared(&self, key: &Key, attempt: u32, error: &ReconcileError) {
        match error {
            ReconcileError::Retry { message, .. } => {
                let error = cut(message, MAX_ERROR_BYTES);
                tracing::info!(plugin = %self.name, %key, attempt, error, "the plugin requests a retry");
            }
            ReconcileError::Terminal(message) => {
                let error = cut(message, MAX_ERROR_BYTES);
                tracing::warn!(
                    plugin = %self.name, %key, attempt, error,
                    "terminal error of the plugin: no retry until the key's next change or requeue"
                );
            }
        }
    }

    fn given_up(&self, key: &Key, next: Next) {
        match next {
            Next::GivenUp { n_failures, is_dropped } => {
                tracing::warn!(
                    plugin = %self.name, %key, failures = n_failures,
                    "too many retries: no retry until the key's next change or requeue"
                );
                if is_dropped {
                    self.metrics.dropped_key("max_retries");
                }
            }
            Next::Terminal { is_dropped: true } => self.metrics.dropped_key("terminal"),
            Next::Terminal { .. } | Next::Success | Next::Later | Next::Retry(_) => {}
        }
    }

    /// Records a fault about the key's object; the recorder counts equal events in one.
    pub(super) fn faulted(&self, present: &Version, key: &Key, text: &str) {
        let message = format!("plugin {} {}: {text}{CONSEQUENCE}", self.name, present.manifest().version);
        self.record_about(present, key, "PluginFault", message);
    }

    /// Records that the API server refuses a write of a key. Built-in controllers record only the same events as
    /// upstream.
    fn write_refused(&self, present: &Version, key: &Key, failure: &MutationFailure) {
        if !present.is_carried {
            let (name, version, refusal) = (&self.name, &present.manifest().version, refusal(failure));
            self.record_about(present, key, "WriteRefused", format!("plugin {name} {version}: {refusal}{CONSEQUENCE}"));
        }
    }

    fn loop_began(&self, present: &Version, key: &Key, why: &str) {
        self.metrics.write_loops.inc();
        tracing::warn!(plugin = %self.name, %key, "{why}");
        if !present.is_carried {
            let message = format!("plugin {} {}: {why}", self.name, present.manifest().version);
            self.record_about(present, key, "WritesRepeat", message);
        }
    }

    fn health_changed(&self, HealthChange { change, counts, last }: &HealthChange) {
        let name = &self.name;
        match change {
            Change::Paused(pause) => {
                self.metrics.quarantined(true);
                tracing::error!(plugin = %name, ?pause, counts, %last, "quarantined: most keys fault");
                let message = format!("plugin {name} is paused for {pause:?}: {counts}; the last: {last}");
                self.record_plugin_event(true, "Quarantined", message);
            }
            Change::Disabled => {
                tracing::error!(plugin = %name, counts, %last, "disabled: most keys fault");
                let message = format!(
                    "plugin {name} is disabled by its failure policy: {counts}; the last: {last}; `pintle plugin enable {name}` starts it again"
                );
                self.record_plugin_event(true, "Disabled", message);
            }
            Change::Recovered => {
                self.metrics.quarantined(false);
                tracing::info!(plugin = %name, "the quarantine is over: a run succeeded");
                self.record_plugin_event(false, "Recovered", format!("plugin {name} recovered"));
            }
        }
    }

    /// Reports waits of keys for the caches that end now.
    pub(super) fn waited(&self, waits: &[StaleWait], now: Instant) {
        for wait in waits {
            let took = now.saturating_duration_since(wait.begun);
            self.metrics.stale_wait_duration.observe(took.as_secs_f64());
            if let (Some((run, begun)), Some(tracer)) = (wait.traced, &self.tracer) {
                tracer.record_wait(TracedWait { run, begun, took });
            }
        }
    }

    /// Counts samples that were dropped.
    pub(super) fn dropped_samples(&self, n_dropped: usize) {
        if n_dropped > 0 {
            self.metrics.dropped_samples.inc_by(n_dropped as u64);
            tracing::debug!(plugin = %self.name, n_dropped, "samples dropped: too many combinations of labels, or bytes");
        }
    }

    /// Records a warning about the object of a key.
    fn record_about(&self, present: &Version, key: &Key, reason: &str, message: String) {
        let object = present.cache().and_then(|cache| cache.snapshot().object(&key.kind, &key.object));
        match object.map(|object| object.meta.uid.to_string()) {
            Some(uid) => self.record_event(&key.kind, &key.object, uid, true, reason, message),
            // The object was deleted, or never existed (ticks).
            None => self.record_plugin_event(true, reason, format!("{message} (key {key})")),
        }
    }

    /// Records an event of the host about an object.
    fn record_event(&self, kind: &Kind, object: &ObjectKey, uid: String, warning: bool, reason: &str, message: String) {
        self.recorder.record(Event {
            regarding_kind: kind.clone(),
            regarding: object.clone(),
            regarding_uid: uid,
            warning,
            reason: reason.to_owned(),
            message: cut(&message, MAX_TEXT_BYTES).to_owned(),
        });
    }

    /// Records an event about the plugin, on its `ControllerPlugin` even if none exists, so that all such events are in
    /// one place.
    pub(crate) fn record_plugin_event(&self, warning: bool, reason: &str, message: String) {
        let kind = lifecycle::resource_kind();
        let uid = self.resource_uid.lock().clone();
        self.record_event(&kind, &ObjectKey::new("", &self.name), uid, warning, reason, message);
    }

    /// Reports a significant change of the plugin's status.
    pub(super) fn mark_changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }
}

/// Whether a fault is recorded: the first in a row, and again when the key is retried rarely.
fn is_reported(suspect: Option<Suspect>) -> bool {
    suspect.is_none_or(|suspect| suspect.n_faults == 1 || suspect.delay >= LONGEST_HOLD)
}
