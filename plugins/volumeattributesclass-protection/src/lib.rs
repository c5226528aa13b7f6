//! The VolumeAttributesClass protection controller: protects classes that volumes or claims refer to, with the
//! finalizer `kubernetes.io/vac-protection`.
//!
//! *Flow*: key of a VolumeAttributesClass -> referenced by a volume or a claim in the cache? -> an update that adds or
//! removes the finalizer.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/vacprotection`. All 16 rows of `TestVACProtectionController`
//! (`vac_protection_controller_test.go`) are cases. As upstream, it reads the caches only: a class may be deleted while
//! a claim that refers to it is not in the cache yet.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
