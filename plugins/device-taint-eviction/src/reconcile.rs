//! Dispatches a key by its queue and kind.

use pintle_sdk::{Error, Key, Lister, Outcome, Resource};

use crate::types::{CLAIMS, DeviceTaintRule, EVICTED, MAIN};
use crate::{claims, evicted, pod, status};

/// Dispatches the key to the handler of its queue and kind.
///
/// # Errors
/// If the configuration or an object does not fit its type.
#[doc(alias = "handleWork")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    match key.queue.as_str() {
        MAIN if key.kind == DeviceTaintRule::KIND => status::sync(key, lister),
        MAIN => pod::sync(key, lister),
        CLAIMS => claims::wake(key, lister),
        EVICTED => evicted::count(key, lister),
        other => Err(Error::terminal(format!("queue {other:?} is none of the manifest's"))),
    }
}
