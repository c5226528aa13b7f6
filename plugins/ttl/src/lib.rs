//! The TTL controller: sets how long each Node's kubelet may cache Secrets and ConfigMaps, in the annotation
//! `node.alpha.kubernetes.io/ttl`: the more Nodes, the longer.
//!
//! *Source*: Kubernetes' `pkg/controller/ttl`. Of `ttl_controller_test.go`, all nine rows of `TestDesiredTTL` are a
//! unit test here, and the six of `TestUpdateNodeIfNeeded` another one. Of the seven rows of `TestPatchNode`, six are
//! rows of the latter or differ only in fields that are not read; the seventh patches a Node without a change, which
//! upstream's own caller rules out.
//!
//! Upstream counts Nodes event by event; here a run counts the Nodes in the cache. A temporary change between two runs
//! is not noticed; across several boundaries, both go all the way.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
