//! The DaemonSet controller: runs a Pod on each Node that fits, and keeps the history of the template.
//!
//! *Flow*
//!
//! ```text
//! key of a DaemonSet -> reconcile -> history (revision of the template) -> claims of Pods
//!                        `-> manage (one Pod for each Node) -> rolling (replace old Pods) -> writes -> clean-up -> status
//! key of a Node      -> node_updates -> wakes the DaemonSets that it concerns
//! ```
//!
//! *Source*: kube-controller-manager 1.37.2, pkg/controller/daemon. Where upstream continues after a write with its
//! response, this returns the write and continues when the cache shows it. Consequences:
//! - there are no expectations, and no syncs are skipped because of a stale cache: the host guarantees
//!   read-your-writes;
//! - a rolling update replaces Pods only in a run in which no other Pod is created or deleted;
//! - among Nodes that are equally good to update, the first by name are chosen, where upstream's order is random;
//! - revision names have another hash: nothing depends on it, because revisions are found by their template;
//! - a template that does not match the selector is an error, where upstream creates and releases Pods endlessly.

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
