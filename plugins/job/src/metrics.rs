//! Metrics. A sample that belongs to a write is recorded once the write has succeeded.
//!
//! *Source*: metrics/metrics.go and tracking_utils.go, and the functions `record*` of job_controller.go.

use pintle_sdk::{Lister, Moment, ObjectKey, Outcome, Place, Resource};
use plugin_lib::failures::Failures as _;
use plugin_lib::number;
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::end::End;
use crate::failure_policy::Action;
use crate::indexes::Indexes;
use crate::tracking::{Accounts, Released};
use crate::types::{Job, Pod};

#[doc(alias = "JobPodsCreationTotal")]
const CREATED: &str = "job_controller_job_pods_creation_total";
#[doc(alias = "TerminatedPodsTrackingFinalizerTotal")]
const TERMINATED: &str = "job_controller_terminated_pods_tracking_finalizer_total";

fn add(outcome: Outcome, at: Place, metric: &str, labels: &[&str], n: i64) -> Outcome {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    // Numbers of Pods are far below 2^53.
    if n > 0 { outcome.observe_at(Moment::Done(at), metric, labels, n as f64) } else { outcome }
}

/// The completion mode as a metric label.
#[doc(alias = "getCompletionMode", alias = "completionModeStr")]
pub(crate) fn mode(job: &Job) -> &'static str {
    if job.is_indexed() { "Indexed" } else { "NonIndexed" }
}

/// Samples of a status written at this place.
#[doc(alias = "recordJobPodFinished", alias = "backoffLimitMetricsLabel")]
#[doc(alias = "recordFinishedPodWithTrackingFinalizer")]
pub(crate) fn status(outcome: Outcome, at: Place, context: &Context<'_>, accounts: &Accounts<'_>) -> Outcome {
    let (job, old, new) = (context.job, &context.job.status, &accounts.status);
    let mode = mode(job);
    let finished =
        |outcome, result: &str, n: i64| add(outcome, at, "job_controller_job_pods_finished_total", &[mode, result], n);
    let indexes = |outcome, result: &str, n: i64| {
        let limit = if job.spec.backoff_limit_per_index.is_some() { "perIndex" } else { "global" };
        add(outcome, at, "job_controller_job_finished_indexes_total", &[result, limit], n)
    };
    let mut outcome = outcome;
    let n_succeeded = match context.n_indexes {
        None => i64::from(new.succeeded) - i64::from(old.succeeded),
        // Indexes that a smaller number of completions has excluded were counted before.
        Some(_) => {
            let n_succeeded = context.succeeded_indexes.len() - context.counted_indexes.len();
            let n_failed =
                context.failed_indexes.as_ref().map_or(0, Indexes::len) - context.counted_failed_indexes.len();
            outcome = indexes(outcome, "succeeded", n_succeeded);
            outcome = indexes(outcome, "failed", n_failed);
            n_succeeded
        }
    };
    outcome = finished(outcome, "succeeded", n_succeeded);
    outcome = finished(outcome, "failed", i64::from(new.failed) - i64::from(old.failed));
    for action in [Action::Ignore, Action::FailIndex, Action::Count, Action::FailJob] {
        let n = accounts.released.iter().filter(|one| one.is_new && one.action == Some(action)).count();
        outcome = handled(outcome, at, action, number::count(n));
    }
    let n_new = accounts.released.iter().filter(|one| one.is_new && plugin_lib::pods::is_terminal(one.pod)).count();
    add(outcome, at, TERMINATED, &["add"], number::count(n_new))
}

#[doc(alias = "recordJobPodFailurePolicyActions")]
fn handled(outcome: Outcome, at: Place, action: Action, n: i64) -> Outcome {
    add(outcome, at, "job_controller_pod_failures_handled_by_failure_policy_total", &[action.name()], n)
}

/// Samples of the finalizers removed in this step.
#[doc(alias = "recordFinishedPodWithTrackingFinalizer")]
pub(crate) fn released(mut outcome: Outcome, step: u32, released: &[Released<'_>]) -> Outcome {
    for (one, position) in released.iter().zip(0..) {
        let at = Place { step, position };
        if let Some(action) = one.action.filter(|_| !one.is_new) {
            outcome = handled(outcome, at, action, 1);
        }
        if plugin_lib::pods::is_terminal(one.pod) {
            outcome = add(outcome, at, TERMINATED, &["delete"], 1);
        }
    }
    outcome
}

/// Records the end of tracking for a Pod that no Job counts.
#[doc(alias = "recordFinishedPodWithTrackingFinalizer")]
pub(crate) fn terminated_orphan(outcome: Outcome, pod: &Pod) -> Outcome {
    let Some(at) = outcome.last_place().filter(|_| plugin_lib::pods::is_terminal(pod)) else { return outcome };
    let outcome = add(outcome, at, TERMINATED, &["add"], 1);
    add(outcome, at, TERMINATED, &["delete"], 1)
}

/// Records the end of a Job.
#[doc(alias = "recordJobFinished")]
pub(crate) fn job_finished(outcome: Outcome, at: Place, job: &Job, end: &End) -> Outcome {
    let result = if end.succeeds { "succeeded" } else { "failed" };
    add(outcome, at, "job_controller_jobs_finished_total", &[mode(job), result, &end.reason], 1)
}

/// Records the Pods created in the last step of the outcome. `terminating` is the number of terminating Pods in the
/// cache.
#[doc(alias = "recordJobPodsCreationTotal")]
pub(crate) fn created(mut outcome: Outcome, context: &Context<'_>, terminating: i64) -> Outcome {
    let Some(last) = outcome.last_place() else { return outcome };
    let reason = reason(context, terminating);
    for position in 0..=last.position {
        outcome = add(outcome, Place { position, ..last }, CREATED, &[reason, "succeeded"], 1);
    }
    outcome
}

/// Records the Pods that the previous run failed to create. Pods that it did not try are not among its failures.
#[doc(alias = "recordJobPodsCreationTotal")]
pub(crate) fn not_created(outcome: Outcome, context: &Context<'_>, lister: &impl Lister, terminating: i64) -> Outcome {
    let n = lister.failures().of("create", &Pod::KIND).count();
    let labels = vec![reason(context, terminating).to_owned(), "failed".to_owned()];
    if n > 0 { outcome.observe(CREATED, labels, n as f64) } else { outcome }
}

/// The reason for creating Pods.
fn reason(context: &Context<'_>, terminating: i64) -> &'static str {
    let only_failed = context.job.spec.pod_replacement_policy.as_deref() == Some("Failed");
    match (context.n_failed, terminating) {
        (1.., _) if only_failed => "recreate_failed",
        (1.., _) | (_, 1..) => "recreate_terminating_or_failed",
        _ => "new",
    }
}

/// Counts a Job managed by another controller, once for each Job.
pub(crate) fn managed_by(outcome: Outcome, job: &Job, manager: &str, lister: &impl Lister) -> Outcome {
    let record = managed(&job.metadata.key(), lister);
    if record.of_uid(&job.metadata.uid).is_some() {
        return outcome;
    }
    let metric = "job_controller_jobs_by_external_controller_total";
    let outcome = outcome.observe(metric, vec![manager.to_owned()], 1.0);
    record.keep_of(outcome, &job.metadata.uid, Managed {})
}

/// Marks a Job that was counted as managed by another controller.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Managed {}

/// The record of a Job managed by another controller.
pub(crate) fn managed(job: &ObjectKey, lister: &impl Lister) -> ObjectRecord<Managed> {
    ObjectRecord::of(lister, "managed", job)
}
