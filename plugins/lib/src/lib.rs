//! Code shared by the controllers of kube-controller-manager, like `pkg/controller`. The SDK has what every author
//! needs.
//!
//! | module | task | upstream |
//! | --- | --- | --- |
//! | [`backoff`] | exponential delays | `flowcontrol/backoff.go` of client-go |
//! | [`batch`] | limits the writes of one run | |
//! | `bootstrap_token` (a feature) | expiration of tokens | `util/secrets` of cluster-bootstrap |
//! | `certificates` (a feature) | fields of certificate requests, and expiry of certificates | `apis/certificates/helpers.go` |
//! | [`cidr`] | IP address ranges, and Pod CIDRs of Nodes | `nodeipam/ipam/cidrset` |
//! | [`conditions`] | set conditions by the rules of each kind | `controller_utils.go`, `job/job_controller.go` |
//! | [`controller_ref`] | adopt and release objects by a selector | `controller_ref_manager.go` |
//! | `cron` (a feature) | next time of a schedule, in a time zone | `robfig/cron` |
//! | [`eviction`] | delete Pods because of taints | `api/v1/pod/util.go`, `util/pod/pod.go` |
//! | [`failures`] | failed writes of the last run | |
//! | [`go_hash`] | the order of lists that upstream sorts by a hash | `util/hash` |
//! | [`history`] | ControllerRevisions: patches, names, the current one, truncation | `history/controller_history.go` |
//! | [`listing`] | lists of the objects of several users | |
//! | [`namespace`] | whether a namespace is being deleted | |
//! | [`nodes`] | node selectors, node affinity, taints, tolerations, zones | `component-helpers/scheduling`, `daemon/util` |
//! | [`number`] | conversions of API numbers | |
//! | [`pods`] | states and ranks of Pods; creating and deleting them | `controller_utils.go` |
//! | [`protection`] | finalizers that protect objects in use | `util/protectionutil` |
//! | [`replicaset`] | the ReplicaSet and ReplicationController controllers | `replicaset/replica_set.go` |
//! | [`selector`] | label selectors with upstream's errors | `labels/selector.go` of apimachinery |
//! | [`services`] | names, addresses and readiness that endpoints share | `endpointslice/util` |
//! | [`slices`] | EndpointSlices: distribution of endpoints, and writes | `endpointslice/reconciler.go` |
//! | [`state`] | state kept between runs, by uid | |
//! | [`status`] | status updates | |
//! | [`subsets`] | subsets of Endpoints in their canonical form | `pkg/api/v1/endpoints` |
//! | [`trigger_time`] | time of the change that caused an update of endpoints | `endpointslice/util/trigger_time_tracker.go` |
//!
//! All modules are pure: the same input gives the same result on every host.

pub mod backoff;
pub mod batch;
#[cfg(feature = "bootstrap-token")]
pub mod bootstrap_token;
#[cfg(feature = "certificates")]
pub mod certificates;
pub mod cidr;
pub mod conditions;
pub mod controller_ref;
#[cfg(feature = "cron")]
pub mod cron;
pub mod eviction;
pub mod failures;
pub mod go_hash;
pub mod history;
pub mod listing;
pub mod namespace;
pub mod nodes;
pub mod number;
pub mod pods;
pub mod protection;
pub mod replicaset;
pub mod selector;
pub mod services;
pub mod slices;
pub mod state;
pub mod status;
pub mod subsets;
pub mod trigger_time;
