//! What is kept of a CronJob between two runs, which a restart of the host forgets.
//!
//! 1. The Job that was created last. The status names a Job with its uid, which only the next run sees: it knows by this that the Job
//!    is not one that somebody else has created, and that a Job which is gone already must not be created again.
//! 2. The schedule that was seen last, as a hash, and the last time: a new schedule waits for its next time, unless somebody has changed
//!    the last time, too.

use pintle_sdk::hash::fnv32a;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Key, Lister, Outcome};
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::types::CronJob;

/// A Job that was created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Created {
    pub(crate) name: String,
    /// The time that it is for.
    pub(crate) time: Timestamp,
    /// The step that was to create it.
    pub(crate) step: usize,
    /// Whether a run has seen the Job, or that it is gone.
    pub(crate) seen: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Values {
    schedule: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Created>,
}

/// What is kept of a CronJob.
pub(crate) struct Memory(ObjectRecord<Values>);

impl Memory {
    pub(crate) fn read(key: &Key, lister: &impl Lister) -> Self {
        Self(ObjectRecord::read(lister, format!("{}/{}", key.namespace, key.name)))
    }

    fn of(&self, cron_job: &CronJob) -> Option<&Values> {
        self.0.of_uid(&cron_job.metadata.uid)
    }

    /// The Job that was created last, until the status in the cache says so. If that step of the run or one before it has failed,
    /// the Job may not have been created.
    pub(crate) fn created(&self, context: &Context, lister: &impl Lister) -> Option<Created> {
        let created = self.of(&context.object)?.created.clone()?;
        let is_noted = context.status.last_schedule_time >= Some(created.time);
        let is_created = || lister.failures().iter().all(|failure| failure.step as usize > created.step);
        (!is_noted && (created.seen || is_created())).then_some(created)
    }

    /// Whether the schedule or its time zone has changed since the last run, and nothing else has that decides.
    pub(crate) fn is_rescheduled(&self, context: &Context) -> bool {
        let last = context.status.last_schedule_time;
        self.of(&context.object).is_some_and(|old| old.schedule != hash(&context.object) && old.last == last)
    }

    /// Keeps these values.
    pub(crate) fn keep(&self, context: &Context, created: Option<Created>, outcome: Outcome) -> Outcome {
        let new = Values { schedule: hash(&context.object), last: context.status.last_schedule_time, created };
        self.0.keep_of(outcome, &context.object.metadata.uid, new)
    }

    /// Forgets a CronJob that is gone.
    pub(crate) fn forget(&self) -> Outcome {
        self.0.forget(Outcome::new())
    }
}

fn hash(cron_job: &CronJob) -> u32 {
    let zone = cron_job.spec.time_zone.as_deref().unwrap_or_default();
    fnv32a(format!("{zone}\n{}", cron_job.spec.schedule).as_bytes())
}
