//! The PodCertificateRequest cleaner: a tick deletes requests that are older than 15 minutes, every five minutes.
//!
//! *Source*: Kubernetes' `pkg/controller/certificates/cleaner/pcrcleaner.go`. The four rows of `TestPCRCleaner`
//! (`pcrcleaner_test.go`) are cases. As upstream, it reads `v1`, which Kubernetes has since 1.37.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
