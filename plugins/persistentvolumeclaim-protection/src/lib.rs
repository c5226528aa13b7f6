//! Keeps PersistentVolumeClaims that are being deleted until no Pod uses them, by the finalizer `kubernetes.io/pvc-protection`.
//!
//! *Flow*: key of a Namespace -> its claims -> used by a Pod in the cache? -> used by a Pod at the API server (one list for all
//! claims)? -> updates that add or remove the finalizer.
//!
//! *Invariant*: a finalizer goes only after a list of the API server has shown no Pod that uses the claim.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/pvcprotection`. Of the 37 rows of `TestPVCProtectionController`
//! (`pvc_protection_controller_test.go`), 21 are cases, and one is a story of plugins/tests. The other 15 need the feature gate
//! `PersistentVolumeClaimUnusedSinceTime`, which is alpha and off; the host refuses to turn it on.
//!
//! *Not as upstream*
//! - Keys are Namespaces, so that `workqueue_*` counts these. Upstream has keys of claims, and collects by namespace those that wait.
//! - The claim of an ephemeral volume is looked at when its Pod is shut down. Upstream does so only if the containers have ended, too.

mod reconcile;
mod types;
mod usage;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
