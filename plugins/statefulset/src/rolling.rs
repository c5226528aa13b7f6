//! Rolling update: deletes replicas of other revisions, the highest ordinal first; a later run creates them again.
//!
//! *Source*: the end of `updateStatefulSet`, and `updateStatefulSetAfterInvariantEstablished` for `maxUnavailable`.

use pintle_sdk::int_or_percent::IntOrPercent;
use pintle_sdk::{Lister, Order};
use plugin_lib::pods;

use crate::context::Context;
use crate::history::revision;
use crate::pod_control;
use crate::set::Set;
use crate::status::is_unavailable;
use crate::types::Pod;

impl Set {
    /// Most replicas that may be unavailable, at least one.
    #[doc(alias = "getStatefulSetMaxUnavailable")]
    pub(crate) fn max_unavailable(&self) -> i64 {
        let rolling = self.object.spec.update_strategy.rolling_update.as_ref();
        let number = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let replicas = i32::try_from(self.replicas).unwrap_or(i32::MAX);
        number.and_then(|number: &IntOrPercent| number.scaled(replicas, false)).map_or(1, i64::from).max(1)
    }
}

impl<L: Lister> Context<'_, L> {
    /// Plans the rolling update; returns how many replicas of the current revision it deletes.
    pub(crate) fn roll(&mut self, counts_max_unavailable: bool) -> i32 {
        if matches!(self.set.object.spec.update_strategy.type_.as_str(), "OnDelete" | "Recreate") {
            return 0;
        }
        let chosen = match counts_max_unavailable {
            true => self.outdated_within_limit(),
            false => self.outdated_in_order().into_iter().collect(),
        };
        // An ended Pod is deleted already.
        let live = chosen.iter().filter(|pod| !pods::is_terminal(**pod));
        let deletes = live.map(|pod| pod_control::delete(self.set, pod)).collect();
        self.writes.add(Order::Sequential, deletes);
        i32::try_from(chosen.len()).unwrap_or(i32::MAX)
    }
}

impl<'a, L> Context<'a, L> {
    fn is_outdated(&self, pod: &Pod) -> bool {
        revision(pod) != Some(self.revisions.update.name()) && !pod.metadata.is_deleting()
    }

    /// The highest outdated replica, if all above it are available.
    fn outdated_in_order(&self) -> Option<&'a Pod> {
        let lowest = self.set.start + self.set.partition();
        let mut next = self.set.start + self.set.replicas - 1;
        for (ordinal, pod) in self.replicas.wanted.iter().rev() {
            // A missing replica is not available.
            if *ordinal != next || next < lowest {
                return None;
            }
            if self.is_outdated(pod) {
                return Some(pod);
            }
            if is_unavailable(pod, self.set.min_ready_seconds(), self.now) {
                return None;
            }
            next -= 1;
        }
        None
    }

    /// The highest outdated replicas, up to the limit of unavailable ones.
    ///
    /// In a parallel StatefulSet, unavailable replicas come first and have no limit: their template may be the cause.
    #[doc(alias = "updateStatefulSetAfterInvariantEstablished")]
    fn outdated_within_limit(&self) -> Vec<&'a Pod> {
        let left = self.set.max_unavailable() - self.n_unavailable();
        let lowest = self.set.start + self.set.partition();
        let wanted = self.replicas.wanted.range(lowest..).rev().map(|(_, pod)| *pod);
        let is_unlimited =
            |pod: &&Pod| !self.set.is_ordered() && is_unavailable(pod, self.set.min_ready_seconds(), self.now);
        let (mut chosen, limited): (Vec<_>, Vec<_>) =
            wanted.filter(|pod| self.is_outdated(pod)).partition(is_unlimited);
        chosen.extend(limited.into_iter().take(usize::try_from(left).unwrap_or(0)));
        chosen.truncate(self.writes.room());
        chosen
    }

    /// Number of desired replicas that are missing or unavailable.
    pub(crate) fn n_unavailable(&self) -> i64 {
        let min_ready = self.set.min_ready_seconds();
        let n_available = self.replicas.wanted.values().filter(|pod| !is_unavailable(pod, min_ready, self.now)).count();
        self.set.replicas - i64::try_from(n_available).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use pintle_sdk::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::history::{Revision, Revisions};
    use crate::replicas::Replicas;
    use crate::writes::Writes;

    const NOW: &str = "2026-03-12T12:00:00Z";

    /// As `TestStatefulSetControlRollingUpdateWithMaxUnavailableAndUnavailableStalePod`, in its order. All replicas are outdated.
    #[test]
    fn unavailable_replicas_of_a_parallel_set_go_without_a_limit() {
        let (parallel, ordered) = ("Parallel", "OrderedReady");
        // Policy, replicas, partition, limit, seconds; not ready, ready since now, terminating; deleted.
        type Row<'a> = (&'a str, i64, i64, i64, i64, &'a [i64], &'a [i64], &'a [i64], &'a [i64]);
        let rows: &[Row<'_>] = &[
            (parallel, 1, 0, 1, 0, &[0], &[], &[], &[0]),
            (parallel, 3, 0, 1, 0, &[2], &[], &[], &[2]),
            (parallel, 5, 0, 2, 0, &[3, 4], &[], &[], &[4, 3]),
            (ordered, 1, 0, 1, 0, &[0], &[], &[], &[]),
            (ordered, 3, 0, 1, 0, &[2], &[], &[], &[]),
            (ordered, 5, 0, 2, 0, &[4], &[], &[], &[4]),
            (parallel, 3, 0, 1, 0, &[], &[], &[2], &[]),
            (ordered, 3, 0, 1, 0, &[], &[], &[2], &[]),
            (parallel, 5, 0, 3, 0, &[3], &[], &[4], &[3, 2]),
            (parallel, 3, 0, 1, 30, &[], &[2], &[], &[2]),
            (ordered, 3, 0, 1, 30, &[], &[2], &[], &[]),
            (parallel, 5, 0, 3, 0, &[3], &[], &[4], &[3, 2]),
            (parallel, 5, 0, 3, 0, &[4], &[], &[3], &[4, 2]),
            (ordered, 5, 0, 3, 0, &[3], &[], &[4], &[3]),
            (ordered, 5, 0, 3, 0, &[4], &[], &[3], &[4]),
            (parallel, 5, 2, 1, 0, &[4], &[], &[], &[4]),
            (parallel, 5, 2, 1, 0, &[2], &[], &[], &[2]),
            (parallel, 5, 2, 1, 0, &[1], &[], &[], &[]),
            (ordered, 5, 2, 1, 0, &[4], &[], &[], &[]),
            (parallel, 5, 3, 2, 0, &[3, 4], &[], &[], &[4, 3]),
            (parallel, 5, 3, 2, 0, &[1, 4], &[], &[], &[4]),
            (parallel, 4, 0, 2, 0, &[0, 1], &[], &[], &[1, 0]),
            (parallel, 5, 0, 3, 0, &[0, 1], &[], &[], &[1, 0, 4]),
        ];
        let new = |name: &str| Revision::New { name: name.into(), template: Value::Null };
        let revisions = Revisions { current: new("old"), update: new("new"), collision_count: 0, write: None };
        for row in rows {
            let &(policy, replicas, partition, limit, seconds, not_ready, since_now, terminating, expected) = row;
            let strategy = json!({"rollingUpdate": {"partition": partition, "maxUnavailable": limit}});
            let spec = json!({
                "replicas": replicas, "podManagementPolicy": policy, "minReadySeconds": seconds, "updateStrategy": strategy,
                "selector": {"matchLabels": {}},
            });
            let object = json!({"metadata": {"name": "foo"}, "spec": spec});
            let set = Set::new(serde_json::from_value(object).unwrap()).unwrap();
            let pod = |ordinal: i64| {
                let since = if since_now.contains(&ordinal) { NOW } else { "2026-03-12T11:58:00Z" };
                let is_ready = if not_ready.contains(&ordinal) { "False" } else { "True" };
                let ready = json!({"type": "Ready", "status": is_ready, "lastTransitionTime": since});
                let deleted = terminating.contains(&ordinal).then_some(NOW);
                let metadata = json!({"name": format!("foo-{ordinal}"), "deletionTimestamp": deleted});
                let pod = json!({"metadata": metadata, "status": {"phase": "Running", "conditions": [ready]}});
                serde_json::from_value(pod).unwrap()
            };
            let pods: Vec<Pod> = (0..replicas).map(pod).collect();
            let replicas = &Replicas::sort(&set, &pods);
            let now = Timestamp::parse(NOW).unwrap();
            let (set, revisions, writes) = (&set, &revisions, Writes::default());
            let context = Context { lister: &(), set, revisions, replicas, failures: &[], now, writes };
            let chosen = context.outdated_within_limit();
            let names: Vec<&str> = chosen.iter().map(|pod| pod.metadata.name.as_str()).collect();
            let expected: Vec<String> = expected.iter().map(|ordinal| format!("foo-{ordinal}")).collect();
            assert_eq!(names, expected, "{row:?}");
        }
    }
}
