//! Changes of the Jobs since the last run: new, finished, missing and unexpected ones.
//!
//! *Source*: the first half of `syncCronJob`.

use std::collections::BTreeSet;

use pintle_sdk::api::meta::HasController;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, Need, Resource};

use crate::context::{Context, text};
use crate::jobs::{self, End};
use crate::memory::Created;
use crate::schedule::Times;
use crate::types::{CronJob, Job};

/// Most events about Jobs in one run: event recorders drop more than that.
const MOST_UNEXPECTED: usize = 100;

/// Most Jobs that one run reads from the API server, which the contract limits; the next run reads the rest.
const MOST_ASKED: usize = 200;

/// Result of an observation.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) events: Vec<Mutation>,
    /// Uids of the CronJob's Jobs that the API server has and the cache lacks.
    pub(crate) unseen: Vec<String>,
    /// Uid of the created Job if an earlier run has seen it, and could not add it to the status.
    unlisted: Option<String>,
    /// Delay between the scheduled time and the creation of a Job, in seconds.
    pub(crate) skew: Option<f64>,
}

impl Observed {
    pub(crate) fn normal(&mut self, context: &Context, reason: &str, message: String) {
        self.events.push(Event::normal(&CronJob::KIND, &context.object.metadata, reason, message).into());
    }

    pub(crate) fn warning(&mut self, context: &Context, reason: &str, message: String) {
        self.events.push(Event::warning(&CronJob::KIND, &context.object.metadata, reason, message).into());
    }
}

/// The scheduled time of a Job that the CronJob created and its status lacks: the last run has created it, or the
/// status update was lost in a crash. Then its name is that of the due time, or of a time since the last one of the
/// status.
fn time_of_new(
    context: &Context,
    job: &Job,
    created: Option<&Created>,
    due: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let name = &job.metadata.name;
    let is_of = |time: &Timestamp| jobs::name(&context.object.metadata.name, *time) == *name;
    let is_since = |time: &Timestamp| Some(*time) > context.status.last_schedule_time && *time <= now;
    created
        .filter(|created| created.name == *name)
        .map(|created| created.time)
        .or_else(|| due.filter(is_of))
        .or_else(|| jobs::scheduled(job).filter(|time| End::of(job).is_none() && is_of(time) && is_since(time)))
}

/// Updates the status from the Jobs.
///
/// # Errors
/// If a live read is needed first, or fails.
#[doc(alias = "syncCronJob")]
pub(crate) fn observe(
    context: &mut Context,
    jobs: &[Job],
    created: &mut Option<Created>,
    key: &Key,
    lister: &impl Lister,
) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    let now = lister.now()?;
    let due = Times::new(&context.object, &context.status, now).ok().and_then(|times| times.due().ok()?);
    let due = due.map(|(time, _)| time);
    let time_of = |context: &Context, job: &Job| time_of_new(context, job, created.as_ref(), due, now);
    let is_own = |job: &Job| created.as_ref().is_some_and(|created| created.name == job.metadata.name);
    let is_unlisted = |context: &Context, job: &&Job| {
        !context.has_active(&job.metadata.uid) && End::of(job).is_none() && !is_own(job)
    };
    if jobs.iter().any(|job| is_unlisted(context, &job)) {
        // The cache may be stale.
        let live = Context::live(key, lister)?.filter(|live| live.object.metadata.uid == context.object.metadata.uid);
        let Some(live) = live else {
            return Err(Error::retry("the CronJob is gone, but the cache still has its Jobs"));
        };
        if jobs.iter().any(|job| is_unlisted(context, &job) && live.has_active(&job.metadata.uid)) {
            *context = live;
        }
        let unexpected = jobs.iter().filter(|job| is_unlisted(context, job) && time_of(context, job).is_none());
        for job in unexpected.take(MOST_UNEXPECTED) {
            let name = &job.metadata.name;
            let message = format!("Saw a job that the controller did not create or forgot: {name}");
            observed.warning(context, "UnexpectedJob", message);
        }
    }
    let new: Vec<_> = jobs
        .iter()
        .filter(|job| !context.has_active(&job.metadata.uid))
        .filter_map(|job| Some((job, time_of(context, job)?)))
        .collect();
    for (job, time) in new {
        context.add_active(job, time);
        let name = &job.metadata.name;
        match created.as_mut().filter(|created| created.name == *name) {
            Some(created) if !created.seen => {
                observed.skew = job.metadata.creation_timestamp.map(|at| seconds_after(at, time));
                created.seen = true;
            }
            Some(_) => observed.unlisted = Some(job.metadata.uid.clone()),
            None => *created = Some(Created { name: name.clone(), time, step: 0, seen: true }),
        }
    }
    if let Some(created) = created.as_ref().filter(|created| created.seen) {
        // Even if the Job has been deleted since.
        context.set_scheduled(created.time);
    }
    missing(context, jobs, created, &mut observed, lister)?;
    Ok(observed)
}

fn seconds_after(later: Timestamp, earlier: Timestamp) -> f64 {
    if later < earlier { -earlier.since(later).as_secs_f64() } else { later.since(earlier).as_secs_f64() }
}

/// Records finished Jobs. Those that this run deletes are no longer in the status. As upstream, no event reports a Job
/// that the status has never listed, unless this run is the first that sees it: each retry would repeat the event.
pub(crate) fn finished(context: &mut Context, jobs: &[Job], observed: &mut Observed) {
    let mut noted = BTreeSet::new();
    for job in jobs {
        let Some(end) = End::of(job) else { continue };
        let (uid, name) = (&job.metadata.uid, &job.metadata.name);
        if context.has_active(uid) {
            noted.insert(uid.as_str());
            if observed.unlisted.as_ref() != Some(uid) {
                let end = end.as_str();
                observed.normal(context, "SawCompletedJob", format!("Saw completed job: {name}, condition: {end}"));
            }
        }
        if end == End::Complete {
            let last = &mut context.status.last_successful_time;
            *last = (*last).max(job.status.completion_time);
        }
    }
    context.remove_active(&noted);
}

/// Whether an object can have this name: the status may contain any text.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
}

/// Removes Jobs from the status that neither the cache nor the API server has.
fn missing(
    context: &mut Context,
    jobs: &[Job],
    created: &mut Option<Created>,
    observed: &mut Observed,
    lister: &impl Lister,
) -> Result<(), Error> {
    let (namespace, owner) = (context.object.metadata.namespace.clone(), context.object.metadata.uid.clone());
    let is_controlled = |job: &Job| job.metadata.controller_uid() == Some(owner.as_str());
    let seen: BTreeSet<&str> = jobs.iter().map(|job| job.metadata.uid.as_str()).collect();
    // Name and uid; the uid of a Job that was just created is unknown.
    let mut sought: Vec<(String, Option<String>)> = Vec::new();
    for reference in &context.status.active {
        let (name, uid) = (text(reference, "name"), text(reference, "uid"));
        if !seen.contains(uid) && sought.len() < MOST_ASKED {
            sought.push((name.to_owned(), Some(uid.to_owned())));
        }
    }
    sought.extend(created.iter().filter(|created| !created.seen).map(|created| (created.name.clone(), None)));
    let need = |name: &str| Need::live_object(&Job::KIND, &namespace, name);
    let needs: Vec<Need> =
        sought.iter().map(|(name, _)| name).filter(|name| is_name(name)).map(|name| need(name)).collect();
    let unanswered: Vec<Need> = needs.into_iter().filter(|need| lister.answer(need).is_none()).collect();
    if !unanswered.is_empty() {
        return Err(Error::Needs(unanswered));
    }
    let mut gone = BTreeSet::new();
    for (name, uid) in &sought {
        let job: Option<Job> = if is_name(name) { lister.live(&namespace, name)? } else { None };
        let job = job.filter(|job| uid.as_ref().is_none_or(|uid| *uid == job.metadata.uid));
        match (job, uid, created.as_mut()) {
            (Some(job), Some(_), _) => {
                if is_controlled(&job) {
                    observed.unseen.push(job.metadata.uid);
                }
            }
            (None, Some(uid), _) => {
                gone.insert(uid.as_str());
                observed.normal(context, "MissingJob", format!("Active job went missing: {name}"));
            }
            (Some(job), None, Some(new)) => {
                // A Job of another owner has the name.
                if !is_controlled(&job) {
                    *created = None;
                } else if !context.has_active(&job.metadata.uid) {
                    context.add_active(&job, new.time);
                    observed.unseen.push(job.metadata.uid);
                }
            }
            (None, None, Some(new)) => {
                new.seen = true;
                context.set_scheduled(new.time);
                observed.normal(context, "MissingJob", format!("Active job went missing: {name}"));
            }
            (_, None, None) => {}
        }
    }
    context.remove_active(&gone);
    Ok(())
}
