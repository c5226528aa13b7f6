//! Recreate: no new Pod before the last old one is deleted.
//!
//! *Invariants*
//! 1. The new ReplicaSet is created or scaled up only when no old ReplicaSet reports Pods, and none of their Pods is
//!    running.
//! 2. An ended Pod does not count as running; one in an unknown state does.
//!
//! *Source*: recreate.go.

use pintle_sdk::{Error, Lister, Query};
use plugin_lib::pods;

use crate::context::Context;
use crate::replicas::{actual_of, wanted};
use crate::sync::Next;
use crate::types::Pod;

impl Context {
    /// Advances a rollout with the strategy Recreate.
    ///
    /// # Errors
    /// Objects that do not decode; or a ReplicaSet that is missing from the cache.
    #[doc(alias = "rolloutRecreate", alias = "scaleDownOldReplicaSetsForRecreate")]
    #[doc(alias = "scaleUpNewReplicaSetForRecreate")]
    pub(crate) fn rollout_recreate(&mut self, lister: &impl Lister) -> Result<(), Error> {
        let mut scaled_down = false;
        for i in self.old() {
            scaled_down |= self.scale(i, 0, false);
        }
        if !scaled_down && !self.old_pods_running(lister)? {
            match self.ensure_new(lister)? {
                Next::Stop => return Ok(()),
                Next::Created(new) | Next::Found(new) => {
                    self.scale(new, wanted(&self.d), false);
                    if self.is_complete(&self.d.status) {
                        self.cleanup();
                    }
                }
            }
        }
        self.sync_rollout_status();
        Ok(())
    }

    #[doc(alias = "oldPodsRunning", alias = "getPodMapForDeployment")]
    fn old_pods_running(&self, lister: &impl Lister) -> Result<bool, Error> {
        if actual_of(self.old_sets()) > 0 {
            return Ok(true);
        }
        for set in self.old_sets() {
            let pods: Vec<Pod> =
                lister.list(&Query::namespace(&set.metadata.namespace).controlled_by(&set.metadata.uid))?;
            if pods.iter().any(|pod| !pods::is_terminal(pod)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
