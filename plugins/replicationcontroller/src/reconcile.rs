//! The Pods of one ReplicationController.

use pintle_sdk::{Error, Key, Lister, Outcome};
use plugin_lib::replicaset::{self, ReplicationController};

/// Computes the changes for one ReplicationController.
///
/// # Errors
/// As `replicaset::reconcile`.
#[doc(alias = "syncReplicaSet", alias = "ReplicationManager")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    replicaset::reconcile::<ReplicationController>(key, lister)
}
