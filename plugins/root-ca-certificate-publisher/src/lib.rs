//! The root CA certificate publisher: publishes the API server's certificate authority in every namespace, as the
//! ConfigMap `kube-root-ca.crt`.
//!
//! *Source*: Kubernetes' `pkg/controller/certificates/rootcacertpublisher`. The host records its two sync metrics.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
