//! The Pods of one ReplicaSet.

use pintle_sdk::{Error, Key, Lister, Outcome};
use plugin_lib::replicaset::{self, ReplicaSet};

/// Computes the changes for one ReplicaSet.
///
/// # Errors
/// As `replicaset::reconcile`.
#[doc(alias = "syncReplicaSet")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    replicaset::reconcile::<ReplicaSet>(key, lister)
}
