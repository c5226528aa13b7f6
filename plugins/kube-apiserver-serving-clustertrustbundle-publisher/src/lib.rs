//! The trust bundle publisher: publishes the certificate authority of the API server as a ClusterTrustBundle of the
//! signer `kubernetes.io/kube-apiserver-serving`, so that Pods can mount it.
//!
//! *Flow*: a tick on any change of the signer's bundles -> the bundle whose name contains the hash of the certificates:
//! a create, or an update if its content differs -> deletions of all other bundles of the signer.
//!
//! *Source*: Kubernetes' `pkg/controller/certificates/clustertrustbundlepublisher`. All 7 rows of
//! `TestCTBPublisherSync` (`publisher_test.go`) are cases. The host records its two metrics of syncs. As upstream, the
//! file of the certificates is read at the start. Two differences:
//! - deletions have the uid as a condition, so that a later bundle with the same name survives;
//! - upstream falls back to `v1beta1` and `v1alpha1` if the API server is older than 1.37.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
