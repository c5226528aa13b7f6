//! The CronJob controller: creates Jobs on a schedule, and keeps a history of finished Jobs.
//!
//! *Flow*: key of a CronJob -> its Jobs -> [`observe`]: new, finished and missing ones -> history -> [`start`]: is a
//! time due, and may a Job start? -> deletes, status, Job.
//!
//! *Invariants*
//! 1. A time has at most one Job: its name is the lock, and a created Job is in the status or in the [`memory`].
//! 2. A run that creates a Job does not add it to the status, because only the next run has its uid.
//!
//! *Source*: Kubernetes' `pkg/controller/cronjob`. Of the 74 rows of `TestControllerV2SyncCronJob` (`cronjob_controllerv2_test.go`), 73
//! are cases, named after the test and the number of the row. So are all rows of `TestControllerV2UpdateCronJob` (6),
//! `TestControllerV2GetJobsToBeReconciled` (4, which upstream removed), `TestControllerV2CleanupFinishedJobs` (2), `TestControllerV2JobAlreadyExists*` (2) and, of
//! `utils_test.go`, `TestGetJobFromTemplate2` (3), `TestNextScheduleTime` (8) and `TestByJobStartTime` (5). All 13 rows of
//! `TestMostRecentScheduleTime` and 4 of `TestNextScheduleTimeDuration` are unit tests of [`schedule`]. The row that is left out lets the
//! read of a Job fail which is replaced: here, the cache has this Job.
//!
//! *Not as upstream*
//! - The status is written before a Job is created, and again when the Job is in the cache.
//! - A Job whose status update was lost in a crash is found by its name, and is not reported as unexpected.
//! - If another object has the name of a Job, the controller waits for the next time. Upstream waits for a change of
//!   the CronJob.
//! - Errors in a schedule have other texts. The API server accepts no such schedule.

mod context;
mod jobs;
mod memory;
mod observe;
mod reconcile;
mod schedule;
mod start;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
