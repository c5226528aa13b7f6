//! The work queue of a controller: deduplicating, with delays and two priorities.
//!
//! ```text
//! add_after ──> waiting ──due──> add ──> ready ──take──> running ──done──> (dirty again? ready)
//!                                 └── while running or held: dirty         └─hold──> held ──release──┘
//! ```
//!
//! Invariants:
//! 1. A key is at most once in `ready`, and never while it runs or is held.
//! 2. A key that is added while it runs or is held becomes ready exactly once afterwards.
//! 3. Of several delays of one key the earliest counts.
//! 4. Low priority never starves: of [`LOW_SHARE`] keys taken while both priorities are ready, one is low.
//!
//! Not here: the delay of a failed key (`ratelimit`), the number of concurrent runs (the dispatcher), threads and locks.
//!
//! Source: client-go's `workqueue` (`queue.go`, `delaying_queue.go`). Deliberate differences: priorities, and `held`, the
//! state of a key that has run and whose writes the caches do not show yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// While keys of both priorities are ready, one of this many is of low priority.
pub const LOW_SHARE: u32 = 16;

/// Priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Bulk work without urgency: the initial list, resyncs.
    Low,
    /// Live changes, retries, requested requeues.
    Normal,
}

/// State of a known key, apart from its delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Running { since: Instant },
    Held,
}

/// A key that must run (again).
#[derive(Clone, Copy, Debug)]
struct Dirty {
    priority: Priority,
    since: Instant,
    /// Position in `ready`; unused while the key runs or is held.
    place: u64,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    stage: Stage,
    dirty: Option<Dirty>,
}

/// A key taken from the queue; return it with [`WorkQueue::done`] or [`WorkQueue::hold`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<K> {
    /// The key.
    pub key: K,
    /// How long it was dirty.
    pub waited: Duration,
    /// Its priority in the queue.
    pub priority: Priority,
}

/// Work in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Sum of the durations of all running keys.
    pub total: Duration,
    /// The longest of these durations.
    pub longest: Duration,
}

/// A work queue.
#[derive(Debug)]
pub struct WorkQueue<K> {
    items: HashMap<K, Item>,
    /// Position -> key, by priority; the smallest position is next.
    ready: [BTreeMap<u64, K>; 2],
    waiting: BTreeMap<(Instant, u64), K>,
    /// Key -> its entry in `waiting`, and its priority afterwards.
    delays: HashMap<K, (Instant, u64, Priority)>,
    next_place: u64,
    /// Keys of normal priority taken since the last one of low priority.
    since_low: u32,
    n_dirty: usize,
    n_running: usize,
    n_held: usize,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            items: HashMap::new(),
            ready: [BTreeMap::new(), BTreeMap::new()],
            waiting: BTreeMap::new(),
            delays: HashMap::new(),
            next_place: 0,
            since_low: 0,
            n_dirty: 0,
            n_running: 0,
            n_held: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    fn place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    /// Adds a key. Returns whether it was not queued yet (for the counter of additions).
    pub fn add(&mut self, key: K, priority: Priority, now: Instant) -> bool {
        let place = self.place();
        let Some(item) = self.items.get_mut(&key) else {
            let dirty = Dirty { priority, since: now, place };
            self.items.insert(key.clone(), Item { stage: Stage::Idle, dirty: Some(dirty) });
            self.ready[priority as usize].insert(place, key);
            self.n_dirty += 1;
            return true;
        };
        match &mut item.dirty {
            Some(dirty) if priority > dirty.priority => {
                if item.stage == Stage::Idle {
                    self.ready[dirty.priority as usize].remove(&dirty.place);
                    self.ready[priority as usize].insert(place, key);
                    dirty.place = place;
                }
                dirty.priority = priority;
                false
            }
            Some(_) => false,
            // A key without a mark is running or held: it becomes ready later.
            None => {
                item.dirty = Some(Dirty { priority, since: now, place });
                self.n_dirty += 1;
                true
            }
        }
    }

    /// Adds a key after a delay. Adding it earlier does not cancel the delay.
    pub fn add_after(&mut self, key: K, delay: Duration, priority: Priority, now: Instant) -> bool {
        if delay.is_zero() {
            return self.add(key, priority, now);
        }
        // A delay beyond the range of the clock is capped at a year.
        let due = now.checked_add(delay).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3600));
        let place = self.place();
        match self.delays.get_mut(&key) {
            Some((at, entry, priority_then)) => {
                *priority_then = (*priority_then).max(priority);
                if due < *at {
                    self.waiting.remove(&(*at, *entry));
                    (*at, *entry) = (due, place);
                    self.waiting.insert((due, place), key);
                }
            }
            None => {
                self.delays.insert(key.clone(), (due, place, priority));
                self.waiting.insert((due, place), key);
            }
        }
        false
    }

    /// Makes the keys ready whose delay has passed; returns how many were not queued yet.
    pub fn advance(&mut self, now: Instant) -> usize {
        let mut n_added = 0;
        while let Some(entry) = self.waiting.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            let priority = self.delays.remove(&key).map_or(Priority::Normal, |(_, _, priority)| priority);
            n_added += usize::from(self.add(key, priority, now));
        }
        n_added
    }

    /// When [`WorkQueue::advance`] has work.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes the next key, which counts as running from now on.
    pub fn take(&mut self, now: Instant) -> Option<Taken<K>> {
        let [low, normal] = &mut self.ready;
        let low_is_due = normal.is_empty() || self.since_low + 1 >= LOW_SHARE;
        let key = if low_is_due && !low.is_empty() {
            self.since_low = 0;
            low.pop_first()?.1
        } else {
            if !low.is_empty() {
                self.since_low += 1;
            }
            normal.pop_first()?.1
        };
        let item = self.items.get_mut(&key)?;
        let dirty = item.dirty.take()?;
        item.stage = Stage::Running { since: now };
        self.n_dirty -= 1;
        self.n_running += 1;
        Some(Taken { key, waited: now.saturating_duration_since(dirty.since), priority: dirty.priority })
    }

    /// Ends a run. Returns its duration, or nothing if the key was not running.
    pub fn done(&mut self, key: &K, now: Instant) -> Option<Duration> {
        let took = self.stop_running(key, Stage::Idle, now)?;
        self.settle(key);
        Some(took)
    }

    /// Ends a run, and holds the key until [`WorkQueue::release`].
    pub fn hold(&mut self, key: &K, now: Instant) -> Option<Duration> {
        let took = self.stop_running(key, Stage::Held, now)?;
        self.n_held += 1;
        Some(took)
    }

    /// Releases a held key.
    pub fn release(&mut self, key: &K) {
        if let Some(item) = self.items.get_mut(key).filter(|item| item.stage == Stage::Held) {
            item.stage = Stage::Idle;
            self.n_held -= 1;
            self.settle(key);
        }
    }

    fn stop_running(&mut self, key: &K, next: Stage, now: Instant) -> Option<Duration> {
        let item = self.items.get_mut(key)?;
        let Stage::Running { since } = item.stage else { return None };
        item.stage = next;
        self.n_running -= 1;
        Some(now.saturating_duration_since(since))
    }

    /// Makes an idle key ready if it is dirty; forgets it otherwise.
    fn settle(&mut self, key: &K) {
        let place = self.place();
        match self.items.get_mut(key).map(|item| &mut item.dirty) {
            Some(Some(dirty)) => {
                dirty.place = place;
                self.ready[dirty.priority as usize].insert(place, key.clone());
            }
            Some(None) => {
                self.items.remove(key);
            }
            None => {}
        }
    }

    /// Number of dirty keys, including running and held ones (`workqueue_depth`).
    pub fn n_dirty(&self) -> usize {
        self.n_dirty
    }

    /// Number of ready keys.
    pub fn n_ready(&self) -> usize {
        self.ready.iter().map(BTreeMap::len).sum()
    }

    /// Number of delayed keys.
    pub fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number of keys whose delay ends before `limit`. O(those keys).
    pub fn n_waiting_until(&self, limit: Instant) -> usize {
        self.waiting.range(..(limit, 0)).count()
    }

    /// Number of running keys.
    pub fn n_running(&self) -> usize {
        self.n_running
    }

    /// Number of held keys.
    pub fn n_held(&self) -> usize {
        self.n_held
    }

    /// Durations of the work in progress. O(known keys).
    pub fn unfinished(&self, now: Instant) -> Unfinished {
        let mut unfinished = Unfinished::default();
        for item in self.items.values() {
            if let Stage::Running { since } = item.stage {
                let age = now.saturating_duration_since(since);
                unfinished.total += age;
                unfinished.longest = unfinished.longest.max(age);
            }
        }
        unfinished
    }

    /// All keys that will run: ready, delayed and dirty.
    pub fn keys(&self) -> BTreeSet<K>
    where
        K: Ord,
    {
        let dirty = self.items.iter().filter(|(_, item)| item.dirty.is_some()).map(|(key, _)| key);
        dirty.chain(self.delays.keys()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs a script of `add K`, `low K`, `after K MS`, `at MS`, `get`, `done K`, `hold K`, `release K`, and prints the
    /// results.
    fn check(script: &str, expect: expect_test::Expect) {
        let start = Instant::now();
        let mut now = start;
        let mut queue = WorkQueue::new();
        let mut out = Vec::new();
        for command in script.split('|').map(str::trim) {
            let words: Vec<&str> = command.split_whitespace().collect();
            match words.as_slice() {
                ["add", key] => drop(queue.add(key.to_string(), Priority::Normal, now)),
                ["low", key] => drop(queue.add(key.to_string(), Priority::Low, now)),
                ["after", key, ms] => {
                    let delay = Duration::from_millis(ms.parse().unwrap());
                    queue.add_after(key.to_string(), delay, Priority::Normal, now);
                }
                ["at", ms] => {
                    now = start + Duration::from_millis(ms.parse().unwrap());
                    queue.advance(now);
                }
                ["get"] => out.push(queue.take(now).map_or("-".into(), |taken| taken.key)),
                ["done", key] => drop(queue.done(&key.to_string(), now)),
                ["hold", key] => drop(queue.hold(&key.to_string(), now)),
                ["release", key] => queue.release(&key.to_string()),
                _ => panic!("{command}"),
            }
        }
        let counts = format!(
            "dirty {} ready {} waiting {} running {} held {}",
            queue.n_dirty(),
            queue.n_ready(),
            queue.n_waiting(),
            queue.n_running(),
            queue.n_held()
        );
        expect.assert_eq(&format!("{}; {counts}", out.join(" ")));
    }

    #[test]
    fn adding_a_running_key_causes_one_more_run() {
        check(
            "add a | get | add a | add a | get | done a | get | done a | get",
            expect_test::expect!["a - a -; dirty 0 ready 0 waiting 0 running 0 held 0"],
        );
    }

    #[test]
    fn a_held_key_runs_only_after_its_release() {
        check(
            "add a | get | hold a | add a | add b | get | get | release a | get",
            expect_test::expect!["a b - a; dirty 0 ready 0 waiting 0 running 2 held 0"],
        );
        check(
            "add a | get | hold a | release a | get",
            expect_test::expect!["a -; dirty 0 ready 0 waiting 0 running 0 held 0"],
        );
        check(
            "add a | get | add a | hold a | release b | get",
            expect_test::expect!["a -; dirty 1 ready 0 waiting 0 running 0 held 1"],
        );
    }

    #[test]
    fn the_earliest_delay_counts_and_fires_once() {
        check(
            "after a 50 | after a 10 | after a 30 | at 9 | get | at 10 | get | done a | at 100 | get",
            expect_test::expect!["- a -; dirty 0 ready 0 waiting 0 running 0 held 0"],
        );
    }

    #[test]
    fn a_delay_survives_a_run_in_between() {
        check(
            "after a 50 | add a | get | done a | get | at 50 | get",
            expect_test::expect!["a - a; dirty 0 ready 0 waiting 0 running 1 held 0"],
        );
    }

    #[test]
    fn live_changes_overtake_the_initial_list() {
        check(
            "low a | low b | add c | get | get | get",
            expect_test::expect!["c a b; dirty 0 ready 0 waiting 0 running 3 held 0"],
        );
        check(
            "low a | low b | add b | get | get | get",
            expect_test::expect!["b a -; dirty 0 ready 0 waiting 0 running 2 held 0"],
        );
    }

    #[test]
    fn low_priority_gets_its_share() {
        let now = Instant::now();
        let mut queue = WorkQueue::new();
        queue.add(1000, Priority::Low, now);
        for key in 0..100 {
            queue.add(key, Priority::Normal, now);
        }
        let position = (0..).position(|_| queue.take(now).is_some_and(|taken| taken.key == 1000)).unwrap();
        assert_eq!(position, LOW_SHARE as usize - 1);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add(u8, bool),
        After(u8, u16),
        Advance(u16),
        Take,
        Done(u8),
        Hold(u8),
        Release(u8),
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = 0_u8..6;
        prop_oneof![
            (key.clone(), any::<bool>()).prop_map(|(k, low)| Op::Add(k, low)),
            (key.clone(), 0_u16..50).prop_map(|(k, ms)| Op::After(k, ms)),
            (0_u16..30).prop_map(Op::Advance),
            Just(Op::Take),
            Just(Op::Take),
            key.clone().prop_map(Op::Done),
            key.clone().prop_map(Op::Hold),
            key.prop_map(Op::Release),
        ]
    }

    /// A naive model of the same rules, on lists.
    #[derive(Default)]
    struct Naive {
        ready: Vec<(u8, Priority)>,
        again: Vec<(u8, Priority)>,
        busy: Vec<u8>,
        held: Vec<u8>,
        delays: Vec<(Instant, u8)>,
        since_low: u32,
    }

    impl Naive {
        fn add(&mut self, key: u8, priority: Priority) {
            let list =
                if self.busy.contains(&key) || self.held.contains(&key) { &mut self.again } else { &mut self.ready };
            match list.iter().position(|(k, _)| *k == key) {
                Some(i) if list[i].1 < priority => {
                    list.remove(i);
                    list.push((key, priority));
                }
                Some(_) => {}
                None => list.push((key, priority)),
            }
        }

        fn free(&mut self, key: u8) {
            if let Some(i) = self.again.iter().position(|(k, _)| *k == key) {
                let entry = self.again.remove(i);
                self.ready.push(entry);
            }
        }

        fn take(&mut self) -> Option<u8> {
            let low = self.ready.iter().position(|(_, p)| *p == Priority::Low);
            let normal = self.ready.iter().position(|(_, p)| *p == Priority::Normal);
            let i = match (low, normal) {
                (Some(low), None) => low,
                (Some(low), Some(_)) if self.since_low + 1 >= LOW_SHARE => low,
                (_, Some(normal)) => {
                    self.since_low += u32::from(low.is_some());
                    normal
                }
                (None, None) => return None,
            };
            if self.ready[i].1 == Priority::Low {
                self.since_low = 0;
            }
            let (key, _) = self.ready.remove(i);
            self.busy.push(key);
            Some(key)
        }
    }

    proptest! {
        #[test]
        fn the_queue_agrees_with_a_naive_model(ops in prop::collection::vec(op(), 1..300)) {
            let mut now = Instant::now();
            let mut queue = WorkQueue::new();
            let mut naive = Naive::default();
            for op in ops {
                match op {
                    Op::Add(key, low) => {
                        let priority = if low { Priority::Low } else { Priority::Normal };
                        queue.add(key, priority, now);
                        naive.add(key, priority);
                    }
                    Op::After(key, ms) => {
                        let delay = Duration::from_millis(ms.into());
                        queue.add_after(key, delay, Priority::Normal, now);
                        match naive.delays.iter_mut().find(|(_, k)| *k == key) {
                            _ if ms == 0 => naive.add(key, Priority::Normal),
                            Some(entry) if now + delay < entry.0 => {
                                naive.delays.retain(|(_, k)| *k != key);
                                naive.delays.push((now + delay, key));
                            }
                            Some(_) => {}
                            None => naive.delays.push((now + delay, key)),
                        }
                    }
                    Op::Advance(ms) => {
                        now += Duration::from_millis(ms.into());
                        queue.advance(now);
                        naive.delays.sort_by_key(|(due, _)| *due);
                        while naive.delays.first().is_some_and(|(due, _)| *due <= now) {
                            let (_, key) = naive.delays.remove(0);
                            naive.add(key, Priority::Normal);
                        }
                    }
                    Op::Take => prop_assert_eq!(queue.take(now).map(|taken| taken.key), naive.take()),
                    Op::Done(key) | Op::Hold(key) => {
                        let hold = matches!(op, Op::Hold(_));
                        let ended = if hold { queue.hold(&key, now) } else { queue.done(&key, now) };
                        prop_assert_eq!(ended.is_some(), naive.busy.contains(&key));
                        if ended.is_some() {
                            naive.busy.retain(|k| *k != key);
                            if hold { naive.held.push(key) } else { naive.free(key) }
                        }
                    }
                    Op::Release(key) => {
                        queue.release(&key);
                        if naive.held.contains(&key) {
                            naive.held.retain(|k| *k != key);
                            naive.free(key);
                        }
                    }
                }
                prop_assert_eq!(queue.n_dirty(), naive.ready.len() + naive.again.len());
                prop_assert_eq!(queue.n_ready(), naive.ready.len());
                prop_assert_eq!(queue.n_running(), naive.busy.len());
                prop_assert_eq!(queue.n_held(), naive.held.len());
                prop_assert_eq!(queue.n_waiting(), naive.delays.len());
                prop_assert_eq!(queue.next_due(), naive.delays.iter().map(|(due, _)| *due).min());
            }
        }
    }
}
