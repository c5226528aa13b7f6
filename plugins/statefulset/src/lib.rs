//! The StatefulSet controller: replicas with names and claims that last.
//!
//! *Flow*: key of a StatefulSet -> [`reconcile`] -> adoption, revision, Pods and claims, status, history.
//!
//! ```text
//! reconcile -> replicas, history -> Context: recreate -> scale (in order | in batches) -> roll -> Status -> truncate
//! ```
//!
//! *Source*: kube-controller-manager 1.37, pkg/controller/statefulset and pkg/controller/history. Where upstream writes in the
//! middle of a sync and goes on with the answer, this returns all writes of a run as steps. What follows from that:
//! - after a failed write the status is written only if nothing was adopted and no revision written in that run: the next run does it,
//!   before the Pods;
//! - that the claims of a Pod were refused is an event of the claim at once, and an event of the Pod by the run that tries again;
//! - of a parallel StatefulSet, the other replicas of a batch are created by the run that follows such a refusal, at once;
//! - a claim that is being deleted is asked for, so that the refusal fails the run: upstream fails it without a request;
//! - a claim that the StatefulSet should own has this owner when it is created, not by another write afterwards;
//! - Pods are deleted by uid, and get labels and volumes by a patch;
//! - a Pod whose labels and volumes are right is not written again when only the owners of its claims have changed;
//! - the defaults that complete an older revision before it is compared are those of Kubernetes 1.37, whatever the API server is;
//! - if the deletion of a Pod is refused, the condition `Progressing` of the strategy `Recreate` is written nevertheless.
//!
//! And on purpose:
//! - a replica that waits for the claim of its namesake to go runs again when it has gone; upstream waits for another change;
//! - `web-01` is not taken for the replica `web-1`;
//! - of a parallel StatefulSet, a replica that has ended and is outdated is deleted once in a run, not twice.
//!
//! *Cases*: of upstream's tests, the rows whose input is the cache and whose result is what is written.
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
