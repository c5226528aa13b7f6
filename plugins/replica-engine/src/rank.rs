//! The order in which Pods are deleted.
//!
//! The first rule that tells two Pods apart decides; the Pod that
//!
//! 1. is not on a node yet,
//! 2. is pending, or else in an unknown phase, rather than running,
//! 3. is not ready,
//! 4. has the lower `controller.kubernetes.io/pod-deletion-cost`,
//! 5. shares its node with more Pods of its owner's siblings,
//! 6. became ready later,
//! 7. has restarted more often, and after that whose sidecars have,
//! 8. was created later
//!
//! goes first. The times of 6 and 8 are compared by the logarithm of the age, and by uid within the same power of two, so that
//! it does not always hit the Pods of the newest node.
//!
//! *Source*: `ActivePodsWithRanks`. Rules 6 to 8 together are no total order, so the sort must not rely on one: std's may panic.

use std::cmp::Ordering;

use pintle_sdk::pods;
use pintle_sdk::time::Timestamp;

use crate::Pod;

/// A Pod with what the rules look at.
pub(crate) struct Candidate<'a> {
    pub(crate) pod: &'a Pod,
    unassigned: bool,
    phase: u8,
    ready: bool,
    cost: i32,
    neighbours: usize,
    ready_since: Option<Timestamp>,
    /// Most restarts of a container, and of a sidecar.
    restarts: (i32, i32),
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(pod: &'a Pod, neighbours: usize) -> Self {
        let ready = pods::is_ready(pod);
        Self {
            pod,
            unassigned: pod.spec.node_name.is_empty(),
            phase: match pod.status.phase.as_str() {
                "Unknown" => 1,
                "Running" => 2,
                _ => 0,
            },
            ready,
            cost: deletion_cost(pod),
            neighbours,
            ready_since: pods::ready_since(pod),
            restarts: restarts(pod),
        }
    }

    /// Whether this one goes before the other.
    fn precedes(&self, other: &Self, now: Timestamp) -> bool {
        if self.unassigned != other.unassigned {
            return self.unassigned;
        }
        if self.phase != other.phase {
            return self.phase < other.phase;
        }
        if self.ready != other.ready {
            return !self.ready;
        }
        if self.cost != other.cost {
            return self.cost < other.cost;
        }
        if self.neighbours != other.neighbours {
            return self.neighbours > other.neighbours;
        }
        if self.ready && self.ready_since != other.ready_since {
            return self.is_younger(other, self.ready_since, other.ready_since, now);
        }
        if self.restarts != other.restarts {
            return self.restarts > other.restarts;
        }
        let (created, other_created) = (self.pod.metadata.creation_timestamp, other.pod.metadata.creation_timestamp);
        created != other_created && self.is_younger(other, created, other_created, now)
    }

    /// Compares by times that differ. No time counts as later than any.
    fn is_younger(&self, other: &Self, own: Option<Timestamp>, others: Option<Timestamp>, now: Timestamp) -> bool {
        let (Some(own), Some(others)) = (own, others) else { return own.is_none() };
        match magnitude(now, own).cmp(&magnitude(now, others)) {
            Ordering::Equal => self.pod.metadata.uid < other.pod.metadata.uid,
            order => order == Ordering::Less,
        }
    }
}

/// Power of two of the age in nanoseconds; `None`, the smallest, if there is no age yet.
fn magnitude(now: Timestamp, since: Timestamp) -> Option<u32> {
    now.since(since).as_nanos().checked_ilog2()
}

fn deletion_cost(pod: &Pod) -> i32 {
    let Some(text) = &pod.metadata.annotations.pod_deletion_cost else { return 0 };
    // Neither a plus sign nor leading zeros are valid, although they would parse.
    let plain = text == "0" || text.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    if plain { text.parse().unwrap_or(0) } else { 0 }
}

fn restarts(pod: &Pod) -> (i32, i32) {
    let most = |counts: &mut dyn Iterator<Item = i32>| counts.max().unwrap_or(0).max(0);
    let is_sidecar = |name: &str| {
        let always = Some("Always");
        pod.spec.init_containers.iter().any(|c| c.name == name && c.restart_policy.as_deref() == always)
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(|status| is_sidecar(&status.name));
    (
        most(&mut pod.status.container_statuses.iter().map(|status| status.restart_count)),
        most(&mut sidecars.map(|status| status.restart_count)),
    )
}

/// Sorts by merging; works, in some order, even where the rules contradict one another.
pub(crate) fn sort(mut candidates: Vec<Candidate<'_>>, now: Timestamp) -> Vec<Candidate<'_>> {
    if candidates.len() < 2 {
        return candidates;
    }
    let right = candidates.split_off(candidates.len() / 2);
    let mut merged = Vec::with_capacity(candidates.len() + right.len());
    let mut left = sort(candidates, now).into_iter().peekable();
    let mut right = sort(right, now).into_iter().peekable();
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        merged.extend(if b.precedes(a, now) { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{
        PodSpecInitContainers, PodStatusConditions, PodStatusContainerStatuses, PodStatusInitContainerStatuses,
    };

    /// `name uid=.. node=.. phase=.. ready=AGE created=AGE cost=.. restarts=.. sidecar=.. rank=..`; ages are in seconds, `ready=?`
    /// is ready without a time.
    fn pod(text: &str, now: Timestamp) -> (Pod, usize) {
        let mut words = text.split_whitespace();
        let mut pod = Pod::default();
        pod.metadata.name = words.next().unwrap().to_owned();
        pod.spec.node_name = "node".into();
        pod.status.phase = "Running".into();
        let mut rank = 0;
        let ago = |seconds: &str| seconds.parse().ok().map(|s| now.minus(std::time::Duration::from_secs(s)));
        for (field, value) in words.map(|word| word.split_once('=').unwrap()) {
            let restart_count = || value.parse().unwrap();
            match field {
                "uid" => pod.metadata.uid = value.into(),
                "node" => pod.spec.node_name = value.into(),
                "phase" => pod.status.phase = value.into(),
                "created" => pod.metadata.creation_timestamp = ago(value),
                "cost" => pod.metadata.annotations.pod_deletion_cost = Some(value.into()),
                "rank" => rank = value.parse().unwrap(),
                "restarts" => {
                    pod.status.container_statuses.push(PodStatusContainerStatuses { restart_count: restart_count() });
                }
                "sidecar" | "init" => {
                    let restart_policy = (field == "sidecar").then(|| "Always".to_owned());
                    let name = field.to_owned();
                    pod.spec.init_containers.push(PodSpecInitContainers { name: name.clone(), restart_policy });
                    let status = PodStatusInitContainerStatuses { name, restart_count: restart_count() };
                    pod.status.init_container_statuses.push(status);
                }
                "ready" => pod.status.conditions.push(PodStatusConditions {
                    type_: "Ready".into(),
                    status: "True".into(),
                    last_transition_time: ago(value),
                }),
                other => panic!("what is {other}?"),
            }
        }
        (pod, rank)
    }

    fn now() -> Timestamp {
        Timestamp::parse("2026-01-01T00:00:00Z").unwrap()
    }

    fn precedes(first: &str, second: &str) -> bool {
        let ((first, first_rank), (second, second_rank)) = (pod(first, now()), pod(second, now()));
        Candidate::new(&first, first_rank).precedes(&Candidate::new(&second, second_rank), now())
    }

    const MONTH: &str = "2678400";

    #[test]
    fn the_first_rule_that_tells_two_pods_apart_decides() {
        for (rule, first, second) in [
            ("unassigned before assigned", "a node= phase=Pending rank=1", "b phase=Pending rank=2"),
            ("unassigned whatever the neighbours", "a node= phase=Pending rank=2", "b phase=Pending rank=1"),
            ("pending before unknown", "a phase=Pending rank=1", "b phase=Unknown rank=2"),
            ("unknown before running", "a phase=Unknown rank=1", "b rank=2"),
            ("not ready before ready", "a", "b ready=?"),
            ("ready for no known time first", "a ready=?", "b ready=0 created=0"),
            ("more neighbours before the time of readiness", "a ready=0 created=0 rank=2", "b ready=? rank=1"),
            ("ready later first", "a ready=0 created=0", &format!("b ready={MONTH} created={MONTH}")),
            ("ready later by a power of two", "a ready=7200", "b ready=18000"),
            ("more restarts first", "a ready=0 restarts=9001", "b ready=0 restarts=3"),
            ("more restarts of sidecars first", "a ready=0 restarts=9 sidecar=9", "b ready=0 restarts=9 sidecar=1"),
            ("restarts before sidecars' restarts", "a ready=0 restarts=2 sidecar=0", "b ready=0 restarts=1 sidecar=9"),
            ("neighbours before restarts", "a ready=0 rank=2", "b ready=0 restarts=9 rank=1"),
            ("created later first", "a ready=0 created=0", &format!("b ready=0 created={MONTH}")),
            ("neighbours before creation", &format!("a ready=0 created={MONTH} rank=2"), "b ready=0 created=0 rank=1"),
            ("lower cost first", "a ready=0 cost=10 rank=1", "b ready=0 cost=100 rank=2"),
            ("negative cost first", "a ready=0 cost=-1", "b ready=0"),
            ("by uid within a power of two", "a uid=1 ready=18000", "b uid=2 ready=28800"),
        ] {
            assert!(precedes(first, second), "{rule}: {first} before {second}");
            assert!(!precedes(second, first), "{rule}: {second} not before {first}");
        }
    }

    #[test]
    fn equivalent_pods_have_no_order() {
        for (first, second) in [
            ("a", "b"),
            ("a node= phase=Pending created=18000", "b node= phase=Pending created=28800"),
            ("a ready=18000", "b ready=28800"),
            ("a ready=0 cost=+5", "b ready=0 cost=007"),
            ("a ready=0 cost=99999999999", "b ready=0"),
            // Only sidecars count among init containers.
            ("a ready=0 init=9", "b ready=0"),
        ] {
            assert!(!precedes(first, second) && !precedes(second, first), "{first} and {second}");
        }
    }

    #[test]
    fn contradicting_rules_still_give_every_pod_once() {
        // By uid: b before c before a; by restarts, which count because both are ready since the same time: a before b.
        let texts = ["a uid=3 ready=20000 restarts=9", "b uid=1 ready=20000", "c uid=2 ready=20001"];
        let pods: Vec<_> = (0..100).map(|i| pod(texts[i * 7 % 3], now())).collect();
        let sorted = sort(pods.iter().map(|(pod, rank)| Candidate::new(pod, *rank)).collect(), now());
        let mut names: Vec<_> = sorted.iter().map(|candidate| candidate.pod.metadata.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!((names.iter().filter(|name| **name == "a").count(), names.len()), (34, 100));
    }
}
