//! Creates Jobs at the times of a schedule, and keeps a history of those that have finished.
//!
//! *Flow*: key of a CronJob -> its Jobs -> [`observe`]: which are new, finished, missing -> history -> [`start`]: is a time due, and may
//! a Job start? -> deletions, status, Job.
//!
//! *Invariants*
//! 1. A time has at most one Job: its name is the lock, and a Job that was created is in the status or in the [`memory`].
//! 2. A run that creates a Job does not name it in the status, because only the next run sees its uid.
//!
//! *Source*: Kubernetes' `pkg/controller/cronjob`. Of the 74 rows of `TestControllerV2SyncCronJob` (`cronjob_controllerv2_test.go`), 73
//! are cases, named after the test and the number of the row. So are all rows of `TestControllerV2UpdateCronJob` (6),
//! `TestControllerV2GetJobsToBeReconciled` (4), `TestControllerV2CleanupFinishedJobs` (2), `TestControllerV2JobAlreadyExists*` (2) and, of
//! `utils_test.go`, `TestGetJobFromTemplate2` (3), `TestNextScheduleTime` (8) and `TestByJobStartTime` (5). All 13 rows of
//! `TestMostRecentScheduleTime` and 4 of `TestNextScheduleTimeDuration` are unit tests of [`schedule`]. The row that is left out lets the
//! read of a Job fail which is replaced: here, the cache has this Job.
//!
//! *Not as upstream*
//! - The status is written before a Job is created, and once more when the Job is in the cache.
//! - A Job whose status update was lost in a crash is found by its name, and is not unexpected.
//! - Only Jobs that the CronJob controls by its uid are its Jobs, and only these are replaced. Upstream compares names.
//! - If another object has the name of a Job, the controller waits for the next time. Upstream looks for that Job without a namespace,
//!   which fails, and tries to create it again and again; so it uses a new schedule at once.
//! - What is wrong with a schedule is described in other words. The API server accepts no such schedule.

mod jobs;
mod memory;
mod observe;
mod schedule;
mod start;
mod view;

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Step};

use memory::{Created, Memory};
use start::Start;
use view::View;

pintle_sdk::types!("manifest.yaml", "batch/v1/CronJob" = _);

const SKEW: &str = "cronjob_controller_job_creation_skew_duration_seconds";

/// Deletions of one run, which the limit of mutations allows together with the events; the rest follows in the next one.
const MOST_DELETIONS: usize = 1_000;

/// Says what becomes of a CronJob and its Jobs.
///
/// # Errors
/// If the API server must be asked about Jobs first, if that fails, or if an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let now = lister.now()?;
    let memory = Memory::read(key, lister)?;
    let Some(mut view) = View::cached(key, lister)? else { return Ok(memory.forget()) };
    let children: Vec<Job> = lister.list(&Query::namespace(&key.namespace).controlled_by(&view.object.metadata.uid))?;
    let mut created = memory.created(&view, lister);
    let is_rescheduled = memory.is_rescheduled(&view);

    let mut observed = observe::observe(&mut view, &children, &mut created, key, lister)?;
    // A Job that could not be deleted stays until something else causes a run, as upstream.
    let failures = lister.failures();
    let is_refused = |job: &&Job| {
        failures.iter().any(|failure| failure.verb == "delete" && failure.object.name == job.metadata.name)
    };
    let surplus = jobs::surplus(&view.object, &children).into_iter().filter(|job| !is_refused(job));
    let surplus: Vec<&Job> = surplus.take(MOST_DELETIONS).collect();
    let was_active = surplus.iter().any(|job| view.has_active(&job.metadata.uid));
    view.remove_active(&surplus.iter().map(|job| job.metadata.uid.as_str()).collect());
    let history: Vec<_> = surplus.into_iter().map(|job| start::delete(&view.object, job)).collect();
    observe::finished(&mut view, &children, &mut observed);
    let start = if view.object.metadata.is_deleting() {
        Start::default()
    } else if is_rescheduled && view.object.spec.suspend != Some(true) {
        start::reschedule(&view, now, &mut observed)
    } else {
        start::start(&mut view, now, &mut observed, &children, lister)?
    };

    let mut outcome = Outcome::new().step(Step::sequential(observed.events));
    for deletion in history {
        outcome.push(Step::sequential([deletion]).always());
    }
    outcome.push(Step::sequential(start.replaced.iter().cloned()));
    let status = Step::sequential(view.update());
    // A Job that could not be deleted stays in the status: the next run notes its end, or replaces it.
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
    Ok(memory.keep(&view, created, outcome))
}

pintle_sdk::export!(reconcile);
