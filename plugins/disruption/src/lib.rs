//! The disruption controller: writes the number of allowed evictions into each PodDisruptionBudget's status. The API
//! server enforces it.
//!
//! | queue | key | task |
//! | --- | --- | --- |
//! | `disruption` | budget | [`budget`]: count Pods, write the status |
//! | `disruption_recheck` | budget | run it again once an eviction that did not delete its Pod has expired |
//! | `disruption_pod` | Pod | [`pod`]: warn if it has several budgets; wait until its condition `DisruptionTarget` is stale |
//! | `stale_pod_disruption` | Pod | [`pod`]: set a stale condition to `False` |
//!
//! *Flow* of a budget: selected Pods -> sizes of their owners ([`scale`]: caches, then `scale` of the API server) ->
//! expected and desired number -> healthy Pods ([`disrupted`]) -> status ([`status`]).
//!
//! *Invariants*
//! 1. If the calculation fails, no disruption is allowed, and the condition `DisruptionAllowed` has the reason.
//! 2. A status write carries the resourceVersion that it was calculated from, so that it cannot undo a concurrent
//!    eviction.
//!
//! *Source*: Kubernetes' `pkg/controller/disruption`. Its 24 tests (`disruption_test.go`) are sequences of steps rather
//! than tables: of their 91 steps and rows, 90 are cases named after the test and the number of the step, with
//! upstream's numbers. The row of `TestScaleFinderNoResource` with an unknown format of `scale` is left out, because a
//! plugin has only the names of subresources.
//!
//! *Not as upstream*
//! - A Pod enqueues each of its budgets, by its old and its new labels. Upstream enqueues one of them, by the new
//!   labels.
//! - After a failed status write, other than by a conflict, the next run writes one that allows nothing, not the same
//!   run.
//! - Sums of sizes do not wrap around.
//! - If the API server must be asked for the sizes of more than 1,500 owners, several runs read them.

mod budget;
mod disrupted;
mod owners;
mod pod;
mod reconcile;
mod scale;
mod status;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
