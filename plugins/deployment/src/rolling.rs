//! Rolling update: creates new Pods within the surge, and deletes old ones within the availability limit.
//!
//! *Invariants*
//! 1. A run either scales the new ReplicaSet or old ones, never both. Old ones are scaled in the run that creates the new one.
//! 2. Unavailable old Pods are deleted first: deleting them costs no availability, and they would block the rollout.
//! 3. The status is written even if scaling down an old ReplicaSet fails.
//!
//! *Source*: rolling.go.

use pintle_sdk::Error;

use crate::context::Context;
use crate::replicas::{available_of, desired_of, is_active, max_unavailable, replicas_of_new, size, wanted};
use crate::sync::{Next, unknown_strategy};

impl Context {
    /// Advances a rolling update.
    ///
    /// # Errors
    /// An unknown strategy; or a ReplicaSet that is missing from the cache.
    #[doc(alias = "rolloutRolling")]
    pub(crate) fn rollout_rolling(&mut self, lister: &impl pintle_sdk::Lister) -> Result<(), Error> {
        match self.ensure_new(lister)? {
            Next::Stop => return Ok(()),
            Next::Created(new) | Next::Found(new) => {
                if !self.reconcile_new(new)? && !self.reconcile_old(new) && self.is_complete(&self.d.status) {
                    self.cleanup();
                }
            }
        }
        self.sync_rollout_status();
        Ok(())
    }

    /// Scales the new ReplicaSet towards the Deployment's size. Returns whether it changed.
    #[doc(alias = "reconcileNewReplicaSet")]
    pub(crate) fn reconcile_new(&mut self, new: usize) -> Result<bool, Error> {
        let (current, wanted) = (size(&self.sets[new]), wanted(&self.d));
        let replicas = if current >= wanted {
            wanted
        } else {
            replicas_of_new(&self.d, desired_of(self.all_sets()), current).map_err(unknown_strategy)?
        };
        Ok(self.scale(new, replicas, false))
    }

    /// Scales old ReplicaSets down. Returns whether any changed.
    #[doc(alias = "reconcileOldReplicaSets")]
    pub(crate) fn reconcile_old(&mut self, new: usize) -> bool {
        self.forgive();
        let old: Vec<usize> = self.old().into_iter().filter(|i| is_active(&self.sets[*i])).collect();
        if old.is_empty() {
            return false;
        }
        // Unavailable new Pods count as missing, or a stuck rollout would take down its predecessor.
        let new_set = &self.sets[new];
        let new_unavailable = size(new_set) - i64::from(new_set.status.available_replicas);
        let min_available = wanted(&self.d) - max_unavailable(&self.d);
        let room = desired_of(self.all_sets()) - min_available - new_unavailable;
        if room <= 0 {
            return false;
        }
        let Some(unhealthy) = self.scale_down_unhealthy(&old, room) else { return false };
        // Pods of ReplicaSets of size 0 are about to be deleted, so they do not count as available.
        let available = available_of(old.iter().chain([&new]).map(|i| &self.sets[*i]));
        let available = self.scale_down_available(&old, available - min_available);
        unhealthy + available > 0
    }

    /// Removes unavailable replicas, at most `limit`. Returns how many; `None` if a ReplicaSet reports more available
    /// Pods than its size: it has been scaled down, and its status is not updated yet.
    #[doc(alias = "cleanupUnhealthyReplicas")]
    pub(crate) fn scale_down_unhealthy(&mut self, old: &[usize], limit: i64) -> Option<i64> {
        let mut taken = 0;
        for &i in old {
            if taken >= limit {
                break;
            }
            let unhealthy = self.size(i) - i64::from(self.sets[i].status.available_replicas);
            if unhealthy < 0 {
                return None;
            }
            let count = unhealthy.min(limit - taken);
            self.scale(i, self.size(i) - count, false);
            taken += count;
        }
        Some(taken)
    }

    /// Removes replicas, oldest ReplicaSets first, at most `limit`. Returns how many.
    #[doc(alias = "scaleDownOldReplicaSetsForRollingUpdate")]
    pub(crate) fn scale_down_available(&mut self, old: &[usize], limit: i64) -> i64 {
        let mut taken = 0;
        for &i in old {
            let count = self.size(i).min(limit - taken);
            if count > 0 {
                self.scale(i, self.size(i) - count, false);
                taken += count;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use crate::test_objects::{context, sized, sizes};

    fn spec(replicas: i64, surge: i64, unavailable: i64) -> String {
        let bounds = format!("{{maxSurge: {surge}, maxUnavailable: {unavailable}}}");
        format!("replicas: {replicas}\nstrategy: {{type: RollingUpdate, rollingUpdate: {bounds}}}")
    }

    #[test]
    fn the_new_replica_set_grows_into_the_surge_and_shrinks_to_the_size() {
        for (surge, old, new, expected) in [(0, 10, 0, 0), (2, 10, 0, 2), (2, 5, 0, 7), (2, 10, 2, 2), (2, 2, 11, 10)] {
            let sets = [sized("old", old, old), sized("new", new, new)];
            let mut context = context(&spec(10, surge, 0), sets, Some("new"));
            let scaled = context.reconcile_new(1).unwrap();
            assert_eq!(
                (scaled, sizes(&context)[1].1),
                (expected != new, expected),
                "surge {surge}: {old} old, {new} new"
            );
        }
    }

    #[test]
    fn old_replicas_go_as_far_as_availability_allows() {
        for (unavailable, old, new, available, expected) in [
            (0, 10, 0, 10, 9), // Nothing may be missing and nothing surge: one goes, or nothing would ever move.
            (2, 10, 0, 10, 8),
            (2, 10, 0, 8, 8),
            (2, 10, 0, 9, 8),
            (2, 8, 2, 8, 8),
        ] {
            let sets = [sized("old", old, available), sized("new", new, 0)];
            let mut context = context(&spec(10, 0, unavailable), sets, Some("new"));
            let scaled = context.reconcile_old(1);
            let what = format!("{unavailable} may be missing: {old} old, {available} of them available, {new} new");
            assert_eq!((scaled, sizes(&context)[0].1), (expected != old, expected), "{what}");
        }
    }

    #[test]
    fn pods_of_a_replica_set_without_size_keep_nothing_available() {
        // Three Pods of `a` are terminating. Of the others nine are available and eight are required: one may be
        // deleted, and the broken one.
        let sets = [sized("a", 0, 3), sized("b", 8, 7), sized("new", 4, 2)];
        let mut context = context(&spec(10, 2, 2), sets, Some("new"));
        assert!(context.reconcile_old(2));
        assert_eq!(sizes(&context), [("a", 0), ("b", 6), ("new", 4)]);
    }

    #[test]
    fn replicas_that_are_not_available_go_first() {
        for (available, limit, expected) in [(8, 1, 1), (8, 3, 2), (8, 0, 0), (10, 3, 0)] {
            let mut context = context(&spec(10, 2, 2), [sized("old", 10, available)], None);
            assert_eq!(context.scale_down_unhealthy(&[0], limit), Some(expected), "{available} of 10, at most {limit}");
            assert_eq!(sizes(&context), [("old", 10 - expected)]);
        }
        let mut behind = context(&spec(10, 2, 2), [sized("old", 8, 10)], None);
        assert_eq!(behind.scale_down_unhealthy(&[0], 3), None);
    }

    #[test]
    fn the_oldest_replica_set_gives_first() {
        let mut context = context(&spec(10, 0, 2), [sized("a", 2, 2), sized("b", 0, 0), sized("c", 9, 9)], None);
        assert_eq!(context.scale_down_available(&[0, 1, 2], 3), 3);
        assert_eq!(sizes(&context), [("a", 0), ("b", 0), ("c", 8)]);
        assert_eq!(context.scale_down_available(&[0, 1, 2], -7), 0);
    }
}
