//! The writes of one run of a Job, with their metrics.
//!
//! The steps are Pods, status, finalizers. The status has the counts expected after all Pod writes, so it is written
//! only if all of them succeed. After a failed Pod write the counts are those of the caches, and the Pod writes come
//! last: a quota that blocks new Pods does not block counting. After a failed finalizer removal, pending
//! removals come last, so that nothing waits for them.

use pintle_sdk::document::Document;
use pintle_sdk::{Event, Lister, Mutation, Outcome, Place, Resource, Step};
use plugin_lib::batch::SOON;
use plugin_lib::pods;

use crate::backoff::{Failures, StoredRecord};
use crate::claim::let_go;
use crate::context::{Context, Counts};
use crate::end;
use crate::manage::Decision;
use crate::metrics;
use crate::status;
use crate::tracking::{self, Accounts, Released};
use crate::types::{Job, Pod};

/// The inputs of an outcome.
pub(crate) struct Writes<'a> {
    /// The inputs of the run.
    pub(crate) context: &'a Context<'a>,
    /// Pods to create and delete.
    pub(crate) decision: Decision<'a>,
    /// Pods to create.
    pub(crate) creates: Vec<Mutation>,
    /// Pods whose finalizers are removed last; the next run deletes them.
    pub(crate) late: Vec<&'a Pod>,
    /// The status, and the Pods whose finalizers are removed after it.
    pub(crate) accounts: Accounts<'a>,
    /// Whether the Job is suspended or resumed.
    pub(crate) suspended: Option<bool>,
    /// Pod counts in the cache.
    pub(crate) seen: Counts,
    /// Whether Pod writes come last.
    pub(crate) is_careful: bool,
    /// Whether finalizers of Pods that the status already lists come last.
    pub(crate) is_stuck: bool,
}

/// Labels for the metrics of runs.
pub(crate) fn labelled(outcome: Outcome, job: &Job, action: &str) -> Outcome {
    outcome.run_label("completion_mode", metrics::mode(job)).run_label("action", action)
}

impl Writes<'_> {
    /// The outcome. `before` are the failures included in the stored status.
    #[doc(alias = "flushUncountedAndRemoveFinalizers")]
    pub(crate) fn outcome(
        mut self,
        lister: &impl Lister,
        document: Document,
        record: &StoredRecord,
        before: Failures,
    ) -> Outcome {
        let (context, job) = (self.context, self.context.job);
        let mut outcome = labelled(Outcome::new(), job, self.decision.action);
        outcome = metrics::not_created(outcome, context, lister, self.seen.terminating);
        if !self.is_careful {
            outcome = self.pods(outcome);
        }
        if tracking::has_changed(&job.status, &self.accounts.status) {
            outcome = self.status(outcome, document);
            let (succeeded, failed) = (&context.new_succeeded, &context.new_failed);
            if job.spec.backoff_limit_per_index.is_none() && !(failed.is_empty() && succeeded.is_empty()) {
                outcome = record.keep(outcome, job, before, context.failures, failed);
            }
        }
        // The status with these Pods was written before the removal of their finalizers failed.
        let (stuck, released): (Vec<_>, Vec<_>) =
            self.accounts.released.iter().copied().partition(|one| self.is_stuck && !one.is_new);
        outcome = release(outcome, &released, false);
        if self.is_careful {
            outcome = self.pods(outcome);
        }
        outcome.push(Step::parallel(self.late.iter().map(|pod| let_go(pod))).always());
        outcome = release(outcome, &stuck, true);
        self.requeue(outcome)
    }

    /// Creates and deletes Pods.
    #[doc(alias = "deleteJobPods")]
    fn pods(&mut self, mut outcome: Outcome) -> Outcome {
        let (job, deleted) = (&self.context.job.metadata, &self.decision.deleted);
        if self.decision.uncounted {
            let tracked = deleted.iter().filter(|pod| pod.is_tracked());
            outcome.push(Step::parallel(tracked.map(|pod| let_go(pod))));
        }
        outcome.push(Step::parallel(deleted.iter().map(|pod| pods::delete(&Job::KIND, job, &pod.metadata))));
        if self.creates.is_empty() {
            return outcome;
        }
        outcome.push(Step::slow_start(std::mem::take(&mut self.creates)));
        metrics::created(outcome, self.context, self.seen.terminating)
    }

    /// Writes the status, and the events for it.
    #[doc(alias = "recordJobFinished")]
    fn status(&self, outcome: Outcome, document: Document) -> Outcome {
        let (context, job, accounts) = (self.context, self.context.job, &self.accounts);
        let meta = &job.metadata;
        let mut writes = vec![status::update(document, &accounts.status)];
        match self.suspended {
            Some(true) => writes.push(Event::normal(&Job::KIND, meta, "Suspended", "Job suspended").into()),
            Some(false) => writes.push(Event::normal(&Job::KIND, meta, "Resumed", "Job resumed").into()),
            None => {}
        }
        let ended = context.end.as_ref().filter(|_| accounts.is_finished);
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
        let Some(at) = outcome.last_place().map(|place| Place { position: 0, ..place }) else {
            return outcome;
        };
        let outcome = metrics::status(outcome, at, context, accounts);
        match ended {
            Some(end) => metrics::job_finished(outcome, at, job, end),
            None => outcome,
        }
    }

    /// Schedules the next run.
    fn requeue(&self, mut outcome: Outcome) -> Outcome {
        let end = self.context.end.as_ref();
        // The next phase of the Pods, or of the Job's end.
        let is_ending = end.is_some_and(|end| !end.is_stored);
        if !self.accounts.released.is_empty() || is_ending || self.decision.is_partial {
            outcome = outcome.requeue_after(SOON);
        }
        if let Some(wait) = self.decision.wait {
            outcome = outcome.requeue_after(wait);
        }
        match end::until_deadline(self.context).filter(|_| end.is_none()) {
            Some(left) => outcome.requeue_after(left.max(SOON)),
            None => outcome,
        }
    }
}

/// Removes finalizers.
#[doc(alias = "removeTrackingFinalizerFromPods")]
fn release(mut outcome: Outcome, released: &[Released<'_>], always: bool) -> Outcome {
    if released.is_empty() {
        return outcome;
    }
    outcome.push(Step { always, ..Step::parallel(released.iter().map(|one| let_go(one.pod))) });
    let step = outcome.last_place().map_or(0, |place| place.step);
    metrics::released(outcome, step, released)
}
