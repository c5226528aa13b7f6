//! Keeps VolumeAttributesClasses that are being deleted while volumes or claims name them, by the finalizer
//! `kubernetes.io/vac-protection`.
//!
//! *Flow*: key of a VolumeAttributesClass -> named by a volume or a claim in the cache? -> an update that adds or removes the finalizer.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/vacprotection`. All 16 rows of `TestVACProtectionController`
//! (`vac_protection_controller_test.go`) are cases. As upstream, it asks the caches only: a class may go while a claim that names it is
//! on its way to them.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
