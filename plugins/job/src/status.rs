//! Writing the status of a Job.

use pintle_sdk::Mutation;
use pintle_sdk::Resource as _;
use pintle_sdk::api::meta::Raw;
use pintle_sdk::document::Document;

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

/// Replaces the status of a Job. A Job that has changed since is a failure: what was counted may be counted by now.
pub(crate) fn update(mut job: Document, new: &JobStatus) -> Mutation {
    let mut status = job.get::<Document>(&["status"]).unwrap_or_default();
    let new = Document::parse(&pintle_sdk::json(new)).unwrap_or_default();
    for field in FIELDS {
        match new.get::<Raw>(&[field]) {
            Some(value) => status.set(&[field], &value),
            None => status.remove(&[field]),
        }
    }
    job.set(&["status"], &status);
    Mutation::update_status(&Job::KIND, job)
}
