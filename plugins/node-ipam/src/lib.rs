//! The Node IPAM controller: gives each Node a range of addresses for its Pods, one of each family, in `spec.podCIDRs`.
//!
//! *Flow*: key of a Node -> what it holds by the state, and what it has by the cache -> occupy, release or allocate ->
//! a patch of `spec.podCIDR` and `spec.podCIDRs`, and the state.
//!
//! | module | task | upstream |
//! | --- | --- | --- |
//! | `settings` | ranges and prefix lengths, checked | `app/core.go`, `nodeipam/node_ipam_controller.go` |
//! | `pools` | the used parts of each range | `nodeipam/ipam/range_allocator.go`, `cidrset/cidr_set.go` |
//! | `holdings` | the ranges of each Node, in the state | |
//! | `memory` | both of them from one run to the next; the first list | `listNodes` of `nodeipam/ipam/cidr_allocator.go` |
//! | `metrics` | samples | `cidrset/metrics.go` |
//! | `reconcile` | one Node | `nodeipam/ipam/range_allocator.go` |
//! | `waiting` | Nodes for which no range was free | |
//!
//! *Invariants*: no two Nodes get one range.
//! 1. What a Node holds is in the state before its patch is sent: runs follow one another, and a run sees the state of
//!    all runs before it. The caches play no part in the choice of a range.
//! 2. Without state, which a term begins without, nothing is allocated before the Nodes were listed from the API server
//!    itself: the caches may lack the last writes of another host. The host sends no write outside of its term, and
//!    gives up those in flight at its end, 5 s before another term can begin.
//! 3. A failed patch releases nothing: the answer may be lost, and the patch may still be carried out. The next run of
//!    the Node sends the same range again, so that it does not matter which of them succeeds.
//! 4. A range is released once its Node is gone, or has others: then no patch can give it this one, because patches
//!    carry the uid and the resourceVersion, and the API server changes no `podCIDRs` that are set. Nodes of the first
//!    list that the caches have not shown yet are gone only if the API server says so.
//! 5. A range that overlaps another one, because somebody else has set it, is released only where no other overlaps.
//!
//! *Cost*: a run reads one Node, the used parts (which grow with the number of gaps between them) and one of 256 parts
//! of the holdings. It reads all Nodes when a term begins, and when a range becomes free for which Nodes wait; all
//! holdings when a Node with an overlapping range goes.
//!
//! *Source*: Kubernetes' `pkg/controller/nodeipam`, with the allocator `RangeAllocator`; the others need a cloud
//! provider. Of `range_allocator_test.go`, all 8 rows of `TestOccupyPreExistingCIDR`, 7 of
//! `TestAllocateOrOccupyCIDRSuccess`, 1 of `TestAllocateOrOccupyCIDRFailure`, 2 of `TestReleaseCIDRSuccess` and 3 of
//! `TestNodeDeletionReleaseCIDR` are cases; `cidr_set_test.go` is in the tests of `plugin_lib::cidr`, and its metrics
//! are cases. It differs in these ways:
//! - a Node whose ranges are not valid, or not part of the cluster's, is an error of its own key, which is not
//!   repeated; upstream does not start. Such a range is occupied all the same where it overlaps the cluster's;
//! - after a failure, a Node keeps its range. Upstream releases it, and takes the next one;
//! - where one of two families has no free part, the Node takes none of the other;
//! - a release makes waiting Nodes run, as many as there are free parts.

mod holdings;
mod memory;
mod metrics;
mod pools;
mod reconcile;
mod settings;
mod types;
mod waiting;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
