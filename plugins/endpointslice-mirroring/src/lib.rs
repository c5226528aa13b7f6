//! The EndpointSlice mirroring controller: copies the Endpoints of Services without a selector, which users write, to
//! EndpointSlices.
//!
//! *Flow*: key of Endpoints -> should they be copied? -> their subsets in canonical form -> the [`desired`] endpoints,
//! by ports and address type -> [`mirror`]: one slice each -> writes.
//!
//! 1. Endpoints have no slices if they have the label `endpointslice.kubernetes.io/skip-mirror: "true"`, if they belong
//!    to a leader election, or if their Service is missing or has a selector.
//! 2. A slice has the labels and annotations of its Endpoints, except the controller's own.
//! 3. The number of copied addresses of a subset is limited. Ready addresses come first. Events report addresses beyond
//!    the limit, and invalid ones.
//!
//! *Source*: Kubernetes' `pkg/controller/endpointslicemirroring`. There is no tracker of slices, because the host keeps
//! read-your-writes. The consequence: the writes of a slice run its Endpoints again.
//!
//! Deliberate differences:
//! - an update fails if the slice has changed since it was read;
//! - a slice that is being deleted does not count;
//! - in a terminating namespace, a slice that cannot be created does not prevent the updates and deletions of others.
//!
//! *Cases*: the rows of `reconciler_test.go` and `endpointslicemirroring_controller_test.go`, and the decisions in
//! those of `reconciler_helpers_test.go` and `utils_test.go`. Not: the tracker, which is the host's, and the mapping of
//! changes to keys, which is the manifest's.

mod desired;
mod mirror;
mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
