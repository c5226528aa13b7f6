//! The status of a DaemonSet.
//!
//! *Source*: `updateDaemonSetStatus` and `storeDaemonSetStatus` of daemon_controller.go.

use pintle_sdk::document::Document;
use plugin_lib::pods;

use crate::pass::Pass;
use crate::types::DaemonSet;

/// Numbers of Nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    current: i32,
    misscheduled: i32,
    desired: i32,
    ready: i32,
    updated: i32,
    available: i32,
    unavailable: i32,
}

/// Counts by the oldest Pod of each Node.
pub(crate) fn calculate(pass: &Pass) -> Counts {
    let mut counts = Counts::default();
    for (node, fit) in &pass.fits {
        let pod = pass.on(node).first();
        if !fit.should_run {
            counts.misscheduled += i32::from(pod.is_some());
            continue;
        }
        counts.desired += 1;
        let Some(pod) = pod else { continue };
        counts.current += 1;
        counts.ready += i32::from(pods::is_ready(pod));
        counts.available += i32::from(pass.is_available(pod));
        counts.updated += i32::from(pass.is_updated(pod));
    }
    counts.unavailable = counts.desired - counts.available;
    counts
}

/// The DaemonSet with its new status, unless nothing differs.
pub(crate) fn changed(set: &DaemonSet, mut document: Document, new: &Counts) -> Option<Document> {
    let old = &set.status;
    let reported = Counts {
        current: old.current_number_scheduled,
        misscheduled: old.number_misscheduled,
        desired: old.desired_number_scheduled,
        ready: old.number_ready,
        updated: old.updated_number_scheduled,
        available: old.number_available,
        unavailable: old.number_unavailable,
    };
    if reported == *new && old.observed_generation >= set.metadata.generation {
        return None;
    }
    let mut status = document.get::<Document>(&["status"]).unwrap_or_default();
    for (name, value) in [
        ("currentNumberScheduled", new.current),
        ("numberMisscheduled", new.misscheduled),
        ("desiredNumberScheduled", new.desired),
        ("numberReady", new.ready),
    ] {
        status.set(&[name], &value);
    }
    // Zero is written as absence.
    for (name, value) in [
        ("observedGeneration", set.metadata.generation),
        ("updatedNumberScheduled", new.updated.into()),
        ("numberAvailable", new.available.into()),
        ("numberUnavailable", new.unavailable.into()),
    ] {
        if value == 0 { status.remove(&[name]) } else { status.set(&[name], &value) }
    }
    document.set(&["status"], &status);
    Some(document)
}
