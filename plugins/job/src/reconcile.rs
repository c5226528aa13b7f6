//! One run of a Job: its Pods and its status.
//!
//! ```text
//! key -> Job -> claim -> Context (counted, end) -> Decision (Pods) + Accounts (status, finalizers) -> Writes
//! ```

use pintle_sdk::{Error, Event, Key, Lister, Outcome, Resource, Step, log};
use plugin_lib::batch::SOON;
use plugin_lib::failures::Failures as _;

use crate::backoff::StoredRecord;
use crate::claim::{Claimed, claim};
use crate::context::Context;
use crate::end;
use crate::manage::{self, Decision};
use crate::metrics;
use crate::orphan;
use crate::template;
use crate::tracking;
use crate::types::{Job, Pod};
use crate::writes::{Writes, labelled};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    clears_start_time: bool,
}

/// Computes the changes for one Job, or for a Pod that may have lost its Job.
///
/// # Errors
/// If an object does not fit its type, or Pods cannot be adopted now. [`Error::Needs`] before Pods are adopted.
#[doc(alias = "syncJob")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == orphan::QUEUE {
        return orphan::reconcile(key, lister);
    }
    let outcome = Outcome::new();
    let record = StoredRecord::read(lister, &key.object());
    let Some((job, document)) = lister.get_document::<Job>(&key.namespace, &key.name)? else {
        return Ok(metrics::managed(&key.object(), lister).forget(record.forget(outcome)));
    };
    if let Some(manager) = job.other_manager() {
        return Ok(metrics::managed_by(outcome, &job, manager, lister));
    }
    if job.is_finished() {
        return orphan::wake_those_of(&job, lister, record.forget(outcome));
    }
    if job.spec.completion_mode.as_deref().is_some_and(|mode| mode != "Indexed" && mode != "NonIndexed") {
        let message = "Skipped Job sync because completion mode is unknown";
        let event = Event::warning(&Job::KIND, &job.metadata, "UnknownCompletionMode", message);
        return Ok(outcome.step(Step::sequential([event.into()])));
    }
    let pods = match claim(&job, lister)? {
        Claimed::Writes(writes) => {
            return Ok(labelled(outcome, &job, "reconciling").step(Step::parallel(writes)).requeue_after(SOON));
        }
        Claimed::Pods(pods) => pods,
    };

    let Config { clears_start_time } = lister.config()?;
    let mut context = Context::new(&job, &pods, lister.now()?)?;
    let before = record.failures(&job, &context.new_failed);
    context.failures = before.and(&context.new_succeeded, &context.new_failed);
    let seen = context.counts();
    let failures = lister.failures();
    // The previous run failed to create or delete a Pod.
    let is_careful = failures.any("create", &Pod::KIND) || failures.any("delete", &Pod::KIND);
    // The previous run failed to remove a Pod's finalizer. The host may not keep all of these failures.
    let is_stuck = failures.any("patch", &Pod::KIND);

    let is_managed = context.end.is_none() && !job.metadata.is_deleting();
    let mut decision = match &context.end {
        Some(_) => manage::end(&context),
        None if is_managed => manage::manage(&context),
        None => Decision { action: "reconciling", ..Decision::default() },
    };
    if context.n_indexes.is_none() && job.spec.template.metadata.labels.is_empty() && !decision.created.is_empty() {
        log::error("spec.template.metadata.labels is empty: no Pods are created until it changes");
        decision.created.clear();
    }
    let creates = template::create(&context, &decision.created);
    decision.is_partial |= creates.is_partial;
    decision.created.truncate(creates.mutations.len());
    // Once their stuck finalizers are removed, the next run deletes them.
    let is_late = |pod: &mut &Pod| is_stuck && decision.uncounted && pod.is_tracked();
    let late: Vec<&Pod> = decision.deleted.extract_if(.., is_late).collect();
    decision.is_partial |= !late.is_empty();

    let counts = if is_careful { seen } else { decision.predict(seen) };
    let mut conditions = job.status.conditions.clone();
    let mut suspended = None;
    if context.end.is_some() {
        // While a Pod may be left, the Job has not ended.
        decision.is_partial |= is_careful && !decision.is_empty();
        context.end = context.end.filter(|_| !decision.is_partial);
    } else {
        context.end = end::completion(&context, counts.active);
        let may_suspend = context.end.is_none() && is_managed;
        if may_suspend && end::suspend(&mut conditions, job.is_suspended(), context.now) {
            suspended = Some(job.is_suspended());
        }
    }
    match suspended {
        Some(true) if clears_start_time => context.start_time = None,
        // The deadline starts here.
        Some(false) => context.start_time = Some(context.now),
        _ => {}
    }
    let mut accounts = tracking::next(&context, counts);
    if suspended.is_some() {
        accounts.status.conditions = conditions;
    }
    let creates = creates.mutations;
    let writes = Writes { context: &context, decision, creates, late, accounts, suspended, seen, is_careful, is_stuck };
    Ok(writes.outcome(lister, document, &record, before))
}
