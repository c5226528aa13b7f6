//! How a Job ends, and its conditions.
//!
//! | failure cause | reason |
//! | --- | --- |
//! | a rule of `podFailurePolicy` | `PodFailurePolicy` |
//! | more failures than `backoffLimit`, or as many restarts | `BackoffLimitExceeded` |
//! | `activeDeadlineSeconds` | `DeadlineExceeded` |
//! | more failed indexes than `maxFailedIndexes` | `MaxFailedIndexesExceeded` |
//! | a failed index, once all have ended | `FailedIndexes` |
//!
//! | success cause | reason |
//! | --- | --- |
//! | a rule of `successPolicy` | `SuccessPolicy` |
//! | enough succeeded Pods, and none that is active | `CompletionsReached` |
//!
//! The first that applies is written as `FailureTarget` or `SuccessCriteriaMet` and stays. The terminal condition with
//! the same reason follows when all Pods are counted and deleted.

use std::time::Duration;

use pintle_sdk::api::meta::Condition;
use pintle_sdk::time::Timestamp;
use plugin_lib::conditions;
use plugin_lib::number;

use crate::context::Context;
use crate::failure_policy::evaluate;
use crate::success_policy;
use crate::types::{Job, Pod};

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Whether it succeeds.
    pub(crate) succeeds: bool,
    /// The reason.
    pub(crate) reason: String,
    /// The message.
    pub(crate) message: String,
    /// Whether the Job has the interim condition already.
    pub(crate) is_stored: bool,
}

impl End {
    #[doc(alias = "newFailureCondition")]
    fn fails(reason: &str, message: impl Into<String>) -> Self {
        Self { succeeds: false, reason: reason.into(), message: message.into(), is_stored: false }
    }

    fn succeeds(reason: &str, message: impl Into<String>) -> Self {
        Self { succeeds: true, ..Self::fails(reason, message) }
    }

    #[doc(alias = "newFailedConditionForFailureTarget")]
    fn stored(condition: &Condition, succeeds: bool) -> Self {
        let Condition { reason, message, .. } = condition.clone();
        Self { succeeds, reason, message, is_stored: true }
    }

    /// The interim condition.
    pub(crate) fn interim(&self, now: Timestamp) -> Condition {
        self.condition(if self.succeeds { SUCCESS_CRITERIA_MET } else { FAILURE_TARGET }, now)
    }

    /// The type of the terminal condition.
    pub(crate) fn terminal(&self) -> &'static str {
        if self.succeeds { "Complete" } else { "Failed" }
    }

    #[doc(alias = "newCondition")]
    fn condition(&self, kind: &str, now: Timestamp) -> Condition {
        Condition {
            type_: kind.into(),
            status: "True".into(),
            last_probe_time: Some(now.truncate()),
            last_transition_time: Some(now.truncate()),
            reason: self.reason.clone(),
            message: self.message.clone(),
            ..Condition::default()
        }
    }
}

#[doc(alias = "JobSuccessCriteriaMet")]
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
#[doc(alias = "JobFailureTarget")]
const FAILURE_TARGET: &str = "FailureTarget";

/// How a Job ends, determined before Pods are created or deleted. Earlier decisions stay.
#[doc(alias = "hasSuccessCriteriaMetCondition", alias = "getFailJobMessage")]
pub(crate) fn find(context: &Context<'_>) -> Option<End> {
    let job = context.job;
    let stored = |kind: &str| conditions::find(&job.status.conditions, kind).filter(|found| found.status == "True");
    if let Some(condition) = stored(SUCCESS_CRITERIA_MET) {
        return Some(End::stored(condition, true));
    }
    if let Some(condition) = stored(FAILURE_TARGET) {
        return Some(End::stored(condition, false));
    }
    let of_policy = || {
        let failed = context.pods.iter().filter(|pod| pod.is_failed(job));
        let message = failed.filter_map(|pod| evaluate(job, pod).fails_job).next()?;
        Some(End::fails("PodFailurePolicy", message))
    };
    let has_policy = job.spec.pod_failure_policy.is_some();
    has_policy.then(of_policy).flatten().or_else(|| of_limits(context)).or_else(|| of_indexes(context))
}

fn of_limits(context: &Context<'_>) -> Option<End> {
    let job = context.job;
    if context.n_failed > job.backoff_limit() || has_restarted_too_often(job, &context.pods) {
        return Some(End::fails("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if until_deadline(context).is_some_and(|left| left.is_zero()) {
        return Some(End::fails("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    None
}

fn of_indexes(context: &Context<'_>) -> Option<End> {
    let n_indexes = context.n_indexes?;
    let of_failed = |failed: i64| {
        if context.job.spec.max_failed_indexes.is_some_and(|max| failed > i64::from(max)) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(End::fails("MaxFailedIndexesExceeded", message));
        }
        let all_ended = failed + context.succeeded_indexes.len() >= n_indexes;
        (failed > 0 && all_ended).then(|| End::fails("FailedIndexes", "Job has failed indexes"))
    };
    let failed = context.failed_indexes.as_ref().and_then(|failed| of_failed(failed.len()));
    failed.or_else(|| {
        let message = success_policy::matched(context.job, n_indexes, &context.succeeded_indexes)?;
        Some(End::succeeds("SuccessPolicy", message))
    })
}

/// The success of a Job with enough succeeded Pods, given the number of active Pods.
#[doc(alias = "newSuccessCondition")]
pub(crate) fn completion(context: &Context<'_>, active: i64) -> Option<End> {
    let wanted = context.job.spec.completions.map_or(1, i64::from);
    let is_complete = context.n_succeeded >= wanted && active == 0;
    is_complete.then(|| End::succeeds("CompletionsReached", "Reached expected number of succeeded pods"))
}

/// Container restarts within a Pod count as failures if the template's restart policy is `OnFailure`.
#[doc(alias = "pastBackoffLimitOnFailure")]
fn has_restarted_too_often(job: &Job, pods: &[&Pod]) -> bool {
    if job.restart_policy() != "OnFailure" {
        return false;
    }
    let live = pods.iter().filter(|pod| ["Running", "Pending"].contains(&pod.status.phase.as_str()));
    let restarts = |pod: &&Pod| -> i64 {
        let init = pod.status.init_container_statuses.iter().map(|status| status.restart_count);
        let main = pod.status.container_statuses.iter().map(|status| status.restart_count);
        init.chain(main).map(i64::from).sum()
    };
    let n_restarts: i64 = live.map(restarts).sum();
    n_restarts >= job.backoff_limit().max(1)
}

/// Time until the deadline of a Job that runs.
#[doc(alias = "pastActiveDeadline")]
pub(crate) fn until_deadline(context: &Context<'_>) -> Option<Duration> {
    let job = context.job;
    let seconds = job.spec.active_deadline_seconds.filter(|_| !job.is_suspended())?;
    let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Some(allowed.saturating_sub(context.now.since(context.start_time?)))
}

/// Whether more Pods have succeeded than the desired completions.
pub(crate) fn has_too_many(job: &Job, succeeded: i32) -> bool {
    job.spec.completions.is_some_and(|wanted| succeeded > wanted)
}

/// Sets the terminal condition of a Job.
pub(crate) fn finish(conditions: &mut Vec<Condition>, end: &End, now: Timestamp) {
    conditions::set_job_condition(conditions, end.terminal(), "True", &end.reason, &end.message, now);
}

/// Sets the condition `Suspended`. Returns whether anything changed.
pub(crate) fn suspend(conditions: &mut Vec<Condition>, suspended: bool, now: Timestamp) -> bool {
    let (status, reason, message) =
        if suspended { ("True", "JobSuspended", "Job suspended") } else { ("False", "JobResumed", "Job resumed") };
    conditions::set_job_condition(conditions, "Suspended", status, reason, message, now)
}

/// Number of uncounted Pods in a status.
pub(crate) fn n_uncounted(status: &crate::types::JobStatus) -> i64 {
    status.uncounted_terminated_pods.as_ref().map_or(0, |all| number::count(all.succeeded.len() + all.failed.len()))
}
