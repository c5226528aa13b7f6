//! Decides whether to start a Job, and which writes come before it.
//!
//! *Source*: the second half of `syncCronJob`. `MissSchedule` is left out: upstream looks back no further than the
//! deadline, so that a due time is never too late.

use std::collections::BTreeMap;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Lister, Mutation, ObjectKey, Propagation, Refusal, Resource};
use plugin_lib::cron::is_zone;

use crate::context::{Context, text};
use crate::jobs;
use crate::memory::Created;
use crate::observe::Observed;
use crate::schedule::{Missed, Times, UNSOUND, zone_error};
use crate::types::{CronJob, Job};

/// Changes of a run.
#[derive(Default)]
pub(crate) struct Decision {
    /// Deletes of Jobs that are replaced.
    pub(crate) replaced: Vec<Mutation>,
    pub(crate) create: Option<(Mutation, Created)>,
    /// Time of the next run.
    pub(crate) next: Option<Timestamp>,
}

/// A new schedule waits for its next time.
#[doc(alias = "updateCronJob")]
pub(crate) fn reschedule(context: &Context, now: Timestamp, observed: &mut Observed) -> Decision {
    match Times::new(&context.object, &context.status, now) {
        Ok(times) => Decision { next: times.next(), ..Decision::default() },
        Err(_) => {
            let message = format!("unparseable schedule for cronjob: {}", context.object.spec.schedule);
            observed.warning(context, "UnParseableCronJobSchedule", message);
            Decision::default()
        }
    }
}

/// Decides on the due time.
///
/// # Errors
/// If a Job to delete is not in the cache yet.
#[doc(alias = "syncCronJob")]
pub(crate) fn start(
    context: &mut Context,
    now: Timestamp,
    observed: &mut Observed,
    children: &[Job],
    lister: &impl Lister,
) -> Result<Decision, Error> {
    let spec = &context.object.spec;
    if let Some(zone) = spec.time_zone.as_deref().filter(|zone| !is_zone(zone)) {
        let message = format!("invalid timeZone: {zone:?}: {}", zone_error(zone));
        observed.warning(context, "UnknownTimeZone", message);
        return Ok(Decision::default());
    }
    if spec.suspend == Some(true) {
        return Ok(Decision::default());
    }
    if spec.schedule.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
            spec.schedule
        );
        observed.warning(context, "UnsupportedSchedule", message);
    }
    let times = match Times::new(&context.object, &context.status, now) {
        Ok(times) => times,
        Err(error) => {
            let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
            observed.warning(context, "UnparseableSchedule", message);
            return Ok(Decision::default());
        }
    };
    let Ok(due) = times.due() else {
        let message = format!("invalid schedule: {} : {UNSOUND}", spec.schedule);
        observed.warning(context, "InvalidSchedule", message);
        return Ok(Decision::default());
    };
    let later = Decision { next: times.next(), ..Decision::default() };
    let Some((time, missed)) = due else { return Ok(later) };
    if missed == Missed::Many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        observed.warning(context, "TooManyMissedTimes", message.to_owned());
    }
    let name = jobs::name(&context.object.metadata.name, time);
    // The name is the lock, whatever object has it.
    let object = ObjectKey::new(&context.object.metadata.namespace, &name);
    let is_taken = context.has_active_name(&name) || lister.get_json(&Job::KIND, &object).is_some();
    if is_taken || context.status.last_schedule_time == Some(time) {
        return Ok(later);
    }
    if spec.concurrency_policy == "Forbid" && !context.status.active.is_empty() {
        let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
        observed.normal(context, "JobAlreadyActive", message.to_owned());
        return Ok(later);
    }
    let replaced =
        if spec.concurrency_policy == "Replace" { replace(context, observed, children)? } else { Vec::new() };
    let create = create(context, time, &name);
    let next = times.after(time).next();
    Ok(Decision { replaced, create: Some((create, Created { name, time, step: 0, seen: false })), next })
}

/// Deletes running Jobs. Jobs that the CronJob does not control are only removed from the status.
fn replace(context: &mut Context, observed: &Observed, children: &[Job]) -> Result<Vec<Mutation>, Error> {
    let by_uid: BTreeMap<&str, &Job> = children.iter().map(|job| (job.metadata.uid.as_str(), job)).collect();
    let mut deletions = Vec::new();
    for reference in context.take_active() {
        let uid = text(&reference, "uid");
        if let Some(job) = by_uid.get(uid) {
            deletions.push(delete(&context.object, job));
        } else if observed.unseen.iter().any(|unseen| unseen == uid) {
            return Err(Error::retry(format!("the cache does not have the Job {} yet", text(&reference, "name"))));
        }
    }
    Ok(deletions)
}

/// Deletes a Job and its Pods.
#[doc(alias = "deleteJob")]
pub(crate) fn delete(cron_job: &CronJob, job: &Job) -> Mutation {
    let (about, name) = (&cron_job.metadata, &job.metadata.name);
    Mutation::delete(&Job::KIND, &job.metadata.namespace, name)
        .uid(&job.metadata.uid)
        .propagation(Propagation::Background)
        .on_success(Event::normal(&CronJob::KIND, about, "SuccessfulDelete", format!("Deleted job {name}")))
        .on_failure(Event::warning(&CronJob::KIND, about, "FailedDelete", "Deleted job: {error}"))
}

#[doc(alias = "CreateJob")]
fn create(context: &Context, time: Timestamp, name: &str) -> Mutation {
    let about = &context.object.metadata;
    Mutation::create(&Job::KIND, &about.namespace, jobs::new(context, time))
        .on_success(Event::normal(&CronJob::KIND, about, "SuccessfulCreate", format!("Created job {name}")))
        .on_failure(Event::warning(&CronJob::KIND, about, "FailedCreate", "Error creating job: {error}"))
        // The next run checks who owns it. In a namespace that is being deleted, nothing can be created.
        .tolerate([Refusal::AlreadyExists, Refusal::NamespaceTerminating])
}
