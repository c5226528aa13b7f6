//! State of a CronJob between two runs, which is lost when the host restarts.
//!
//! 1. The last created Job. The status needs the Job's uid, which only the next run has. The state shows that run that
//!    the Job is not unexpected, and that a Job deleted since must not be created again.
//! 2. A hash of the last schedule, and the last schedule time: a new schedule waits for its next time, unless the last
//!    schedule time was changed too.

use pintle_sdk::hash::fnv32a;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Key, Lister, Outcome};
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::types::CronJob;

/// A created Job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Created {
    pub(crate) name: String,
    /// Its scheduled time.
    pub(crate) time: Timestamp,
    /// The step that creates it.
    pub(crate) step: usize,
    /// Whether a run has seen the Job or its deletion.
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

/// State of a CronJob.
pub(crate) struct Memory(ObjectRecord<Values>);

impl Memory {
    pub(crate) fn read(key: &Key, lister: &impl Lister) -> Self {
        Self(ObjectRecord::read(lister, format!("{}/{}", key.namespace, key.name)))
    }

    fn of(&self, cron_job: &CronJob) -> Option<&Values> {
        self.0.of_uid(&cron_job.metadata.uid)
    }

    /// The last created Job, until the status in the cache has it. `None` if that step of the run or one before it has
    /// failed, because the Job may not have been created.
    pub(crate) fn created(&self, context: &Context, lister: &impl Lister) -> Option<Created> {
        let created = self.of(&context.object)?.created.clone()?;
        let is_noted = context.status.last_schedule_time >= Some(created.time);
        let is_created = || lister.failures().iter().all(|failure| failure.step as usize > created.step);
        (!is_noted && (created.seen || is_created())).then_some(created)
    }

    /// Whether the schedule or its time zone has changed since the last run, and the last schedule time has not.
    #[doc(alias = "updateCronJob")]
    pub(crate) fn is_rescheduled(&self, context: &Context) -> bool {
        let last = context.status.last_schedule_time;
        self.of(&context.object).is_some_and(|old| old.schedule != hash(&context.object) && old.last == last)
    }

    /// Stores these values.
    pub(crate) fn keep(&self, context: &Context, created: Option<Created>, outcome: Outcome) -> Outcome {
        let new = Values { schedule: hash(&context.object), last: context.status.last_schedule_time, created };
        self.0.keep_of(outcome, &context.object.metadata.uid, new)
    }

    /// Removes the state of a deleted CronJob.
    pub(crate) fn forget(&self) -> Outcome {
        self.0.forget(Outcome::new())
    }
}

fn hash(cron_job: &CronJob) -> u32 {
    let zone = cron_job.spec.time_zone.as_deref().unwrap_or_default();
    fnv32a(format!("{zone}\n{}", cron_job.spec.schedule).as_bytes())
}
