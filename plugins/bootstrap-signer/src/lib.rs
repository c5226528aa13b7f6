//! The bootstrap signer: signs the kubeconfig in the ConfigMap `kube-public/cluster-info` with each bootstrap token
//! that allows signing, so that joining Nodes can trust it.
//!
//! *Flow*: a tick on any change -> the signature of each token -> an update of the ConfigMap if they differ.
//!
//! *Source*: Kubernetes' `pkg/controller/bootstrap/bootstrapsigner.go`. The five tests of `bootstrapsigner_test.go` and
//! the eleven of `util_test.go` are cases. As upstream, an expired token signs until something changes: the token
//! cleaner deletes it.
//!
//! One difference: a failed update is retried. Upstream retries it when something changes.

mod jws;
mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
