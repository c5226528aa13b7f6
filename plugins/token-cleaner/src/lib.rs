//! The token cleaner: deletes expired bootstrap tokens, Secrets of kube-system with the type
//! `bootstrap.kubernetes.io/token`.
//!
//! *Flow*: key of a Secret -> when does it expire? -> a delete, or another run at that time.
//!
//! *Source*: Kubernetes' `pkg/controller/bootstrap/tokencleaner.go`. The four tests of `tokencleaner_test.go` are
//! cases, and one settles.
//!
//! One difference: a failed delete is retried. Upstream retries it when the Secret changes.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
