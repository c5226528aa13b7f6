//! Publishes the certificate authority of the API server in every namespace, as the ConfigMap `kube-root-ca.crt`.
//!
//! *Source*: Kubernetes' `pkg/controller/certificates/rootcacertpublisher`. Its two metrics of syncs are fed by the host.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
