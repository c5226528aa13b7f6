//! From changes of the caches to keys, on the controller's own task.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use pintle_cache::{Delta, Enqueued};
use pintle_core::object::version::ResourceVersion;
use pintle_core::policy::loops::Stamp;
use pintle_testing::cached;

use super::*;
use crate::controller::cache::keys_of_first;
use crate::controller::changes::MAX_WAITING;

fn change() -> Delta {
    Delta { kind: pod(), old: None, new: None, initial: false }
}

fn enqueued(name: &str) -> Enqueued {
    Enqueued { key: key(name), delay: None, priority: Priority::Normal, cause: None }
}

/// A plugin whose changes map to the key of its name once `may_end` allows it; its runs are logged.
fn plugin(name: &'static str, log: &Arc<Mutex<Vec<&'static str>>>) -> (Fixture, Arc<ChangeSink>, mpsc::Sender<()>) {
    let (log, waited) = (log.clone(), log.clone());
    let guest = FakeGuest::new(manifest(|_| {}), move |_, _| {
        log.lock().push(name);
        done()
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    let (end, may_end) = mpsc::channel();
    let may_end = Mutex::new(may_end);
    *fixture.cache.rules.lock() = Some(Arc::new(move |_| {
        // Bounds the test: a failure must not block other tests.
        if may_end.lock().recv_timeout(Duration::from_secs(300)).is_err() {
            waited.lock().push("waited");
        }
        vec![enqueued(name)]
    }));
    let sink = ChangeSink::new(&fixture.controller);
    fixture.start_with(sink.clone());
    (fixture, sink, end)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_rule_of_one_plugin_does_not_delay_another() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (slow, slow_sink, end_slow) = plugin("slow", &log);
    let (quick, quick_sink, end_quick) = plugin("quick", &log);
    end_quick.send(()).unwrap();
    let batch = [change()].into();
    // As an informer does it, one plugin after the other.
    slow_sink.on_changes(&batch);
    quick_sink.on_changes(&batch);
    quick.idle(Duration::ZERO).await;
    assert_eq!(*log.lock(), ["quick"]);
    end_slow.send(()).unwrap();
    slow.idle(Duration::ZERO).await;
    assert_eq!(*log.lock(), ["quick", "slow"]);
}

/// The rules of a plugin run on a task of the host, on which other plugins' tasks wait for their turn.
#[tokio::test(start_paused = true)]
async fn changes_that_lead_to_many_keys_give_other_tasks_a_turn_and_hold_few_keys() {
    const N_CHANGES: usize = 64;
    let (guest, _) = scripted(manifest(|_| {}), |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    let (turns, turn) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (log, now) = (turns.clone(), turn.clone());
    *fixture.cache.rules.lock() = Some(Arc::new(move |_| {
        log.lock().push(now.load(Ordering::Relaxed));
        vec![enqueued("all"); 200]
    }));
    let sink = ChangeSink::new(&fixture.controller);
    fixture.start_with(sink.clone());
    let other = tokio::spawn(async move {
        loop {
            turn.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    sink.on_changes(&vec![change(); N_CHANGES].into());
    fixture.idle(Duration::ZERO).await;
    other.abort();
    let mut n_in_turn = BTreeMap::<usize, usize>::new();
    turns.lock().iter().for_each(|turn| *n_in_turn.entry(*turn).or_default() += 1);
    assert_eq!(n_in_turn.values().sum::<usize>(), N_CHANGES, "each change once");
    assert!(n_in_turn.values().all(|n_changes| *n_changes <= 8), "{n_in_turn:?}");
}

#[test]
fn changes_are_mapped_until_there_are_enough_keys() {
    let mapped = |n_keys: usize| {
        let (n_changes, keys) = keys_of_first(&vec![change(); 32], 512, |_| vec![enqueued("a"); n_keys]);
        (n_changes, keys.len())
    };
    assert_eq!(
        [0, 16, 17, 200, 512, 100_000].map(mapped),
        [(32, 0), (32, 512), (31, 527), (3, 600), (1, 512), (1, 100_000)]
    );
    assert_eq!(keys_of_first(&[], 512, |_| Vec::new()).0, 0);
}

/// The keys that run after this many changes arrive before the controller starts. No rule maps any of them.
async fn runs_after(n_changes: usize) -> Vec<String> {
    let (guest, calls) = scripted(manifest(|_| {}), |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    *fixture.cache.all_keys.lock() = vec![key("a"), key("b")];
    let sink = ChangeSink::new(&fixture.controller);
    for _ in 0..n_changes / 64 {
        sink.on_changes(&vec![change(); 64].into());
    }
    sink.on_changes(&vec![change(); n_changes % 64].into());
    fixture.start_with(sink);
    fixture.idle(Duration::ZERO).await;
    let calls = calls.lock();
    calls.iter().map(|(_, key, _)| key.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn changes_up_to_the_bound_wait() {
    assert_eq!(runs_after(MAX_WAITING).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn changes_over_the_bound_run_every_key() {
    assert_eq!(runs_after(MAX_WAITING + 1).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn objects_of_dropped_changes_go_through_the_rules_again() {
    let (guest, calls) = scripted(manifest(|_| {}), |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    let names = |delta: &Delta| delta.object().map(|object| enqueued(&object.name)).into_iter().collect();
    *fixture.cache.rules.lock() = Some(Arc::new(names));
    let state = |name: &str, version: &str| {
        let mut object = cached(name, None);
        Arc::get_mut(&mut object)?.meta.resource_version = ResourceVersion::parse(version);
        Some(object)
    };
    *fixture.cache.objects.lock() = vec![Delta { new: state("cached", "7"), initial: true, ..change() }];
    let sink = ChangeSink::new(&fixture.controller);
    sink.on_changes(&vec![change(); MAX_WAITING].into());
    sink.on_changes(&[Delta { new: state("cached", "6"), ..change() }].into());
    sink.on_changes(&[Delta { old: state("gone", "5"), ..change() }].into());
    fixture.start_with(sink);
    fixture.idle(Duration::ZERO).await;
    let mut ran: Vec<String> = calls.lock().iter().map(|(_, key, _)| key.clone()).collect();
    ran.sort();
    assert_eq!(ran, ["cached", "gone"]);
}

#[tokio::test(start_paused = true)]
async fn every_key_runs_after_the_task_that_takes_changes_has_panicked() {
    let (guest, calls) = scripted(manifest(|_| {}), |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    *fixture.cache.all_keys.lock() = vec![key("lost")];
    let n_calls = AtomicUsize::new(0);
    *fixture.cache.rules.lock() = Some(Arc::new(move |_| {
        assert!(n_calls.fetch_add(1, Ordering::Relaxed) > 0, "boom");
        vec![enqueued("b")]
    }));
    let sink = ChangeSink::new(&fixture.controller);
    fixture.start_with(sink.clone());
    sink.on_changes(&[change()].into());
    tokio::time::sleep(Duration::from_secs(1)).await;
    sink.on_changes(&[change()].into());
    fixture.idle(Duration::ZERO).await;
    let ran: Vec<String> = calls.lock().iter().map(|(_, key, _)| key.clone()).collect();
    assert_eq!(ran, ["lost", "b"]);
    assert_eq!(fixture.controller.supervisor.panics(), [("changes", 1)]);
}

#[tokio::test(start_paused = true)]
async fn every_key_runs_after_the_dispatcher_has_panicked_and_a_held_key_stays_held() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p"]) } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    *fixture.cache.all_keys.lock() = vec![key("a"), key("lost")];
    fixture.cache.version.store(100, Ordering::Relaxed);
    fixture.cache.is_fragile_to_reopen.store(true, Ordering::Relaxed);
    fixture.start();
    fixture.add(&["a"]);
    // The bound passes, so that the dispatcher has a watch reopened.
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(fixture.controller.supervisor.panics(), [("dispatcher", 1)]);
    let ran = || calls.lock().iter().map(|(_, key, _)| key.clone()).collect::<Vec<String>>();
    assert_eq!(ran(), ["a", "lost"]);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(*fixture.cache.reopened.lock(), [pod()], "the next deadline of the held key");
    fixture.cache.version.store(101, Ordering::Relaxed);
    fixture.controller.progressed(&pod());
    fixture.idle(Duration::ZERO).await;
    assert_eq!(ran(), ["a", "lost", "a"]);
    assert!(fixture.controller.supervisor.failing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_result_cannot_be_handled_runs_again_after_the_bound() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p"]) } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.cache.is_fragile.store(true, Ordering::Relaxed);
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(times(&calls), [(0, 0), (30_000, 0)]);
    assert_eq!(fixture.controller.supervisor.panics(), [("worker", 1)]);
    assert_eq!(fixture.metric("controller_runtime_active_workers{controller=\"widgets\"}"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_its_write_runs_after_the_changes_that_came_before_the_progress() {
    let (guest, calls) =
        scripted(
            manifest(|m| m["queues"][0]["concurrency"] = 1.into()),
            |i| if i == 0 { creates(&["p"]) } else { done() },
        );
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.cache.version.store(100, Ordering::Relaxed);
    *fixture.cache.rules.lock() = Some(Arc::new(|_| vec![enqueued("b")]));
    let sink = ChangeSink::new(&fixture.controller);
    fixture.start_with(sink.clone());
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The key is held, and enqueued again.
    fixture.add(&["a"]);
    fixture.cache.version.store(101, Ordering::Relaxed);
    sink.on_changes(&[change()].into());
    sink.on_progress(&pod());
    fixture.idle(Duration::ZERO).await;
    let ran: Vec<String> = calls.lock().iter().map(|(_, key, _)| key.clone()).collect();
    assert_eq!(ran, ["a", "b", "a"]);
}

impl Fixture {
    /// From now on, each change enqueues the key `a`, which sees all that it has written.
    pub(super) fn every_change_enqueues_a(&self) {
        self.cache.version.store(u64::MAX, Ordering::Relaxed);
        *self.cache.rules.lock() =
            Some(Arc::new(|delta| vec![Enqueued { cause: Stamp::of_change(delta), ..enqueued("a") }]));
    }

    /// The caches show this version of `p`, and what follows has run.
    pub(super) async fn shows(&self, version: u64) {
        let mut object = cached("p", None);
        Arc::get_mut(&mut object).unwrap().meta.resource_version = ResourceVersion::Number(version);
        let delta = Delta { new: Some(object), ..change() };
        self.controller.changed(&*self.cache, &[delta]);
        self.idle(Duration::ZERO).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_runs_because_of_its_own_writes_alone_is_reported_once() {
    // With a status, say, that contains the time.
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i < 300 { creates(&["p"]) } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.every_change_enqueues_a();
    let shows = async |version: u64| fixture.shows(version).await;
    let n_reported = || {
        let n_events = fixture.event_reasons().iter().filter(|reason| *reason == "WritesRepeat").count();
        (n_events, fixture.metric("pintle_write_loops_total{plugin=\"widgets\"}"))
    };
    fixture.run_until_idle(&["a"]).await;
    for version in 101..199 {
        shows(version).await;
    }
    // The next run was caused by another one than the plugin.
    shows(1_000_000).await;
    assert_eq!((n_reported(), calls.lock().len()), ((0, 0), 100));
    assert_eq!(fixture.condition("Healthy"), ("True".into(), "NoFaults".into()));
    for version in 200..400 {
        shows(version).await;
    }
    assert_eq!((n_reported(), calls.lock().len()), ((1, 1), 300));
    assert_eq!(fixture.condition("Healthy"), ("False".into(), "WritesRepeat".into()));
    // Until it stops.
    shows(400).await;
    assert_eq!(fixture.condition("Healthy"), ("True".into(), "NoFaults".into()));
}
