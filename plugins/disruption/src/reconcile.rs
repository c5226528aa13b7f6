//! Dispatches a key by its queue.

use pintle_sdk::{Error, Key, Lister, Outcome, Resource};

use crate::types::{CHANGED, DISRUPTION, PodDisruptionBudget, RECHECK, STALE};
use crate::{budget, pod};

/// Dispatches the key to the handler of its queue.
///
/// # Errors
/// If an object does not fit its type. [`Error::Needs`] if the size of an owner must be read first.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    match key.queue.as_str() {
        DISRUPTION => budget::sync(key, lister),
        RECHECK => Ok(Outcome::new().wake(Key::new(DISRUPTION, PodDisruptionBudget::KIND, &key.namespace, &key.name))),
        STALE => pod::clear_stale(key, lister),
        CHANGED => pod::changed(key, lister),
        other => Err(Error::terminal(format!("queue {other:?} is none of the manifest's"))),
    }
}
