//! Progress of a rollout: the conditions `Progressing` and `ReplicaFailure`, and the deadline.
//!
//! *Invariants*
//! 1. Without a deadline there is no condition `Progressing`.
//! 2. Progress updates `lastUpdateTime`; the deadline counts from it.
//! 3. A stuck rollout is checked again when its deadline passes, even if nothing changes in the cluster.
//!
//! *Source*: progress.go, deployment_util.go.

use std::time::Duration;

use pintle_sdk::api::meta::Condition;
use plugin_lib::conditions;

use crate::context::{Context, PROGRESSING, REPLICA_FAILURE, reason};
use crate::types::{DeploymentStatus, ReplicaSet};

impl Context {
    /// Sets the counts and the rollout's conditions.
    #[doc(alias = "syncRolloutStatus")]
    pub(crate) fn sync_rollout_status(&mut self) {
        let mut status = self.calculate_status();
        if !self.has_progress_deadline() {
            conditions::remove(&mut status.conditions, PROGRESSING);
        }
        // With one active ReplicaSet after a successful rollout there is no rollout, whatever the counts are.
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
            // Unlike others, this condition is renewed even if its reason is unchanged: the deadline counts from it.
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
    #[doc(alias = "DeploymentProgressing")]
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

    #[doc(alias = "DeploymentTimedOut")]
    fn has_timed_out(&self, status: &DeploymentStatus) -> bool {
        let Some(condition) = conditions::find(&status.conditions, PROGRESSING) else { return false };
        match condition.reason.as_str() {
            // The previous rollout succeeded; the condition of this one is not in the cache yet.
            reason::NEW_AVAILABLE => false,
            reason::TIMED_OUT => true,
            // Without a time, the deadline has passed.
            _ => condition.last_update_time.is_none_or(|since| since.plus(self.deadline()) < self.now),
        }
    }

    /// Delay until a stuck rollout is checked; `None` if it has succeeded or timed out, or has no deadline.
    #[doc(alias = "requeueStuckDeployment")]
    fn until_deadline(&self) -> Option<Duration> {
        const SECOND: Duration = Duration::from_secs(1);
        let current = self.progressing().filter(|_| self.has_progress_deadline())?;
        if self.is_complete(&self.d.status) {
            return None;
        }
        // A successful rollout never times out, whatever happens to its Pods: upstream keeps checking it.
        if matches!(current.reason.as_str(), reason::TIMED_OUT | reason::NEW_AVAILABLE) {
            return None;
        }
        let after = current.last_update_time?.plus(self.deadline()).since(self.now);
        // Times of conditions are whole seconds: wait a little longer, so as not to check too early.
        Some(if after < SECOND { after + Duration::from_millis(5) } else { after + SECOND })
    }

    /// The failure of a ReplicaSet to create or delete Pods; that of the new one takes precedence.
    #[doc(alias = "getReplicaFailures", alias = "ReplicaSetToDeploymentCondition")]
    fn replica_failure(&self) -> Option<Condition> {
        let failure = |set: &ReplicaSet| conditions::find(&set.status.conditions, REPLICA_FAILURE).cloned();
        let condition = self.new_set().into_iter().chain(self.all_sets()).find_map(failure)?;
        Some(Condition { last_update_time: condition.last_transition_time, ..condition })
    }
}

#[cfg(test)]
mod tests {
    use pintle_sdk::time::Timestamp;

    use super::*;
    use crate::test_objects::{context, sized};

    const MINUTE: i64 = 60_000_000;

    /// A Deployment of three whose `Progressing` was last updated at 0, a minute before now.
    fn stuck(spec: &str, reason: &str, available: i64) -> Context {
        let mut context = context(&format!("replicas: 3\n{spec}"), [sized("v1", 3, available)], Some("v1"));
        context.now = Timestamp::from_micros(0);
        let condition = context.condition(PROGRESSING, "True", reason, "");
        context.d.status.conditions.push(condition);
        context.d.status = context.calculate_status();
        context.now = Timestamp::from_micros(MINUTE);
        context
    }

    #[test]
    fn a_rollout_is_looked_at_again_when_its_deadline_passes() {
        for (what, spec, reason, available, expected) in [
            ("no deadline", "{}", reason::REPLICA_SET_UPDATED, 1, None),
            ("an endless one", "progressDeadlineSeconds: 2147483647", reason::REPLICA_SET_UPDATED, 1, None),
            ("complete", "progressDeadlineSeconds: 90", reason::REPLICA_SET_UPDATED, 3, None),
            ("reported", "progressDeadlineSeconds: 90", reason::TIMED_OUT, 1, None),
            ("once complete", "progressDeadlineSeconds: 30", reason::NEW_AVAILABLE, 1, None),
            ("half a minute left", "progressDeadlineSeconds: 90", reason::REPLICA_SET_UPDATED, 1, Some(31_000)),
            ("just created", "progressDeadlineSeconds: 90", reason::NEW_REPLICA_SET, 1, Some(31_000)),
            ("this very moment", "progressDeadlineSeconds: 60", reason::REPLICA_SET_UPDATED, 1, Some(5)),
            ("long overdue", "progressDeadlineSeconds: 30", reason::REPLICA_SET_UPDATED, 1, Some(5)),
        ] {
            let spec = spec.trim_matches(['{', '}']);
            let after = stuck(spec, reason, available).until_deadline();
            assert_eq!(after, expected.map(Duration::from_millis), "{what}");
        }
        let mut unknown = stuck("progressDeadlineSeconds: 90", reason::REPLICA_SET_UPDATED, 1);
        unknown.d.status.conditions.clear();
        assert_eq!(unknown.until_deadline(), None);
    }

    #[test]
    fn a_deadline_has_passed_only_after_it() {
        for (reason, seconds, expected) in [
            (reason::REPLICA_SET_UPDATED, 60, false),
            (reason::REPLICA_SET_UPDATED, 59, true),
            (reason::FOUND_NEW, 59, true),
            (reason::NEW_AVAILABLE, 1, false),
            (reason::TIMED_OUT, 600, true),
        ] {
            let context = stuck(&format!("progressDeadlineSeconds: {seconds}"), reason, 1);
            assert_eq!(context.has_timed_out(&context.d.status), expected, "{reason} {seconds}");
        }
        let mut timeless = stuck("progressDeadlineSeconds: 90", reason::REPLICA_SET_UPDATED, 1);
        timeless.d.status.conditions.iter_mut().for_each(|condition| condition.last_update_time = None);
        assert!(timeless.has_timed_out(&timeless.d.status));
    }

    #[test]
    fn progress_is_more_new_pods_fewer_old_ones_or_more_that_work() {
        let status = |replicas, updated, ready, available| DeploymentStatus {
            replicas,
            updated_replicas: updated,
            ready_replicas: ready,
            available_replicas: available,
            ..DeploymentStatus::default()
        };
        for (what, before, after, expected) in [
            ("nothing", status(10, 4, 8, 8), status(10, 4, 8, 8), false),
            ("a new one", status(10, 4, 8, 8), status(11, 5, 8, 8), true),
            ("an old one less", status(10, 4, 8, 8), status(9, 4, 7, 7), true),
            ("a new one less", status(10, 4, 8, 8), status(9, 3, 8, 8), false),
            ("one ready", status(10, 4, 8, 8), status(10, 4, 9, 8), true),
            ("one available", status(10, 4, 8, 8), status(10, 4, 8, 9), true),
            ("one broken", status(10, 4, 8, 8), status(10, 4, 7, 7), false),
        ] {
            let mut context = stuck("progressDeadlineSeconds: 90", reason::REPLICA_SET_UPDATED, 1);
            context.d.status = before;
            assert_eq!(context.has_progressed(&after), expected, "{what}");
        }
    }

    #[test]
    fn the_failure_of_the_new_replica_set_comes_first() {
        let failing = |name: &str, message: &str| {
            let mut set = sized(name, 1, 0);
            set.status.conditions.push(Condition {
                type_: REPLICA_FAILURE.into(),
                status: "True".into(),
                message: message.into(),
                last_transition_time: Some(Timestamp::from_micros(MINUTE)),
                ..Condition::default()
            });
            set
        };
        let both = context("{}", [failing("v1", "old"), failing("v2", "new")], Some("v2")).replica_failure().unwrap();
        assert_eq!((both.message.as_str(), both.last_update_time), ("new", both.last_transition_time));
        let old = context("{}", [failing("v1", "old"), sized("v2", 1, 0)], Some("v2")).replica_failure().unwrap();
        assert_eq!(old.message, "old");
        assert_eq!(context("{}", [sized("v2", 1, 0)], Some("v2")).replica_failure(), None);
    }
}
