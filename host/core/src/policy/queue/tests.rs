use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Runs a script of `add K`, `low K`, `after K MS`, `at MS`, `get`, `done K`, `fault K` (and done), `hold K`, `release
/// K`, and prints the results.
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
            ["done", key] => {
                queue.trust(&key.to_string());
                queue.done(&key.to_string(), now);
            }
            ["fault", key] => {
                queue.fault(&key.to_string(), now);
                queue.done(&key.to_string(), now);
            }
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

#[test]
fn a_change_of_a_suspect_waits_until_its_hold_is_over() {
    check(
        "add a | get | fault a | add a | get | at 4 | get | at 5 | get",
        expect_test::expect!["a - - a; dirty 0 ready 0 waiting 0 running 1 held 0"],
    );
    // A change during the run, and one while the key is held, wait as well.
    check(
        "add a | get | add a | fault a | get | at 5 | get",
        expect_test::expect!["a - a; dirty 0 ready 0 waiting 0 running 1 held 0"],
    );
    // A requested requeue does not come earlier either; a run without a fault clears the suspect.
    check(
        "add a | get | fault a | after a 1 | at 1 | get | at 5 | get | done a | add a | get",
        expect_test::expect!["a - a a; dirty 0 ready 0 waiting 0 running 1 held 0"],
    );
}

#[test]
fn the_backoff_of_faults_grows_to_its_bound_and_changes_are_held_for_a_part_of_it() {
    let mut queue = WorkQueue::new();
    let mut now = Instant::now();
    let mut seen = Vec::new();
    for _ in 0..20 {
        queue.add(1, Priority::Normal, now);
        queue.advance(now);
        queue.take(now).unwrap();
        let suspect = queue.fault(&1, now);
        queue.done(&1, now);
        seen.push((suspect.delay.as_millis(), suspect.held_until.duration_since(now).as_millis()));
        now = suspect.held_until;
    }
    assert_eq!(seen[..3], [(5, 5), (10, 10), (20, 20)]);
    assert_eq!(
        seen[12..],
        [
            (20_480, 20_480),
            (40_960, 30_000),
            (81_920, 30_000),
            (163_840, 30_000),
            (300_000, 30_000),
            (300_000, 30_000),
            (300_000, 30_000),
            (300_000, 30_000)
        ]
    );
}

#[test]
fn suspects_run_one_at_a_time_and_leave_the_rest_to_others() {
    let mut now = Instant::now();
    let mut queue = WorkQueue::new();
    for key in 0..100 {
        queue.add(key, Priority::Normal, now);
        queue.take(now).unwrap();
        queue.fault(&key, now);
        queue.done(&key, now);
        queue.add(key, Priority::Normal, now);
    }
    now += Duration::from_millis(5);
    queue.advance(now);
    for key in 1_000..1_100 {
        queue.add(key, Priority::Normal, now);
    }
    let taken: Vec<u32> = std::iter::from_fn(|| queue.take(now)).map(|taken| taken.key).collect();
    // The first suspect never ends, so that no other suspect is taken.
    assert_eq!(taken.iter().filter(|key| **key < 1_000).count(), 1);
    assert_eq!((taken.len(), taken[SUSPECT_SHARE as usize - 1]), (101, 0));
    queue.trust(&0);
    queue.done(&0, now);
    assert_eq!(queue.take(now).map(|taken| (taken.key, taken.suspect)), Some((1, true)));
}

#[test]
fn a_trial_prefers_keys_that_have_not_faulted() {
    let mut now = Instant::now();
    let mut queue = WorkQueue::new();
    queue.add(1, Priority::Normal, now);
    queue.take(now).unwrap();
    queue.fault(&1, now);
    queue.done(&1, now);
    queue.add(1, Priority::Normal, now);
    now += Duration::from_millis(5);
    queue.advance(now);
    assert_eq!(queue.take_trial(|_| true, false, now), None);
    for key in [2, 3] {
        queue.add(key, Priority::Normal, now);
    }
    queue.add(4, Priority::Low, now);
    let mut trial = |prefer: fn(&i32) -> bool| queue.take_trial(prefer, true, now).map(|taken| taken.key);
    assert_eq!(trial(|key| *key == 4), Some(4));
    assert_eq!(trial(|key| *key == 3), Some(3));
    assert_eq!([trial(|_| false), trial(|_| false), trial(|_| false)], [Some(2), Some(1), None]);
}

#[test]
fn another_version_runs_suspects_without_a_hold() {
    let now = Instant::now();
    let mut queue = WorkQueue::new();
    for key in 0..3 {
        queue.add(key, Priority::Normal, now);
        queue.take(now).unwrap();
        queue.fault(&key, now);
        queue.done(&key, now);
    }
    queue.add(0, Priority::Normal, now);
    let now = now + Duration::from_millis(5);
    queue.advance(now);
    queue.trust_all();
    assert_eq!(queue.suspects().len(), 0);
    queue.add(1, Priority::Low, now);
    let taken: Vec<_> = std::iter::from_fn(|| queue.take(now)).map(|taken| (taken.key, taken.suspect)).collect();
    assert_eq!(taken, [(0, false), (1, false)]);
}

#[test]
fn suspects_that_are_not_queued_any_more_are_forgotten() {
    let mut now = Instant::now();
    let mut queue = WorkQueue::weighing(|_| 3);
    for key in 0..100_000 {
        queue.add(key, Priority::Normal, now);
        queue.take(now).unwrap();
        queue.fault(&key, now);
        queue.done(&key, now);
        now += Duration::from_secs(1);
    }
    assert!(queue.suspects().len() <= 2 * MIN_SUSPECTS, "{}", queue.suspects().len());
    assert_eq!(queue.n_text_bytes(), 3 * queue.suspects().len() as u64);
    queue.add(0, Priority::Normal, now);
    queue.trust_all();
    assert_eq!(queue.n_text_bytes(), 3, "of the key that is queued");
}

#[derive(Clone, Debug)]
enum Op {
    Add(u8, bool),
    After(u8, u16),
    Advance(u16),
    Take,
    Done(u8),
    Fault(u8, bool),
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
        (key.clone(), any::<bool>()).prop_map(|(k, hold)| Op::Fault(k, hold)),
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
    delays: Vec<(Instant, u8, Priority)>,
    /// Suspect -> consecutive faults, and the end of its hold.
    suspects: HashMap<u8, (u32, Instant)>,
    /// The running suspect; it was taken as one.
    running_suspect: Option<u8>,
    since_low: u32,
    since_suspect: u32,
}

impl Naive {
    fn add(&mut self, key: u8, priority: Priority, now: Instant) {
        let is_busy = self.busy.contains(&key) || self.held.contains(&key);
        let is_ready = self.ready.iter().any(|(k, _)| *k == key);
        if !is_busy
            && !is_ready
            && let Some((_, until)) = self.suspects.get(&key).filter(|(_, until)| *until > now)
        {
            self.delay(key, *until, priority);
            return;
        }
        let is_suspect = self.suspects.contains_key(&key);
        let list = if is_busy { &mut self.again } else { &mut self.ready };
        match list.iter().position(|(k, _)| *k == key) {
            // The place of a suspect does not depend on its priority.
            Some(i) if is_suspect => list[i].1 = list[i].1.max(priority),
            Some(i) if list[i].1 < priority => {
                list.remove(i);
                list.push((key, priority));
            }
            Some(_) => {}
            None => list.push((key, priority)),
        }
    }

    fn delay(&mut self, key: u8, due: Instant, priority: Priority) {
        match self.delays.iter_mut().find(|(_, k, _)| *k == key) {
            Some(entry) => {
                let priority = entry.2.max(priority);
                entry.2 = priority;
                if due < entry.0 {
                    self.delays.retain(|(_, k, _)| *k != key);
                    self.delays.push((due, key, priority));
                }
            }
            None => self.delays.push((due, key, priority)),
        }
    }

    fn queued(&self) -> impl Iterator<Item = u8> {
        let listed = self.ready.iter().chain(&self.again).map(|(key, _)| *key);
        listed.chain(self.delays.iter().map(|(_, key, _)| *key))
    }

    fn known(&self) -> BTreeSet<u8> {
        self.queued().chain(self.busy.iter().chain(&self.held).copied()).chain(self.suspects.keys().copied()).collect()
    }

    fn free(&mut self, key: u8) {
        if let Some(i) = self.again.iter().position(|(k, _)| *k == key) {
            let entry = self.again.remove(i);
            match self.suspects.get(&key) {
                Some((_, until)) => self.delay(key, *until, entry.1),
                None => self.ready.push(entry),
            }
        }
    }

    fn fault(&mut self, key: u8, now: Instant) {
        let n_before = self.suspects.get(&key).map_or(0, |(n, _)| *n);
        let hold = Duration::from_millis(5 << n_before.min(20)).min(LONGEST_HOLD);
        self.suspects.insert(key, (n_before + 1, now + hold));
    }

    fn end(&mut self, key: u8) {
        self.busy.retain(|k| *k != key);
        self.running_suspect.take_if(|running| *running == key);
    }

    fn take(&mut self) -> Option<u8> {
        let is_suspect = |key: &u8| self.suspects.contains_key(key);
        let suspect = self.ready.iter().position(|(k, _)| is_suspect(k));
        let low = self.ready.iter().position(|(k, p)| *p == Priority::Low && !is_suspect(k));
        let normal = self.ready.iter().position(|(k, p)| *p == Priority::Normal && !is_suspect(k));
        let may_suspect = suspect.filter(|_| self.running_suspect.is_none());
        let i = match (may_suspect, low, normal) {
            (Some(i), None, None) => i,
            (Some(i), ..) if self.since_suspect + 1 >= SUSPECT_SHARE => i,
            (_, Some(low), None) => low,
            (_, Some(low), Some(_)) if self.since_low + 1 >= LOW_SHARE => low,
            (_, _, Some(normal)) => normal,
            (None, None, None) => return None,
        };
        if Some(i) == may_suspect {
            self.since_suspect = 0;
            self.running_suspect = Some(self.ready[i].0);
        } else {
            self.since_suspect += u32::from(suspect.is_some());
            if Some(i) == low {
                self.since_low = 0;
            } else {
                self.since_low += u32::from(low.is_some());
            }
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
        let mut queue = WorkQueue::weighing(|key: &u8| 1 << (3 * key));
        let mut naive = Naive::default();
        for op in ops {
            match op {
                Op::Add(key, low) => {
                    let priority = if low { Priority::Low } else { Priority::Normal };
                    queue.add(key, priority, now);
                    naive.add(key, priority, now);
                }
                Op::After(key, ms) => {
                    let delay = Duration::from_millis(ms.into());
                    queue.add_after(key, delay, Priority::Normal, now);
                    if ms == 0 {
                        naive.add(key, Priority::Normal, now);
                    } else {
                        naive.delay(key, now + delay, Priority::Normal);
                    }
                }
                Op::Advance(ms) => {
                    now += Duration::from_millis(ms.into());
                    queue.advance(now);
                    loop {
                        naive.delays.sort_by_key(|(due, ..)| *due);
                        if naive.delays.first().is_none_or(|(due, ..)| *due > now) {
                            break;
                        }
                        let (_, key, priority) = naive.delays.remove(0);
                        naive.add(key, priority, now);
                    }
                }
                Op::Take => prop_assert_eq!(queue.take(now).map(|taken| taken.key), naive.take()),
                Op::Done(key) | Op::Hold(key) | Op::Fault(key, _) => {
                    let hold = matches!(op, Op::Hold(_) | Op::Fault(_, true));
                    let is_running = naive.busy.contains(&key);
                    match op {
                        Op::Fault(..) if is_running => {
                            queue.fault(&key, now);
                            naive.fault(key, now);
                        }
                        _ if is_running => {
                            queue.trust(&key);
                            naive.suspects.remove(&key);
                        }
                        _ => {}
                    }
                    let ended = if hold { queue.hold(&key, now) } else { queue.done(&key, now) };
                    prop_assert_eq!(ended.is_some(), is_running);
                    if is_running {
                        naive.end(key);
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
            prop_assert_eq!(queue.next_due(), naive.delays.iter().map(|(due, ..)| *due).min());
            for key in 0..6_u8 {
                prop_assert_eq!(queue.is_queued(&key), naive.queued().any(|queued| queued == key));
            }
            prop_assert_eq!(queue.n_text_bytes(), naive.known().into_iter().map(|key| 1 << (3 * key)).sum::<u64>());
            for (key, (_, until)) in &naive.suspects {
                let is_early = naive.busy.contains(key) && naive.running_suspect == Some(*key) && *until > now;
                prop_assert!(!is_early, "a suspect ran before its hold was over");
            }
        }
    }
}
