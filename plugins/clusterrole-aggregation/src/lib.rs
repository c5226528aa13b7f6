//! The ClusterRole aggregation controller: a ClusterRole with an aggregation rule gets the rules of those that its
//! selectors match.
//!
//! *Source*: Kubernetes' `pkg/controller/clusterroleaggregation`. All six rows of
//! `clusterroleaggregation_controller_test.go` are cases, named after them. It differs in two ways:
//! - each change enqueues all ClusterRoles, and those without an aggregation rule need no changes; upstream checks for
//!   the rule before it adds keys;
//! - a write carries the uid, so that a ClusterRole that was deleted in the meantime is not created again.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
