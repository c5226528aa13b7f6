mod bounds;
mod changes;
mod containment;
mod failing;
mod leading;
mod lost;
mod per_key;
mod swapping;
mod traced;
mod wakes;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_cache::{CachesConfig, ChangeHandler, Delta};
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Need, Order, Outcome, ReconcileError};
use pintle_core::lifecycle::Spec;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::grants::Grants;
use pintle_core::policy::queue::Priority;
use pintle_core::ports::guest::{FaultKind, Guest, PluginFault};
use pintle_testing::server::settle;
use pintle_testing::{
    FakeGuest, FakeServer, FakeWriter, GuestResult, create, event, key, manifest, pod, refusal, step, steps, until,
    wall_clock,
};
use tokio::time::Instant;

use super::*;
use crate::failures::{self, Failures};
use crate::metrics::Metrics;
use crate::recorder::{Recorder, RecorderConfig};
use pintle_core::policy::held::MAX_HELD_BYTES;

/// A resourceVersion later than those of a fake writer.
const LATEST: u64 = 1_000_000;

struct Fixture {
    controller: Arc<Controller>,
    /// Serves the caches, and answers needs.
    server: Arc<FakeServer>,
    api: Arc<FakeWriter>,
    metrics: Arc<Metrics>,
    idle_signal: Arc<Notify>,
    events: Arc<FakeWriter>,
}

impl Fixture {
    fn new(guest: FakeGuest, api: Arc<FakeWriter>) -> Self {
        Self::with_reader(guest, api, FakeServer::new())
    }

    fn with_reader(guest: FakeGuest, api: Arc<FakeWriter>, reader: Arc<FakeServer>) -> Self {
        Self::with_parts(guest, api, reader, |_| ())
    }

    fn with_parts(
        guest: FakeGuest,
        api: Arc<FakeWriter>,
        reader: Arc<FakeServer>,
        change: impl FnOnce(&mut ControllerParts),
    ) -> Self {
        // The caches show every write immediately.
        reader.state().version = LATEST;
        let metrics = Metrics::new();
        let idle_signal = Arc::new(Notify::new());
        let events = FakeWriter::agreeable();
        let plugin = metrics.plugin("widgets");
        let account = Account::new(MAX_HELD_BYTES);
        let config = RecorderConfig {
            component: "widgets".into(),
            clock: wall_clock(),
            seed: 0,
            idle_signal: idle_signal.clone(),
            account: account.clone(),
        };
        let (recorder, _) = Recorder::start(events.clone(), config, plugin.events());
        let mut parts = ControllerParts {
            held: account,
            reader: reader.clone(),
            live: reader.clone(),
            outside: Arc::new(pintle_core::ports::outside::Nothing),
            fence: None,
            writer: Writer {
                name: "widgets".into(),
                api: api.clone(),
                recorder,
                metrics: plugin.clone(),
                stopped: CancellationToken::new(),
            },
            metrics: plugin,
            clock: wall_clock(),
            uptime: {
                let started = tokio::time::Instant::now();
                Arc::new(move || started.elapsed())
            },
            stale_bound: Duration::from_secs(30),
            failures: Failures::new(failures::MAX_BYTES),
            last_writes: Arc::default(),
            caches: Caches::new(reader.clone(), CachesConfig::default()),
            idle_signal: idle_signal.clone(),
            tracer: None,
            changes: watch::Sender::new(0),
        };
        change(&mut parts);
        let controller = Controller::new(parts, version(guest, &metrics));
        Self { controller, server: reader, api, metrics, idle_signal, events }
    }

    fn start(&self) {
        self.controller.start(self.subscribe(&self.controller.version()));
    }

    /// The watches of a version's manifest.
    fn subscribe(&self, version: &Version) -> CacheSubscription {
        let sink = ChangeSink::new(&self.controller);
        let cache = Arc::new(self.controller.caches.subscribe(version.manifest().clone(), sink.clone()));
        CacheSubscription { cache, sink }
    }

    fn sink(&self) -> Arc<ChangeSink> {
        self.controller.version().subscription().unwrap().sink
    }

    /// Creates or changes Pods: `name`, or `namespace/name`.
    fn put(&self, names: &[&str]) {
        for name in names {
            let ObjectKey { namespace, name } = key_in(name).object;
            self.server.put("pods", &namespace, &name, serde_json::json!({}));
        }
    }

    /// Advances the caches to this resourceVersion.
    async fn reach(&self, version: u64) {
        self.server.state().version = version;
        self.server.bookmark();
        settle().await;
    }

    fn panics(&self) -> Vec<(&'static str, u64)> {
        self.controller.caches.supervisor().panics()
    }

    /// Adds keys: `name`, or `namespace/name`.
    fn add(&self, names: &[&str]) {
        self.controller.enqueue(names.iter().map(|name| key_in(name)).collect(), Priority::Normal);
    }

    /// Waits until no key would run within `quiet`.
    async fn idle(&self, quiet: Duration) {
        loop {
            let changed = self.idle_signal.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.controller.is_idle(quiet) {
                return;
            }
            changed.await;
        }
    }

    async fn run_until_idle(&self, names: &[&str]) {
        self.start();
        self.add(names);
        self.idle(Duration::from_secs(3600)).await;
    }

    /// Reasons of the written events.
    fn event_reasons(&self) -> Vec<String> {
        let bodies = self.events.bodies();
        bodies.iter().filter_map(|body| Some(body["reason"].as_str()?.to_owned())).collect()
    }

    fn metric(&self, line: &str) -> u64 {
        self.controller.refresh_metrics();
        let text = self.metrics.text();
        let value = text.lines().find_map(|other| other.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

/// The key of `name`, or of `namespace/name`.
fn key_in(name: &str) -> Key {
    match name.split_once('/') {
        None => key(name),
        Some((namespace, name)) => Key { object: ObjectKey::new(namespace, name), ..key(name) },
    }
}

/// A manifest whose plugin maps Pod changes itself.
fn mapping_pods(version: &str) -> Arc<Manifest> {
    manifest(|m| {
        m["version"] = version.into();
        m["watches"][0]["enqueue"] = serde_json::json!([{"to": "plugin"}]);
    })
}

/// A version with all grants that its manifest requests.
fn version(guest: impl Guest + 'static, metrics: &Arc<Metrics>) -> Arc<Version> {
    let manifest: Arc<Manifest> = guest.manifest().clone();
    let config = |queue: &pintle_core::contract::manifest::Queue| QueueConfig {
        observer: metrics.queue(queue.metric()),
        concurrency: queue.n_workers() as usize,
        resync: queue.resync(),
        tick_key: Manifest::tick_key(&queue.name),
    };
    Version::new(VersionParts {
        manifest: manifest.clone(),
        digest: format!("digest of {}", manifest.version),
        origin: "test".into(),
        is_carried: false,
        spec: Spec::default(),
        config: "{}".into(),
        grants: Grants::new(&manifest.grants, None),
        declared: metrics.declare(&manifest, false, manifest.limits.effective().series).unwrap(),
        queues: manifest.queues.iter().map(config).collect(),
        guest: Arc::new(guest),
    })
}

/// Start in milliseconds, key and attempt of each call.
type Calls = Arc<Mutex<Vec<(u128, String, u32)>>>;

/// A guest with one scripted action per call, and no actions afterwards; and the log of its calls: start, key, attempt.
fn scripted(
    manifest: Arc<Manifest>,
    script: impl Fn(usize) -> GuestResult + Send + Sync + 'static,
) -> (FakeGuest, Calls) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = calls.clone();
    let start = Instant::now();
    let guest = FakeGuest::new(manifest, move |key, view| {
        let mut calls = log.lock();
        calls.push((start.elapsed().as_millis(), key.object.name.to_string(), view.attempt()));
        script(calls.len() - 1)
    });
    (guest, calls)
}

fn done() -> GuestResult {
    Ok(Ok(Outcome::default()))
}

fn creates(names: &[&str]) -> GuestResult {
    Ok(Ok(steps(vec![step(Order::Sequential, names.iter().map(|name| create(name)).collect())])))
}

fn retry(after: Option<Duration>) -> GuestResult {
    Ok(Err(ReconcileError::Retry { message: "not yet".into(), after }))
}

fn times(calls: &Calls) -> Vec<(u128, u32)> {
    calls.lock().iter().map(|(at, _, attempt)| (*at, *attempt)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_key_runs_and_its_writes_are_carried_out() {
    let (guest, calls) = scripted(manifest(|_| {}), |_| creates(&["p"]));
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a", "a"]).await;
    assert_eq!(times(&calls), [(0, 0)]);
    assert_eq!(fixture.api.log(), ["create pods ns/p"]);
    assert_eq!(fixture.metric("controller_runtime_reconcile_total{controller=\"widgets\",result=\"success\"}"), 1);
    assert_eq!(fixture.metric("workqueue_adds_total{name=\"widgets\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn no_key_runs_before_the_caches_are_synced() {
    let (guest, calls) = scripted(manifest(|_| {}), |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.server.set_down(true);
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(calls.lock().is_empty() && !fixture.controller.is_idle(Duration::ZERO));
    fixture.server.set_down(false);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(calls.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn declared_retries_back_off_and_success_resets_the_backoff() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if matches!(i, 0 | 1 | 2 | 4) { retry(None) } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(times(&calls), [(0, 0), (5, 1), (15, 2), (35, 3)]);
    fixture.add(&["a"]);
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(times(&calls)[4..], [(35, 0), (40, 1)]);
    assert_eq!(fixture.metric("workqueue_retries_total{name=\"widgets\"}"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_retry_may_name_its_delay() {
    let (guest, calls) =
        scripted(manifest(|_| {}), |i| if i < 2 { retry(Some(Duration::from_secs(60))) } else { done() });
    Fixture::new(guest, FakeWriter::agreeable()).run_until_idle(&["a"]).await;
    assert_eq!(times(&calls), [(0, 0), (60_000, 1), (120_000, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_waits_for_the_next_change() {
    let (guest, calls) = scripted(manifest(|_| {}), |_| Ok(Err(ReconcileError::Terminal("never".into()))));
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(times(&calls), [(0, 0)]);
    fixture.add(&["a"]);
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(times(&calls), [(0, 0), (0, 0)]);
    assert_eq!(fixture.metric("pintle_dropped_keys_total{plugin=\"widgets\",reason=\"terminal\"}"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_dropped_after_its_retries() {
    let manifest = manifest(|m| m["queues"][0]["maxRetries"] = 2.into());
    let (guest, calls) = scripted(manifest, |_| retry(None));
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(times(&calls), [(0, 0), (5, 1), (15, 2)]);
    assert_eq!(fixture.metric("pintle_dropped_keys_total{plugin=\"widgets\",reason=\"max_retries\"}"), 1);
    fixture.add(&["a"]);
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(times(&calls)[3], (15, 0));
}

#[tokio::test(start_paused = true)]
async fn faults_back_off_and_affect_only_their_key() {
    let runs = Arc::new(AtomicUsize::new(0));
    let n_runs = runs.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |key, _| {
        if &*key.object.name != "bad" {
            n_runs.fetch_add(1, Ordering::Relaxed);
            return done();
        }
        match n_runs.fetch_add(1, Ordering::Relaxed) {
            n if n < 8 => Err(PluginFault { kind: FaultKind::Trap, message: "unreachable".into() }),
            _ => done(),
        }
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["bad", "b", "c"]).await;
    assert_eq!(fixture.metric("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"trap\"}"), 6);
    assert_eq!(runs.load(Ordering::Relaxed), 9);
    assert_eq!(fixture.controller.status().n_faults, 6);
    assert!(fixture.controller.status().last_error.unwrap().contains("trap: unreachable"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_host_is_a_fault() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { panic!("broken invariant") } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(calls.lock().len(), 2);
    assert!(fixture.controller.status().last_error.unwrap().contains("broken invariant"));
}

#[tokio::test(start_paused = true)]
async fn failures_of_writes_are_seen_by_the_next_run() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |_, view| {
        let failures =
            view.failures().iter().map(|f| format!("{} {} {}", f.verb, f.object, f.code)).collect::<Vec<_>>();
        log.lock().push((view.attempt(), failures));
        if view.attempt() < 2 { creates(&["p", "q"]) } else { done() }
    });
    let api = FakeWriter::new(|line, _| if line.ends_with("/q") { Err(refusal(403)) } else { Ok(()) });
    let fixture = Fixture::new(guest, api);
    fixture.run_until_idle(&["a"]).await;
    let failure = || vec!["create ns/q 403".to_owned()];
    assert_eq!(*seen.lock(), [(0, vec![]), (1, failure()), (2, failure())]);
    assert_eq!(fixture.controller.inner.lock().keys.n_failed(), 0);
    assert_eq!(fixture.metric("controller_runtime_reconcile_total{controller=\"widgets\",result=\"error\"}"), 2);
}

#[tokio::test(start_paused = true)]
async fn runs_are_counted_by_how_they_end() {
    let manifest = manifest(|m| {
        m["metrics"] = serde_json::json!([{"name": "syncs_total", "help": "", "type": "counter", "labels": ["code"], "of": "runs"}]);
    });
    let (guest, _) = scripted(manifest, |i| match i {
        0 => creates(&["p"]),
        1 => Ok(Err(ReconcileError::Retry { message: String::new(), after: None })),
        _ => done(),
    });
    let fixture = Fixture::new(guest, FakeWriter::new(|_, _| Err(refusal(422))));
    fixture.run_until_idle(&["a"]).await;
    let text = fixture.metrics.text();
    for code in [422, 500, 200] {
        assert!(text.contains(&format!("syncs_total{{code=\"{code}\"}} 1.0\n")), "{code}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_failed_write_costs_a_backoff_and_a_throttled_one_is_repeated_first() {
    // The server requests 7 s each time. After ten repetitions, the key itself is retried.
    for (code, expected) in [(0, 5), (409, 5), (422, 5), (429, 77_000), (500, 5)] {
        let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p"]) } else { done() });
        Fixture::new(guest, FakeWriter::new(move |_, _| Err(refusal(code)))).run_until_idle(&["a"]).await;
        assert_eq!(times(&calls), [(0, 0), (expected, 1)], "{code}");
    }
}

/// A plugin requests a requeue before it knows whether its writes succeed.
#[tokio::test(start_paused = true)]
async fn a_requeue_hurries_no_retry_of_a_failed_write() {
    let second = 1000;
    for (requeue, max_retries, code, expected) in [
        // The doubling backoff.
        (Duration::ZERO, None, 422, vec![(0, 0), (second, 1), (3 * second, 2)]),
        // The delay requested by the server, ten times before the key is retried, and then again.
        (Duration::ZERO, None, 429, vec![(0, 0), (77 * second, 1), (154 * second, 2)]),
        // The retry takes precedence, and its run requests the requeue again.
        (Duration::from_secs(60), None, 422, vec![(0, 0), (second, 1), (3 * second, 2)]),
        // For a key without retries, only the requeue is left.
        (Duration::from_secs(60), Some(0), 422, vec![(0, 0), (60 * second, 0), (120 * second, 0)]),
    ] {
        let manifest = manifest(|m| {
            m["queues"][0]["backoff"] = serde_json::json!({"baseMs": 1000});
            if let Some(n) = max_retries {
                m["queues"][0]["maxRetries"] = serde_json::json!(n);
            }
        });
        let (guest, calls) = scripted(manifest, move |i| match i {
            0 | 1 => creates(&["p"]).map(|one| one.map(|one| Outcome { requeue_after: Some(requeue), ..one })),
            _ => done(),
        });
        Fixture::new(guest, FakeWriter::new(move |_, _| Err(refusal(code)))).run_until_idle(&["a"]).await;
        assert_eq!(times(&calls), expected, "{requeue:?} {max_retries:?} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mutation_that_is_not_granted_is_a_failure_and_keeps_the_state() {
    let manifest = manifest(|m| m["grants"] = serde_json::json!([]));
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let log = reasons.clone();
    let guest = FakeGuest::new(manifest, move |_, view| {
        log.lock().extend(view.failures().iter().map(|failure| failure.reason.clone()));
        assert_eq!(view.state("n"), None);
        if view.attempt() > 0 {
            return done();
        }
        let mut outcome = steps(vec![step(Order::Sequential, vec![create("p")])]);
        outcome.state = vec![("n".into(), Some("1".into()))];
        Ok(Ok(outcome))
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert!(fixture.api.log().is_empty());
    assert_eq!(*reasons.lock(), ["NotGranted"]);
    assert_eq!(fixture.metric("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"grant\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn output_over_the_limits_carries_out_nothing() {
    let manifest = manifest(|m| m["limits"] = serde_json::json!({"mutations": 1, "stateBytes": 10}));
    let (guest, _) = scripted(manifest, |i| match i {
        0 => creates(&["p", "q"]),
        1 => {
            let mut outcome = steps(vec![step(Order::Sequential, vec![create("p")])]);
            outcome.state = vec![("name".into(), Some("1234567".into()))];
            Ok(Ok(outcome))
        }
        _ => done(),
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert!(fixture.api.log().is_empty());
    assert_eq!(fixture.metric("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"output\"}"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_until_the_caches_show_its_writes() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p", "q"]) } else { done() });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.add(&["a", "b"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The other key runs, and this one is held.
    assert_eq!(calls.lock().iter().map(|(_, key, _)| key.clone()).collect::<Vec<_>>(), ["a", "b"]);
    fixture.reach(101).await;
    assert_eq!(fixture.controller.status().queues[0].n_held, 1);
    fixture.reach(102).await;
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(calls.lock().len(), 3);
    assert_eq!(fixture.metric("pintle_stale_cache_waits_total{plugin=\"widgets\"}"), 1);
    assert_eq!(fixture.metric("pintle_stale_cache_wait_timeouts_total{plugin=\"widgets\"}"), 0);
    // The wait of two seconds above.
    let waited = |of: &str| fixture.metric(&format!("pintle_stale_cache_wait_duration_seconds_{of}"));
    assert_eq!(waited("count{plugin=\"widgets\"}"), 1);
    assert_eq!(waited("bucket{le=\"1.0\",plugin=\"widgets\"}"), 0);
    assert_eq!(waited("bucket{le=\"5.0\",plugin=\"widgets\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_never_run_twice_at_once_and_workers_are_bounded() {
    let open: Arc<Mutex<(HashMap<String, usize>, usize)>> = Arc::default();
    let log = open.clone();
    let guest = FakeGuest::asynchronous(manifest(|m| m["queues"][0]["concurrency"] = 3.into()), move |key, _| {
        let log = log.clone();
        Box::pin(async move {
            let name = key.object.name.to_string();
            {
                let mut open = log.lock();
                let of_key = open.0.entry(name.clone()).or_default();
                *of_key += 1;
                assert_eq!(*of_key, 1, "{name} runs twice at once");
                let all = open.0.values().sum();
                open.1 = open.1.max(all);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            *log.lock().0.entry(name).or_default() -= 1;
            done()
        })
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.start();
    for _ in 0..20 {
        fixture.add(&["a", "b", "c", "d", "e"]);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(open.lock().1, 3);
    assert!(fixture.controller.status().last_error.is_none(), "{:?}", fixture.controller.status());
}

#[tokio::test(start_paused = true)]
async fn needs_are_answered_in_a_second_round() {
    let server = FakeServer::answering_needs();
    let asked = server.clone();
    let guest = FakeGuest::new(
        manifest(|m| {
            m["discovery"] = true.into();
            m["grants"]
                .as_array_mut()
                .unwrap()
                .push(serde_json::json!({"verbs": ["get"], "kinds": [], "paths": ["/version"]}))
        }),
        move |_, view| {
            // A need for discovery requires a fresh one.
            asked.state().failed_groups = vec!["example.com/v1".to_owned()];
            let object = |name: &str| Need::live_object(pod(), ObjectKey::new("ns", name));
            let secret = Need::live_object(Kind::new("", "v1", "Secret"), ObjectKey::new("ns", "x"));
            let list = Need::live_list(pod(), "ns", 3);
            let needs = vec![
                object("a"),
                object("gone"),
                secret,
                list,
                Need::RawPath("/version".into()),
                Need::RawPath("/api".into()),
                Need::Discovery,
            ];
            if view.answer(&needs[0]).is_none() {
                return Ok(Ok(Outcome { needs, ..Outcome::default() }));
            }
            let answers: Vec<String> = needs
                .iter()
                .map(|need| match view.answer(need).unwrap() {
                    Ok(text) => text.to_string(),
                    Err(error) => format!("{} {}", error.code, error.reason),
                })
                .collect();
            let value = Some(answers.join(" | "));
            Ok(Ok(Outcome { state: vec![("answers".into(), value)], ..Outcome::default() }))
        },
    );
    let fixture = Fixture::with_reader(guest, FakeWriter::agreeable(), server);
    fixture.run_until_idle(&["a"]).await;
    let state = fixture.controller.inner.lock().state.snapshot();
    expect_test::expect![[r#"{"live":"a"} | 404 NotFound | 0 NotGranted | [{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pods0"}},{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pods1"}},{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pods2"}}] | /version | 0 NotGranted | ["example.com/v1"]"#]]
        .assert_eq(state.get("answers").unwrap());
}

#[tokio::test(start_paused = true)]
async fn all_rounds_of_a_run_see_the_time_at_which_it_began() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let times = seen.clone();
    let granted = manifest(|m| m["grants"] = serde_json::json!([{"verbs": ["get"], "kinds": [], "paths": ["/*"]}]));
    let guest = FakeGuest::new(granted, move |_, view| {
        times.lock().push((view.now().to_owned(), view.uptime()));
        let need = Need::RawPath(format!("/{}", view.now()));
        match view.answer(&need) {
            None => Ok(Ok(Outcome { needs: vec![need], ..Outcome::default() })),
            Some(_) => done(),
        }
    });
    let n_reads = AtomicUsize::new(0);
    let server = FakeServer::answering_needs();
    let fixture = Fixture::with_parts(guest, FakeWriter::agreeable(), server, |parts| {
        // A clock that advances by a second with each read.
        parts.clock = Arc::new(move || {
            let second = n_reads.fetch_add(1, Ordering::Relaxed);
            jiff::Timestamp::from_second(1_700_000_000 + second as i64).unwrap()
        });
    });
    fixture.run_until_idle(&["a"]).await;
    let seen = seen.lock();
    assert!(seen.len() == 2 && seen[0] == seen[1], "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_missing_only_after_a_fresh_discovery() {
    for (name, discovered_before, log, code) in [
        ("Later", Duration::from_secs(6), vec!["create laters ns/p"], 0),
        ("Later", Duration::from_secs(4), vec![], 404),
        ("Unknown", Duration::from_secs(6), vec![], 404),
    ] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let failures = seen.clone();
        let manifest = manifest(|m| m["grants"][0]["kinds"] = serde_json::json!(["*"]));
        let guest = FakeGuest::new(manifest, move |_, view| {
            failures.lock().extend(view.failures().iter().map(|failure| failure.code));
            if view.attempt() > 0 {
                return done();
            }
            let mut mutation = create("p");
            if let pintle_core::contract::outcome::Action::Create { kind, .. } = &mut mutation.action {
                *kind = Kind::new("", "v1", name);
            }
            Ok(Ok(steps(vec![step(Order::Sequential, vec![mutation])])))
        });
        let fixture = Fixture::new(guest, FakeWriter::agreeable());
        fixture.start();
        tokio::time::sleep(discovered_before).await;
        fixture.server.state().resources.push(pintle_testing::server::resource("v1/Later", "laters"));
        fixture.add(&["a"]);
        fixture.idle(Duration::from_secs(3600)).await;
        assert_eq!(
            (fixture.api.log(), seen.lock().first().copied().unwrap_or_default()),
            (log.iter().map(|l| (*l).to_owned()).collect(), code)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_with_endless_needs_is_a_fault() {
    let n_calls = Arc::new(AtomicUsize::new(0));
    let n = n_calls.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |_, view| {
        n.fetch_add(1, Ordering::Relaxed);
        if view.attempt() > 0 {
            return done();
        }
        Ok(Ok(Outcome { needs: vec![Need::RawPath("/x".into())], ..Outcome::default() }))
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(n_calls.load(Ordering::Relaxed), run::MAX_ROUNDS + 1);
    // Its needs were also denied each time.
    let faults = fixture.controller.status().faults;
    assert_eq!(faults, [("grant".to_owned(), run::MAX_ROUNDS as u64), ("output".to_owned(), 1)].into());
}

#[tokio::test(start_paused = true)]
async fn state_and_time_reach_the_next_run() {
    let guest = FakeGuest::new(manifest(|_| {}), |_, view| {
        assert_eq!(view.now(), "2027-01-15T08:00:00.000000Z");
        let n: u32 = view.state("n").map_or(0, |n| n.parse().unwrap());
        Ok(Ok(Outcome { state: vec![("n".into(), Some((n + 1).to_string()))], ..Outcome::default() }))
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    fixture.add(&["b"]);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(fixture.controller.inner.lock().state.snapshot().get("n").map(|n| &**n), Some("2"));
    assert_eq!(fixture.controller.status().last_error, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_runs_again_after_its_requeue_delay() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| {
        Ok(Ok(Outcome { requeue_after: (i < 2).then_some(Duration::from_secs(100)), ..Outcome::default() }))
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(times(&calls), [(0, 0), (100_000, 0), (200_000, 0)]);
    assert_eq!(
        fixture.metric("controller_runtime_reconcile_total{controller=\"widgets\",result=\"requeue_after\"}"),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn an_immediate_requeue_waits_for_the_minimum_delay() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| {
        Ok(Ok(Outcome { requeue_after: (i < 2).then_some(Duration::ZERO), ..Outcome::default() }))
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(times(&calls), [(0, 0), (5, 0), (10, 0)]);
}

#[tokio::test(start_paused = true)]
async fn ticks_and_resyncs_follow_the_clock() {
    let manifest = manifest(|m| {
        m["queues"] = serde_json::json!([{"name": "widgets", "tickMs": 10_000, "resyncMs": 25_000}, {"name": "other"}]);
        let other = serde_json::json!({"kind": "apps/v1/ReplicaSet", "enqueue": [{"to": "self", "queue": "other"}]});
        m["watches"].as_array_mut().unwrap().push(other);
    });
    let (guest, calls) = scripted(manifest, |_| done());
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["a"]);
    fixture.server.put("replicasets", "ns", "b", serde_json::json!({}));
    fixture.start();
    tokio::time::sleep(Duration::from_secs(52)).await;
    let calls: Vec<String> = calls.lock().iter().map(|(at, key, _)| format!("{}:{key}", at / 1000)).collect();
    assert_eq!(calls.join(" "), "0:widgets 0:a 0:b 10:widgets 20:widgets 25:a 30:widgets 40:widgets 50:widgets 50:a");
}

#[tokio::test(start_paused = true)]
async fn the_plugin_maps_changes_and_faults_are_retried() {
    let n_asked = Arc::new(AtomicUsize::new(0));
    let n = n_asked.clone();
    let (guest, calls) = scripted(mapping_pods("1.0.0"), |_| done());
    let guest = guest.mapping(move |old, new| {
        assert!(old.is_none() && new.is_some_and(|new| new.starts_with('{')), "{old:?} {new:?}");
        match n.fetch_add(1, Ordering::Relaxed) {
            0 => Err(PluginFault { kind: FaultKind::Trap, message: "once".into() }),
            1 => Ok(vec![key("mapped")]),
            _ => Ok(vec![Key { queue: "unknown".into(), ..key("x") }]),
        }
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["first"]);
    fixture.start();
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(calls.lock()[0].1, "mapped");
    assert_eq!(fixture.controller.status().n_faults, 1);
    fixture.put(&["second"]);
    settle().await;
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!((calls.lock().len(), n_asked.load(Ordering::Relaxed)), (1, 7));
    let status = fixture.controller.status();
    assert_eq!((status.n_faults, status.conditions[1].reason.as_str()), (6, "MappingFaults"));
    // The second fault starts a new series.
    fixture.idle(Duration::ZERO).await;
    assert_eq!(fixture.event_reasons().iter().filter(|reason| *reason == "PluginFault").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_runs_in_flight_write() {
    let (guest, calls) = scripted(manifest(|m| m["queues"][0]["concurrency"] = 1.into()), |_| {
        let mut mutation = create("p");
        mutation.on_success = Some(event("m"));
        Ok(Ok(steps(vec![step(Order::Sequential, vec![mutation, create("q")])])))
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.api.paused.send_replace(true);
    fixture.start();
    fixture.add(&["a", "b"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let controller = fixture.controller.clone();
    let stopping = tokio::spawn(async move { controller.stop().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!stopping.is_finished());
    fixture.api.paused.send_replace(false);
    stopping.await.unwrap();
    assert_eq!(fixture.api.log(), ["create pods ns/p", "create pods ns/q"]);
    fixture.add(&["c"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(calls.lock().len(), 1);
}
