//! Version swaps with a fake API server.

use pintle_core::contract::outcome::Outcome;
use pintle_core::lifecycle::{Phase, Probation, Shadow, SwapResult};
use pintle_core::ports::view::View;

use super::changes::restless;
use super::*;

/// A probation of a few runs.
fn rules() -> Probation {
    Probation { runs: 5, for_ms: 1_000, ..Probation::default() }
}

fn requested() -> Reason {
    Reason { result: SwapResult::Switched, reason: "Requested", message: "because".into() }
}

fn trap() -> GuestResult {
    Err(PluginFault { kind: FaultKind::Trap, message: "unreachable".into() })
}

/// A guest of this version that logs its version and the key of each call.
pub(super) fn noting(
    version: &'static str,
    log: &Arc<Mutex<Vec<String>>>,
    answer: impl Fn(&Key, &dyn View) -> GuestResult + Send + Sync + 'static,
) -> FakeGuest {
    let log = log.clone();
    FakeGuest::new(manifest(|m| m["version"] = version.into()), move |key, view| {
        log.lock().push(format!("{version}:{}:{}", key.object.name, view.attempt()));
        answer(&key, &*view)
    })
}

impl Fixture {
    /// A version with its own synced subscription.
    async fn attached(&self, guest: FakeGuest) -> Arc<Version> {
        let version = version(guest, &self.metrics);
        let subscription = self.subscribe(&version);
        subscription.cache.synced().await;
        version.attach(subscription);
        version
    }

    pub(super) async fn swap(&self, guest: FakeGuest) -> Arc<Version> {
        let version = self.attached(guest).await;
        self.controller.switch(version.clone(), Some(rules()), requested());
        version
    }

    pub(super) fn last_swap(&self) -> (SwapResult, String) {
        let swap = self.controller.status().last_swap.unwrap();
        (swap.result, swap.reason)
    }

    pub(super) fn condition(&self, kind: &str) -> (String, String) {
        let conditions = self.controller.status().conditions;
        let found = conditions.into_iter().find(|condition| condition.kind == kind).unwrap();
        (found.status, found.reason)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_in_flight_ends_with_its_version_and_the_next_run_uses_the_new_one() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let free = watch::Sender::new(false);
    let (gate, entries) = (free.subscribe(), log.clone());
    let old = FakeGuest::asynchronous(manifest(|_| {}), move |_, _| {
        let (mut gate, entries) = (gate.clone(), entries.clone());
        Box::pin(async move {
            entries.lock().push("old begins".to_owned());
            let _ = gate.wait_for(|free| *free).await;
            entries.lock().push("old ends".to_owned());
            creates(&["by-old"])
        })
    });
    let fixture = Fixture::new(old, FakeWriter::agreeable());
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.swap(noting("2.0.0", &log, |_, _| creates(&["by-new"]))).await;
    fixture.add(&["a", "b"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Another key runs with the new version immediately; this one waits until its run ends.
    assert_eq!(*log.lock(), ["old begins", "2.0.0:b:0"]);
    free.send_replace(true);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(*log.lock(), ["old begins", "2.0.0:b:0", "old ends", "2.0.0:a:0"]);
    assert_eq!(fixture.api.log(), ["create pods ns/by-new", "create pods ns/by-old", "create pods ns/by-new"]);
}

#[tokio::test(start_paused = true)]
async fn state_failures_and_delays_stay() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let old = noting("1.0.0", &log, |key, _| match &*key.object.name {
        "fails" => retry(Some(Duration::from_secs(60))),
        _ => Ok(Ok(Outcome { state: vec![("count".into(), Some("7".into()))], ..Outcome::default() })),
    });
    let fixture = Fixture::new(old, FakeWriter::agreeable());
    fixture.start();
    fixture.add(&["fails", "writes"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let entries = log.clone();
    let next = noting("2.0.0", &log, move |_, view| {
        entries.lock().push(format!("state {:?}", view.state("count")));
        done()
    });
    fixture.swap(next).await;
    fixture.idle(Duration::from_secs(3600)).await;
    // The delayed key kept its delay, and is in its second attempt.
    assert_eq!(*log.lock(), ["1.0.0:fails:0", "1.0.0:writes:0", "2.0.0:fails:1", "state Some(\"7\")"]);
}

#[tokio::test(start_paused = true)]
async fn changes_that_came_before_the_switch_become_keys_of_the_new_version() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.start();
    let entries = log.clone();
    let mapping = FakeGuest::new(mapping_pods("2.0.0"), move |key, _| {
        entries.lock().push(format!("2.0.0:{}", key.object.name));
        done()
    });
    let new = fixture.attached(mapping.mapping(|_, _| Ok(vec![key("mapped")]))).await;
    let ran = async || {
        settle().await;
        fixture.idle(Duration::ZERO).await;
        std::mem::take(&mut *log.lock())
    };
    fixture.put(&["a"]);
    assert_eq!(ran().await, ["1.0.0:a:0"]);
    fixture.controller.switch(new, None, requested());
    assert_eq!(ran().await, ["2.0.0:mapped"]);
    // Changes from the old version's subscription are ignored now.
    assert!(fixture.controller.previous().unwrap().subscription().is_some());
    fixture.put(&["b"]);
    assert_eq!(ran().await, ["2.0.0:mapped"]);
}

#[tokio::test(start_paused = true)]
async fn queues_follow_the_version() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.start();
    let other = || Key { queue: "other".into(), ..key("x") };
    let entries = log.clone();
    let manifest = manifest(|m| m["queues"] = serde_json::json!([{"name": "other", "tickMs": 10_000}]));
    let next = FakeGuest::new(manifest, move |key, _| {
        entries.lock().push(key.object.name.to_string());
        done()
    });
    fixture.swap(next).await;
    fixture.controller.enqueue(vec![other(), key("nobody")], Priority::Normal);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(*log.lock(), ["x", "other", "other"]);
    let queues = |fixture: &Fixture| -> Vec<String> {
        fixture.controller.status().queues.into_iter().map(|queue| queue.name).collect()
    };
    assert_eq!(queues(&fixture), ["other"]);
    let back = fixture.controller.previous().unwrap();
    fixture.controller.switch(back, None, requested());
    fixture.controller.enqueue(vec![other(), key("a")], Priority::Normal);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(log.lock()[3..], ["1.0.0:a:0"]);
    assert_eq!(queues(&fixture), ["widgets"]);
}

#[tokio::test(start_paused = true)]
async fn a_faulty_version_is_rolled_back() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.put(&["a", "b", "c"]);
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    log.lock().clear();
    fixture.swap(noting("2.0.0", &log, |_, _| trap())).await;
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(fixture.last_swap(), (SwapResult::RolledBack, "FaultsInProbation".into()));
    let status = fixture.controller.status();
    assert_eq!((status.current.version.as_str(), status.previous, status.n_faults), ("1.0.0", None, 3));
    // Every key has run again with the restored version.
    let ended: std::collections::BTreeSet<String> =
        log.lock().iter().filter(|line| line.starts_with("1.")).map(|line| line[..7].to_owned()).collect();
    assert_eq!(ended.into_iter().collect::<Vec<_>>(), ["1.0.0:a", "1.0.0:b", "1.0.0:c"]);
    assert_eq!(fixture.condition("Progressing"), ("False".into(), "FaultsInProbation".into()));
    assert_eq!(fixture.metric("pintle_plugin_swaps_total{plugin=\"widgets\",result=\"rolled_back\"}"), 1);
    let reasons = fixture.event_reasons();
    for reason in ["Swapped", "PluginFault", "RolledBack"] {
        assert!(reasons.iter().any(|other| other == reason), "{reason} is not among {reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_whose_writes_repeat_is_rolled_back_unless_those_of_the_version_before_did() {
    let rules = Probation { runs: 1_000_000, ..Probation::default() };
    for (writes_before, reason) in [(false, "FaultsInProbation"), (true, "Requested")] {
        let (server, [before, after]) = (FakeServer::new(), [Arc::default(), Arc::default()]);
        let api = FakeWriter::onto(&server, |_, _| Ok(()));
        let fixture = Fixture::with_reader(restless("1.0.0", &before, move |_| writes_before), api, server);
        fixture.start();
        fixture.add(&["p"]);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let second = fixture.attached(restless("2.0.0", &after, |_| true)).await;
        fixture.controller.switch(second, Some(rules.clone()), requested());
        fixture.add(&["p"]);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(fixture.last_swap().1, reason);
        assert!(after.load(Ordering::Relaxed) >= 100 && (before.load(Ordering::Relaxed) >= 100) == writes_before);
    }
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_previous_version_do_not_count_for_the_new_one() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let free = watch::Sender::new(false);
    let gate = free.subscribe();
    let old = FakeGuest::asynchronous(manifest(|_| {}), move |_, _| {
        let mut gate = gate.clone();
        Box::pin(async move {
            let _ = gate.wait_for(|free| *free).await;
            trap()
        })
    });
    let fixture = Fixture::new(old, FakeWriter::agreeable());
    fixture.start();
    fixture.add(&["a", "b", "c", "d"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.swap(noting("2.0.0", &log, |_, _| done())).await;
    free.send_replace(true);
    fixture.idle(Duration::from_secs(60)).await;
    assert_eq!((fixture.controller.status().current.version.as_str(), log.lock().len()), ("2.0.0", 4));
}

#[tokio::test(start_paused = true)]
async fn the_last_proven_version_takes_over_again() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.start();
    fixture.swap(noting("2.0.0", &log, |_, _| done())).await;
    fixture.swap(noting("3.0.0", &log, |_, _| trap())).await;
    fixture.add(&["a"]);
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(fixture.controller.status().current.version, "1.0.0");
}

#[tokio::test(start_paused = true)]
async fn a_version_is_proven_by_runs_and_time() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.start();
    fixture.swap(noting("2.0.0", &log, |_, _| done())).await;
    assert_eq!(fixture.condition("Progressing"), ("True".into(), "Probation".into()));
    assert_eq!(fixture.controller.status().conditions[2].message, "version 2.0.0");
    assert!(!fixture.controller.status().last_swap.unwrap().from.unwrap().since.is_empty());
    fixture.add(&["a", "b", "c", "d"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fixture.last_swap().0, SwapResult::Switched);
    fixture.add(&["a"]);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(fixture.last_swap().0, SwapResult::Proven);
    // The previous version stays compiled for a rollback, without a subscription.
    assert!(fixture.controller.previous().unwrap().subscription().is_none());
    // The next probation ends only because its time is over.
    fixture.swap(noting("3.0.0", &log, |_, _| done())).await;
    fixture.add(&["a", "b", "c", "d", "e"]);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(fixture.last_swap().0, SwapResult::Switched);
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert_eq!(fixture.last_swap().0, SwapResult::Proven);
}

#[tokio::test(start_paused = true)]
async fn faults_in_most_namespaces_pause_the_plugin_and_a_successful_run_ends_the_pause() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let good = Arc::new(AtomicUsize::new(0));
    let works = good.clone();
    let guest = noting("1.0.0", &log, move |_, _| if works.load(Ordering::Relaxed) > 0 { done() } else { trap() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.start();
    let keys: Vec<String> = (0..30).map(|i| format!("namespace-{}/{i}", i % 3)).collect();
    fixture.add(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(fixture.controller.status().phase, Phase::Quarantined);
    let n_before = log.lock().len();
    assert!((5..=9).contains(&n_before), "runs in flight may end: {n_before}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(log.lock().len(), n_before);
    assert_eq!(fixture.condition("Ready"), ("False".into(), "Quarantined".into()));
    assert_eq!(fixture.condition("Healthy"), ("False".into(), "Faults".into()));
    // One trial run, of a key that has not run before, then a pause of two seconds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(log.lock().len(), n_before + 1);
    assert!(log.lock()[n_before].ends_with(":0"), "{:?}", log.lock());
    good.store(1, Ordering::Relaxed);
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(fixture.controller.status().phase, Phase::Running);
    assert_eq!(fixture.condition("Healthy"), ("True".into(), "NoFaults".into()));
    assert_eq!(fixture.metric("pintle_plugin_quarantines_total{plugin=\"widgets\"}"), 2);
    assert_eq!(fixture.metric("pintle_plugin_quarantined{plugin=\"widgets\"}"), 0);
    let reasons = fixture.event_reasons();
    assert!(reasons.contains(&"Quarantined".to_owned()) && reasons.contains(&"Recovered".to_owned()), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_disabled_plugin_collects_keys_until_it_is_enabled() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.start();
    fixture.controller.disable("maintenance");
    fixture.add(&["a", "b", "a"]);
    // A swap does not enable it.
    fixture.swap(noting("2.0.0", &log, |_, _| done())).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(log.lock().is_empty());
    assert_eq!(fixture.controller.status().phase, Phase::Disabled);
    let ready = &fixture.controller.status().conditions[0];
    assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("Disabled", "maintenance"));
    fixture.controller.enable("maintenance is over");
    fixture.idle(Duration::ZERO).await;
    assert_eq!(*log.lock(), ["2.0.0:a:0", "2.0.0:b:0"]);
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_the_shadow_are_compared_and_never_written() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let wants = |name: &'static str| {
        move |key: &Key, _: &dyn View| {
            if &*key.object.name == "differs" { creates(&[name]) } else { creates(&["same"]) }
        }
    };
    let fixture = Fixture::new(noting("1.0.0", &log, wants("old")), FakeWriter::agreeable());
    fixture.start();
    let candidate = fixture.attached(noting("2.0.0", &log, wants("new"))).await;
    let shadowing = fixture.controller.begin_shadowing(candidate, Shadow { runs: 3, for_ms: 0, max_differences: 1 });
    for name in ["a", "differs", "b"] {
        fixture.add(&[name]);
        fixture.idle(Duration::ZERO).await;
    }
    shadowing.over().await;
    assert_eq!(shadowing.objection(), None);
    let report = fixture.controller.shadow_report().unwrap();
    assert_eq!(report.summary(), "3 runs of 3 keys compared, 3 with writes, 1 differ");
    assert_eq!(report.differences[0].old["steps"][0]["mutations"][0]["object"]["metadata"]["name"], "old");
    assert_eq!(report.differences[0].new["steps"][0]["mutations"][0]["object"]["metadata"]["name"], "new");
    fixture.add(&["differs"]);
    fixture.idle(Duration::ZERO).await;
    tokio::task::yield_now().await;
    assert_eq!(shadowing.objection().unwrap().0, "ShadowDiffers");
    fixture.controller.end_shadowing();
    fixture.add(&["a"]);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(log.lock().iter().filter(|line| line.starts_with("2.")).count(), 4);
    assert!(fixture.api.log().iter().all(|line| !line.ends_with("/new")), "{:?}", fixture.api.log());
    let summary = fixture.controller.shadow_report().unwrap().summary();
    assert_eq!(summary, "4 runs of 3 keys compared, 4 with writes, 2 differ");
}

#[tokio::test(start_paused = true)]
async fn a_shadow_run_counts_the_runs_in_which_a_version_wants_to_write() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let wants = |key: &Key, _: &dyn View| {
        if &*key.object.name == "busy" { creates(&["x"]) } else { Ok(Ok(Outcome::default())) }
    };
    let fixture = Fixture::new(noting("1.0.0", &log, wants), FakeWriter::agreeable());
    fixture.start();
    let candidate = fixture.attached(noting("2.0.0", &log, wants)).await;
    let shadowing = fixture.controller.begin_shadowing(candidate, Shadow { runs: 4, for_ms: 0, max_differences: 0 });
    for name in ["a", "b", "busy", "a"] {
        fixture.add(&[name]);
        fixture.idle(Duration::ZERO).await;
    }
    shadowing.over().await;
    assert_eq!(shadowing.report().summary(), "4 runs of 3 keys compared, 1 with writes, 0 differ");
}

#[tokio::test(start_paused = true)]
async fn a_fault_in_the_shadow_rejects_the_version_and_changes_nothing() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.start();
    let candidate = fixture.attached(noting("2.0.0", &log, |_, _| trap())).await;
    let shadowing = fixture.controller.begin_shadowing(candidate, Shadow::default());
    fixture.add(&["a"]);
    shadowing.over().await;
    assert_eq!(shadowing.objection().unwrap().0, "ShadowFaults");
    let status = fixture.controller.status();
    assert_eq!((status.n_faults, status.phase), (0, Phase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_present_version_is_not_compared() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| trap()), FakeWriter::agreeable());
    fixture.start();
    let candidate = fixture.attached(noting("2.0.0", &log, |_, _| done())).await;
    let shadowing = fixture.controller.begin_shadowing(candidate, Shadow::default());
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((shadowing.objection(), shadowing.report().n_runs), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_new_version_ends_a_quarantine() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| trap()), FakeWriter::agreeable());
    fixture.start();
    fixture.add(&["m/a", "m/b", "n/a", "n/b", "o/a", "o/b"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(fixture.controller.status().phase, Phase::Quarantined);
    fixture.swap(noting("2.0.0", &log, |_, _| done())).await;
    assert_eq!(fixture.controller.status().phase, Phase::Running);
    assert_eq!(fixture.condition("Healthy"), ("True".into(), "NoFaults".into()));
    log.lock().clear();
    fixture.add(&["e"]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(log.lock().contains(&"2.0.0:e:0".to_owned()), "{:?}", log.lock());
}

#[tokio::test(start_paused = true)]
async fn ticks_follow_the_version() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let ticking = |ms: u32| {
        let (log, start) = (log.clone(), Instant::now());
        FakeGuest::new(manifest(|m| m["queues"][0]["tickMs"] = ms.into()), move |_, _| {
            log.lock().push(start.elapsed().as_secs());
            done()
        })
    };
    let fixture = Fixture::new(ticking(10_000), FakeWriter::agreeable());
    fixture.start();
    tokio::time::sleep(Duration::from_secs(15)).await;
    fixture.swap(ticking(2_000)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*log.lock(), [0, 10, 0, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_not_granted_are_faults() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.put(&["a"]);
    fixture.start();
    let greedy = manifest(|m| {
        m["version"] = "2.0.0".into();
        m["grants"] = serde_json::json!([]);
    });
    fixture.swap(FakeGuest::new(greedy, |_, _| creates(&["p"]))).await;
    fixture.add(&["a", "b", "c"]);
    fixture.idle(Duration::from_secs(60)).await;
    assert!(fixture.api.log().is_empty(), "{:?}", fixture.api.log());
    let status = fixture.controller.status();
    assert_eq!((status.current.version.as_str(), status.faults["grant"]), ("1.0.0", 3));
    assert_eq!(fixture.last_swap(), (SwapResult::RolledBack, "FaultsInProbation".into()));
    let events = fixture.events.bodies();
    let told = events.iter().find(|event| event["reason"] == "PluginFault").unwrap();
    assert_eq!(told["involvedObject"]["uid"], "uid-a", "{told}");
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("plugin widgets 2.0.0: grant: create v1/Pod"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn one_attempt_at_a_time() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let fixture = Fixture::new(noting("1.0.0", &log, |_, _| done()), FakeWriter::agreeable());
    fixture.start();
    let first = fixture.controller.attempt().unwrap();
    assert!(fixture.controller.attempt().is_none());
    drop(first);
    assert!(fixture.controller.attempt().is_some());
    assert!(fixture.controller.status().stage.is_none());
}
