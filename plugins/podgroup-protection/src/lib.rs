//! The PodGroup protection controller: protects PodGroups with active Pods, with the finalizer
//! `scheduling.k8s.io/podgroup-protection`.
//!
//! *Flow*: key of a PodGroup -> an active Pod of it in the cache? -> an update that removes the finalizer.
//!
//! *Invariant*: the controller never adds the finalizer. The API server does, when the group is created.
//!
//! *Source*: Kubernetes' `pkg/controller/scheduling/podgroupprotection`. Of `podgroup_protection_controller_test.go`,
//! all 15 rows of `TestPodGroupProtectionController`, 5 of `TestHasActivePods` and 4 of `TestIsPodTerminated` are
//! cases. The other rows are about the mapping of changes to keys, which the manifest has, and about Go's caches. As
//! upstream, it reads the cache only.
//!
//! Upstream reads `v1beta1`. This also supports an API server of 1.36, which has `v1alpha2` instead; 1.35 has no
//! PodGroups.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
