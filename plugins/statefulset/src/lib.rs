//! The StatefulSet controller: replicas with stable names and persistent claims.
//!
//! *Flow*: key of a StatefulSet -> [`reconcile`] -> adoption, revision, Pods and claims, status, history.
//!
//! ```text
//! reconcile -> replicas, history -> Context: recreate -> scale (in order | in batches) -> roll -> Status -> truncate
//! ```
//!
//! *Source*: kube-controller-manager 1.37, pkg/controller/statefulset and pkg/controller/history. Where upstream writes
//! in the middle of a sync and continues with the response, this returns all writes of a run as steps. Consequences:
//! - after a failed write the status is written only if nothing was adopted, no revision written and no replica deleted
//!   by a rolling update in that run: the next run does it, before the Pods if it still adopts or writes a revision;
//! - a failure to create a Pod's claims is an event of the claim immediately, and an event of the Pod by the run that
//!   retries;
//! - in a parallel StatefulSet, the other replicas of a batch are created by the run after such a failure, which
//!   follows immediately;
//! - a claim that is being deleted is created again, so that the API server's error fails the run: upstream fails
//!   without a request;
//! - a claim that the StatefulSet should own is created with this owner, not updated afterwards;
//! - Pods are deleted by uid, and get labels and volumes by a patch;
//! - a Pod with correct labels and volumes is not written again when only the owners of its claims have changed;
//! - an older revision is completed with the defaults of Kubernetes 1.37 before the comparison, whatever the API
//!   server's version;
//! - if the deletion of a Pod fails, the condition `Progressing` of the strategy `Recreate` is written nevertheless.
//!
//! Deliberate differences:
//! - a replica that waits for the claim of an earlier Pod to be deleted runs again when it is deleted; upstream waits
//!   for another change;
//! - `web-01` is not treated as the replica `web-1`;
//! - in a parallel StatefulSet, an ended and outdated replica is deleted once in a run, not twice.
//!
//! *Cases*: the rows of upstream's tests whose input is the cache and whose result is the writes.
//!
//! | file | rows | as cases or unit tests |
//! | --- | --- | --- |
//! | `stateful_set_control_test.go` | 225 | 203: each with the policies, management and update strategies of its table. A row of many syncs is one case for each decisive sync. Not: parallel requests at a time (the host's), and errors of the fake store |
//! | `stateful_pod_control_test.go` | 31 | 26: not conflicts and failing reads of the cache, and the consistency store (the host's) |
//! | `stateful_set_utils_test.go` | 129 | 122: not the order of Pods by a sort, the round trip of patches (the SDK's), and a revision without data, which is an error here |
//! | `stateful_set_test.go` | 33 | 19: not which keys a change maps to (the manifest's) |

mod claims;
mod context;
mod events;
mod history;
mod identity;
mod pod_control;
mod reconcile;
mod recreate;
mod replicas;
mod retention;
mod rolling;
mod set;
mod set_control;
mod status;
mod types;
mod writes;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
