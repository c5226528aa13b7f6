//! The status of a DaemonSet.
//!
//! *Source*: daemon_controller.go.

use pintle_sdk::document::Document;
use pintle_sdk::{Mutation, Refusal};
use plugin_lib::{pods, status};
use serde::Serialize;

use crate::context::Context;
use crate::types::DaemonSet;

const FIELDS: [&str; 8] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
];

/// The reported status. Of the last four fields, zero is written as an absent field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    current_number_scheduled: i32,
    number_misscheduled: i32,
    desired_number_scheduled: i32,
    number_ready: i32,
    #[serde(skip_serializing_if = "is_zero")]
    observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    updated_number_scheduled: i32,
    #[serde(skip_serializing_if = "is_zero")]
    number_available: i32,
    #[serde(skip_serializing_if = "is_zero")]
    number_unavailable: i32,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// Counts by the oldest Pod of each Node.
#[doc(alias = "updateDaemonSetStatus")]
pub(crate) fn calculate(context: &Context) -> Status {
    let mut status = Status { observed_generation: context.set.metadata.generation, ..Status::default() };
    for (node, fit) in &context.fits {
        let pod = context.on(node).first();
        if !fit.should_run {
            status.number_misscheduled += i32::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pods::is_ready(pod));
        status.number_available += i32::from(context.is_available(pod));
        status.updated_number_scheduled += i32::from(context.is_updated(pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// The status update, if anything differs.
#[doc(alias = "storeDaemonSetStatus")]
pub(crate) fn update(set: &DaemonSet, document: Document, new: &Status) -> Option<Mutation> {
    let old = &set.status;
    let reported = Status {
        current_number_scheduled: old.current_number_scheduled,
        number_misscheduled: old.number_misscheduled,
        desired_number_scheduled: old.desired_number_scheduled,
        number_ready: old.number_ready,
        observed_generation: new.observed_generation,
        updated_number_scheduled: old.updated_number_scheduled,
        number_available: old.number_available,
        number_unavailable: old.number_unavailable,
    };
    let is_changed = reported != *new || old.observed_generation < new.observed_generation;
    is_changed.then(|| status::update::<DaemonSet>(document, &FIELDS, new).tolerate([Refusal::NotFound]))
}
