use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::policy::pending::Leaves;

/// An observer that records nothing.
#[derive(Clone, Copy, Debug)]
struct Silent;

impl QueueObserver for Silent {
    fn queued(&self, _: usize, _: usize) {}
    fn began(&self, _: Duration) {}
    fn ended(&self, _: Duration) {}
    fn retried(&self) {}
    fn replaced(&self) {}
}

const BOUND: Duration = Duration::from_secs(10);

fn key(name: &str) -> Key {
    Key { queue: "main".into(), kind: Kind::new("", "v1", "Pod"), object: ObjectKey::new("ns", name) }
}

fn queue(declared: serde_json::Value) -> Queue {
    serde_json::from_value(declared).unwrap()
}

fn table(declared: serde_json::Value, account: Arc<Account>) -> KeyTable<Silent> {
    let declared = queue(declared);
    KeyTable::new(std::iter::once((&declared, config(&declared))), account)
}

fn config(declared: &Queue) -> QueueConfig<Silent> {
    let tick_key = key("tick");
    QueueConfig { observer: Silent, concurrency: declared.n_workers() as usize, resync: None, tick_key }
}

fn failure(name: &str) -> MutationFailure {
    MutationFailure {
        step: 0,
        position: 0,
        verb: "create",
        kind: Kind::new("", "v1", "Pod"),
        object: ObjectKey::new("ns", name),
        subresource: None,
        code: 403,
        reason: "Forbidden".into(),
        message: "x".repeat(1000),
        causes: Vec::new(),
    }
}

fn write(version: u64) -> PendingWrite {
    PendingWrite {
        kind: Kind::new("", "v1", "Pod"),
        object: ObjectKey::new("ns", "p"),
        uid: "u".into(),
        resource_version: version.to_string(),
        leaves: Leaves::Object,
        labels: None,
    }
}

/// A run without writes.
fn nothing(now: Instant) -> Awaited<fn(&PendingWrite) -> bool> {
    Awaited { writes: Vec::new(), is_open: false, deadline: now + BOUND, sees: |_| true }
}

impl KeyTable<Silent> {
    fn next(&mut self, now: Instant) -> Option<Key> {
        self.advance(0, now);
        self.take(0, Gate::Open, |_| true, now).map(|taken| taken.key)
    }

    fn ran(&mut self, key: &Key, end: RunEnd<'_>, now: Instant) -> Disposition {
        self.end(0, key, end, nothing(now), now).unwrap()
    }
}

fn done(requeue_after: Option<Duration>) -> RunEnd<'static> {
    RunEnd::Done { requeue_after, error: None }
}

fn failed(failures: &[MutationFailure], requeue_after: Option<Duration>) -> RunEnd<'_> {
    RunEnd::Failed {
        requeue_after,
        error: None,
        failures,
        retry_after: Duration::ZERO,
        is_denied: false,
        only_conflicts: false,
    }
}

#[test]
fn failures_are_counted_and_kept_until_the_key_succeeds() {
    let now = Instant::now();
    let mut table = table(serde_json::json!({"name": "main"}), Account::new(1 << 20));
    table.add(key("a"), None, None, Priority::Normal, now);
    let failures = [failure("p")];
    for attempt in 0..3 {
        let now = now + BOUND * attempt;
        assert_eq!(table.next(now), Some(key("a")), "{attempt}");
        assert_eq!(table.failures(&key("a")).len(), usize::from(attempt > 0));
        let end = table.ran(&key("a"), failed(&failures, None), now);
        assert_eq!((end.attempt, end.next), (attempt, Next::Retry(Duration::from_millis(5 << attempt))));
    }
    let now = now + BOUND * 3;
    assert_eq!(table.next(now), Some(key("a")));
    let end = table.ran(&key("a"), done(None), now);
    assert_eq!((end.attempt, end.next), (3, Next::Success));
    assert_eq!((table.attempt(&key("a")), table.failures(&key("a")).len(), table.n_entries()), (0, 0, 0));
}

#[test]
fn failures_that_do_not_fit_the_account_are_not_kept() {
    let failure = failure("a");
    let n_bytes = failure.n_bytes() as u64;
    let account = Account::new(3 * n_bytes - 1);
    let kept = KeptFailures::new(&vec![failure.clone(); 2], &account);
    assert_eq!((kept.failures.len(), account.n_bytes()), (2, 2 * n_bytes));
    assert_eq!(KeptFailures::new(std::slice::from_ref(&failure), &account).failures.len(), 0);
    drop(kept);
    assert_eq!(KeptFailures::new(&vec![failure; 4], &account).failures.len(), 2);
    assert_eq!(account.n_bytes(), 0);
}

#[test]
fn a_failed_write_is_retried_after_its_backoff_whatever_requeue_the_plugin_asked_for() {
    let failures = [failure("p")];
    let now = Instant::now();
    for requeue in [None, Some(Duration::from_millis(1)), Some(Duration::from_secs(60))] {
        for max_retries in [0, 3] {
            let declared = serde_json::json!({"name": "main", "maxRetries": max_retries});
            let mut table = table(declared, Account::new(1 << 20));
            table.add(key("a"), None, None, Priority::Normal, now);
            assert!(table.next(now).is_some());
            table.ran(&key("a"), failed(&failures, requeue), now);
            let after = if max_retries == 0 { requeue.map(|after| after.max(MIN_REQUEUE)) } else { Some(MIN_REQUEUE) };
            assert_eq!(table.next_due(), after.map(|after| now + after), "{requeue:?}, {max_retries} retries");
        }
    }
}

#[test]
fn a_key_is_given_up_after_its_retries_unless_something_adds_it() {
    let now = Instant::now();
    let declared = serde_json::json!({"name": "main", "maxRetries": 1});
    for is_added in [false, true] {
        let mut table = table(declared.clone(), Account::new(1 << 20));
        table.add(key("a"), None, None, Priority::Normal, now);
        let failures = [failure("p")];
        assert!(table.next(now).is_some());
        assert!(matches!(table.ran(&key("a"), failed(&failures, None), now).next, Next::Retry(_)));
        assert!(table.next(now + BOUND).is_some());
        if is_added {
            table.add(key("a"), None, None, Priority::Normal, now);
        }
        let end = table.ran(&key("a"), failed(&failures, None), now + BOUND);
        assert_eq!(end.next, Next::GivenUp { n_failures: 1, is_dropped: !is_added });
        assert_eq!(table.next(now + BOUND).is_some(), is_added);
    }
}

#[test]
fn a_key_waits_for_its_writes_whatever_adds_it_and_however_long_it_takes() {
    let now = Instant::now();
    let mut table = table(serde_json::json!({"name": "main"}), Account::new(1 << 20));
    table.add(key("a"), None, None, Priority::Normal, now);
    assert!(table.next(now).is_some());
    let seen = RefCell::new(4);
    let sees = |write: &PendingWrite| write.resource_version.parse::<u64>().unwrap() <= *seen.borrow();
    let awaited = Awaited { writes: vec![write(5)], is_open: false, deadline: now + BOUND, sees };
    let end = table.end(0, &key("a"), done(Some(Duration::ZERO)), awaited, now).unwrap();
    assert!(end.wait.is_some());
    table.add(key("a"), None, None, Priority::Normal, now);
    let later = now + 100 * BOUND;
    assert_eq!(table.next(later), None);
    assert_eq!(table.overdue(later, BOUND).len(), 1);
    assert_eq!(table.progressed(&write(5).kind, sees), []);
    *seen.borrow_mut() = 5;
    assert_eq!(table.progressed(&write(5).kind, sees), [key("a")]);
    assert_eq!((table.next(later), table.next(later)), (Some(key("a")), None), "once");
}

#[test]
fn a_result_that_could_not_be_handled_leaves_no_key_behind() {
    let now = Instant::now();
    let mut table = table(serde_json::json!({"name": "main"}), Account::new(1 << 20));
    table.add(key("a"), None, None, Priority::Normal, now);
    assert!(table.next(now).is_some());
    table.recover(0, &key("a"), BOUND, now);
    assert_eq!((table.n_running(), table.next(now)), (0, None));
    assert_eq!(table.next(now + BOUND), Some(key("a")));
}

#[test]
fn a_queue_that_another_version_does_not_have_takes_no_keys_and_comes_back_with_the_next_one() {
    let now = Instant::now();
    let mut table = table(serde_json::json!({"name": "main"}), Account::new(1 << 20));
    table.add(key("a"), None, None, Priority::Normal, now);
    assert!(table.next(now).is_some());
    let other = queue(serde_json::json!({"name": "other"}));
    table.adopt(std::iter::once((&other, config(&other))));
    table.add(key("b"), None, None, Priority::Normal, now);
    assert_eq!(table.queues().map(|queue| &*queue.name).collect::<Vec<_>>(), ["other"]);
    assert_eq!(table.n_running(), 1, "the run that is under way");
    assert_eq!(table.ran(&key("a"), done(None), now).next, Next::Success);
    assert_eq!((table.next(now), table.is_idle(now)), (None, true));
    let main = queue(serde_json::json!({"name": "main"}));
    table.adopt(std::iter::once((&main, config(&main))));
    table.add(key("b"), None, None, Priority::Normal, now);
    assert_eq!(table.next(now), Some(key("b")));
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, u64),
    Take,
    /// The n-th running key ends like this, with this many writes.
    End(u8, End, u8),
    /// The caches show all writes so far.
    Progress,
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Done,
    Requeue(u64),
    Failed,
    Fault,
    Retry,
    Terminal,
    Lost,
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        4 => Just(End::Done),
        1 => (0..500u64).prop_map(End::Requeue),
        2 => Just(End::Failed),
        1 => Just(End::Fault),
        1 => Just(End::Retry),
        1 => Just(End::Terminal),
        1 => Just(End::Lost),
    ];
    prop_oneof![
        4 => (0..4u8, prop_oneof![3 => Just(0), 1 => 0..500u64]).prop_map(|(key, after)| Step::Add(key, after)),
        4 => Just(Step::Take),
        4 => (any::<u8>(), end, 0..3u8).prop_map(|(n, end, writes)| Step::End(n, end, writes)),
        1 => Just(Step::Progress),
        1 => (0..1000u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// In any sequence of steps, no key runs twice at the same time or before the caches show its writes, the number of
    /// workers is never exceeded, and an added key finally runs, again after the last addition.
    #[test]
    fn no_key_is_lost_doubled_or_early(steps in prop::collection::vec(step(), 0..80)) {
        let concurrency = 2;
        let declared = serde_json::json!({"name": "main", "concurrency": concurrency});
        let mut table = table(declared, Account::new(1 << 20));
        let mut now = Instant::now();
        let (mut version, mut shown) = (0u64, 0u64);
        let mut running: Vec<Key> = Vec::new();
        // The last write of each key, and whether it was added since its last run began.
        let mut wrote: BTreeMap<Key, u64> = BTreeMap::new();
        let mut added: BTreeSet<Key> = BTreeSet::new();
        let failures = [failure("p")];
        let retry = ReconcileError::Retry { message: "later".into(), after: None };
        let terminal = ReconcileError::Terminal("never".into());
        let rest = [Step::Progress, Step::Wait(3_600_000)].into_iter().chain((0..12).flat_map(|_| {
            [Step::Take, Step::End(0, End::Done, 0)]
        }));
        for step in steps.into_iter().chain(rest) {
            match step {
                Step::Add(n, after) => {
                    let key = key(&n.to_string());
                    let delay = (after > 0).then(|| Duration::from_millis(after));
                    table.add(key.clone(), None, delay, Priority::Normal, now);
                    added.insert(key);
                }
                Step::Take => {
                    if let Some(key) = table.next(now) {
                        prop_assert!(!running.contains(&key), "{key} runs twice");
                        prop_assert!(running.len() < concurrency);
                        prop_assert!(wrote.get(&key).is_none_or(|wrote| *wrote <= shown), "{key} is early");
                        added.remove(&key);
                        running.push(key);
                    }
                }
                Step::End(n, end, n_writes) => {
                    if running.is_empty() {
                        continue;
                    }
                    let key = running.remove(usize::from(n) % running.len());
                    let writes = (0..n_writes).map(|_| { version += 1; write(version) }).collect();
                    if n_writes > 0 {
                        wrote.insert(key.clone(), version);
                    }
                    let sees = |write: &PendingWrite| write.resource_version.parse::<u64>().unwrap() <= shown;
                    let awaited = Awaited { writes, is_open: false, deadline: now + BOUND, sees };
                    let end = match end {
                        End::Done => done(None),
                        End::Requeue(after) => done(Some(Duration::from_millis(after))),
                        End::Failed => failed(&failures, None),
                        End::Fault => RunEnd::Fault,
                        End::Retry => RunEnd::Declared(&retry),
                        End::Terminal => RunEnd::Declared(&terminal),
                        End::Lost => {
                            wrote.remove(&key);
                            table.recover(0, &key, BOUND, now);
                            added.insert(key);
                            continue;
                        }
                    };
                    let end = table.end(0, &key, end, awaited, now).unwrap();
                    prop_assert_eq!(end.wait.is_some(), n_writes > 0);
                    if matches!(end.next, Next::Retry(_)) {
                        added.insert(key);
                    }
                }
                Step::Progress => {
                    shown = version;
                    table.progressed(&write(0).kind, |_| true);
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
            }
        }
        prop_assert_eq!((added, running), (BTreeSet::new(), Vec::new()));
        prop_assert!(table.is_idle(now + BOUND) && table.n_overdue() == 0);
    }
}
