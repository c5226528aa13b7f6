//! The Endpoints controller: lists the addresses of the Pods of each Service with a selector in Endpoints.
//!
//! *Flow*: key of a Service -> its Pods -> [`subsets`] in canonical form -> do the Endpoints contain them? ->
//! [`capacity`] -> a create or an update.
//!
//! 1. All addresses belong to one family: the first of the Service.
//! 2. Endpoints have at most 1,000 addresses, ready ones first.
//! 3. Endpoints are deleted with their Service. When the host starts, older Endpoints without a Service are deleted,
//!    except those for the leader election of previous versions.
//!
//! *Source*: Kubernetes' `pkg/controller/endpoint/endpoints_controller.go`. There is no tracker of stale Endpoints,
//! because the host keeps read-your-writes.
//!
//! *Not as upstream*
//! - Endpoints with too many addresses are written when they change. Upstream writes them in each sync.
//! - Endpoints that are not in the cache are not deleted. Deletions have the uid as a condition.
//! - The event about Endpoints that cannot be created is in their namespace. Upstream's is in `default`.
//!
//! *Cases*: the tests of `endpoints_controller_test.go`, and `TestTruncateEndpoints` as a unit test. Not: batches of
//! changes and the tracker, which are the host's, and the mapping of changes to keys, which is the manifest's.

mod capacity;
mod reconcile;
mod subsets;
mod types;
mod writes;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
