//! The namespace controller: empties a namespace that is being deleted, and removes its finalizer when nothing is left.
//!
//! *Flow*: key of a Namespace -> [`reconcile`] -> live lists -> deletions, conditions, `finalize`.
//!
//! ```text
//! Terminating? -> list Pods -> left? delete them, wait -> list the rest -> left? delete it, wait -> finalize
//! ```
//!
//! *Source*: kube-controller-manager 1.36, pkg/controller/namespace.

mod conditions;
mod content;
mod discovery;
mod reconcile;
mod round;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
