//! Counts each Pod exactly once, although any write can fail and the host can stop between any two.
//!
//! Each ended Pod passes through three phases, each in its own run:
//!
//! 1. The status lists its uid in `uncountedTerminatedPods`. A succeeded index needs no uid: it is in
//!    `completedIndexes`.
//! 2. Its finalizer is removed, so that the Pod can be deleted.
//! 3. The status counts it and drops the uid, because the Pod has no finalizer or is deleted.
//!
//! *Invariants*
//! 1. No outcome removes a Pod's finalizer before the status write that lists the Pod: the steps have this order.
//! 2. A Pod without a finalizer is never added to the list.
//! 3. The terminal condition is written only when the list is empty and no Pod has the finalizer.
//! 4. A status lists at most 500 new Pods and indexes, so that it stays below 20 KB.
//!
//! *Source*: job_controller.go, which does all three phases in one sync.

use std::collections::BTreeSet;

use plugin_lib::number;

use crate::context::{Context, Counts};
use crate::end;
use crate::failure_policy::{Action, evaluate};
use crate::types::{JobStatus, Pod};

/// Most Pods and new indexes that a status lists.
#[doc(alias = "MaxUncountedPods")]
const MAX_UNCOUNTED: usize = 500;

/// A Pod whose finalizer is removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released<'a> {
    /// The Pod.
    pub(crate) pod: &'a Pod,
    /// Whether this run adds it to the status.
    pub(crate) is_new: bool,
    /// The action of the failure policy, if this run evaluates it.
    pub(crate) action: Option<Action>,
}

/// The next status of a Job, and the Pods whose finalizers are removed after its write.
#[derive(Debug)]
pub(crate) struct Accounts<'a> {
    /// The status.
    pub(crate) status: JobStatus,
    /// The Pods.
    pub(crate) released: Vec<Released<'a>>,
    /// Whether the status is the last one.
    pub(crate) is_finished: bool,
}

/// How a Pod is counted.
enum Fate {
    /// It keeps its finalizer.
    Stays,
    /// Its index has succeeded.
    Index { is_new: bool },
    /// It has succeeded.
    Succeeded,
    /// It has failed.
    Failed,
    /// It is not counted: it was counted before, a rule ignores it, or it has no valid index.
    Uncounted,
}

/// Computes the next step of each Pod. `counts` go into the status.
#[doc(alias = "trackJobStatusAndRemoveFinalizers", alias = "enactJobFinished")]
pub(crate) fn next<'a>(context: &Context<'a>, counts: Counts) -> Accounts<'a> {
    let mut status = context.job.status.clone();
    let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let tracked: BTreeSet<&str> =
        context.pods.iter().filter(|pod| pod.is_tracked()).map(|pod| pod.metadata.uid.as_str()).collect();
    status.succeeded = count(status.succeeded, &mut uncounted.succeeded, &tracked);
    status.failed = count(status.failed, &mut uncounted.failed, &tracked);

    let mut released = Vec::new();
    let mut n_new_indexes = 0;
    let mut is_partial = false;
    for pod in context.pods.iter().filter(|pod| pod.is_tracked()) {
        let (fate, action) = fate(context, pod);
        let uid = &pod.metadata.uid;
        let is_new = match fate {
            Fate::Stays => continue,
            Fate::Uncounted => false,
            Fate::Index { is_new } => is_new,
            Fate::Succeeded => !uncounted.succeeded.contains(uid),
            Fate::Failed => !uncounted.failed.contains(uid),
        };
        if is_new {
            // Pods that are listed already still lose their finalizers, or there would never be room for others.
            if n_new_indexes + uncounted.succeeded.len() + uncounted.failed.len() >= MAX_UNCOUNTED {
                is_partial = true;
                continue;
            }
            match fate {
                Fate::Index { .. } => n_new_indexes += 1,
                Fate::Succeeded => uncounted.succeeded.push(uid.clone()),
                Fate::Failed => uncounted.failed.push(uid.clone()),
                Fate::Stays | Fate::Uncounted => {}
            }
        }
        released.push(Released { pod, is_new, action });
    }

    if context.n_indexes.is_some() {
        // Includes indexes of Pods that have to wait: a success is final.
        status.succeeded = number::narrow(context.succeeded_indexes.len());
        status.completed_indexes = context.succeeded_indexes.to_string();
        status.failed_indexes = context.failed_indexes.as_ref().map(ToString::to_string);
    }
    status.start_time = context.start_time.map(|time| time.truncate());
    status.active = number::narrow(counts.active);
    status.ready = Some(number::narrow(counts.ready));
    status.terminating = Some(number::narrow(counts.terminating));
    status.uncounted_terminated_pods = Some(uncounted);

    let mut is_finished = false;
    if let Some(end) = &context.end {
        if !end.is_stored {
            status.conditions.push(end.interim(context.now));
        } else if !is_partial && released.is_empty() && end::n_uncounted(&status) == 0 && counts.terminating == 0 {
            end::finish(&mut status.conditions, end, context.now);
            status.completion_time = end.succeeds.then(|| context.now.truncate()).or(status.completion_time);
            is_finished = true;
        }
    }
    Accounts { status, released, is_finished }
}

/// Phase 3. Returns the new number.
#[doc(alias = "cleanUncountedPodsWithoutFinalizers", alias = "filterInUncountedUIDs")]
fn count(counted: i32, named: &mut Vec<String>, tracked: &BTreeSet<&str>) -> i32 {
    let before = named.len();
    named.retain(|uid| tracked.contains(uid.as_str()));
    number::narrow(i64::from(counted) + number::count(before - named.len()))
}

/// How a Pod that is not counted yet is counted.
fn fate(context: &Context<'_>, pod: &Pod) -> (Fate, Option<Action>) {
    let is_failed = pod.is_failed(context.job);
    if !can_release(context, pod, is_failed) {
        return (Fate::Stays, None);
    }
    let has_been_named = context.uncounted_failed.contains(pod.metadata.uid.as_str());
    let index = context.n_indexes.map(|n| pod.index_below(n));
    let is_invalid = index == Some(None);
    if pod.is_succeeded() && !has_been_named {
        let fate = match index {
            None => Fate::Succeeded,
            Some(index) => Fate::Index { is_new: index.is_some_and(|index| !context.counted_indexes.has(index)) },
        };
        return (fate, None);
    }
    // If the Job fails, every Pod that has not succeeded counts as failed.
    let fails = is_failed || context.end.as_ref().is_some_and(|end| !end.succeeds);
    if !fails || has_been_named || is_invalid {
        return (Fate::Uncounted, None);
    }
    let result = evaluate(context.job, pod);
    (if result.counts { Fate::Failed } else { Fate::Uncounted }, result.action)
}

#[doc(alias = "canRemoveFinalizer")]
fn can_release(context: &Context<'_>, pod: &Pod, is_failed: bool) -> bool {
    if context.job.metadata.is_deleting() || context.end.is_some() || pod.is_succeeded() {
        return true;
    }
    let is_predecessor =
        |index: i64| context.predecessors.get(&index).is_some_and(|last| last.metadata.uid == pod.metadata.uid);
    is_failed && !pod.index().is_some_and(is_predecessor)
}

/// Whether a status of [`next`] must be written.
pub(crate) fn has_changed(old: &JobStatus, new: &JobStatus) -> bool {
    let mut old = old.clone();
    // The new status always has the list, even if it is empty.
    old.uncounted_terminated_pods.get_or_insert_default();
    old != *new
}
