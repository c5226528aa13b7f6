//! The namespace controller: empties a namespace that is being deleted, and removes its finalizer when nothing is left.
//!
//! *Flow*: key of a Namespace -> [`reconcile`] -> live lists -> deletions, conditions, `finalize`.
//!
//! ```text
//! Terminating? -> list Pods -> left? delete them, wait -> list the rest -> left? delete it, wait -> finalize
//! ```
//!
//! *Source*: kube-controller-manager 1.37, pkg/controller/namespace. Where upstream deletes every kind and then lists
//! what remains, this lists first and deletes only kinds with objects. Consequences:
//! - the grace period of Pods is the one of their deletion, not that of their spec;
//! - counts in conditions stop at 10,000 objects of a kind, or at the host's limit of an answer.

mod conditions;
mod content;
mod context;
mod discovery;
mod reconcile;
mod round;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
