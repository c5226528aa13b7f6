//! Jobs of a CronJob: finished Jobs, history limits, and new Jobs.

use std::collections::BTreeMap;

use pintle_sdk::Resource;
use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::document::Document;
use pintle_sdk::time::Timestamp;
use plugin_lib::cron::in_zone;

use crate::context::Context;
use crate::types::{CronJob, Job};

/// The annotation with a Job's scheduled time.
#[doc(alias = "CronJobScheduledTimestampAnnotation")]
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// How a Job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Failed,
}

impl End {
    /// `None` if it has not finished.
    #[doc(alias = "getFinishedStatus", alias = "FinishedCondition")]
    pub(crate) fn of(job: &Job) -> Option<Self> {
        job.status.conditions.iter().filter(|condition| condition.status == "True").find_map(
            |condition| match condition.type_.as_str() {
                "Complete" => Some(Self::Complete),
                "Failed" => Some(Self::Failed),
                _ => None,
            },
        )
    }

    /// The condition's type.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

/// The name of the Job for a time. It is unique, so a time has at most one Job.
#[doc(alias = "getJobName", alias = "getTimeHashInMinutes")]
pub(crate) fn name(cron_job: &str, time: Timestamp) -> String {
    // Upstream's division truncates towards zero.
    format!("{cron_job}-{}", time.as_micros() / 60_000_000)
}

/// A Job's scheduled time, if its annotation has one.
pub(crate) fn scheduled(job: &Job) -> Option<Timestamp> {
    Timestamp::parse(job.metadata.annotations.cronjob_scheduled_timestamp.as_deref()?)
}

/// The Jobs beyond the history limits, oldest start first.
#[doc(alias = "cleanupFinishedJobs", alias = "removeOldestJobs", alias = "byJobStartTime")]
pub(crate) fn surplus<'a>(cron_job: &CronJob, jobs: &'a [Job]) -> Vec<&'a Job> {
    let limits = [
        (End::Complete, cron_job.spec.successful_jobs_history_limit),
        (End::Failed, cron_job.spec.failed_jobs_history_limit),
    ];
    let mut surplus = Vec::new();
    for (end, limit) in limits {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<&Job> = jobs.iter().filter(|job| End::of(job) == Some(end)).collect();
        ended.sort_by_key(|job| (job.status.start_time.is_none(), job.status.start_time, &job.metadata.name));
        // The API server rejects a negative limit.
        let n_surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        ended.truncate(n_surplus);
        surplus.append(&mut ended);
    }
    surplus
}

/// The Job for a time, with the labels, annotations and spec of the template.
///
/// The creation time that upstream sends is left out, because the API server ignores it.
#[doc(alias = "getJobFromTemplate2", alias = "copyLabels", alias = "copyAnnotations")]
pub(crate) fn new(context: &Context, time: Timestamp) -> Document {
    let metadata = &context.object.metadata;
    let map = |field: &str| -> BTreeMap<String, String> {
        context.document.get(&["spec", "jobTemplate", "metadata", field]).unwrap_or_default()
    };
    let mut annotations = map("annotations");
    let zone = context.object.spec.time_zone.as_deref().unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), in_zone(time, zone).unwrap_or_else(|| time.to_string()));
    let mut job = Document::default();
    job.set(&["metadata", "name"], &name(&metadata.name, time));
    job.set(&["metadata", "namespace"], &metadata.namespace);
    let labels = map("labels");
    if !labels.is_empty() {
        job.set(&["metadata", "labels"], &labels);
    }
    job.set(&["metadata", "annotations"], &annotations);
    job.set(&["metadata", "ownerReferences"], &[OwnerReference::controller(&CronJob::KIND, metadata)]);
    if let Some(spec) = context.document.get::<Document>(&["spec", "jobTemplate", "spec"]) {
        job.set(&["spec"], &spec);
    }
    job
}
