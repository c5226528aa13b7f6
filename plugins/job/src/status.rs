//! Updates the status of a Job.

use pintle_sdk::Mutation;
use pintle_sdk::document::Document;
use plugin_lib::status;

use crate::types::{Job, JobStatus};

/// The fields that this controller writes. Other fields, such as those of a newer API server, stay.
const FIELDS: [&str; 11] = [
    "conditions",
    "startTime",
    "completionTime",
    "active",
    "succeeded",
    "failed",
    "terminating",
    "completedIndexes",
    "failedIndexes",
    "uncountedTerminatedPods",
    "ready",
];

/// The update to a new status. It fails if the Job has changed since it was read: the uncounted Pods may be counted by
/// now.
#[doc(alias = "updateJobStatus")]
pub(crate) fn update(job: Document, new: &JobStatus) -> Mutation {
    status::update::<Job>(job, &FIELDS, new)
}
