//! Which Pods are created and deleted.
//!
//! *Source*: `manageJob` of job_controller.go.

use std::time::Duration;

use crate::backoff;
use crate::rank;
use crate::sync::{Counts, Sync, number};
use crate::types::Pod;

/// Most Pods that one run creates or deletes, as upstream's `MaxPodCreateDeletePerSync`.
pub(crate) const MAX_PODS: usize = 500;

/// Most Pods that one run deletes because none is wanted, with two writes each: upstream deletes all of them.
const MAX_DELETED: usize = 1_000;

/// The shortest wait for new Pods.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// What one run does with Pods.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// Pods to delete.
    pub(crate) deleted: Vec<&'a Pod>,
    /// Whether they lose their finalizers before, so that they are not counted.
    pub(crate) uncounted: bool,
    /// Whether more Pods have to be deleted.
    pub(crate) is_partial: bool,
    /// Pods to create: their indexes, or `None`.
    pub(crate) created: Vec<Option<i64>>,
    /// When the run has to be repeated to create more.
    pub(crate) wait: Option<Duration>,
    /// What the run does, as metrics name it.
    pub(crate) action: &'static str,
}

impl<'a> Plan<'a> {
    /// Whether Pods are neither created nor deleted.
    pub(crate) fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.created.is_empty()
    }

    /// The numbers of Pods once this is done.
    pub(crate) fn predict(&self, counts: Counts) -> Counts {
        let deleted = number(self.deleted.len());
        let ready = self.deleted.iter().filter(|pod| plugin_lib::pods::is_ready(*pod));
        Counts {
            active: counts.active - deleted + number(self.created.len()),
            ready: counts.ready - number(ready.count()),
            terminating: counts.terminating + deleted,
        }
    }

    fn deleting(mut deleted: Vec<&'a Pod>, most: usize, action: &'static str) -> Self {
        let is_partial = deleted.len() > most;
        deleted.truncate(most);
        Self { deleted, is_partial, action, ..Self::default() }
    }
}

/// For a Job that ends: all active Pods go, and are counted.
pub(crate) fn end<'a>(sync: &Sync<'a>) -> Plan<'a> {
    Plan::deleting(sync.active.clone(), MAX_DELETED, "reconciling")
}

/// For a Job that runs or is suspended.
pub(crate) fn manage<'a>(sync: &Sync<'a>) -> Plan<'a> {
    let job = sync.job;
    let active = number(sync.active.len());
    if job.is_suspended() {
        let deleted = rank::surplus(sync, sync.active.len());
        return Plan { uncounted: true, ..Plan::deleting(deleted, MAX_DELETED, "pods_deleted") };
    }
    let wanted = match job.spec.completions {
        // One success is enough: the others may finish, and none is started.
        None if sync.n_succeeded > 0 => active,
        None => job.parallelism(),
        Some(completions) => (i64::from(completions) - sync.n_succeeded).clamp(0, job.parallelism()),
    };
    let n_surplus = usize::try_from(active - wanted).unwrap_or(0);
    let deleted = rank::surplus(sync, n_surplus);
    if !deleted.is_empty() {
        return Plan { uncounted: true, ..Plan::deleting(deleted, MAX_PODS, "pods_deleted") };
    }
    let terminating = if job.replaces_only_failed() { sync.counts().terminating } else { 0 };
    let missing = usize::try_from(wanted - terminating - active).unwrap_or(0);
    if missing == 0 {
        return Plan { action: "tracking", ..Plan::default() };
    }
    let waiting =
        |wait: Duration| Plan { wait: Some(wait.max(SHORTEST_WAIT)), action: "pods_created", ..Plan::default() };
    let has_limit_per_index = job.spec.backoff_limit_per_index.is_some();
    let wait = if has_limit_per_index { Duration::ZERO } else { sync.failures.remaining(sync.now) };
    if !wait.is_zero() {
        return waiting(wait);
    }
    let missing = missing.min(MAX_PODS);
    let Some(n_indexes) = sync.n_indexes else {
        return Plan { created: vec![None; missing], action: "pods_created", ..Plan::default() };
    };
    let mut indexes = first_pending(sync, n_indexes, missing);
    if has_limit_per_index {
        match due(sync, &indexes) {
            Ok(due) => indexes = due,
            Err(wait) => return waiting(wait),
        }
    }
    Plan { created: indexes.into_iter().map(Some).collect(), action: "pods_created", ..Plan::default() }
}

/// *Source*: `firstPendingIndexes`.
fn first_pending(sync: &Sync<'_>, n_indexes: i64, n: usize) -> Vec<i64> {
    let mut taken = sync.succeeded_indexes.union(&Sync::indexes_of(&sync.active));
    if sync.job.replaces_only_failed() {
        let terminating = sync.pods.iter().filter(|pod| plugin_lib::pods::is_terminating(*pod));
        taken = taken.union(&Sync::indexes_of(terminating));
    }
    if let Some(failed) = &sync.failed_indexes {
        taken = taken.union(failed);
    }
    taken.first_missing(n_indexes, n)
}

/// Those that need not wait; if all have to, how long.
///
/// *Source*: `getPodCreationInfoForIndependentIndexes`.
fn due(sync: &Sync<'_>, indexes: &[i64]) -> Result<Vec<i64>, Duration> {
    let wait = |index: &i64| backoff::remaining_of_index(sync.predecessors.get(index).copied(), sync.now);
    let due: Vec<i64> = indexes.iter().copied().filter(|index| wait(index).is_zero()).collect();
    match indexes.iter().map(wait).min() {
        Some(shortest) if due.is_empty() => Err(shortest),
        _ => Ok(due),
    }
}
