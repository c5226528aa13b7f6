//! Decides which Pods to create and delete.
//!
//! *Source*: job_controller.go, indexed_job_utils.go.

use std::time::Duration;

use plugin_lib::number;

use crate::backoff;
use crate::context::{Context, Counts};
use crate::rank;
use crate::types::Pod;

/// Most Pods that one run creates or deletes.
#[doc(alias = "MaxPodCreateDeletePerSync")]
pub(crate) const MAX_PODS: usize = 500;

/// The shortest delay for new Pods.
#[doc(alias = "SyncJobBatchPeriod")]
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Pods to create and delete in one run.
#[derive(Debug, Default)]
pub(crate) struct Decision<'a> {
    /// Pods to delete.
    pub(crate) deleted: Vec<&'a Pod>,
    /// Whether their finalizers are removed first, so that they are not counted.
    pub(crate) uncounted: bool,
    /// Whether more Pods have to be deleted.
    pub(crate) is_partial: bool,
    /// Pods to create: their indexes, or `None`.
    pub(crate) created: Vec<Option<i64>>,
    /// Delay until the next run, to create more Pods.
    pub(crate) wait: Option<Duration>,
    /// Value of the metrics' `action` label.
    pub(crate) action: &'static str,
}

impl<'a> Decision<'a> {
    /// Whether no Pods are created or deleted.
    pub(crate) fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.created.is_empty()
    }

    /// The Pod counts after these writes.
    pub(crate) fn predict(&self, counts: Counts) -> Counts {
        let deleted = number::count(self.deleted.len());
        let ready = self.deleted.iter().filter(|pod| plugin_lib::pods::is_ready(*pod));
        Counts {
            active: counts.active - deleted + number::count(self.created.len()),
            ready: counts.ready - number::count(ready.count()),
            terminating: counts.terminating + deleted,
        }
    }

    fn deleting(deleted: Vec<&'a Pod>, action: &'static str) -> Self {
        Self { deleted, action, ..Self::default() }
    }
}

/// For a Job that ends: all active Pods are deleted, and counted.
#[doc(alias = "deleteActivePods")]
pub(crate) fn end<'a>(context: &Context<'a>) -> Decision<'a> {
    Decision::deleting(context.active.clone(), "reconciling")
}

/// For a running or suspended Job.
#[doc(alias = "manageJob")]
pub(crate) fn manage<'a>(context: &Context<'a>) -> Decision<'a> {
    let job = context.job;
    let active = number::count(context.active.len());
    if job.is_suspended() {
        let deleted = rank::surplus(context, context.active.len());
        return Decision { uncounted: true, ..Decision::deleting(deleted, "pods_deleted") };
    }
    let wanted = match job.spec.completions {
        // One success is enough: other Pods may finish, and no new ones start.
        None if context.n_succeeded > 0 => active,
        None => job.parallelism(),
        Some(completions) => (i64::from(completions) - context.n_succeeded).clamp(0, job.parallelism()),
    };
    let n_surplus = usize::try_from(active - wanted).unwrap_or(0);
    let deleted = rank::surplus(context, n_surplus);
    if !deleted.is_empty() {
        let is_partial = deleted.len() > MAX_PODS;
        let deleted = deleted.into_iter().take(MAX_PODS).collect();
        return Decision { uncounted: true, is_partial, ..Decision::deleting(deleted, "pods_deleted") };
    }
    let terminating = if job.replaces_only_failed() { context.counts().terminating } else { 0 };
    let missing = usize::try_from(wanted - terminating - active).unwrap_or(0);
    if missing == 0 {
        return Decision { action: "tracking", ..Decision::default() };
    }
    let waiting = |wait: Duration| Decision {
        wait: Some(wait.max(SHORTEST_WAIT)),
        action: "pods_created",
        ..Decision::default()
    };
    let has_limit_per_index = job.spec.backoff_limit_per_index.is_some();
    let wait = if has_limit_per_index { Duration::ZERO } else { context.failures.remaining(context.now) };
    if !wait.is_zero() {
        return waiting(wait);
    }
    let missing = missing.min(MAX_PODS);
    let Some(n_indexes) = context.n_indexes else {
        return Decision { created: vec![None; missing], action: "pods_created", ..Decision::default() };
    };
    let mut indexes = first_pending(context, n_indexes, missing);
    if has_limit_per_index {
        match due(context, &indexes) {
            Ok(due) => indexes = due,
            Err(wait) => return waiting(wait),
        }
    }
    Decision { created: indexes.into_iter().map(Some).collect(), action: "pods_created", ..Decision::default() }
}

#[doc(alias = "firstPendingIndexes")]
fn first_pending(context: &Context<'_>, n_indexes: i64, n: usize) -> Vec<i64> {
    let mut taken = context.succeeded_indexes.union(&Context::indexes_of(&context.active));
    if context.job.replaces_only_failed() {
        let terminating = context.pods.iter().filter(|pod| plugin_lib::pods::is_terminating(*pod));
        taken = taken.union(&Context::indexes_of(terminating));
    }
    if let Some(failed) = &context.failed_indexes {
        taken = taken.union(failed);
    }
    taken.first_missing(n_indexes, n)
}

/// The indexes without a remaining delay; if there are none, the shortest delay.
#[doc(alias = "getPodCreationInfoForIndependentIndexes")]
fn due(context: &Context<'_>, indexes: &[i64]) -> Result<Vec<i64>, Duration> {
    let wait = |index: &i64| backoff::remaining_of_index(context.predecessors.get(index).copied(), context.now);
    let due: Vec<i64> = indexes.iter().copied().filter(|index| wait(index).is_zero()).collect();
    match indexes.iter().map(wait).min() {
        Some(shortest) if due.is_empty() => Err(shortest),
        _ => Ok(due),
    }
}
