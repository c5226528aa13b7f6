//! What is kept of a CronJob between two runs, which a restart of the host forgets.
//!
//! 1. The Job that was created last. The status names a Job with its uid, which only the next run sees: it knows by this that the Job
//!    is not one that somebody else has created, and that a Job which is gone already must not be created again.
//! 2. The schedule that was seen last, as a hash, and the last time: a new schedule waits for its next time, unless somebody has changed
//!    the last time, too.

use pintle_sdk::hash::fnv32a;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Outcome};
use serde::{Deserialize, Serialize};

use crate::view::{CronJob, View};

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
    /// Uid of the CronJob.
    uid: String,
    schedule: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Created>,
}

/// What is kept of a CronJob.
pub(crate) struct Memory {
    name: String,
    old: Option<Values>,
}

impl Memory {
    /// # Errors
    /// If it was kept by a version that is not compatible.
    pub(crate) fn read(key: &Key, lister: &impl Lister) -> Result<Self, Error> {
        let name = format!("{}/{}", key.namespace, key.name);
        let old = lister.state(&name).map(|text| serde_json::from_str(&text)).transpose()?;
        Ok(Self { name, old })
    }

    fn of(&self, cron_job: &CronJob) -> Option<&Values> {
        self.old.as_ref().filter(|old| old.uid == cron_job.metadata.uid)
    }

    /// The Job that was created last, until the status in the cache says so. If that step of the run or one before it has failed,
    /// the Job may not have been created.
    pub(crate) fn created(&self, view: &View, lister: &impl Lister) -> Option<Created> {
        let created = self.of(&view.object)?.created.clone()?;
        let is_noted = view.status.last_schedule_time >= Some(created.time);
        let is_created = || lister.failures().iter().all(|failure| failure.step as usize > created.step);
        (!is_noted && (created.seen || is_created())).then_some(created)
    }

    /// Whether the schedule or its time zone has changed since the last run, and nothing else has that decides.
    pub(crate) fn is_rescheduled(&self, view: &View) -> bool {
        let last = view.status.last_schedule_time;
        self.of(&view.object).is_some_and(|old| old.schedule != hash(&view.object) && old.last == last)
    }

    /// Keeps these values, if they are others than before.
    pub(crate) fn keep(self, view: &View, created: Option<Created>, outcome: Outcome) -> Outcome {
        let (uid, last) = (view.object.metadata.uid.clone(), view.status.last_schedule_time);
        let new = Values { uid, schedule: hash(&view.object), last, created };
        if self.old.as_ref() == Some(&new) { outcome } else { outcome.keep(self.name, pintle_sdk::json(&new)) }
    }

    /// Forgets a CronJob that is gone.
    pub(crate) fn forget(self) -> Outcome {
        if self.old.is_some() { Outcome::new().forget(self.name) } else { Outcome::new() }
    }
}

fn hash(cron_job: &CronJob) -> u32 {
    let zone = cron_job.spec.time_zone.as_deref().unwrap_or_default();
    fnv32a(format!("{zone}\n{}", cron_job.spec.schedule).as_bytes())
}
