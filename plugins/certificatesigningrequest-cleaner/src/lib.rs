//! The certificate request cleaner: an hourly tick deletes old CertificateSigningRequests:
//!
//! | request | age |
//! | --- | --- |
//! | approved, with a certificate | an hour since the approval, or the certificate has expired |
//! | denied, or failed | an hour since then |
//! | approved, without a certificate | a day since the approval |
//! | without a condition | a day since the creation |
//!
//! *Source*: Kubernetes' `pkg/controller/certificates/cleaner/cleaner.go`. All 13 rows of
//! `TestCleanerWithApprovedExpiredCSR` (`cleaner_test.go`) are cases. Two differences:
//! - deletions have the uid as a condition, so that a later request with the same name survives;
//! - the first pass waits until the caches are filled. Upstream's does not wait, and finds nothing.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
