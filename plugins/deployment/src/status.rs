//! The Deployment's status, derived from those of its ReplicaSets.
//!
//! *Invariants*
//! 1. `unavailableReplicas` is never negative.
//! 2. `Available` is true while the number of missing Pods is within the strategy's limit.
//!
//! *Not here*: the condition `Progressing` ([`crate::progress`]).
//!
//! *Source*: sync.go.

use plugin_lib::conditions;
use plugin_lib::number::narrow;

use crate::context::{AVAILABLE, Context, reason};
use crate::replicas::{actual_of, available_of, desired_of, max_unavailable, ready_of, terminating_of, wanted};
use crate::types::DeploymentStatus;

impl Context {
    /// Sets the counts and the condition `Available`.
    #[doc(alias = "syncDeploymentStatus")]
    pub(crate) fn sync_status(&mut self) {
        self.d.status = self.calculate_status();
    }

    /// The status with counts and `Available` from the cached ReplicaSets.
    #[doc(alias = "calculateStatus")]
    pub(crate) fn calculate_status(&self) -> DeploymentStatus {
        let available = available_of(self.all_sets());
        let unavailable = (desired_of(self.all_sets()) - available).max(0);
        let mut status = DeploymentStatus {
            observed_generation: self.d.metadata.generation,
            replicas: narrow(actual_of(self.all_sets())),
            updated_replicas: narrow(actual_of(self.new_set())),
            ready_replicas: narrow(ready_of(self.all_sets())),
            available_replicas: narrow(available),
            unavailable_replicas: narrow(unavailable),
            terminating_replicas: terminating_of(self.all_sets()).filter(|_| self.counts_terminating).map(narrow),
            collision_count: self.d.status.collision_count,
            conditions: self.d.status.conditions.clone(),
        };
        let condition = if available >= wanted(&self.d) - max_unavailable(&self.d) {
            self.condition(AVAILABLE, "True", reason::MINIMUM_AVAILABLE, "Deployment has minimum availability.")
        } else {
            self.condition(
                AVAILABLE,
                "False",
                reason::MINIMUM_UNAVAILABLE,
                "Deployment does not have minimum availability.",
            )
        };
        conditions::set(&mut status.conditions, condition);
        status
    }
}
