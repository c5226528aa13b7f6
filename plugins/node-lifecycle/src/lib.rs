//! The node lifecycle controller: marks Nodes whose kubelets send no heartbeats, and keeps Pods away from Nodes that are
//! not ready.
//!
//! | module | queue | task | upstream |
//! | --- | --- | --- | --- |
//! | [`monitor`] | a tick | all Nodes in one pass | `monitorNodeHealth`, `doNoExecuteTaintingPass` |
//! | [`health`], [`lease`] | | heartbeats; whether their cache is up to date | `tryUpdateNodeHealth` |
//! | [`status`] | | the conditions of a silent Node | `tryUpdateNodeHealth` |
//! | [`zones`] | | states of zones, and the rate of evictions | `handleDisruption`, `scheduler/rate_limited_queue.go` |
//! | [`memory`] | | what is kept between passes | `nodeHealthMap`, `knownNodeSet`, `zoneStates` |
//! | [`node`] | Nodes | taints with the effect `NoSchedule`; old labels | `doNodeProcessingPassWorker` |
//! | [`pods`] | Pods, and Nodes | Pods of Nodes that are not ready | `processPod`, `MarkPodsNotReady` |
//! | [`taints`] | | the patch of taints | `SwapNodeControllerTaint` |
//!
//! *Flow* of a Node that falls silent: no heartbeat for the grace period -> its Lease, read from the API server, is that
//! of the cache -> its conditions become `Unknown` -> once the caches show that: `NoSchedule` at once (its own key); its
//! Pods are not ready (its key in the queue of Pods); it waits in its zone for the taint `NoExecute`.
//!
//! # Nobody is evicted by mistake
//!
//! Health is what this process has seen change, by a clock that nobody sets (`uptime`). The wall clock is only written
//! into objects.
//!
//! | situation | what happens | cases |
//! | --- | --- | --- |
//! | the host is paused for minutes | of the time without passes, one period counts as silence ([`memory`]); the Leases of Nodes that seem silent after it are read | `safety.yaml` |
//! | a wall clock is set, here or on a Node | nothing: times in objects are compared for equality with those seen before. A Lease whose time goes back is a sign of life too | `safety.yaml` |
//! | another process takes over | it knows of no Node: each has its whole grace period, and the taints of Nodes that are not ready are removed, and added again at the rate of their zone, as upstream | `safety.yaml` |
//! | the cache of Leases is stale | the Lease that is read differs from that of the cache: no Node is judged until the cache has caught up ([`lease`]) | `safety.yaml` |
//! | the cache of Nodes is stale | the patch of a status, or of taints, carries the resourceVersion, and fails | |
//! | the API server does not answer | Nodes whose Leases cannot be read are not judged | `safety.yaml` |
//! | all Nodes fall silent at once | a pass that marks Nodes decides nothing else; the next one sees that no Node is ready, and halts all evictions | `safety.yaml`, `no_execute.yaml` |
//!
//! *Source*: Kubernetes' `pkg/controller/nodelifecycle` and `pkg/controller/util/node`. Deliberate differences:
//! - a Node that never had a condition `Ready` has the startup grace period from when this process sees it first.
//!   Upstream counts from its creation, by the wall clock, so such a Node is unreachable at once after a take-over;
//! - upstream takes only a later time in a Lease as a sign of life, and compares the Lease that it read with the last one
//!   that was renewed: a Node whose clock is set back becomes unreachable, and one whose dead Lease is annotated never
//!   does;
//! - the Lease is read before a Node is marked, and not in each pass as long as the Node is silent;
//! - marking is one pass, zones and evictions are the next one;
//! - a swap of two taints is one patch;
//! - a Node waits once, in its place, until it is tainted. Upstream queues it anew in each pass. A token is spent only on
//!   a Node that is tainted, and a conflict returns it;
//! - a zone that appears while all evictions are halted does not leave others halted for ever. While they are, each pass
//!   removes the taints; upstream tries it once;
//! - a bound Pod is marked by the condition of its Node in the cache. Upstream takes that of the last pass, and marks
//!   none before the first one;
//! - the event of a Pod follows a successful write only, and failed writes of Pods are retried with a backoff instead of
//!   in the next pass;
//! - writes of taints `NoSchedule` and labels that fail are retried; upstream waits for the next change of the Node;
//! - the two histograms of durations observe each run of each queue: the host measures runs, and not parts of them.
//!
//! *Cases*: upstream's tests with the caches as input and writes as the result. A test of several passes has a row for
//! each, with the state that the one before left. Not: `TestPodStatusChange`, about a function that only tests call, and
//! `rate_limited_queue_test.go`, about a queue with locks, which does not exist here; what it says about rates are unit
//! tests of [`zones`].

mod health;
mod lease;
mod memory;
mod monitor;
mod node;
mod pods;
mod reconcile;
mod status;
mod taints;
mod types;
mod zones;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
