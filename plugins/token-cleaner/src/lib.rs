//! Deletes bootstrap tokens that have expired: Secrets of kube-system, of the type `bootstrap.kubernetes.io/token`.
//!
//! *Flow*: key of a Secret -> when does it expire? -> a delete, or another run at that time.
//!
//! *Source*: Kubernetes' `pkg/controller/bootstrap/tokencleaner.go`. The four tests of `tokencleaner_test.go` are cases, and one settles.
//!
//! It differs in one way: a delete that fails is tried again. Upstream tries it again when the Secret changes.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
