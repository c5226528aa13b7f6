//! Progress of a rollout: the conditions `Progressing` and `ReplicaFailure`, and the deadline.
//!
//! *Invariants*
//! 1. Without a deadline there is no condition `Progressing`.
//! 2. Progress moves `lastUpdateTime`; the deadline counts from there.
//! 3. A rollout that is stuck is looked at again when its deadline passes, though nothing changes in the cluster.
//!
//! *Source*: progress.go; `DeploymentProgressing` and `DeploymentTimedOut` of deployment_util.go.

use std::time::Duration;

use pintle_sdk::api::apps::{DeploymentStatus, ReplicaSet};
use pintle_sdk::api::meta::Condition;
use pintle_sdk::conditions;

use crate::pass::{PROGRESSING, Pass, REPLICA_FAILURE, reason};

impl Pass {
    /// Takes over the counts, and says how the rollout fares.
    pub fn sync_rollout_status(&mut self) {
        let mut status = self.calculate_status();
        if !self.has_progress_deadline() {
            conditions::remove(&mut status.conditions, PROGRESSING);
        }
        // With one active ReplicaSet after a rollout that succeeded this is no rollout, whatever the counts do.
        let is_done = status.replicas == status.updated_replicas
            && self.progressing().is_some_and(|condition| condition.reason == reason::NEW_AVAILABLE);
        if self.has_progress_deadline() && !is_done {
            self.estimate_progress(&mut status);
        }
        match self.replica_failure() {
            Some(failure) => conditions::set(&mut status.conditions, failure),
            None => conditions::remove(&mut status.conditions, REPLICA_FAILURE),
        }
        self.d.status = status;
        if !self.is_status_changed()
            && let Some(after) = self.until_deadline()
        {
            self.requeue(after);
        }
    }

    fn estimate_progress(&self, status: &mut DeploymentStatus) {
        let subject = match self.new_set() {
            Some(set) => format!("ReplicaSet {:?}", set.metadata.name),
            None => format!("Deployment {:?}", self.d.metadata.name),
        };
        if self.is_complete(status) {
            let message = format!("{subject} has successfully progressed.");
            let condition = self.condition(PROGRESSING, "True", reason::NEW_AVAILABLE, message);
            conditions::set(&mut status.conditions, condition);
        } else if self.has_progressed(status) {
            let message = format!("{subject} is progressing.");
            let mut condition = self.condition(PROGRESSING, "True", reason::REPLICA_SET_UPDATED, message);
            // Unlike others, this condition is renewed though its reason is the same: the deadline counts from it.
            if let Some(current) = self.progressing().filter(|current| current.status == "True") {
                condition.last_transition_time = current.last_transition_time;
            }
            conditions::remove(&mut status.conditions, PROGRESSING);
            conditions::set(&mut status.conditions, condition);
        } else if self.has_timed_out(status) {
            let message = format!("{subject} has timed out progressing.");
            let condition = self.condition(PROGRESSING, "False", reason::TIMED_OUT, message);
            conditions::set(&mut status.conditions, condition);
        }
    }

    /// Whether there are more new Pods, fewer old ones, or more that are ready or available.
    fn has_progressed(&self, status: &DeploymentStatus) -> bool {
        let before = &self.d.status;
        let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
        status.updated_replicas > before.updated_replicas
            || old(status) < old(before)
            || status.ready_replicas > before.ready_replicas
            || status.available_replicas > before.available_replicas
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(
            self.d.spec.progress_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0),
        )
    }

    fn has_timed_out(&self, status: &DeploymentStatus) -> bool {
        let Some(condition) = conditions::find(&status.conditions, PROGRESSING) else { return false };
        match condition.reason.as_str() {
            // The rollout before this one succeeded; the condition of this one is not in the cache yet.
            reason::NEW_AVAILABLE => false,
            reason::TIMED_OUT => true,
            _ => condition.last_update_time.is_some_and(|since| since.plus(self.deadline()) < self.now),
        }
    }

    /// When to look again at a rollout that does not move; `None` if it has ended either way, or has no deadline.
    fn until_deadline(&self) -> Option<Duration> {
        const SECOND: Duration = Duration::from_secs(1);
        let current = self.progressing().filter(|_| self.has_progress_deadline())?;
        if self.is_complete(&self.d.status) || current.reason == reason::TIMED_OUT {
            return None;
        }
        let after = current.last_update_time?.plus(self.deadline()).since(self.now);
        // Times of conditions are whole seconds: wait a little longer, so as not to come too early.
        Some(if after < SECOND { after + Duration::from_millis(5) } else { after + SECOND })
    }

    /// The failure of a ReplicaSet to create or delete Pods, of the new one first.
    fn replica_failure(&self) -> Option<Condition> {
        let failure = |set: &ReplicaSet| conditions::find(&set.status.conditions, REPLICA_FAILURE).cloned();
        let condition = self.new_set().into_iter().chain(self.all_sets()).find_map(failure)?;
        Some(Condition { last_update_time: condition.last_transition_time, ..condition })
    }
}
