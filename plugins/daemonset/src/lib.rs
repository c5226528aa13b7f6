//! The DaemonSet controller: runs a Pod of a DaemonSet on each Node that fits, and keeps the history of its template.
//!
//! *Flow*
//!
//! ```text
//! key of a DaemonSet -> reconcile -> history (revision of the template) -> claims of Pods
//!                        `-> manage (one Pod for each Node) -> rolling (replace old Pods) -> writes -> clean-up -> status
//! key of a Node      -> node_updates -> wakes the DaemonSets that it concerns
//! ```
//!
//! *Source*: kube-controller-manager 1.37.2, pkg/controller/daemon. Where upstream goes on after a write with its answer, this
//! returns the write and goes on when the cache shows it. What follows from that:
//! - there are no expectations, and no syncs are skipped because of a stale cache: the host keeps read-your-writes;
//! - a Pod is replaced by a rolling update only in a run in which no other Pod is created or deleted;
//! - among Nodes that are equally good to update, those whose names come first are chosen, where upstream's order is random;
//! - the name of a revision has another hash: nothing depends on it, revisions are found by their template;
//! - a template that does not match the selector is an error, where upstream creates Pods and releases them without end.

mod backoff;
mod context;
mod fit;
mod history;
mod manage;
mod node_updates;
mod reconcile;
mod rolling;
mod status;
mod strategy;
mod types;
mod writes;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
