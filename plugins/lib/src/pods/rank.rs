//! The order in which Pods are deleted.

use std::cmp::Ordering;

use pintle_sdk::time::Timestamp;

use super::{HasPhase, HasReadiness, is_ready, ready_since};

/// The fields of a Pod that determine its rank. Implement it for the plugin's own type.
pub trait HasRank: HasPhase + HasReadiness {
    /// `metadata.uid`.
    fn uid(&self) -> &str;
    /// `spec.nodeName`; empty if the Pod is not scheduled yet.
    fn node_name(&self) -> &str;
    /// `metadata.creationTimestamp`.
    fn created(&self) -> Option<Timestamp>;
    /// The annotation `controller.kubernetes.io/pod-deletion-cost`.
    fn deletion_cost(&self) -> Option<&str>;
    /// `restartCount` of each container, and whether it is a sidecar (an init container with `restartPolicy: Always`). Other init
    /// containers are left out.
    fn restarts(&self) -> Vec<(i32, bool)>;
}

/// Sorts Pods so that those to delete first come first. `neighbours` counts the Pods on the same Node that do the same
/// work, such as those of all ReplicaSets of a Deployment.
///
/// The first rule that distinguishes two Pods decides; the Pod that
///
/// 1. is not on a node yet,
/// 2. is pending, or else in an unknown phase, rather than running,
/// 3. is not ready,
/// 4. has the lower `controller.kubernetes.io/pod-deletion-cost`,
/// 5. shares its node with more neighbours,
/// 6. became ready later,
/// 7. has restarted more often, and after that whose sidecars have,
/// 8. was created later
///
/// goes first. The times of 6 and 8 are compared by the logarithm of the age, and by uid within the same power of two,
/// so that Pods of the newest Node are not always chosen.
#[doc(alias = "ActivePodsWithRanks")]
pub fn rank<P: HasRank>(pods: &[P], neighbours: impl Fn(&P) -> usize, now: Timestamp) -> Vec<&P> {
    let candidates = pods.iter().map(|pod| Candidate::new(pod, neighbours(pod))).collect();
    sort(candidates, now).into_iter().map(|candidate| candidate.pod).collect()
}

/// A Pod with the values that the rules compare.
struct Candidate<'a, P> {
    pod: &'a P,
    unassigned: bool,
    phase: u8,
    ready: bool,
    cost: i32,
    neighbours: usize,
    ready_since: Option<Timestamp>,
    /// Most restarts of a container, and of a sidecar.
    restarts: (i32, i32),
}

impl<'a, P: HasRank> Candidate<'a, P> {
    fn new(pod: &'a P, neighbours: usize) -> Self {
        let ready = is_ready(pod);
        Self {
            pod,
            unassigned: pod.node_name().is_empty(),
            phase: match pod.phase() {
                "Unknown" => 1,
                "Running" => 2,
                _ => 0,
            },
            ready,
            cost: cost(pod.deletion_cost()),
            neighbours,
            ready_since: ready_since(pod),
            restarts: most(&pod.restarts()),
        }
    }

    /// Whether this one goes before the other.
    #[doc(alias = "Less")]
    #[doc(alias = "compareMaxContainerRestarts")]
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
        let (created, other_created) = (self.pod.created(), other.pod.created());
        created != other_created && self.is_younger(other, created, other_created, now)
    }

    /// Compares times that differ. An absent time counts as later than any.
    #[doc(alias = "afterOrZero")]
    #[doc(alias = "logarithmicRankDiff")]
    fn is_younger(&self, other: &Self, own: Option<Timestamp>, others: Option<Timestamp>, now: Timestamp) -> bool {
        let (Some(own), Some(others)) = (own, others) else { return own.is_none() };
        match magnitude(now, own).cmp(&magnitude(now, others)) {
            Ordering::Equal => self.pod.uid() < other.pod.uid(),
            order => order == Ordering::Less,
        }
    }
}

/// The age in nanoseconds as a power of two; `None`, the smallest, for an age of zero or less.
#[doc(alias = "logarithmicRankDiff")]
fn magnitude(now: Timestamp, since: Timestamp) -> Option<u32> {
    now.since(since).as_nanos().checked_ilog2()
}

#[doc(alias = "GetDeletionCostFromPodAnnotations")]
#[doc(alias = "validFirstDigit")]
fn cost(annotation: Option<&str>) -> i32 {
    let Some(text) = annotation else { return 0 };
    // Plus signs and leading zeros are invalid, although they would parse.
    let plain = text == "0" || text.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    if plain { text.parse().unwrap_or(0) } else { 0 }
}

/// Most restarts of a container, and of a sidecar.
#[doc(alias = "maxContainerRestarts")]
fn most(restarts: &[(i32, bool)]) -> (i32, i32) {
    let most = |of_sidecars| {
        let counts = restarts.iter().filter(|(_, is_sidecar)| *is_sidecar == of_sidecars).map(|(count, _)| *count);
        counts.max().unwrap_or(0).max(0)
    };
    (most(false), most(true))
}

/// Merge sort. It terminates with some order even where the rules contradict one another. Rules 6 to 8 together are no
/// total order, so the sort must not require one: that of std may panic.
fn sort<P: HasRank>(mut candidates: Vec<Candidate<'_, P>>, now: Timestamp) -> Vec<Candidate<'_, P>> {
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

    #[derive(Default)]
    struct Pod {
        name: String,
        uid: String,
        node_name: String,
        phase: String,
        created: Option<Timestamp>,
        ready: Option<Option<Timestamp>>,
        cost: Option<String>,
        restarts: Vec<(i32, bool)>,
    }

    impl HasPhase for Pod {
        fn phase(&self) -> &str {
            &self.phase
        }
    }

    impl HasReadiness for Pod {
        fn ready(&self) -> Option<Option<Timestamp>> {
            self.ready
        }
    }

    impl HasRank for Pod {
        fn uid(&self) -> &str {
            &self.uid
        }

        fn node_name(&self) -> &str {
            &self.node_name
        }

        fn created(&self) -> Option<Timestamp> {
            self.created
        }

        fn deletion_cost(&self) -> Option<&str> {
            self.cost.as_deref()
        }

        fn restarts(&self) -> Vec<(i32, bool)> {
            self.restarts.clone()
        }
    }

    /// `name uid=.. node=.. phase=.. ready=AGE created=AGE cost=.. restarts=.. sidecar=.. rank=..`; ages are in
    /// seconds, `ready=?` is ready without a time.
    fn pod(text: &str, now: Timestamp) -> (Pod, usize) {
        let mut words = text.split_whitespace();
        let mut pod = Pod {
            name: words.next().unwrap().to_owned(),
            node_name: "node".into(),
            phase: "Running".into(),
            ..Pod::default()
        };
        let mut rank = 0;
        let ago = |seconds: &str| seconds.parse().ok().map(|s| now.minus(std::time::Duration::from_secs(s)));
        for (field, value) in words.map(|word| word.split_once('=').unwrap()) {
            match field {
                "uid" => pod.uid = value.into(),
                "node" => pod.node_name = value.into(),
                "phase" => pod.phase = value.into(),
                "created" => pod.created = ago(value),
                "cost" => pod.cost = Some(value.into()),
                "rank" => rank = value.parse().unwrap(),
                "restarts" | "sidecar" => pod.restarts.push((value.parse().unwrap(), field == "sidecar")),
                "ready" => pod.ready = Some(ago(value)),
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
        ] {
            assert!(!precedes(first, second) && !precedes(second, first), "{first} and {second}");
        }
    }

    #[test]
    fn contradicting_rules_still_give_every_pod_once() {
        // By uid: b before c before a; by restarts, which count because both are ready since the same time: a before b.
        let texts = ["a uid=3 ready=20000 restarts=9", "b uid=1 ready=20000", "c uid=2 ready=20001"];
        let pods: Vec<_> = (0..100).map(|i| pod(texts[i * 7 % 3], now()).0).collect();
        let sorted = rank(&pods, |_| 0, now());
        let mut names: Vec<_> = sorted.iter().map(|pod| pod.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!((names.iter().filter(|name| **name == "a").count(), names.len()), (34, 100));
    }
}
