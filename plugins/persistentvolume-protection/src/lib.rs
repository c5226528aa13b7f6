//! The PersistentVolume protection controller: protects volumes that are bound to a claim, with the finalizer
//! `kubernetes.io/pv-protection`.
//!
//! *Flow*: key of a PersistentVolume -> an update that adds or removes the finalizer.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/pvprotection`. All 6 rows of `TestPVProtectionController`
//! (`pv_protection_controller_test.go`) are cases.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
