//! Ensures that every active namespace has a ServiceAccount `default`.
//!
//! *Source*: Kubernetes' `pkg/controller/serviceaccount`, of which this is the ServiceAccountsController.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
