//! Cache changes become keys on the controller's own task.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use pintle_core::lifecycle::SwapResult;
use pintle_core::object::version::ResourceVersion;
use pintle_core::ports::guest::Run;
use pintle_core::ports::view::View;
use pintle_testing::cached;
use serde_json::json;

use super::*;
use crate::controller::changes::MAX_WAITING;

/// A change that maps to no key.
fn change() -> Delta {
    Delta { kind: pod(), old: None, new: None, initial: false }
}

/// The keys of all runs so far.
fn names(calls: &Calls) -> Vec<String> {
    calls.lock().iter().map(|(_, name, _)| name.clone()).collect()
}

/// A plugin that logs its runs.
fn plugin(name: &'static str, caches: &Arc<Caches>, log: &Arc<Mutex<Vec<&'static str>>>) -> Fixture {
    let log = log.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |_, _| {
        log.lock().push(name);
        done()
    });
    let fixture = Fixture::with_parts(guest, FakeWriter::agreeable(), FakeServer::new(), |parts| {
        parts.caches = caches.clone();
    });
    fixture.start();
    fixture
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_plugin_that_takes_no_changes_does_not_delay_another() {
    let (server, log) = (FakeServer::new(), Arc::new(Mutex::new(Vec::new())));
    let caches = Caches::new(server.clone(), CachesConfig::default());
    let (stuck, quick) = (plugin("stuck", &caches, &log), plugin("quick", &caches, &log));
    stuck.idle(Duration::ZERO).await;
    quick.idle(Duration::ZERO).await;
    let (free, freed) = std::sync::mpsc::channel::<()>();
    let (locked, is_locked) = tokio::sync::oneshot::channel();
    let controller = stuck.controller.clone();
    let holder = std::thread::spawn(move || {
        let _inner = controller.inner.lock();
        locked.send(()).unwrap();
        freed.recv().unwrap_err();
    });
    is_locked.await.unwrap();
    server.put("pods", "ns", "a", json!({}));
    until("a run of the other plugin", || !log.lock().is_empty()).await;
    quick.idle(Duration::ZERO).await;
    assert_eq!(*log.lock(), ["quick"]);
    drop(free);
    holder.join().unwrap();
    until("a run of the stuck plugin", || log.lock().len() > 1).await;
    assert_eq!(*log.lock(), ["quick", "stuck"]);
}

/// The rules of a plugin run on a task of the host, and other plugins' tasks must get their turn.
#[tokio::test(start_paused = true)]
async fn changes_that_lead_to_many_keys_give_other_tasks_a_turn() {
    const N_CHANGES: usize = 64;
    let (guest, _) = scripted(
        manifest(|m| {
            let all = json!({"kind": "apps/v1/ReplicaSet", "enqueue": [{"to": "namespaceKeys", "kind": "v1/Pod"}]});
            m["watches"].as_array_mut().unwrap().push(all);
        }),
        |_| done(),
    );
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&(0..200).map(|i| format!("p{i}")).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    // No worker takes a turn.
    fixture.controller.disable("a test");
    settle().await;
    let turn = Arc::new(AtomicUsize::new(0));
    let n_turns = turn.clone();
    let other = tokio::spawn(async move {
        loop {
            turn.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let replica_sets = Delta { kind: "apps/v1/ReplicaSet".parse().unwrap(), new: Some(cached("r", None)), ..change() };
    fixture.sink().on_changes(&vec![replica_sets; N_CHANGES].into());
    while !fixture.sink().is_idle() {
        tokio::task::yield_now().await;
    }
    other.abort();
    assert_eq!(fixture.controller.status().queues[0].n_dirty, 200);
    let n_turns = n_turns.load(Ordering::Relaxed);
    assert!(n_turns >= N_CHANGES / 4, "{n_turns}");
}

/// The keys that run after `n_changes` changes at the same time, which map to no key.
async fn runs_after(n_changes: usize) -> Vec<String> {
    let (guest, calls) = scripted(manifest(|_| {}), |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["a", "b"]);
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    for _ in 0..n_changes / 64 {
        fixture.sink().on_changes(&vec![change(); 64].into());
    }
    fixture.sink().on_changes(&vec![change(); n_changes % 64].into());
    fixture.idle(Duration::ZERO).await;
    names(&calls).split_off(2)
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
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    let state = |name: &str, version: &str| {
        let mut object = cached(name, None);
        Arc::get_mut(&mut object)?.meta.resource_version = ResourceVersion::parse(version);
        Some(object)
    };
    let sink = fixture.sink();
    sink.on_changes(&vec![change(); MAX_WAITING].into());
    sink.on_changes(&[Delta { new: state("changed", "6"), ..change() }].into());
    sink.on_changes(&[Delta { old: state("gone", "5"), ..change() }].into());
    fixture.idle(Duration::ZERO).await;
    assert_eq!(names(&calls), ["changed", "gone"]);
}

/// A guest that panics in the first check whether it maps changes, which is on the task that takes changes.
struct Fragile(FakeGuest, AtomicUsize);

impl Guest for Fragile {
    fn manifest(&self) -> &Arc<Manifest> {
        self.0.manifest()
    }

    fn maps(&self) -> bool {
        assert!(self.1.fetch_add(1, Ordering::Relaxed) > 0, "boom");
        false
    }

    fn reconcile<'a>(&'a self, key: &'a Key, view: Arc<dyn View>) -> BoxFuture<'a, Run> {
        self.0.reconcile(key, view)
    }
}

#[tokio::test(start_paused = true)]
async fn every_key_runs_after_the_task_that_takes_changes_has_panicked() {
    let (guest, calls) = scripted(manifest(|_| {}), |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["lost"]);
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    let (guest, after) = scripted(manifest(|m| m["version"] = "2.0.0".into()), |_| done());
    let fragile = version(Fragile(guest, AtomicUsize::new(0)), &fixture.metrics);
    fragile.attach(fixture.controller.version().subscription().unwrap());
    let switched = Reason { result: SwapResult::Switched, reason: "Requested", message: String::new() };
    fixture.controller.switch(fragile, None, switched);
    fixture.idle(Duration::ZERO).await;
    fixture.put(&["b"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.put(&["c"]);
    settle().await;
    assert_eq!((names(&calls), names(&after).join(" ")), (vec!["lost".to_owned()], "lost b b lost c".to_owned()));
    assert_eq!(fixture.panics(), [("changes", 1)]);
}

#[tokio::test(start_paused = true)]
async fn every_key_runs_after_the_dispatcher_has_panicked_and_a_held_key_stays_held() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p"]) } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.server.state().version = 98;
    fixture.put(&["a", "lost"]);
    fixture.start();
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(names(&calls), ["a", "lost"]);
    // After the bound, the dispatcher tries to reopen a watch, which fails.
    let version = fixture.controller.version();
    let subscription = version.subscription().unwrap();
    version.detach();
    until("a panic", || fixture.panics() == [("dispatcher", 1)]).await;
    version.attach(subscription);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(names(&calls)[2..], ["lost"]);
    let n_watches = || fixture.controller.caches.stats()[0].watches;
    assert_eq!(n_watches(), 0);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(n_watches(), 1, "the next deadline of the held key");
    fixture.reach(101).await;
    fixture.idle(Duration::ZERO).await;
    assert_eq!(names(&calls)[2..], ["lost", "a"]);
    assert!(fixture.controller.caches.supervisor().failing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_result_cannot_be_handled_runs_again_after_the_bound() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p"]) } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.api.paused.send_replace(true);
    fixture.start();
    fixture.add(&["a"]);
    until("a write", || !fixture.api.log().is_empty()).await;
    // There is no previous result to compare with.
    let version = fixture.controller.version();
    let subscription = version.subscription().unwrap();
    version.detach();
    fixture.api.paused.send_replace(false);
    until("a panic", || fixture.panics() == [("worker", 1)]).await;
    version.attach(subscription);
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(times(&calls), [(0, 0), (30_010, 0)]);
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
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The key is held, and enqueued again.
    fixture.add(&["a"]);
    fixture.put(&["b"]);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(names(&calls), ["a", "b", "a"]);
}

/// A plugin whose runs take 10 ms and write the object `p`, for example a status that contains the time. `n_runs`
/// counts them.
pub(super) fn restless(
    version: &str,
    n_runs: &Arc<AtomicUsize>,
    writes: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> FakeGuest {
    let n_runs = n_runs.clone();
    FakeGuest::asynchronous(manifest(|m| m["version"] = version.into()), move |_, _| {
        let result = if writes(n_runs.fetch_add(1, Ordering::Relaxed)) { creates(&["p"]) } else { done() };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            result
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_key_that_runs_because_of_its_own_writes_alone_is_reported_once() {
    let (server, n_runs) = (FakeServer::new(), Arc::<AtomicUsize>::default());
    let (api, others) = (FakeWriter::onto(&server, |_, _| Ok(())), server.clone());
    let guest = restless("1.0.0", &n_runs, move |i| {
        // Once, another client than the plugin writes as well.
        if i == 98 {
            others.put("pods", "ns", "p", json!({}));
        }
        !matches!(i, 150 | 400)
    });
    let fixture = Fixture::with_reader(guest, api, server);
    let n_reported = || {
        let n_events = fixture.event_reasons().iter().filter(|reason| *reason == "WritesRepeat").count();
        (n_events, fixture.metric("pintle_write_loops_total{plugin=\"widgets\"}"))
    };
    fixture.run_until_idle(&["p"]).await;
    assert_eq!((n_reported(), n_runs.load(Ordering::Relaxed)), ((0, 0), 151));
    assert_eq!(fixture.condition("Healthy"), ("True".into(), "NoFaults".into()));
    fixture.add(&["p"]);
    until("runs", || n_runs.load(Ordering::Relaxed) == 300).await;
    assert_eq!(fixture.condition("Healthy"), ("False".into(), "WritesRepeat".into()));
    // Until it stops.
    fixture.idle(Duration::ZERO).await;
    assert_eq!((n_reported(), n_runs.load(Ordering::Relaxed)), ((1, 1), 401));
    assert_eq!(fixture.condition("Healthy"), ("True".into(), "NoFaults".into()));
}
