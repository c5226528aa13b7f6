//! Combines ClusterRoles: one with an aggregation rule has the rules of those that its selectors match.
//!
//! *Source*: Kubernetes' `pkg/controller/clusterroleaggregation`. All six rows of `clusterroleaggregation_controller_test.go` are
//! cases, named after them. It differs in two ways:
//! - each change runs the keys of all ClusterRoles, and those without an aggregation rule want nothing; upstream looks for the rule
//!   before it adds keys;
//! - a write carries the uid, so that a ClusterRole that was deleted meanwhile is not created again.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
