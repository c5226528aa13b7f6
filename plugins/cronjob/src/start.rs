//! Whether a Job is started, and what goes before it.
//!
//! *Source*: the second half of `syncCronJob`. `MissSchedule` is not here: upstream looks back no further than the deadline, so that
//! what is due is never too late.

use std::collections::HashMap;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Lister, Mutation, ObjectKey, Propagation, Refusal, Resource};
use plugin_lib::cron::is_zone;

use crate::Job;
use crate::jobs;
use crate::memory::Created;
use crate::observe::Observed;
use crate::schedule::{Missed, Times, UNSOUND, zone_error};
use crate::view::{CronJob, View, text};

/// What is wanted.
#[derive(Default)]
pub(crate) struct Start {
    /// Jobs that make room.
    pub(crate) replaced: Vec<Mutation>,
    pub(crate) create: Option<(Mutation, Created)>,
    /// When to look again.
    pub(crate) next: Option<Timestamp>,
}

/// A new schedule waits for its next time.
///
/// *Source*: `updateCronJob`.
pub(crate) fn reschedule(view: &View, now: Timestamp, observed: &mut Observed) -> Start {
    match Times::new(&view.object, &view.status, now) {
        Ok(times) => Start { next: times.next(), ..Start::default() },
        Err(_) => {
            let message = format!("unparseable schedule for cronjob: {}", view.object.spec.schedule);
            observed.warning(view, "UnParseableCronJobSchedule", message);
            Start::default()
        }
    }
}

/// Decides about the time that is due.
///
/// # Errors
/// If a Job that must go is not in the cache yet.
pub(crate) fn start(
    view: &mut View,
    now: Timestamp,
    observed: &mut Observed,
    children: &[Job],
    lister: &impl Lister,
) -> Result<Start, Error> {
    let spec = &view.object.spec;
    if let Some(zone) = spec.time_zone.as_deref().filter(|zone| !is_zone(zone)) {
        let message = format!("invalid timeZone: {zone:?}: {}", zone_error(zone));
        observed.warning(view, "UnknownTimeZone", message);
        return Ok(Start::default());
    }
    if spec.suspend == Some(true) {
        return Ok(Start::default());
    }
    if spec.schedule.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
            spec.schedule
        );
        observed.warning(view, "UnsupportedSchedule", message);
    }
    let times = match Times::new(&view.object, &view.status, now) {
        Ok(times) => times,
        Err(error) => {
            let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
            observed.warning(view, "UnparseableSchedule", message);
            return Ok(Start::default());
        }
    };
    let Ok(due) = times.due() else {
        let message = format!("invalid schedule: {} : {UNSOUND}", spec.schedule);
        observed.warning(view, "InvalidSchedule", message);
        return Ok(Start::default());
    };
    let later = Start { next: times.next(), ..Start::default() };
    let Some((time, missed)) = due else { return Ok(later) };
    if missed == Missed::Many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        observed.warning(view, "TooManyMissedTimes", message.to_owned());
    }
    let name = jobs::name(&view.object.metadata.name, time);
    // The name is the lock, whatever object has it.
    let object = ObjectKey::new(&view.object.metadata.namespace, &name);
    let is_taken = view.has_active_name(&name) || lister.get_json(&Job::KIND, &object).is_some();
    if is_taken || view.status.last_schedule_time == Some(time) {
        return Ok(later);
    }
    if spec.concurrency_policy == "Forbid" && !view.status.active.is_empty() {
        let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
        observed.normal(view, "JobAlreadyActive", message.to_owned());
        return Ok(later);
    }
    let replaced = if spec.concurrency_policy == "Replace" { replace(view, observed, children)? } else { Vec::new() };
    let create = create(view, time, &name);
    let next = times.after(time).next();
    Ok(Start { replaced, create: Some((create, Created { name, time, step: 0, seen: false })), next })
}

/// Deletes what still runs. Jobs that the CronJob does not control are only left out of the status.
fn replace(view: &mut View, observed: &Observed, children: &[Job]) -> Result<Vec<Mutation>, Error> {
    let by_uid: HashMap<&str, &Job> = children.iter().map(|job| (job.metadata.uid.as_str(), job)).collect();
    let mut deletions = Vec::new();
    for reference in view.take_active() {
        let uid = text(&reference, "uid");
        if let Some(job) = by_uid.get(uid) {
            deletions.push(delete(&view.object, job));
        } else if observed.unseen.iter().any(|unseen| unseen == uid) {
            return Err(Error::retry(format!("the cache does not have the Job {} yet", text(&reference, "name"))));
        }
    }
    Ok(deletions)
}

/// Deletes a Job and its Pods.
///
/// *Source*: `deleteJob`.
pub(crate) fn delete(cron_job: &CronJob, job: &Job) -> Mutation {
    let (about, name) = (&cron_job.metadata, &job.metadata.name);
    Mutation::delete(&Job::KIND, &job.metadata.namespace, name)
        .uid(&job.metadata.uid)
        .propagation(Propagation::Background)
        .on_success(Event::normal(&CronJob::KIND, about, "SuccessfulDelete", format!("Deleted job {name}")))
        .on_failure(Event::warning(&CronJob::KIND, about, "FailedDelete", "Deleted job: {error}"))
}

fn create(view: &View, time: Timestamp, name: &str) -> Mutation {
    let about = &view.object.metadata;
    Mutation::create(&Job::KIND, &about.namespace, jobs::new(view, time))
        .on_success(Event::normal(&CronJob::KIND, about, "SuccessfulCreate", format!("Created job {name}")))
        .on_failure(Event::warning(&CronJob::KIND, about, "FailedCreate", "Error creating job: {error}"))
        // The next run looks whose it is. In a namespace that is being deleted, nothing can be created.
        .tolerate([Refusal::AlreadyExists, Refusal::NamespaceTerminating])
}
