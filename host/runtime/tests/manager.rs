//! Whole plugins, implemented as closures, on the real caches and a fake API server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Action, Event, Mutation, Order, Outcome, Preconditions, Step};
use pintle_core::lifecycle::Spec;
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::api::ApiReader;
use pintle_core::ports::guest::Guest;
use pintle_core::ports::outside::{Bound, Outside};
use pintle_core::ports::view::{OwnedBy, Query, View};
use pintle_runtime::manager::{Manager, ManagerConfig, ManagerError, PluginOptions, Uptime};
use pintle_testing::server::settle;
use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters, refusal, until};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Applies the writes of plugins to the fake server.
struct Writes {
    server: Arc<FakeServer>,
    writer: Arc<FakeWriter>,
    /// The maximum number of Pods at any time.
    most_pods: Arc<AtomicUsize>,
    /// Number of Pod creations still to be rejected.
    refuse: Arc<AtomicUsize>,
}

impl Writes {
    fn new(server: &Arc<FakeServer>) -> Self {
        let (most_pods, refuse) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (shown, most, refused) = (server.clone(), most_pods.clone(), refuse.clone());
        let writer = FakeWriter::onto(server, move |line, _| {
            if line.starts_with("create pods") {
                if refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                    return Err(refusal(403));
                }
                most.fetch_max(shown.n_objects("pods") + 1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { server: server.clone(), writer, most_pods, refuse }
    }

    /// The current and the maximum number of Pods.
    fn n_pods(&self) -> (usize, usize) {
        (self.server.n_objects("pods"), self.most_pods.load(Ordering::Relaxed))
    }

    /// Messages of the events, in alphabetical order.
    fn events(&self) -> Vec<String> {
        let bodies = self.writer.bodies();
        let created = self.writer.log().into_iter().zip(bodies).filter(|(line, _)| line.starts_with("create events"));
        let mut messages: Vec<String> = created.map(|(_, body)| body["message"].as_str().unwrap().to_owned()).collect();
        messages.sort();
        messages
    }
}

fn manifest(name: &str) -> Arc<Manifest> {
    let manifest = json!({
        "name": name, "version": "1.0.0", "contract": "0.2",
        "watches": [
            {"kind": "apps/v1/ReplicaSet", "fields": ["spec.replicas"], "enqueue": [{"to": "self"}]},
            {"kind": "v1/Pod", "fields": ["metadata.ownerReferences"],
             "enqueue": [{"to": "controller", "kind": "apps/v1/ReplicaSet"}]},
        ],
        "queues": [{"name": name}],
        "grants": [{"verbs": ["create", "delete"], "kinds": ["v1/Pod"]}],
        "config": {"burst": {"type": "integer", "default": 500, "minimum": 1}},
    });
    Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap())
}

fn mutation(action: Action, success: &str, about: &Key) -> Mutation {
    let event = |warning, reason: &str, message: &str| Event {
        regarding_kind: about.kind.clone(),
        regarding: about.object.clone(),
        regarding_uid: format!("uid-{}", about.object.name),
        warning,
        reason: reason.into(),
        message: message.into(),
    };
    Mutation {
        action,
        on_success: Some(event(false, "Done", success)),
        on_failure: Some(event(true, "Failed", "Error: {error}")),
        tolerate: Vec::new(),
    }
}

/// Maintains `spec.replicas` Pods and nothing else: no expectations, no memory.
fn replicas(key: &Key, view: &dyn View) -> Outcome {
    let pod = Kind::new("", "v1", "Pod");
    let Some(set) = view.get(&key.kind, &key.object).unwrap() else { return Outcome::default() };
    let set: Value = serde_json::from_str(&set).unwrap();
    let uid = set["metadata"]["uid"].as_str().unwrap();
    let query = Query { owner: Some(OwnedBy::Controller(uid.to_owned())), ..Query::default() };
    let pods = view.list(&pod, &query).unwrap();
    let wanted = set["spec"]["replicas"].as_u64().unwrap() as usize;
    let create = || {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": key.object.name, "uid": uid, "controller": true});
        let object = json!({"metadata": {"generateName": format!("{}-", key.object.name), "ownerReferences": [owner]}});
        let (namespace, object) = (key.object.namespace.to_string(), object.to_string());
        mutation(Action::Create { kind: pod.clone(), namespace, object, subresource: None }, "Created pod: {name}", key)
    };
    let delete = |text: &Arc<str>| {
        let object: Value = serde_json::from_str(text).unwrap();
        let action = Action::Delete {
            kind: pod.clone(),
            object: ObjectKey::new(&key.object.namespace, object["metadata"]["name"].as_str().unwrap()),
            preconditions: Preconditions::default(),
            propagation: None,
            grace_period_seconds: None,
        };
        mutation(action, "Deleted pod: {name}", key)
    };
    let mutations: Vec<Mutation> = match pods.len() {
        n if n < wanted => (n..wanted).map(|_| create()).collect(),
        n => pods[..n - wanted].iter().map(delete).collect(),
    };
    Outcome { steps: vec![Step { order: Order::SlowStart, mutations, always: false }], ..Outcome::default() }
}

fn replicasets(name: &str) -> Arc<dyn Guest> {
    let reconcile = |key: Key, view: Arc<dyn View>| async move { Ok(Ok(replicas(&key, &*view))) }.boxed();
    Arc::new(FakeGuest::asynchronous(manifest(name), reconcile))
}

struct Host {
    manager: Arc<Manager>,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<()>,
}

impl Host {
    fn start(reader: Arc<dyn ApiReader>, writes: &Writes, guests: Vec<Arc<dyn Guest>>) -> Self {
        Self::with(ManagerConfig::default(), reader, writes, guests)
    }

    fn with(config: ManagerConfig, reader: Arc<dyn ApiReader>, writes: &Writes, guests: Vec<Arc<dyn Guest>>) -> Self {
        let manager = Arc::new(Manager::new(reader, Arc::new(FakeWriters(writes.writer.clone())), config));
        for guest in guests {
            manager.add(guest, PluginOptions::default()).unwrap();
        }
        let (stop, stopped) = oneshot::channel();
        let inner = manager.clone();
        let running = tokio::spawn(async move { inner.run(async { drop(stopped.await) }).await });
        Self { manager, stop, running }
    }

    async fn idle(&self) {
        settle().await;
        self.manager.idle(Duration::from_secs(3600)).await;
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }
}

fn scale(server: &FakeServer, name: &str, replicas: usize) {
    server.put("replicasets", "ns", name, json!({"spec": {"replicas": replicas}}));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_keeps_as_many_pods_as_asked() {
    let server = FakeServer::new();
    scale(&server, "a", 3);
    let writes = Writes::new(&server);
    let host = Host::start(server.clone(), &writes, vec![replicasets("replicaset-controller")]);
    host.idle().await;
    assert_eq!(writes.n_pods(), (3, 3));
    server.delete("pods", "ns", "a-1");
    host.idle().await;
    assert_eq!(writes.n_pods(), (3, 3));
    scale(&server, "a", 1);
    host.idle().await;
    assert_eq!(writes.n_pods(), (1, 3));
    let events = writes.events();
    assert_eq!(events.len(), 6, "{events:?}");
    assert_eq!(events[0], "Created pod: a-0");
    let status = &host.manager.status()[0];
    assert!(status.synced && status.n_faults == 0 && status.cached_bytes > 0, "{status:?}");
    let text = host.manager.metrics_text();
    for part in
        ["workqueue_adds_total{name=\"replicaset-controller\"}", "verb=\"create\",kind=\"v1/Pod\",result=\"ok\"} 4"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn late_watches_cause_no_surplus() {
    let server = FakeServer::new();
    for i in 0..5 {
        scale(&server, &format!("s{i}"), 4);
    }
    let writes = Writes::new(&server);
    server.state().late = Duration::from_millis(700);
    let host = Host::start(server.clone(), &writes, vec![replicasets("replicaset-controller")]);
    // Changes that cause runs of the keys before the cache shows their Pods.
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        for i in 0..5 {
            scale(&server, &format!("s{i}"), 4);
        }
    }
    until("20 Pods", || writes.n_pods().0 == 20).await;
    host.idle().await;
    assert_eq!(writes.n_pods(), (20, 20));
    assert!(
        host.manager
            .metrics_text()
            .contains("pintle_stale_cache_wait_timeouts_total{plugin=\"replicaset-controller\"} 0")
    );
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_creates_are_retried_with_backoff() {
    let server = FakeServer::new();
    scale(&server, "a", 10);
    let writes = Writes::new(&server);
    writes.refuse.store(4, Ordering::Relaxed);
    let host = Host::start(server.clone(), &writes, vec![replicasets("replicaset-controller")]);
    host.idle().await;
    assert_eq!(writes.n_pods(), (10, 10));
    // The first batch of one, four times: the slow start skipped the rest.
    let text = host.manager.metrics_text();
    assert!(text.contains("verb=\"create\",kind=\"v1/Pod\",result=\"forbidden\"} 4"), "{text}");
    assert!(
        text.contains("controller_runtime_reconcile_total{controller=\"replicaset-controller\",result=\"error\"} 4")
    );
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_plugin_does_not_hold_another() {
    let server = FakeServer::new();
    scale(&server, "a", 3);
    let writes = Writes::new(&server);
    let stuck = |_: Key, _: Arc<dyn View>| {
        async {
            tokio::time::sleep(Duration::from_secs(1000)).await;
            Ok(Ok(Outcome::default()))
        }
        .boxed()
    };
    let slow = Arc::new(FakeGuest::asynchronous(manifest("slow"), stuck));
    let host = Host::start(server.clone(), &writes, vec![slow, replicasets("replicaset-controller")]);
    let started = tokio::time::Instant::now();
    until("3 Pods", || writes.n_pods().0 == 3).await;
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!(host.manager.status()[1].queues[0].n_running, 1);
    let stopping = tokio::time::Instant::now();
    host.stop().await;
    // The grace period of the slow run, and more for its events.
    assert!(stopping.elapsed() <= Duration::from_secs(36), "{:?}", stopping.elapsed());
}

#[tokio::test(start_paused = true)]
async fn plugins_come_and_go_while_the_manager_runs() {
    let server = FakeServer::new();
    scale(&server, "a", 2);
    let writes = Writes::new(&server);
    let host = Host::start(server.clone(), &writes, Vec::new());
    host.idle().await;
    assert_eq!(server.n_watches(), 0);
    host.manager.add(replicasets("one"), PluginOptions::default()).unwrap();
    host.idle().await;
    assert_eq!((writes.n_pods().0, server.n_watches()), (2, 2));
    assert!(host.manager.remove("one").await);
    assert!(!host.manager.remove("one").await);
    settle().await;
    assert_eq!(server.n_watches(), 0);
    scale(&server, "a", 5);
    settle().await;
    assert_eq!(writes.n_pods().0, 2);
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn plugins_start_one_after_another() {
    let server = FakeServer::new();
    let config = ManagerConfig { start_interval: Duration::from_secs(10), ..ManagerConfig::default() };
    let guests = ["one", "three", "two"].map(replicasets).into();
    let host = Host::with(config, server.clone(), &Writes::new(&server), guests);
    let synced = || host.manager.status().iter().filter(|status| status.synced).count();
    for n in 1..=3 {
        let before = tokio::time::Instant::now();
        until("one more plugin", || synced() == n).await;
        let waited = before.elapsed().as_secs();
        assert!(n == 1 && waited == 0 || (9..21).contains(&waited), "{waited}");
    }
    // A plugin that is added later does not wait, and is not started twice.
    host.manager.add(replicasets("zero"), PluginOptions::default()).unwrap();
    settle().await;
    assert_eq!(synced(), 4);
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_operator_may_set_the_resync_period() {
    let server = FakeServer::new();
    scale(&server, "a", 0);
    for (period, expected) in [(Some(60), 10), (Some(0), 1), (None, 2)] {
        let n_runs = Arc::new(AtomicUsize::new(0));
        let n = n_runs.clone();
        let reconcile = move |_: Key, _: Arc<dyn View>| {
            n.fetch_add(1, Ordering::Relaxed);
            async { Ok(Ok(Outcome::default())) }.boxed()
        };
        let mut manifest = Arc::unwrap_or_clone(manifest("one"));
        manifest.queues[0].resync_ms = Some(400_000.into());
        let guest = Arc::new(FakeGuest::asynchronous(Arc::new(manifest), reconcile));
        let host = Host::start(server.clone(), &Writes::new(&server), Vec::new());
        let resync = period.map(|seconds| ("one".to_owned(), Duration::from_secs(seconds))).into_iter().collect();
        host.manager.add(guest, PluginOptions { resync, ..PluginOptions::default() }).unwrap();
        tokio::time::sleep(Duration::from_secs(599)).await;
        assert_eq!(n_runs.load(Ordering::Relaxed), expected, "{period:?}");
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn plugins_see_the_uptime_of_the_configured_clock_or_of_the_manager() {
    for (uptime, expected) in [(None, 3), (Some(Duration::from_secs(600)), 600)] {
        let server = FakeServer::new();
        let manifest = json!({
            "name": "clock", "version": "1.0.0", "contract": "0.2", "queues": [{"name": "pods"}],
            "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self"}]}],
        });
        let manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
        let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
        let log = seen.clone();
        let guest = FakeGuest::new(manifest, move |_, view| {
            log.lock().unwrap().push(view.uptime().as_secs());
            Ok(Ok(Outcome::default()))
        });
        let uptime: Option<Uptime> = uptime.map(|uptime| Arc::new(move || uptime) as Uptime);
        let config = ManagerConfig { uptime, ..ManagerConfig::default() };
        let host = Host::with(config, server.clone(), &Writes::new(&server), vec![Arc::new(guest)]);
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.put("pods", "ns", "a", json!({}));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(*seen.lock().unwrap(), [expected]);
        host.stop().await;
    }
}

/// Bindings of a plugin that is never asked to use them.
struct Bindings;

impl Outside for Bindings {
    fn bound(&self, plugin: &str) -> Vec<Bound> {
        let bound =
            |(kind, name): (&str, &str)| Bound { kind: kind.into(), name: name.into(), place: "/secret".into() };
        let all = [("key", "key"), ("authority", "ours"), ("endpoint", "desk")];
        all.into_iter().filter(|_| plugin == "signer").map(bound).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn plugins_see_which_keys_and_authorities_are_bound() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let signer = |name: &str| -> Arc<dyn Guest> {
        let manifest = json!({
            "name": name, "version": "1.0.0", "contract": "0.2", "queues": [{"name": name}],
            "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self"}]}],
            "config": {
                "days": {"type": "integer", "default": 3},
                "key": {"type": "key", "optional": true},
                "ours": {"type": "authority", "optional": true},
                "theirs": {"type": "authority", "optional": true},
            },
            "endpoints": {"desk": {"operations": ["look-up"]}},
        });
        let manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
        let (log, name) = (seen.clone(), name.to_owned());
        Arc::new(FakeGuest::new(manifest, move |_, view| {
            log.lock().unwrap().push(format!("{name} {}", view.config()));
            Ok(Ok(Outcome::default()))
        }))
    };
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    let config = ManagerConfig { outside: Arc::new(Bindings), ..ManagerConfig::default() };
    let host = Host::with(config, server.clone(), &Writes::new(&server), vec![signer("signer"), signer("other")]);
    host.idle().await;
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    assert_eq!(seen, [r#"other {"days":3}"#, r#"signer {"days":3,"key":true,"ours":true}"#]);
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_does_not_fit_is_rejected_with_the_reason() {
    let server = FakeServer::new();
    let manager =
        Manager::new(server.clone(), Arc::new(FakeWriters(FakeWriter::agreeable())), ManagerConfig::default());
    manager.add(replicasets("one"), PluginOptions::default()).unwrap();
    let add = |name: &str, options: PluginOptions| manager.add(replicasets(name), options).unwrap_err().to_string();
    assert_eq!(add("one", PluginOptions::default()), "plugin \"one\" is already loaded; plugin names must be unique");
    let spec = Spec { config: json!({"burst": 0}), ..Spec::default() };
    let config = PluginOptions { spec, ..PluginOptions::default() };
    assert_eq!(add("two", config), "plugin \"two\": setting \"burst\": must be at least 1, not 0");
    let concurrency = PluginOptions { concurrency: [("three".to_owned(), 0)].into(), ..PluginOptions::default() };
    assert_eq!(
        add("three", concurrency),
        "plugin \"three\": queue \"three\" cannot have 0 workers; its queues are three, each with at least 1"
    );
    let resync =
        PluginOptions { resync: [("x".to_owned(), Duration::from_secs(60))].into(), ..PluginOptions::default() };
    assert_eq!(
        add("three", resync),
        "plugin \"three\": cannot resync queue \"x\" every 60s: there is no such queue; its queues are three"
    );
    let pods = json!([{"verbs": ["*"], "kinds": ["v1/Pod"]}]);
    let spec = Spec { grants: Some(serde_json::from_value(pods).unwrap()), ..Spec::default() };
    assert_eq!(
        add("five", PluginOptions { spec, ..PluginOptions::default() }),
        "plugin five asks for more than it is given; add `- {verbs: [list, watch], kinds: [apps/v1/ReplicaSet]}` to `grants` of \
         ControllerPlugin/five or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"
    );
    let mut mapping = Arc::unwrap_or_clone(manifest("four"));
    mapping.watches[1].enqueue[0].to = pintle_core::contract::manifest::To::Plugin;
    let reconcile = |_: Key, _: Arc<dyn View>| async { Ok(Ok(Outcome::default())) }.boxed();
    let guest = Arc::new(FakeGuest::asynchronous(Arc::new(mapping), reconcile));
    assert!(matches!(manager.add(guest, PluginOptions::default()), Err(ManagerError::NoMapping(_))));
    assert_eq!(manager.status().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_host_waits_for_an_api_server_that_is_down_at_the_start() {
    let server = FakeServer::new();
    scale(&server, "a", 2);
    server.set_down(true);
    let writes = Writes::new(&server);
    let host = Host::start(server.clone(), &writes, vec![replicasets("replicaset-controller")]);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(writes.n_pods().0, 0);
    assert!(!host.manager.status()[0].synced);
    server.set_down(false);
    until("2 Pods", || writes.n_pods().0 == 2).await;
    host.stop().await;
}
