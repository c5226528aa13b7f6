//! One run of a Job: what becomes of its Pods and its status.
//!
//! ```text
//! key -> Job -> claim -> Sync (counted, end) -> Plan (Pods) + Accounts (status, finalizers) -> steps
//! ```
//!
//! The steps are Pods, status, finalizers. The status has the numbers that it will have with all writes of Pods, so it is written
//! only if all of them succeed. After a failure the numbers are those of the caches, and the Pods come last: a quota that prevents
//! new Pods does not prevent that others are counted. After a failure to remove a finalizer, those that are to go come after all else,
//! so that nothing waits for them.

use std::time::Duration;

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, Resource, Step, log};
use plugin_lib::pods;

use crate::accounting::{self, Accounts, Released};
use crate::backoff::StoredRecord;
use crate::claim::{Claimed, claim, let_go};
use crate::end;
use crate::manage::{self, Plan};
use crate::metrics;
use crate::orphan;
use crate::status;
use crate::sync::{Counts, Sync};
use crate::template;
use crate::types::{Job, Pod};

/// The shortest time until a key runs again. What this run has written is seen by then.
const AT_ONCE: Duration = Duration::from_millis(5);

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    clears_start_time: bool,
}

/// Says what should change for a Job, or for a Pod that may have lost its Job.
///
/// # Errors
/// If an object does not fit its type, or Pods cannot be adopted at this time. [`Error::Needs`] before Pods are adopted.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == orphan::QUEUE {
        return orphan::reconcile(key, lister);
    }
    let outcome = Outcome::new();
    let record = StoredRecord::read(lister, &key.namespace, &key.name)?;
    let Some((job, document)) = lister.get_document::<Job>(&key.namespace, &key.name)? else {
        return Ok(metrics::forget_managed(record.forget(outcome), &key.namespace, &key.name, lister));
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
    match claim(&job, lister)? {
        Claimed::Writes(writes) => {
            Ok(labelled(outcome, &job, "reconciling").step(Step::parallel(writes)).requeue_after(AT_ONCE))
        }
        Claimed::Pods(pods) => Run { job: &job, document, record }.go(&pods, lister),
    }
}

/// Labels for the metrics of runs.
fn labelled(outcome: Outcome, job: &Job, action: &str) -> Outcome {
    outcome.run_label("completion_mode", metrics::mode(job)).run_label("action", action)
}

struct Run<'a> {
    job: &'a Job,
    document: Document,
    record: StoredRecord,
}

impl Run<'_> {
    fn go(self, pods: &[Pod], lister: &impl Lister) -> Result<Outcome, Error> {
        let Config { clears_start_time } = lister.config()?;
        let job = self.job;
        let mut sync = Sync::new(job, pods, lister.now()?)?;
        let before = self.record.failures(job, &sync.new_failed);
        sync.failures = before.and(&sync.new_succeeded, &sync.new_failed);
        let seen = sync.counts();

        let is_managed = sync.end.is_none() && !job.metadata.is_deleting();
        let mut plan = match &sync.end {
            Some(_) => manage::end(&sync),
            None if is_managed => manage::manage(&sync),
            None => Plan { action: "reconciling", ..Plan::default() },
        };
        let creates = self.creates(&sync, &mut plan);
        let is_stuck = has_stuck(lister);
        let (late, deleted): (Vec<_>, Vec<_>) = std::mem::take(&mut plan.deleted)
            .into_iter()
            .partition(|pod| is_stuck && plan.uncounted && pod.is_tracked());
        plan.deleted = deleted;
        // Once they have lost it, the next run deletes them.
        plan.is_partial |= !late.is_empty();
        let is_careful = has_failed(lister);
        let counts = if is_careful { seen } else { plan.predict(seen) };
        let mut conditions = job.status.conditions.clone();
        let mut suspended = None;
        if sync.end.is_some() {
            // As long as a Pod may be left, the Job has not ended.
            plan.is_partial |= is_careful && !plan.is_empty();
            if plan.is_partial {
                sync.end = None;
            }
        } else {
            sync.end = end::completion(&sync, counts.active);
            if sync.end.is_none() && is_managed && end::suspend(&mut conditions, job.is_suspended(), sync.now) {
                suspended = Some(job.is_suspended());
            }
        }
        match suspended {
            Some(true) if clears_start_time => sync.start_time = None,
            // The deadline counts from here.
            Some(false) => sync.start_time = Some(sync.now),
            _ => {}
        }
        let mut accounts = accounting::next(&sync, counts);
        if suspended.is_some() {
            accounts.status.conditions = conditions;
        }

        let mut outcome = labelled(Outcome::new(), job, plan.action);
        outcome = metrics::not_created(outcome, &sync, lister, seen.terminating);
        let (pods_first, pods_last) = if is_careful { (None, Some(creates)) } else { (Some(creates), None) };
        if let Some(creates) = pods_first {
            outcome = self.pods(outcome, &sync, &plan, creates, seen);
        }
        if accounting::has_changed(&job.status, &accounts.status) {
            outcome = self.status(outcome, &sync, &accounts, suspended);
            if job.spec.backoff_limit_per_index.is_none()
                && !(sync.new_failed.is_empty() && sync.new_succeeded.is_empty())
            {
                outcome = self.record.keep(outcome, job, before, sync.failures, &sync.new_failed);
            }
        }
        // The status that names a Pod was written before the removal of its finalizer failed.
        let (stuck, released): (Vec<_>, Vec<_>) =
            accounts.released.iter().copied().partition(|one| is_stuck && !one.is_new);
        outcome = release(outcome, &released, false);
        if let Some(creates) = pods_last {
            outcome = self.pods(outcome, &sync, &plan, creates, seen);
        }
        outcome.push(Step::parallel(late.into_iter().map(let_go)).always());
        outcome = release(outcome, &stuck, true);
        Ok(requeue(outcome, &sync, &plan, &accounts))
    }

    /// The Pods of a plan that one run can create.
    fn creates(&self, sync: &Sync<'_>, plan: &mut Plan<'_>) -> Vec<Mutation> {
        if plan.created.is_empty() {
            return Vec::new();
        }
        if sync.n_indexes.is_none() && self.job.spec.template.metadata.labels.is_empty() {
            log::error("spec.template.metadata.labels is empty: no Pods are created until it changes");
            plan.created.clear();
            return Vec::new();
        }
        let creates = template::create(sync, &plan.created);
        plan.is_partial = creates.len() < plan.created.len();
        plan.created.truncate(creates.len());
        creates
    }

    /// Creates and deletes Pods.
    fn pods(
        &self,
        mut outcome: Outcome,
        sync: &Sync<'_>,
        plan: &Plan<'_>,
        creates: Vec<Mutation>,
        seen: Counts,
    ) -> Outcome {
        let job = &self.job.metadata;
        if plan.uncounted {
            let tracked = plan.deleted.iter().filter(|pod| pod.is_tracked());
            outcome.push(Step::parallel(tracked.map(|pod| let_go(pod))));
        }
        outcome.push(Step::parallel(plan.deleted.iter().map(|pod| pods::delete(&Job::KIND, job, &pod.metadata))));
        if creates.is_empty() {
            return outcome;
        }
        metrics::created(outcome.step(Step::slow_start(creates)), sync, seen.terminating)
    }

    /// Writes the status, and reports what it says.
    fn status(&self, outcome: Outcome, sync: &Sync<'_>, accounts: &Accounts<'_>, suspended: Option<bool>) -> Outcome {
        let (job, meta) = (self.job, &self.job.metadata);
        let mut writes = vec![status::update(self.document.clone(), &accounts.status)];
        match suspended {
            Some(true) => writes.push(Event::normal(&Job::KIND, meta, "Suspended", "Job suspended").into()),
            Some(false) => writes.push(Event::normal(&Job::KIND, meta, "Resumed", "Job resumed").into()),
            None => {}
        }
        let ended = sync.end.as_ref().filter(|_| accounts.is_finished);
        if let Some(end) = ended {
            if end.succeeds && end::has_too_many(job, accounts.status.succeeded) {
                let message = "Too many succeeded pods running after completion count reached";
                writes.push(Event::warning(&Job::KIND, meta, "TooManySucceededPods", message).into());
            }
            writes.push(if end.succeeds {
                Event::normal(&Job::KIND, meta, "Completed", "Job completed").into()
            } else {
                Event::warning(&Job::KIND, meta, &end.reason, &end.message).into()
            });
        }
        let outcome = outcome.step(Step::sequential(writes));
        let Some(at) = outcome.last_place().map(|place| pintle_sdk::Place { position: 0, ..place }) else {
            return outcome;
        };
        let outcome = metrics::status(outcome, at, sync, accounts);
        match ended {
            Some(end) => metrics::job_finished(outcome, at, job, end),
            None => outcome,
        }
    }
}

/// Whether the previous run could not create or delete a Pod.
fn has_failed(lister: &impl Lister) -> bool {
    let of_pods = |verb: &str| verb == "create" || verb == "delete";
    lister.failures().iter().any(|failure| of_pods(&failure.verb) && failure.kind.as_ref() == Some(&Pod::KIND))
}

/// Whether the previous run could not remove the finalizer of a Pod. There may be more of them than the host remembers.
fn has_stuck(lister: &impl Lister) -> bool {
    lister.failures().iter().any(|failure| failure.verb == "patch" && failure.kind.as_ref() == Some(&Pod::KIND))
}

/// Removes finalizers.
fn release(mut outcome: Outcome, released: &[Released<'_>], always: bool) -> Outcome {
    if released.is_empty() {
        return outcome;
    }
    outcome.push(Step { always, ..Step::parallel(released.iter().map(|one| let_go(one.pod))) });
    let step = outcome.last_place().map_or(0, |place| place.step);
    metrics::released(outcome, step, released)
}

/// When to run again, whatever happens until then.
fn requeue(mut outcome: Outcome, sync: &Sync<'_>, plan: &Plan<'_>, accounts: &Accounts<'_>) -> Outcome {
    // The next phase of the Pods, or of the end.
    let is_ending = sync.end.as_ref().is_some_and(|end| !end.is_stored);
    if !accounts.released.is_empty() || is_ending || plan.is_partial {
        outcome = outcome.requeue_after(AT_ONCE);
    }
    if let Some(wait) = plan.wait {
        outcome = outcome.requeue_after(wait);
    }
    if sync.end.is_none()
        && let Some(left) = end::until_deadline(sync)
    {
        outcome = outcome.requeue_after(left.max(AT_ONCE));
    }
    outcome
}
