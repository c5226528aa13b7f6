//! The end of one Job.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Moment, Mutation, Outcome, Place, Propagation, Resource, Step, log};

use crate::types::Job;

#[doc(alias = "JobDeletionDurationSeconds")]
const METRIC: &str = "ttl_after_finished_controller_job_deletion_duration_seconds";

/// Computes whether a Job is deleted, or when to check again.
///
/// # Errors
/// If a live read is needed first or fails, or the Job's finish time is missing.
#[doc(alias = "processJob")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let now = lister.now()?;
    if let Due::No(outcome) = due(lister.get(&key.namespace, &key.name)?, now)? {
        return Ok(outcome);
    }
    // The TTL may have been raised since, or another Job may have the name.
    let (job, expired) = match due(lister.live(&key.namespace, &key.name)?, now)? {
        Due::No(outcome) => return Ok(outcome),
        Due::Since(expired, job) => (job, expired),
    };
    let delete = Mutation::delete(&Job::KIND, &key.namespace, &key.name)
        .uid(&job.metadata.uid)
        .propagation(Propagation::Foreground);
    let deleted = Moment::Done(Place { step: 0, position: 0 });
    let outcome = Outcome::new().step(Step::sequential([delete]));
    Ok(outcome.observe_at(deleted, METRIC, Vec::new(), now.since(expired).as_secs_f64()))
}

/// Whether the TTL of a Job has expired.
enum Due {
    /// It has not; this is the outcome.
    No(Outcome),
    /// It expired at this time.
    Since(Timestamp, Job),
}

#[doc(alias = "processTTL", alias = "timeLeft", alias = "getFinishAndExpireTime", alias = "needsCleanup")]
fn due(job: Option<Job>, now: Timestamp) -> Result<Due, Error> {
    let Some(job) = job.filter(|job| !job.metadata.is_deleting()) else { return Ok(Due::No(Outcome::new())) };
    let (Some(ttl), Some(finished)) = (job.spec.ttl_seconds_after_finished, finished(&job)?) else {
        return Ok(Due::No(Outcome::new()));
    };
    if finished > now {
        log::warn(
            "the Job finished in the future, probably because clocks in the cluster differ: its deletion is deferred",
        );
    }
    // The API server rejects a negative TTL.
    let expires = finished.plus(Duration::from_secs(ttl.try_into().unwrap_or_default()));
    Ok(if expires > now { Due::No(Outcome::new().requeue_at(expires, now)) } else { Due::Since(expires, job) })
}

/// When the Job finished; `None` if it has not.
#[doc(alias = "jobFinishTime")]
fn finished(job: &Job) -> Result<Option<Timestamp>, Error> {
    let ends = |kind: &str| kind == "Complete" || kind == "Failed";
    let end = job.status.conditions.iter().find(|condition| ends(&condition.type_) && condition.status == "True");
    let Some(end) = end else { return Ok(None) };
    let missing = || {
        let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
        Error::retry(format!("unable to find the time when the Job {namespace}/{name} finished"))
    };
    end.last_transition_time.ok_or_else(missing).map(Some)
}
