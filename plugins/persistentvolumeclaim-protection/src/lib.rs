//! The PersistentVolumeClaim protection controller: protects claims in use with the finalizer
//! `kubernetes.io/pvc-protection`, and reports in the condition `Unused` of bound claims whether a Pod refers to them,
//! and since when none does.
//!
//! *Flow*: key of a Namespace -> its claims -> used by a Pod in the cache? -> used by a Pod at the API server (one list for all
//! claims)? -> updates that add or remove the finalizer, or set the condition.
//!
//! *Invariants*
//! 1. A finalizer is removed only after a list from the API server has shown no Pod that uses the claim. The condition
//!    becomes True only after a list without a Pod that refers to it.
//! 2. One run writes a claim once: the finalizer first.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/pvcprotection`. Of the 38 rows of `TestPVCProtectionController`
//! (`pvc_protection_controller_test.go`), 37 are cases, and one is a story of plugins/tests.
//!
//! *Not as upstream*
//! - Keys are Namespaces, so `workqueue_*` metrics count these. Upstream has keys of claims, and groups waiting ones by
//!   namespace.
//! - A claim without the finalizer gets it before the condition. Upstream writes the condition, and then the finalizer
//!   with the old resourceVersion, which conflicts and is retried; where the condition is rejected, the finalizer is
//!   never added.
//! - The condition is compared whenever a run reads the namespace, so a modified one is reset. Upstream does so at the
//!   next change of a Pod with the claim.
//! - An API server before 1.36 does not permit upstream's role to write the condition: there the feature gate is off by
//!   default.

mod reconcile;
mod types;
mod unused;
mod usage;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
