//! The Job controller: runs Pods until a Job is complete, and counts each of them once.
//!
//! | file | subject |
//! | --- | --- |
//! | `reconcile` | one run |
//! | `context` | its inputs: the Pods of a Job by state |
//! | `tracking` | counts each Pod once |
//! | `writes` | the writes of a run, in their order |
//! | `end` | how a Job ends; its conditions |
//! | `manage`, `rank`, `template` | how many Pods to create or delete; deletion order; Pods from the template |
//! | `indexes` | sets of indexes |
//! | `failure_policy`, `success_policy`, `backoff` | effects of failures and successes, and the backoff of new Pods |
//! | `claim`, `orphan` | adopting and releasing Pods; Pods that have lost their Job |
//! | `status`, `metrics` | status and metrics |
//!
//! *Source*: Kubernetes' `pkg/controller/job`. Where upstream writes several times in one sync and continues with the
//! responses, this has a run for each phase, and each run writes the status once. Consequences:
//! - a Pod's finalizer is removed in one run, and the Pod is counted in the next, which follows immediately;
//! - `FailureTarget` and `SuccessCriteriaMet` are written by one run, and `Failed` and `Complete` by a later one;
//! - a status shows Pods that are being created and deleted as if that had succeeded; after a failure it shows the
//!   actual Pods;
//! - events follow the write that they report, so they are not repeated if it fails;
//! - Pods are adopted and released in a separate run.
//!
//! There are no expectations, because the host guarantees read-your-writes, so rows about unsatisfied ones are rows
//! about satisfied ones.
//! A Pod with a failure time in the future delays others no longer than one that failed now.
//! Alpha features that are off by default are left out: Workloads and PodGroups (`WorkloadWithJob`).
//!
//! Of the rows of upstream's tables, 274 have Jobs and Pods as input and writes as output: 247 are cases, named after
//! their test and number, 24 are equal to another one, one is `a_job_that_is_gone_leaves_nothing_behind`, and the two
//! with hundreds of Pods are the story `many_pods_are_counted_in_parts`. 240 of the cases expect exactly the writes of
//! upstream's code for the same objects; the others differ in which of equal Pods are deleted (4), in expectations (2),
//! and in a limit of upstream's fake (1).
//! | test | cases of rows |
//! | --- | --- |
//! | `TestControllerSyncJob` | 53 of 58 |
//! | `TestMatchSuccessPolicy` | 30 of 31 |
//! | `TestTrackJobStatusAndRemoveFinalizers` | 23 of 30 |
//! | `TestMatchPodFailurePolicy` | 21 of 22 |
//! | `TestSyncJobWithJobPodFailurePolicy`, `...SuccessPolicy`, `...BackoffLimitPerIndex` | 19 of 21, 14 of 14, 12 of 15 |
//! | `TestJobBackoffForOnFailure`, `TestJobBackoffOnRestartPolicyNever` | 11 of 13, 5 of 5 |
//! | `TestCalculateSucceededIndexes`, `TestCalculateFailedIndexes`, `TestIsIndexFailed` | 12 of 12, 6 of 6, 3 of 3 |
//! | `TestGetFinishedTime`, `TestGetPodsWithDelayedDeletionPerIndex` | 8 of 8, 7 of 8 |
//! | `TestFirstPendingIndexes`, `TestAppendDuplicatedIndexPodsForRemoval` | 6 of 6, 3 of 3 |
//! | `TestSyncJobPastDeadline`, `TestGetNewFinshedPods`, `TestSyncJobWhenManagedBy` | 5 of 8, 4 of 4, 3 of 4 |
//!
//! Tables of functions without objects are unit tests of `backoff`, `indexes`, `rank`, `template` and `types`; that of
//! conditions is one of the SDK; those of orphans are cases with sentences as names. Upstream's tests of expectations,
//! event handlers and queues belong to the host.

mod backoff;
mod claim;
mod context;
mod end;
mod failure_policy;
mod indexes;
mod manage;
mod metrics;
mod orphan;
mod rank;
mod reconcile;
mod status;
mod success_policy;
mod template;
mod tracking;
mod types;
mod writes;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
