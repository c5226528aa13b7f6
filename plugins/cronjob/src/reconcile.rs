//! The Jobs of one CronJob.

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource, Step};
use plugin_lib::failures::Failures as _;

use crate::context::Context;
use crate::memory::{Created, Memory};
use crate::start::Decision;
use crate::types::Job;
use crate::{jobs, observe, start};

#[doc(alias = "CronJobCreationSkew")]
const SKEW: &str = "cronjob_controller_job_creation_skew_duration_seconds";

/// Computes the changes for one CronJob and its Jobs.
///
/// # Errors
/// If live reads of Jobs are needed first or fail, or an object does not fit its type.
#[doc(alias = "sync")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let now = lister.now()?;
    let memory = Memory::read(key, lister);
    let Some(mut context) = Context::cached(key, lister)? else { return Ok(memory.forget()) };
    let children: Vec<Job> =
        lister.list(&Query::namespace(&key.namespace).controlled_by(&context.object.metadata.uid))?;
    let mut created = memory.created(&context, lister);
    let is_rescheduled = memory.is_rescheduled(&context);

    let mut observed = observe::observe(&mut context, &children, &mut created, key, lister)?;
    // A Job whose delete failed stays until something else causes a run, as upstream.
    let failures = lister.failures();
    let is_refused =
        |job: &&Job| failures.of("delete", &Job::KIND).any(|failure| failure.object.name == job.metadata.name);
    let surplus = jobs::surplus(&context.object, &children).into_iter().filter(|job| !is_refused(job));
    let surplus: Vec<&Job> = surplus.collect();
    let was_active = surplus.iter().any(|job| context.has_active(&job.metadata.uid));
    context.remove_active(&surplus.iter().map(|job| job.metadata.uid.as_str()).collect());
    let history: Vec<_> = surplus.into_iter().map(|job| start::delete(&context.object, job)).collect();
    observe::finished(&mut context, &children, &mut observed);
    let start = if context.object.metadata.is_deleting() {
        Decision::default()
    } else if is_rescheduled && context.object.spec.suspend != Some(true) {
        start::reschedule(&context, now, &mut observed)
    } else {
        start::start(&mut context, now, &mut observed, &children, lister)?
    };

    let mut outcome = Outcome::new().step(Step::sequential(observed.events));
    for deletion in history {
        outcome.push(Step::sequential([deletion]).always());
    }
    outcome.push(Step::sequential(start.replaced.iter().cloned()));
    let status = Step::sequential(context.update());
    // A Job whose delete failed stays in the status: the next run records its end, or replaces it.
    outcome.push(if start.replaced.is_empty() && !was_active { status.always() } else { status });
    if let Some((create, new)) = start.create {
        outcome.push(Step::sequential([create]));
        created = Some(Created { step: outcome.steps.len() - 1, ..new });
    }
    if let Some(skew) = observed.skew {
        outcome = outcome.observe(SKEW, Vec::new(), skew);
    }
    if let Some(next) = start.next {
        outcome = outcome.requeue_at(next, now);
    }
    Ok(memory.keep(&context, created, outcome))
}
