//! What the controllers of kube-controller-manager share, as `pkg/controller` has it. What every author needs is in the SDK.
//!
//! | module | task | upstream |
//! | --- | --- | --- |
//! | [`backoff`] | delays that double | `flowcontrol/backoff.go` of client-go |
//! | [`batch`] | as many writes as one run makes | |
//! | `bootstrap_token` (a feature) | when a token expires | `util/secrets` of cluster-bootstrap |
//! | [`cidr`] | ranges of IP addresses, and parts of them for Nodes | `nodeipam/ipam/cidrset` |
//! | [`conditions`] | set conditions by the rules of each kind | `controller_utils.go`, `job/job_controller.go` |
//! | [`controller_ref`] | adopt and release objects by a selector | `controller_ref_manager.go` |
//! | `cron` (a feature) | when a schedule is due next, in a time zone | `robfig/cron` |
//! | [`failures`] | what failed of the last run | |
//! | [`history`] | ControllerRevisions: patches, names, which one is current, which ones go | `history/controller_history.go` |
//! | [`namespace`] | whether a namespace is being deleted | |
//! | [`nodes`] | node selectors, node affinity, taints, tolerations, zones | `component-helpers/scheduling`, `daemon/util` |
//! | [`number`] | numbers of objects | |
//! | [`pods`] | states and ranks of Pods, and writes of them | `controller_utils.go` |
//! | [`protection`] | finalizers that protect what is in use | `util/protectionutil` |
//! | [`replicaset`] | a number of Pods of one template: the controller of ReplicaSets and ReplicationControllers | `replicaset/replica_set.go` |
//! | [`selector`] | label selectors with upstream's errors | `labels/selector.go` of apimachinery |
//! | [`state`] | what is kept between runs, by uid | |
//! | [`status`] | writes of a status | |
//!
//! All of them are pure: the same input gives the same result on every host.

pub mod backoff;
pub mod batch;
#[cfg(feature = "bootstrap-token")]
pub mod bootstrap_token;
pub mod cidr;
pub mod conditions;
pub mod controller_ref;
#[cfg(feature = "cron")]
pub mod cron;
pub mod failures;
pub mod history;
pub mod namespace;
pub mod nodes;
pub mod number;
pub mod pods;
pub mod protection;
pub mod replicaset;
pub mod selector;
pub mod state;
pub mod status;
