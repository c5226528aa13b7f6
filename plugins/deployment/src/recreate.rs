//! Recreate: no new Pod before the last old one has gone.
//!
//! *Invariants*
//! 1. The new ReplicaSet is created or scaled up only when no old ReplicaSet reports Pods, and none of their Pods runs.
//! 2. A Pod that has ended does not count as running, one of unknown state does.
//!
//! *Source*: recreate.go.

use pintle_sdk::{Error, Lister, Query};
use plugin_lib::pods;

use crate::context::Context;
use crate::replicas::{actual_of, wanted};
use crate::sync::Next;
use crate::types::Pod;

impl Context {
    /// Advances a rollout of strategy Recreate.
    ///
    /// # Errors
    /// Objects that do not decode; or a ReplicaSet that should be in the cache and is not.
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
