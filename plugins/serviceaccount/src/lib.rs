//! The ServiceAccount controller: ensures that every active namespace has a ServiceAccount `default`.
//!
//! *Source*: ServiceAccountsController of Kubernetes' `pkg/controller/serviceaccount`.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
