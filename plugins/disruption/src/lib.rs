//! Writes into the status of each PodDisruptionBudget how many of its Pods may be evicted now. The API server obeys it.
//!
//! | queue | key | task |
//! | --- | --- | --- |
//! | `disruption` | budget | [`budget`]: count Pods, write the status |
//! | `disruption_recheck` | budget | run it again once an eviction that did not delete its Pod has expired |
//! | `disruption_pod` | Pod | [`pod`]: warn if it has several budgets; wait until its condition `DisruptionTarget` is stale |
//! | `stale_pod_disruption` | Pod | [`pod`]: set a stale condition to `False` |
//!
//! *Flow* of a budget: Pods that it selects -> sizes of their owners ([`scale`]: caches, then `scale` of the API server) -> expected and
//! desired number -> Pods that count as healthy ([`disrupted`]) -> status ([`status`]).
//!
//! *Invariants*
//! 1. What cannot be calculated allows no disruption, and the condition `DisruptionAllowed` gives the reason.
//! 2. A status carries the resourceVersion that it was calculated from, so that it cannot undo an eviction of that moment.
//!
//! *Source*: Kubernetes' `pkg/controller/disruption`. Its 24 tests (`disruption_test.go`) are sequences of steps rather than tables: of
//! their 91 steps and rows, 90 are cases named after the test and the number of the step, with upstream's numbers. The row of
//! `TestScaleFinderNoResource` with an unknown format of `scale` is not there, because a plugin sees only the names of subresources.
//!
//! *Not as upstream*
//! - A Pod wakes each of its budgets, by its old labels and by its new ones. Upstream wakes one of them, by the new labels.
//! - A status that was refused, other than by a conflict, is followed by one that allows nothing in the next run, not in the same one.
//! - Sums of sizes do not wrap around.
//! - The sizes of more than 1,500 owners that are read from the API server are read by several runs.

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
