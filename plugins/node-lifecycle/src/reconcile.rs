//! Dispatches a key by its queue.

use pintle_sdk::{Error, Key, Lister, Outcome};

use crate::types::{MONITOR, NODES, PODS};
use crate::{monitor, node, pods};

/// Dispatches the key to the handler of its queue.
///
/// # Errors
/// If the configuration or the key's object does not fit its type. [`Error::Needs`] if Leases must be read first.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    match key.queue.as_str() {
        NODES => node::sync(key, lister),
        PODS => pods::sync(key, lister),
        MONITOR => monitor::pass(lister),
        other => Err(Error::terminal(format!("queue {other:?} is none of the manifest's"))),
    }
}
