//! Signs the kubeconfig in the ConfigMap `kube-public/cluster-info` with each bootstrap token that may sign, so that Nodes that join
//! can trust it.
//!
//! *Flow*: the tick, for any change -> the signature of each token -> an update of the ConfigMap, if they differ.
//!
//! *Source*: Kubernetes' `pkg/controller/bootstrap/bootstrapsigner.go`. The five tests of `bootstrapsigner_test.go` and the eleven of
//! `util_test.go` are cases. As upstream, a token that expires signs until something changes: the token cleaner deletes it.
//!
//! It differs in one way: an update that fails is tried again. Upstream tries it again when something changes.

mod jws;
mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
