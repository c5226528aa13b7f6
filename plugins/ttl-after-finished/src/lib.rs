//! The TTL-after-finished controller: deletes finished Jobs after `spec.ttlSecondsAfterFinished`.
//!
//! *Flow*: key of a Job -> expired in the cache? -> expired at the API server? -> delete it in the foreground, or run again at the end
//! of the TTL.
//!
//! *Source*: Kubernetes' `pkg/controller/ttlafterfinished`. All 9 rows of `TestTimeLeft`
//! (`ttlafterfinished_controller_test.go`) are cases; where a row expects an error of a function that upstream never
//! calls for such a Job, the case shows that the Job is left alone.
//!
//! *Not as upstream*: the duration in the metric ends when the run begins, because a run has no other clock. It
//! excludes the request that deletes the Job.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
