//! The writer: executes the steps of an outcome.
//!
//! ```text
//! steps ──prepare──> requests ──grants──> API server ──> failures (for the next run), writes (that the caches must show), events
//! ```
//!
//! Invariants:
//! 1. Nothing is sent before the whole outcome is known to be well formed; a malformed part is a fault, and nothing is
//!    sent.
//! 2. A mutation that is not granted has no effect except a failure and a metric.
//! 3. At most [`MAX_PARALLEL`] writes of a run are in flight.
//! 4. After a failed step, only steps marked `always` run.
//! 5. In a slow start, the number of failed mutations exceeds the number of earlier successes by at most one.
//!
//! Not here: retries of the key (the controller), rate limits (the adapter behind `ApiWriter`), `Retry-After`
//! (`throttle`).
//!
//! Source: the slow start is kube-controller-manager's `slowStartBatch` (1, 2, 4, ...) until a batch reaches the
//! maximum in flight; from then on it does not wait for the last write of a batch.

pub(crate) mod edit;
mod ownership;
mod plan;
mod probe;
mod request;
mod rights;
mod shared;
mod special;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pintle_core::contract::outcome::{Action, Event, MutationFailure, Order, Place, Refusal, Step};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::pending::{Leaves, PendingWrite};
use pintle_core::ports::api::{ApiError, ApiErrorClass, ApiResource, ApiWriter, WriteVerb, Written};
use pintle_core::ports::guest::{FaultKind, PluginFault};
use pintle_core::text::cut;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::PluginMetrics;
use crate::recorder::Recorder;
use crate::throttle::retry_throttled;
use crate::traces::{MutationTrace, RunTrace};
use plan::{Planned, PlannedStep, Planner, WriteDecision};
use probe::{may_have_happened, probe, probe_after};
use request::WriteTarget;

pub(crate) use edit::{Members, quote};
pub(crate) use plan::Plan;
pub use plan::denials;
pub(crate) use probe::WriteProbe;
pub(crate) use request::kind_of;
pub(crate) use rights::Rights;

/// Maximum writes of one run in flight; others wait.
pub(crate) const MAX_PARALLEL: usize = 64;
/// Reason of a failure: the host did not send the write, because it is not granted.
pub(crate) const NOT_GRANTED: &str = "NotGranted";
/// Reason of a failure: the host did not send the write, because it is not the leader.
pub(crate) const NOT_LEADING: &str = "NotLeading";
/// Maximum bytes of a text from a server or a guest that is kept for the next run, or logged.
const MAX_ERROR_BYTES: usize = 1024;
/// Maximum failures kept per outcome, and causes per failure.
const MAX_FAILURES: usize = 256;
const MAX_CAUSES: usize = 16;

/// The writer of one plugin.
pub(crate) struct Writer {
    /// The plugin's name, which is also its default field manager.
    pub(crate) name: String,
    pub(crate) api: Arc<dyn ApiWriter>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: PluginMetrics,
    /// Cancelled when the controller stops: no request is repeated.
    pub(crate) stopped: CancellationToken,
}

/// The results of an outcome's mutations.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Mutations that were executed, or whose refusal was tolerated.
    pub(crate) done: BTreeSet<Place>,
    /// Mutations that failed and were not tolerated: the first [`MAX_FAILURES`].
    pub(crate) failures: Vec<MutationFailure>,
    /// Total number of failures.
    pub(crate) n_failed: usize,
    /// Writes that the API server accepted.
    pub(crate) writes: Vec<PendingWrite>,
    /// Probes for writes that may have been executed, or whose answer did not contain the new version.
    pub(crate) probes: BTreeSet<WriteProbe>,
    /// Delay of the probes.
    pub(crate) probe_after: Duration,
    /// The delay that the server requested.
    pub(crate) retry_after: Option<Duration>,
    /// Whether there are failures and all are conflicts: this is normal, the cache was stale.
    pub(crate) only_conflicts: bool,
    /// Number of denied mutations.
    pub(crate) n_denied: usize,
}

/// When to stop executing a group of mutations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtFailure,
    AtEnd,
}

enum Done {
    Nothing,
    Written(PendingWrite),
    /// Executed, but the answer does not identify the state that the caches must show.
    Unconfirmed(Option<WriteProbe>),
    Failed {
        failure: Box<MutationFailure>,
        class: Option<ApiErrorClass>,
        retry_after: Option<Duration>,
        probe: Option<WriteProbe>,
        probe_after: Duration,
    },
}

impl Writer {
    /// Checks the whole outcome; sends nothing.
    ///
    /// # Errors
    /// If the outcome is a fault of the plugin.
    pub(crate) fn plan(
        &self,
        rights: &Rights<'_>,
        steps: Vec<Step>,
        resolve: impl Fn(&Kind) -> Option<Arc<ApiResource>>,
    ) -> Result<Plan, PluginFault> {
        let mut planner = Planner { name: &self.name, rights, resolve, refused_events: Vec::new() };
        let plan = planner.plan(steps);
        for _ in &planner.refused_events {
            self.metrics.fault(FaultKind::Grant);
            self.metrics.event("not_granted");
        }
        if let Some(error) = planner.refused_events.first() {
            let (n_denied, error) = (planner.refused_events.len(), cut(error, MAX_ERROR_BYTES));
            tracing::warn!(plugin = %self.name, n_denied, error, "events are not granted");
        }
        plan
    }

    /// Executes a plan, and records each mutation if the run is recorded.
    ///
    /// # Cancel safety
    /// If dropped, each write may or may not have happened.
    pub(crate) async fn carry_out(&self, plan: Plan, trace: Option<&RunTrace>) -> Report {
        let mut report = Report { n_denied: plan.n_denied, only_conflicts: true, ..Report::default() };
        for step in plan.steps {
            if report.failures.is_empty() || step.always {
                self.step(step, &mut report, trace).await;
            }
        }
        report.only_conflicts &= !report.failures.is_empty();
        report
    }

    async fn step(&self, step: PlannedStep, report: &mut Report, trace: Option<&RunTrace>) {
        let n_failed_before = report.n_failed;
        match step.order {
            Order::Sequential => {
                for planned in &step.mutations {
                    let (place, done) = self.one(planned, trace).await;
                    report.take_in(place, done);
                    if report.n_failed > n_failed_before {
                        return;
                    }
                }
            }
            Order::Parallel => self.batch(&step.mutations, report, trace).await,
            Order::SlowStart => {
                let mut rest = &step.mutations[..];
                let mut size = 1;
                while size < MAX_PARALLEL && !rest.is_empty() && report.n_failed == n_failed_before {
                    let (batch, after) = rest.split_at(size.min(rest.len()));
                    self.batch(batch, report, trace).await;
                    rest = after;
                    size *= 2;
                }
                if report.n_failed == n_failed_before {
                    self.stream(rest, Stop::AtFailure, report, trace).await;
                }
            }
        }
    }

    async fn batch(&self, batch: &[Planned], report: &mut Report, trace: Option<&RunTrace>) {
        self.stream(batch, Stop::AtEnd, report, trace).await;
    }

    /// Executes mutations, at most [`MAX_PARALLEL`] at a time.
    async fn stream(&self, mutations: &[Planned], stop: Stop, report: &mut Report, trace: Option<&RunTrace>) {
        let (n_failed_before, n_kept_before) = (report.n_failed, report.failures.len());
        let mut rest = mutations.iter();
        let mut under_way: FuturesUnordered<_> =
            rest.by_ref().take(MAX_PARALLEL).map(|one| self.one(one, trace)).collect();
        while let Some((place, done)) = under_way.next().await {
            report.take_in(place, done);
            let go_on = stop == Stop::AtEnd || report.n_failed == n_failed_before;
            if go_on && let Some(next) = rest.next() {
                under_way.push(self.one(next, trace));
            }
        }
        // Sorted, because the order of answers has no meaning for the plugin.
        report.failures[n_kept_before..].sort_by_key(|failure| failure.position);
    }

    async fn one(&self, planned: &Planned, trace: Option<&RunTrace>) -> (Place, Done) {
        let place = Place { step: planned.step, position: planned.position };
        let Some((target, decision)) = &planned.write else {
            if let Action::Event(event) = &planned.mutation.action {
                self.recorder.record(event.clone());
            }
            return (place, Done::Nothing);
        };
        let mut noted = MutationTrace::begin(trace, || target.traced());
        let n_resent = AtomicU32::new(0);
        let done = self.write(planned, target, decision, &n_resent, &mut noted).await;
        noted.end(n_resent.into_inner());
        (place, done)
    }

    async fn write(
        &self,
        planned: &Planned,
        target: &WriteTarget,
        decision: &WriteDecision,
        n_resent: &AtomicU32,
        noted: &mut MutationTrace<'_>,
    ) -> Done {
        let action = &planned.mutation.action;
        let error = match decision {
            WriteDecision::Send(request) => {
                let label = request.resource.kind.to_string();
                let started = Instant::now();
                let method = method_of(&request.verb);
                noted.sent(method);
                let of_span = noted.span().and_then(|span| self.api.traced(span));
                let api = of_span.as_ref().unwrap_or(&self.api);
                let repeated = || {
                    n_resent.fetch_add(1, Ordering::Relaxed);
                    self.metrics.repeated(method);
                };
                let result = retry_throttled(&self.stopped, repeated, || api.write(request)).await;
                self.metrics.write_duration(target.verb, started.elapsed());
                match result {
                    Ok(written) => {
                        self.metrics.mutation(target.verb, &label, "ok");
                        noted.result("ok");
                        self.record(&planned.mutation.on_success, name_of(target, &written), "");
                        return match pending(target, &written) {
                            Some(write) => Done::Written(write),
                            None => Done::Unconfirmed(probe(target, request)),
                        };
                    }
                    // NotFound is the goal of a delete. No event is recorded, because nothing was deleted.
                    Err(error) if error.class == ApiErrorClass::NotFound && matches!(action, Action::Delete { .. }) => {
                        self.metrics.mutation(target.verb, &label, "gone");
                        noted.result("gone");
                        noted.failed(&error, true);
                        return pending(target, &Written::default()).map_or(Done::Nothing, Done::Written);
                    }
                    Err(error) => {
                        let result = result_label(&error, &planned.mutation.tolerate);
                        self.metrics.mutation(target.verb, &label, result);
                        noted.result(result);
                        error
                    }
                }
            }
            WriteDecision::NoKind => {
                self.metrics.mutation(target.verb, "unknown", "not_found");
                noted.result("not_found");
                ApiError {
                    class: ApiErrorClass::NotFound,
                    code: 404,
                    reason: "NotFound".into(),
                    message: format!("the API server has no kind {}", target.kind),
                    causes: Vec::new(),
                }
            }
            WriteDecision::Impossible(error) => {
                let label = target.kind.to_string();
                let result = result_label(error, &planned.mutation.tolerate);
                self.metrics.mutation(target.verb, &label, result);
                noted.result(result);
                error.clone()
            }
            WriteDecision::Denied(denial) => {
                self.metrics.mutation(target.verb, "unknown", "not_granted");
                noted.denied(NOT_GRANTED);
                self.metrics.fault(FaultKind::Grant);
                let error = denial.message(&self.name);
                let error = cut(&error, MAX_ERROR_BYTES);
                // Only at debug level: the run's log line about failed writes includes the denials.
                tracing::debug!(plugin = %self.name, error, "a write is not granted");
                self.record(&planned.mutation.on_failure, &target.object.name, error);
                let failure = failure(planned, target, 0, NOT_GRANTED.into(), error, Vec::new());
                let failure = Box::new(failure);
                return Done::Failed {
                    failure,
                    class: None,
                    retry_after: None,
                    probe: None,
                    probe_after: Duration::ZERO,
                };
            }
        };
        let is_tolerated = planned.mutation.tolerate.iter().any(|refusal| error.is(*refusal));
        noted.failed(&error, is_tolerated);
        if is_tolerated {
            return Done::Nothing;
        }
        // The event could not be created in that namespace either. Upstream's controllers record none.
        if !error.is(Refusal::NamespaceTerminating) {
            self.record(&planned.mutation.on_failure, &target.object.name, &error.message);
        }
        let probe = match decision {
            WriteDecision::Send(request) if may_have_happened(&error) => probe(target, request),
            _ => None,
        };
        let (class, retry_after, probe_after) = (Some(error.class), error.retry_after(), probe_after(&error));
        Done::Failed {
            failure: Box::new(failure(planned, target, error.code, error.reason, &error.message, error.causes)),
            class,
            retry_after,
            probe,
            probe_after,
        }
    }

    fn record(&self, event: &Option<Event>, name: &str, error: &str) {
        if let Some(event) = event {
            let message = fill_in(&event.message, name, cut(error, MAX_ERROR_BYTES));
            self.recorder.record(Event { message, ..event.clone() });
        }
    }
}

impl Report {
    fn take_in(&mut self, place: Place, done: Done) {
        if !matches!(done, Done::Failed { .. }) {
            self.done.insert(place);
        }
        match done {
            Done::Nothing => {}
            Done::Written(write) => self.writes.push(write),
            Done::Unconfirmed(probe) => self.probes.extend(probe),
            Done::Failed { failure, class, retry_after, probe, probe_after } => {
                self.probe_after = self.probe_after.max(probe_after);
                self.probes.extend(probe);
                self.only_conflicts &= class == Some(ApiErrorClass::Conflict);
                self.retry_after = self.retry_after.max(retry_after);
                self.n_failed += 1;
                if self.failures.len() < MAX_FAILURES {
                    self.failures.push(*failure);
                }
            }
        }
    }
}

fn name_of<'a>(target: &'a WriteTarget, written: &'a Written) -> &'a str {
    if written.name.is_empty() { &target.object.name } else { &written.name }
}

fn failure(
    planned: &Planned,
    target: &WriteTarget,
    code: u16,
    reason: String,
    message: &str,
    mut causes: Vec<String>,
) -> MutationFailure {
    causes.truncate(MAX_CAUSES);
    MutationFailure {
        step: planned.step,
        position: planned.position,
        verb: target.verb,
        kind: target.kind.clone(),
        object: target.object.clone(),
        subresource: target.subresource.clone(),
        code,
        reason,
        message: cut(message, MAX_ERROR_BYTES).to_owned(),
        causes,
    }
}

/// The write that the caches must show. `None` if the answer does not identify it (collections, some subresources).
fn pending(target: &WriteTarget, written: &Written) -> Option<PendingWrite> {
    let leaves = match target.verb {
        "delete" => Leaves::Terminating,
        _ if written.removed => Leaves::Nothing,
        _ => Leaves::Object,
    };
    if target.verb == "delete-collection" || (written.resource_version.is_empty() && leaves == Leaves::Object) {
        return None;
    }
    let name = name_of(target, written);
    Some(PendingWrite {
        kind: target.kind.clone(),
        object: ObjectKey::new(&target.object.namespace, name),
        uid: written.uid.clone(),
        resource_version: written.resource_version.clone(),
        leaves,
        labels: written.labels.clone(),
    })
}

/// The HTTP method of a write.
fn method_of(verb: &WriteVerb) -> &'static str {
    match verb {
        WriteVerb::Create { .. } => "POST",
        WriteVerb::Update { .. } => "PUT",
        WriteVerb::Patch { .. } => "PATCH",
        WriteVerb::Delete { .. } | WriteVerb::DeleteCollection { .. } => "DELETE",
    }
}

fn result_label(error: &ApiError, tolerate: &[Refusal]) -> &'static str {
    if tolerate.iter().any(|refusal| error.is(*refusal)) {
        return "tolerated";
    }
    match error.class {
        ApiErrorClass::NotFound => "not_found",
        ApiErrorClass::AlreadyExists => "already_exists",
        ApiErrorClass::Conflict => "conflict",
        ApiErrorClass::Gone => "gone",
        ApiErrorClass::Invalid => "invalid",
        ApiErrorClass::Unauthorized => "unauthorized",
        ApiErrorClass::Forbidden => "forbidden",
        ApiErrorClass::Throttled(_) => "throttled",
        ApiErrorClass::Server => "server_error",
        ApiErrorClass::Timeout => "timeout",
        ApiErrorClass::Transport => "transport",
        ApiErrorClass::Malformed => "malformed",
        ApiErrorClass::NotLeading => "not_leading",
    }
}

/// Replaces `{name}` and `{error}` in one pass, so that the replacements are not expanded again.
fn fill_in(template: &str, name: &str, error: &str) -> String {
    let mut out = String::with_capacity(template.len() + name.len() + error.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{name}") {
            out.push_str(name);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{error}") {
            out.push_str(error);
            rest = after;
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
