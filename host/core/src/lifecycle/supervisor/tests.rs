use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// A key: namespace and number.
type Numbered = (&'static str, u32);

const NAMESPACES: [&str; 5] = ["a", "b", "c", "d", "e"];

struct Fixture {
    supervisor: Supervisor<Numbered>,
    suspects: HashSet<Numbered>,
    now: Instant,
}

impl Fixture {
    fn new(policy: FailurePolicy) -> Self {
        Self { supervisor: Supervisor::new(policy), suspects: HashSet::new(), now: Instant::now() }
    }

    /// Takes a key and ends its run; `None` if it may not be taken.
    fn run(&mut self, key: Numbered, faulted: bool) -> Option<Option<Change>> {
        let suspect = self.suspects.contains(&key);
        match self.supervisor.gate(self.now) {
            Gate::Shut => return None,
            Gate::Trial { suspects } if suspect && !suspects => return None,
            Gate::Open | Gate::Trial { .. } => {}
        }
        self.supervisor.took(&key, suspect);
        if faulted {
            self.suspects.insert(key);
        } else {
            self.suspects.remove(&key);
        }
        Some(self.supervisor.ran(&key, faulted, self.now))
    }

    /// Faults of `n_keys` keys in each namespace.
    fn faults(&mut self, namespaces: &[&'static str], n_keys: u32) -> Vec<Change> {
        let keys = (0..n_keys).flat_map(|i| namespaces.iter().map(move |namespace| (*namespace, i)));
        keys.collect::<Vec<_>>().into_iter().filter_map(|key| self.run(key, true).flatten()).collect()
    }
}

#[test]
fn one_namespace_never_pauses_a_plugin_for_others() {
    let mut f = Fixture::new(FailurePolicy::Quarantine);
    assert_eq!(f.faults(&["a"], 10_000), []);
    assert_eq!(f.faults(&["a", "b"], 10_000), [], "nor do two");
    // A healthy majority of namespaces outweighs any number of keys.
    let mut f = Fixture::new(FailurePolicy::Quarantine);
    for namespace in ["v", "w", "x"] {
        assert_eq!(f.run((namespace, 0), false), Some(None));
    }
    assert_eq!(f.faults(&["a", "b", "c"], 1_000), []);
}

#[test]
fn cluster_scoped_keys_are_one_namespace_and_each_namespace_is_its_own() {
    let key = |kind: &str, namespace: &str, name: &str| Key {
        queue: "q".into(),
        kind: kind.parse().unwrap(),
        object: crate::object::id::ObjectKey::new(namespace, name),
    };
    assert_eq!(key("v1/Pod", "web", "p").scope(), "web");
    assert_eq!(key("v1/Node", "", "n").scope(), "");
    assert_eq!(key("v1/Namespace", "", "web").scope(), "web");
    assert_eq!(key("example.com/v1/Namespace", "", "web").scope(), "");
}

#[test]
fn most_keys_of_most_namespaces_pause_the_plugin_and_a_successful_trial_ends_the_pause() {
    let mut f = Fixture::new(FailurePolicy::Quarantine);
    assert_eq!(f.faults(&["a", "b"], 2), []);
    assert_eq!(f.run(("c", 0), true), Some(Some(Change::Paused(FIRST_PAUSE))));
    assert_eq!(f.run(("d", 0), false), None);
    assert_eq!(f.supervisor.next_wakeup(f.now), Some(f.now + FIRST_PAUSE));
    f.now += FIRST_PAUSE;
    assert_eq!(f.supervisor.gate(f.now), Gate::Trial { suspects: true });
    f.supervisor.took(&("d", 0), false);
    assert_eq!(f.supervisor.gate(f.now), Gate::Shut, "one trial at a time");
    assert_eq!(f.supervisor.ran(&("d", 0), false, f.now), Some(Change::Recovered));
    assert_eq!((f.supervisor.gate(f.now), f.supervisor.recent()), (Gate::Open, Recent::default()));
}

#[test]
fn a_minority_of_keys_does_not_pause() {
    for (n_well, pauses) in [(5, false), (4, true)] {
        let mut f = Fixture::new(FailurePolicy::Quarantine);
        for i in 0..n_well {
            f.run(("a", 100 + i), false);
        }
        let faults = [("b", 0), ("c", 0), ("c", 1), ("d", 0), ("d", 1)];
        let paused = faults.into_iter().filter_map(|key| f.run(key, true).flatten()).count();
        assert_eq!(paused > 0, pauses, "{n_well} others are well");
    }
}

#[test]
fn runs_count_for_a_minute() {
    let mut f = Fixture::new(FailurePolicy::Quarantine);
    assert_eq!(f.faults(&["a", "b", "c"], 1), []);
    f.now += WINDOW;
    assert_eq!(f.faults(&["d", "e"], 1), []);
    assert_eq!(f.supervisor.recent(), Recent { n_keys: 2, n_faulted: 2, n_namespaces: 2, n_faulting_namespaces: 2 });
    f.now += WINDOW - Duration::from_millis(1);
    assert_eq!(f.faults(&["a", "b", "c"], 1).len(), 1);
}

#[test]
fn a_trial_takes_a_key_that_has_not_faulted_before_the_pause_is_over() {
    let mut f = Fixture::new(FailurePolicy::Quarantine);
    f.faults(&["a", "b", "c"], 2);
    assert!(!f.supervisor.prefers(&("a", 9)) && f.supervisor.prefers(&("v", 0)));
    for i in 0..8 {
        f.now += LONGEST_PAUSE;
        assert!(matches!(f.run(("a", 100 + i), true), Some(Some(Change::Paused(_)))));
    }
    assert_eq!(f.supervisor.pause(f.now), Some(Duration::from_secs(256)));
    f.now += LONGEST_TRIAL_GAP;
    assert_eq!(f.run(("a", 0), true), None, "a suspect waits for the end of the pause");
    assert_eq!(f.run(("v", 0), false), Some(Some(Change::Recovered)));
}

#[test]
fn pauses_grow_to_their_bound_by_keys_that_had_not_faulted_and_become_short_again() {
    let mut f = Fixture::new(FailurePolicy::Quarantine);
    let mut pauses = f.faults(&["a", "b", "c"], 2);
    for i in 0..10 {
        f.now += LONGEST_PAUSE;
        pauses.extend(f.run(("a", 100 + i), true).unwrap());
        // Another fault of a faulting key is no evidence.
        f.now += LONGEST_PAUSE;
        assert_eq!(f.run(("a", 0), true).unwrap().as_ref(), pauses.last());
    }
    let seconds: Vec<u64> =
        pauses.iter().map(|change| if let Change::Paused(pause) = change { pause.as_secs() } else { 0 }).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    f.now += LONGEST_PAUSE;
    assert_eq!(f.run(("a", 0), false), Some(Some(Change::Recovered)));
    f.now += FORGIVEN + Duration::from_secs(1);
    assert_eq!(f.faults(&["a", "b", "c"], 2), [Change::Paused(FIRST_PAUSE)]);
}

#[test]
fn policies() {
    let mut f = Fixture::new(FailurePolicy::Retry);
    assert_eq!(f.faults(&NAMESPACES, 100), []);
    let mut f = Fixture::new(FailurePolicy::Disable);
    assert_eq!(f.faults(&NAMESPACES, 10), [Change::Disabled]);
    f.now += Duration::from_secs(1_000_000);
    assert_eq!(f.run(("a", 0), false), None);
    f.supervisor.reset();
    assert_eq!(f.run(("a", 0), false), None);
    f.supervisor.enable();
    assert_eq!(f.run(("a", 0), false), Some(None));
}

#[test]
fn runs_that_were_in_flight_change_no_pause_and_no_trial() {
    let mut f = Fixture::new(FailurePolicy::Quarantine);
    assert_eq!(f.faults(&NAMESPACES, 10).len(), 1);
    assert_eq!(f.supervisor.ran(&("x", 20), true, f.now), None);
    assert_eq!(f.supervisor.ran(&("x", 21), false, f.now), None);
    assert_eq!(f.supervisor.gate(f.now), Gate::Shut);
    f.now += FIRST_PAUSE;
    f.supervisor.took(&("x", 22), false);
    assert_eq!(f.supervisor.ran(&("x", 23), false, f.now), None);
    assert_eq!(f.supervisor.ran(&("x", 22), true, f.now), Some(Change::Paused(Duration::from_secs(2))));
}

/// A key in a numbered namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Many(String, usize);

impl Scoped for Many {
    fn scope(&self) -> &str {
        &self.0
    }
}

#[test]
fn the_keys_that_count_are_bounded_in_each_namespace_and_in_all() {
    const MAX_KEYS: usize = 50_000;
    let now = Instant::now();
    let mut window = Window::new();
    let mut n_keys = |namespace: usize, n: usize| {
        (0..n).for_each(|i| window.ran(&Many(namespace.to_string(), i), true, now));
        window.recent().n_keys
    };
    assert_eq!(n_keys(0, MAX_NAMESPACE_KEYS), 256);
    assert_eq!(n_keys(0, MAX_NAMESPACE_KEYS + 10), 256, "whoever has more objects counts no more");
    let n_full = MAX_KEYS / MAX_NAMESPACE_KEYS;
    assert_eq!((1..n_full).map(|namespace| n_keys(namespace, MAX_NAMESPACE_KEYS)).max(), Some(n_full * 256));
    assert_eq!(n_keys(n_full, MAX_NAMESPACE_KEYS), MAX_KEYS);
    assert_eq!(n_keys(n_full + 1, 1), MAX_KEYS);
}

/// The rule of a pause, computed from scratch.
fn naive(runs: &HashMap<Numbered, (Instant, bool)>, now: Instant) -> Recent {
    let recent: Vec<_> = runs.iter().filter(|(_, (at, _))| *at + WINDOW > now).collect();
    let of = |namespace: &str| {
        let keys: Vec<bool> = recent.iter().filter(|(key, _)| key.0 == namespace).map(|(_, (_, f))| *f).collect();
        (keys.len(), keys.iter().filter(|faulted| **faulted).count())
    };
    let tallies: Vec<_> = NAMESPACES.iter().map(|namespace| of(namespace)).filter(|(n, _)| *n > 0).collect();
    Recent {
        n_keys: recent.len(),
        n_faulted: recent.iter().filter(|(_, (_, faulted))| *faulted).count(),
        n_namespaces: tallies.len(),
        n_faulting_namespaces: tallies.iter().filter(|(n, faulted)| 2 * faulted > *n).count(),
    }
}

proptest! {
    #[test]
    fn the_window_agrees_with_a_naive_model(
        runs in prop::collection::vec((0..NAMESPACES.len(), 0_u32..20, any::<bool>(), 0_u64..8_000), 1..300),
    ) {
        let mut now = Instant::now();
        let mut window = Window::new();
        let mut all = HashMap::new();
        for (namespace, number, faulted, ms) in runs {
            now += Duration::from_millis(ms);
            let key = (NAMESPACES[namespace], number);
            window.ran(&key, faulted, now);
            all.insert(key, (now, faulted));
            prop_assert_eq!(window.recent(), naive(&all, now));
        }
    }

    #[test]
    fn two_namespaces_never_pause_the_plugin_whatever_they_do(
        runs in prop::collection::vec((0..NAMESPACES.len(), 0_u32..300, any::<bool>(), 0_u64..1_000), 1..2_000),
    ) {
        let mut f = Fixture::new(FailurePolicy::Quarantine);
        for (namespace, number, faulted, ms) in runs {
            f.now += Duration::from_millis(ms);
            let faulted = faulted && namespace < 2;
            prop_assert_eq!(f.run((NAMESPACES[namespace], number), faulted), Some(None));
        }
    }

    /// If any number of namespaces fault, a healthy key of another namespace still runs within the gap between two
    /// trials.
    #[test]
    fn a_healthy_key_waits_for_at_most_one_trial(
        runs in prop::collection::vec((0..NAMESPACES.len(), 0_u32..3_000, 0_u64..30_000), 1..500),
    ) {
        let mut f = Fixture::new(FailurePolicy::Quarantine);
        for (namespace, number, ms) in runs {
            f.now += Duration::from_millis(ms);
            f.run((NAMESPACES[namespace], number), true);
            let mut later = f.now;
            while f.supervisor.gate(later) == Gate::Shut {
                later = f.supervisor.next_wakeup(later).unwrap();
            }
            prop_assert!(later <= f.now + LONGEST_TRIAL_GAP);
        }
    }
}
