//! Tells the kubelet of each Node for how long it may cache Secrets and ConfigMaps, by the annotation
//! `node.alpha.kubernetes.io/ttl`: the more Nodes, the longer.
//!
//! *Source*: Kubernetes' `pkg/controller/ttl`. Of `ttl_controller_test.go`, all nine rows of `TestDesiredTTL` are a unit test here,
//! and the six of `TestUpdateNodeIfNeeded` another one. Of the seven rows of `TestPatchNode`, six are rows of the latter or differ from
//! them in nothing that is read; the seventh patches a Node with nothing, which upstream's own caller rules out.
//!
//! Upstream counts Nodes event by event, here a run counts what the cache has. A number that comes and goes between two runs is not
//! noticed; where upstream has several steps to go, both go all of them.

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
