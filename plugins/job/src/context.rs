//! Inputs of one run: the Job, its Pods by state, counts, and how the Job ends.
//!
//! *Source*: `syncJob` of job_controller.go, indexed_job_utils.go.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::Error;
use pintle_sdk::time::Timestamp;
use plugin_lib::number;
use plugin_lib::pods;

use crate::backoff::Failures;
use crate::end::{self, End};
use crate::failure_policy::{Action, evaluate};
use crate::indexes::Indexes;
use crate::types::{Job, Pod};

/// Pod counts of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Neither ended nor being deleted.
    pub(crate) active: i64,
    /// Active and ready.
    pub(crate) ready: i64,
    /// Being deleted, and not ended.
    pub(crate) terminating: i64,
}

/// A Job with its Pods.
#[doc(alias = "syncJobCtx")]
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The Job.
    pub(crate) job: &'a Job,
    /// Its Pods; for an Indexed Job by index.
    pub(crate) pods: Vec<&'a Pod>,
    /// Its active Pods.
    pub(crate) active: Vec<&'a Pod>,
    /// The time of the run.
    pub(crate) now: Timestamp,
    /// Number of indexes of an Indexed Job.
    pub(crate) n_indexes: Option<i64>,
    /// Uids of failed Pods that the status lists as uncounted.
    pub(crate) uncounted_failed: BTreeSet<&'a str>,
    /// Succeeded Pods that the status does not include.
    pub(crate) new_succeeded: Vec<&'a Pod>,
    /// Failed Pods that the status does not include.
    pub(crate) new_failed: Vec<&'a Pod>,
    /// Number of succeeded Pods or indexes.
    pub(crate) n_succeeded: i64,
    /// Number of failed Pods, without those that a rule ignores.
    pub(crate) n_failed: i64,
    /// Succeeded indexes in the status.
    pub(crate) counted_indexes: Indexes,
    /// Indexes that have succeeded.
    pub(crate) succeeded_indexes: Indexes,
    /// Failed indexes in the status, if they have a limit.
    pub(crate) counted_failed_indexes: Indexes,
    /// Indexes that have failed, if they have a limit.
    pub(crate) failed_indexes: Option<Indexes>,
    /// The last failed Pod of each index without a current Pod; its annotations are inputs of the next Pod.
    pub(crate) predecessors: BTreeMap<i64, &'a Pod>,
    /// Failures since the last success.
    pub(crate) failures: Failures,
    /// Start time of the Job; now, if this run starts it.
    pub(crate) start_time: Option<Timestamp>,
    /// How the Job ends.
    pub(crate) end: Option<End>,
}

impl<'a> Context<'a> {
    /// Prepares a run with the Pods of a Job.
    ///
    /// # Errors
    /// If an Indexed Job has no completions.
    #[doc(alias = "getNewFinishedPods", alias = "getValidPodsWithFilter", alias = "nonIgnoredFailedPodsCount")]
    pub(crate) fn new(job: &'a Job, pods: &'a [Pod], now: Timestamp) -> Result<Self, Error> {
        let n_indexes = job.n_indexes()?;
        let mut pods: Vec<&Pod> = pods.iter().collect();
        if n_indexes.is_some() {
            pods.sort_by_cached_key(|pod| pod.index());
        }
        let uncounted = job.status.uncounted_terminated_pods.as_ref();
        let uids = |uids: &'a [String]| uids.iter().map(String::as_str).collect::<BTreeSet<_>>();
        let uncounted_succeeded = uncounted.map(|all| uids(&all.succeeded)).unwrap_or_default();
        let uncounted_failed = uncounted.map(|all| uids(&all.failed)).unwrap_or_default();
        let is_valid = |pod: &Pod| pod.is_tracked() && n_indexes.is_none_or(|n| pod.index_below(n).is_some());
        let new = |named: &BTreeSet<&str>, has_ended: &dyn Fn(&Pod) -> bool| -> Vec<&'a Pod> {
            let is_new = |pod: &&&Pod| is_valid(pod) && !named.contains(pod.metadata.uid.as_str()) && has_ended(pod);
            pods.iter().filter(is_new).copied().collect()
        };
        let new_succeeded = new(&uncounted_succeeded, &Pod::is_succeeded);
        let new_failed = new(&uncounted_failed, &|pod| pod.is_failed(job));
        let n_counting = new_failed.iter().filter(|pod| evaluate(job, pod).counts).count();
        let sum =
            |counted: i32, named: &BTreeSet<&str>, new: usize| i64::from(counted) + number::count(named.len() + new);
        let mut context = Self {
            active: pods.iter().filter(|pod| pods::is_active(*pod)).copied().collect(),
            n_succeeded: sum(job.status.succeeded, &uncounted_succeeded, new_succeeded.len()),
            n_failed: sum(job.status.failed, &uncounted_failed, n_counting),
            start_time: job.status.start_time.or_else(|| (!job.is_suspended()).then_some(now)),
            job,
            pods,
            now,
            n_indexes,
            uncounted_failed,
            new_succeeded,
            new_failed,
            counted_indexes: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            counted_failed_indexes: Indexes::default(),
            failed_indexes: None,
            predecessors: BTreeMap::new(),
            failures: Failures::default(),
            end: None,
        };
        if let Some(n) = n_indexes {
            context.count_indexes(n);
        }
        context.end = end::find(&context);
        Ok(context)
    }

    /// The current Pod counts.
    #[doc(alias = "countReadyPods", alias = "CountTerminatingPods")]
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            active: number::count(self.active.len()),
            ready: number::count(self.active.iter().filter(|pod| pods::is_ready(*pod)).count()),
            terminating: number::count(self.pods.iter().filter(|pod| pods::is_terminating(*pod)).count()),
        }
    }

    /// The indexes of some Pods.
    #[doc(alias = "getIndexes")]
    pub(crate) fn indexes_of<'b>(pods: impl IntoIterator<Item = &'b &'b Pod>) -> Indexes {
        Indexes::default().with(pods.into_iter().filter_map(|pod| pod.index()))
    }

    #[doc(alias = "calculateSucceededIndexes", alias = "calculateFailedIndexes")]
    fn count_indexes(&mut self, n: i64) {
        let job = self.job;
        let tracked = || self.pods.iter().filter(|pod| pod.is_tracked());
        let succeeded = tracked().filter(|pod| pod.is_succeeded()).filter_map(|pod| pod.index_below(n));
        self.counted_indexes = Indexes::parse(&job.status.completed_indexes, n);
        self.succeeded_indexes = self.counted_indexes.with(succeeded);
        self.n_succeeded = self.succeeded_indexes.len();
        if let Some(limit) = job.spec.backoff_limit_per_index {
            let failed = tracked().filter(|pod| is_index_failed(job, pod, i64::from(limit)));
            self.counted_failed_indexes = Indexes::parse(job.status.failed_indexes.as_deref().unwrap_or_default(), n);
            let failed = self.counted_failed_indexes.with(failed.filter_map(|pod| pod.index_below(n)));
            self.predecessors = self.predecessors(n, &failed);
            self.failed_indexes = Some(failed);
        }
    }

    #[doc(alias = "getPodsWithDelayedDeletionPerIndex")]
    fn predecessors(&self, n: i64, failed: &Indexes) -> BTreeMap<i64, &'a Pod> {
        let settled = self.succeeded_indexes.union(failed).union(&Self::indexes_of(&self.active));
        let mut last: BTreeMap<i64, &Pod> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pod.is_tracked() && pod.is_failed(self.job)) {
            let Some(index) = pod.index_below(n).filter(|index| !settled.has(*index)) else { continue };
            let n_failures = |pod: &Pod| pod.index_failures() + pod.ignored_index_failures();
            let is_later = |old: &&Pod| n_failures(old) <= n_failures(pod) && old.finished_at() <= pod.finished_at();
            if last.get(&index).is_none_or(is_later) {
                last.insert(index, pod);
            }
        }
        last
    }
}

/// Whether a Pod makes its index fail.
#[doc(alias = "isIndexFailed")]
fn is_index_failed(job: &Job, pod: &Pod, limit: i64) -> bool {
    if !pod.is_failed(job) {
        return false;
    }
    let result = evaluate(job, pod);
    result.action == Some(Action::FailIndex) || result.counts && pod.index_failures() >= limit
}
