//! The EndpointSlice controller: lists the endpoints of each Service with a selector in EndpointSlices.
//!
//! *Flow*: key of a Service -> its Pods, their Nodes and its slices -> for each address type: the [`desired`] endpoints
//! -> their distribution to slices (`plugin_lib::slices`) -> hints by [`topology`] or by [`traffic`] distribution ->
//! writes. A change of a Node runs the Services whose hints no longer fit the zones.
//!
//! 1. A Service with a selector has a slice for each of its address types: a placeholder if it has no endpoints.
//! 2. The garbage collector deletes the slices of a deleted Service. A Service that loses its selector keeps its
//!    slices.
//! 3. A Pod on a Node that is not in the cache is left out, and the run is retried.
//!
//! *Source*: Kubernetes' `pkg/controller/endpointslice/endpointslice_controller.go`; `reconciler.go`, `utils.go`,
//! `topologycache` and `trafficdist` of `k8s.io/endpointslice`. There is no tracker of slices, because the host keeps
//! read-your-writes, and no topology cache: the topology is computed from the Nodes in the cache. The consequences:
//! - a change of a Node's CPUs has its effect in the next run of a Service. Upstream waits until a Node is added or
//!   deleted, or changes its zone or readiness;
//! - the writes of a slice run its Service again, a second later;
//! - with a batch period of more than a second, that run does not wait for the period to end.
//!
//! Deliberate differences:
//! - a slice whose label now names another controller is replaced. Upstream waits for it endlessly;
//! - an update that replaces the content of another slice fails if that slice has changed since;
//! - in a terminating namespace, a slice that cannot be created does not prevent the updates and deletions of others;
//! - the metrics of a Service with two address types are sums. Upstream counts one of the types.
//!
//! *Cases*: upstream's tests with the cache as input and writes as the result. Not: parallel syncs and trackers, which
//! are the host's, and the mapping of changes to keys, which is the manifest's.
//!
//! | file | cases |
//! | --- | --- |
//! | `reconciler_test.go`, `endpointslice_controller_test.go` | `reconciler_test.yaml`, `packing.yaml`, `TestReconcilerPodMissingNode.yaml`, `Test_checkNodeTopologyDistribution.yaml` |
//! | `utils_test.go` | `utils_test.yaml` |
//! | `topologycache_test.go`, `sliceinfo_test.go` | `topologycache_test.yaml`, `nodes.yaml`, `TestReconcileTopology.yaml` |
//! | `trafficdist_test.go` | `trafficdist_test.yaml` |
//! | `trigger_time_tracker_test.go` | `trigger_time_tracker_test.yaml` |

mod desired;
mod labels;
mod reconcile;
mod topology;
mod traffic;
mod types;
mod writes;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
