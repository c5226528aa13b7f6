//! Scaling outside of a rollout, and proportionally during one.
//!
//! *Invariants*
//! 1. A single active ReplicaSet gets the Deployment's size.
//! 2. With several, each grows or shrinks by its share; the total is exactly the size plus the surge.
//! 3. Scaling up starts with the largest and newest; scaling down, with the largest and oldest.
//!
//! *Source*: sync.go, deployment_util.go.

use std::cmp::Reverse;

use crate::context::{Context, age};
use crate::replicas::{
    DESIRED_REPLICAS, MAX_REPLICAS, Strategy, count_annotation, is_active, is_saturated, max_surge, size, strategy,
    wanted,
};
use crate::types::ReplicaSet;

impl Context {
    /// Whether the Deployment's size has changed since its ReplicaSets were last scaled.
    #[doc(alias = "isScalingEvent")]
    pub(crate) fn is_scaling_event(&self) -> bool {
        self.all_sets()
            .filter(|set| is_active(set))
            .any(|set| count_annotation(set, DESIRED_REPLICAS).is_some_and(|desired| desired != wanted(&self.d)))
    }

    /// Scales the ReplicaSets to the Deployment's size.
    #[doc(alias = "scale")]
    pub(crate) fn scale_all(&mut self) {
        if let Some(only) = self.active_or_latest() {
            self.scale(only, wanted(&self.d), false);
            return;
        }
        let active = |context: &Self, i: &usize| is_active(&context.sets[*i]);
        if self.new_set().is_some_and(|new| is_saturated(&self.d, new)) {
            for i in self.old().into_iter().filter(|i| active(self, i)).collect::<Vec<_>>() {
                self.scale(i, 0, false);
            }
        } else if strategy(&self.d) == Ok(Strategy::RollingUpdate) {
            self.scale_proportionally();
        }
    }

    /// The only active ReplicaSet, or the newest if none is active; `None` if several are, or there are none.
    #[doc(alias = "FindActiveOrLatest")]
    fn active_or_latest(&self) -> Option<usize> {
        let mut active = (0..self.sets.len()).filter(|i| is_active(&self.sets[*i]));
        match (active.next(), active.next()) {
            (None, _) => self.new.or_else(|| self.sets.len().checked_sub(1)),
            (only, None) => only,
            _ => None,
        }
    }

    #[doc(alias = "ReplicaSetsBySizeNewer", alias = "ReplicaSetsBySizeOlder")]
    fn scale_proportionally(&mut self) {
        let mut active: Vec<usize> = (0..self.sets.len()).filter(|i| is_active(&self.sets[*i])).collect();
        let total: i64 = active.iter().map(|i| size(&self.sets[*i])).sum();
        let wanted = wanted(&self.d);
        let allowed = if wanted > 0 { wanted + max_surge(&self.d) } else { 0 };
        let to_add = allowed - total;
        let sets = &self.sets;
        if to_add > 0 {
            active.sort_by_key(|i| (Reverse(size(&sets[*i])), Reverse(age(&sets[*i]))));
        } else {
            active.sort_by_key(|i| (Reverse(size(&sets[*i])), age(&sets[*i])));
        }
        let mut added = 0;
        let mut sizes: Vec<i64> = Vec::with_capacity(active.len());
        for &i in &active {
            let share = self.proportion(&self.sets[i], to_add, added);
            sizes.push(size(&self.sets[i]) + share);
            added += share;
        }
        // The largest gets the rounding remainder.
        if let Some(first) = sizes.first_mut().filter(|_| to_add != 0) {
            *first = (*first + to_add - added).max(0);
        }
        for (i, size) in active.into_iter().zip(sizes) {
            self.scale(i, size, true);
        }
    }

    /// A ReplicaSet's share of `to_add`, of which `added` are already assigned.
    #[doc(alias = "GetReplicaSetProportion")]
    fn proportion(&self, set: &ReplicaSet, to_add: i64, added: i64) -> i64 {
        if size(set) == 0 || to_add == 0 || to_add == added {
            return 0;
        }
        let fraction = self.fraction(set);
        let left = to_add - added;
        if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
    }

    /// The growth of a ReplicaSet that keeps its share of the Deployment.
    #[doc(alias = "getReplicaSetFraction")]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "replicas are 32-bit numbers")]
    fn fraction(&self, set: &ReplicaSet) -> i64 {
        let wanted = wanted(&self.d);
        if wanted == 0 {
            return -size(set);
        }
        // Users may have changed the annotation.
        let before = count_annotation(set, MAX_REPLICAS)
            .filter(|before| *before != 0)
            .unwrap_or_else(|| self.d.status.replicas.into());
        if before == 0 {
            return 0;
        }
        let grown = (size(set) * (wanted + max_surge(&self.d))) as f64 / before as f64;
        grown.round() as i64 - size(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::{context, sized, sizes};

    /// Scales ReplicaSets, oldest first, that were last scaled for `before` replicas and surge.
    fn scaled(spec: &str, before: (i64, i64), sets: &[(&str, i64)], new: Option<&str>) -> Vec<(String, i64)> {
        let sets = sets.iter().map(|(name, replicas)| {
            let mut set = sized(name, *replicas, *replicas);
            let annotations = &mut set.metadata.annotations;
            annotations.insert(DESIRED_REPLICAS.into(), before.0.to_string());
            annotations.insert(MAX_REPLICAS.into(), (before.0 + before.1).to_string());
            set
        });
        let mut context = context(spec, sets, new);
        context.scale_all();
        sizes(&context).into_iter().map(|(name, size)| (name.to_owned(), size)).collect()
    }

    #[test]
    fn replica_sets_are_scaled_by_their_shares() {
        let v = |sizes: &[i64]| ["v1", "v2", "v3"].into_iter().zip(sizes.iter().copied()).collect::<Vec<_>>();
        for (wanted, surge, before, old, new, expected) in [
            (12, 0, (10, 0), vec![10], Some("v1"), vec![12]),
            (5, 0, (10, 0), vec![10], Some("v1"), vec![5]),
            (10, 0, (5, 0), vec![3, 2], Some("v2"), vec![6, 4]),
            (3, 0, (5, 0), vec![3, 2], Some("v2"), vec![2, 1]),
            (4, 0, (9, 0), vec![1, 8], Some("v2"), vec![0, 4]),
            (10, 0, (7, 0), vec![2, 3, 2], Some("v3"), vec![3, 4, 3]),
            (8, 0, (13, 0), vec![3, 8, 2], Some("v3"), vec![2, 5, 1]),
            // The remainder goes to the newest when growing, and is taken from the oldest when shrinking.
            (4, 0, (3, 0), vec![1, 1, 1], Some("v3"), vec![1, 1, 2]),
            (2, 0, (3, 0), vec![1, 1, 1], Some("v3"), vec![0, 1, 1]),
            // There may be no new ReplicaSet.
            (5, 0, (4, 0), vec![2, 2], None, vec![2, 3]),
            (14, 0, (10, 0), vec![3, 7], None, vec![4, 10]),
            (0, 0, (6, 0), vec![1, 2, 3], Some("v3"), vec![0, 0, 0]),
            (6, 0, (6, 0), vec![0, 0, 0], Some("v3"), vec![0, 0, 6]),
            (20, 2, (10, 2), vec![6, 6], Some("v2"), vec![11, 11]),
            (50, 6, (10, 3), vec![8, 5], Some("v2"), vec![34, 22]),
            // A write of the previous round failed: the last ReplicaSet makes up for it.
            (5, 0, (3, 0), vec![1, 1, 2], Some("v3"), vec![1, 1, 3]),
        ] {
            let bounds = format!("{{maxSurge: {surge}, maxUnavailable: 1}}");
            let spec = format!("replicas: {wanted}\nstrategy: {{type: RollingUpdate, rollingUpdate: {bounds}}}");
            let got = scaled(&spec, before, &v(&old), new);
            let expected: Vec<_> = v(&expected).into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
            assert_eq!(got, expected, "{before:?} -> {wanted}+{surge}: {old:?}");
        }
    }

    #[test]
    fn a_new_replica_set_without_available_pods_does_not_cost_the_old_ones_theirs() {
        let spec = "replicas: 2\nstrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}";
        let mut new = sized("v2", 2, 0);
        new.metadata.annotations.insert(DESIRED_REPLICAS.into(), "2".into());
        let mut context = context(spec, [sized("v1", 1, 1), new], Some("v2"));
        context.scale_all();
        assert_eq!(sizes(&context), [("v1", 1), ("v2", 2)]);
    }

    #[test]
    fn only_active_replica_sets_tell_of_a_scaling_event() {
        for (replicas, desired, expected) in [(3, "3", false), (3, "2", true), (0, "2", false), (3, "x", false)] {
            let mut set = sized("v1", replicas, replicas);
            set.metadata.annotations.insert(DESIRED_REPLICAS.into(), desired.into());
            assert_eq!(context("replicas: 3", [set], Some("v1")).is_scaling_event(), expected, "{replicas}, {desired}");
        }
    }
}
