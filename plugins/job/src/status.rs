//! Writing the status of a Job.

use pintle_sdk::Mutation;
use pintle_sdk::document::Document;
use plugin_lib::status;

use crate::types::{Job, JobStatus};

/// The fields that this controller writes. What a newer API server has beside them stays.
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

/// The update to a new status. A Job that has changed since is a failure: what was counted may be counted by now.
pub(crate) fn update(job: Document, new: &JobStatus) -> Mutation {
    status::update::<Job>(job, &FIELDS, new)
}
