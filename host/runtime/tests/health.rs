//! Conditions and readiness with kinds that the API server does not serve, and during an outage of the API server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Outcome, ReconcileError};
use pintle_core::lifecycle::Phase;
use pintle_core::ports::api::{ApiError, ApiErrorClass};
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions};
use pintle_testing::server::{error, resource};
use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters, until};
use serde_json::{Value, json};
use tokio::sync::oneshot;

struct Host {
    manager: Arc<Manager>,
    server: Arc<FakeServer>,
    writer: Arc<FakeWriter>,
    /// Names of objects whose runs fail.
    fails: Arc<Mutex<BTreeSet<&'static str>>>,
    _stop: oneshot::Sender<()>,
}

impl Host {
    /// A host with plugins of these names, each of which watches these kinds (`KIND FIELD...`) and fails for some
    /// objects.
    fn start(server: Arc<FakeServer>, plugins: &[(&str, &[&str])]) -> Self {
        let writer = FakeWriter::agreeable();
        let fails = Arc::new(Mutex::new(BTreeSet::new()));
        let writers = Arc::new(FakeWriters(writer.clone()));
        let manager = Arc::new(Manager::new(server.clone(), writers, ManagerConfig::default()));
        for (name, kinds) in plugins {
            let watches = kinds.iter().map(|watch| {
                let mut words = watch.split(' ');
                let (kind, fields) = (words.next(), words.collect::<Vec<_>>());
                json!({"kind": kind, "fields": fields, "enqueue": [{"to": "self"}]})
            });
            let watches: Vec<Value> = watches.collect();
            let manifest = json!({
                "name": name, "version": "1.0.0", "contract": "0.2", "watches": watches, "queues": [{"name": name}],
            });
            let manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
            let fails = fails.clone();
            let guest =
                FakeGuest::new(manifest, move |key, _| match fails.lock().unwrap().contains(&*key.object.name) {
                    true => Ok(Err(ReconcileError::Retry { message: "no luck".into(), after: None })),
                    false => Ok(Ok(Outcome::default())),
                });
            manager.add(Arc::new(guest), PluginOptions::default()).unwrap();
        }
        let (stop, stopped) = oneshot::channel();
        let inner = manager.clone();
        tokio::spawn(async move { inner.run(async { drop(stopped.await) }).await });
        Self { manager, server, writer, fails, _stop: stop }
    }

    /// A condition of a plugin: status, reason and message.
    fn condition(&self, plugin: usize, kind: &str) -> String {
        let status = &self.manager.status()[plugin];
        let found = status.conditions.iter().find(|condition| condition.kind == kind).unwrap();
        format!("{} {}: {}", found.status, found.reason, found.message)
    }

    fn ready(&self, plugin: usize) -> String {
        self.condition(plugin, "Ready")
    }

    /// Reasons and messages of the events about plugins.
    fn events(&self) -> Vec<String> {
        let log = self.writer.log();
        let created = log.iter().zip(self.writer.bodies()).filter(|(line, _)| line.starts_with("create events"));
        created
            .map(|(_, body)| format!("{}: {}", body["reason"].as_str().unwrap(), body["message"].as_str().unwrap()))
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_not_ready_while_a_kind_that_it_watches_is_not_served() {
    let host = Host::start(FakeServer::new(), &[("pods", &["v1/Pod"]), ("teams", &["example.org/v1/Team", "v1/Pod"])]);
    let absent =
        "the API server does not serve example.org/v1/Team: apply the CustomResourceDefinition that defines it";
    until("the plugins to run", || host.manager.status().iter().all(|plugin| plugin.phase == Phase::Running)).await;
    assert_eq!(host.ready(1), format!("False KindNotServed: {absent}"));
    assert_eq!(host.ready(0), "True Running: it processes keys", "its neighbour is ready");
    assert_eq!(host.manager.readiness(), Ok(()), "one plugin decides for itself only");
    let event = format!("KindNotServed: plugin teams is not ready: {absent}");
    until("an event", || host.events() == [event.clone()]).await;

    let changes = host.manager.changes();
    host.server.state().resources.push(resource("example.org/v1/Team", "teams"));
    until("the plugin to be ready", || host.ready(1) == "True Running: it processes keys").await;
    assert!(changes.has_changed().unwrap(), "whoever shows the status hears of it");
    let served = "KindsServed: the API server serves every kind that plugin teams watches";
    until("an event", || host.events() == [event.clone(), served.to_owned()]).await;

    // The plugin does not watch the other version of the kind.
    host.server.state().resources.last_mut().unwrap().kind = "example.org/v2/Team".parse().unwrap();
    let other = "False KindNotServed: the API server does not serve example.org/v1/Team, but version v2 of it: update the \
                 CustomResourceDefinition that defines it, or watch v2";
    until("the plugin not to be ready", || host.ready(1) == other).await;
    assert_eq!(host.ready(0), "True Running: it processes keys");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_kind_may_not_be_listed_leaves_the_host_ready() {
    let server = FakeServer::new();
    server.set_down(true);
    let refusal = ApiError { message: "pods is forbidden".into(), ..error(ApiErrorClass::Forbidden, 403) };
    server.state().refusals.insert("pods".into(), refusal);
    let host = Host::start(server, &[("pods", &["v1/Pod"]), ("sets", &["apps/v1/ReplicaSet"])]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(host.manager.readiness(), Err("caches are not synced yet for: pods, sets".into()));
    host.server.set_down(false);
    until("the host to be ready", || host.manager.readiness().is_ok()).await;
    assert_eq!(host.ready(1), "True Running: it processes keys");
    let refused = "False KindNotListed: the API server refuses to list v1/Pod: pods is forbidden; run, as an administrator, \
                   `pintle rbac | kubectl apply -f -`, with the component if it was loaded later";
    assert_eq!(host.ready(0), refused);
    host.server.state().refusals.clear();
    until("the plugin to be ready", || host.ready(0) == "True Running: it processes keys").await;
}

#[tokio::test(start_paused = true)]
async fn a_host_is_not_ready_while_its_api_server_is_gone() {
    let host = Host::start(FakeServer::new(), &[("pods", &["v1/Pod"])]);
    until("the host to be ready", || host.manager.readiness().is_ok()).await;
    let requests = host.manager.request_observer();
    let ends = |code| requests.attempted("GET", "cluster.example:6443", code, None);
    ends(Some(200));
    ends(None);
    tokio::time::advance(Duration::from_secs(19)).await;
    ends(None);
    assert_eq!(host.manager.readiness(), Ok(()), "a moment is nothing");
    tokio::time::advance(Duration::from_secs(1)).await;
    let missing = host.manager.readiness().unwrap_err();
    assert!(missing.starts_with("the API server at cluster.example:6443 has not answered since 20"), "{missing}");
    assert!(missing.ends_with("Z (20 s)"), "{missing}");
    ends(Some(503));
    let missing = host.manager.readiness().unwrap_err();
    assert!(missing.ends_with("(20 s), except 503 of something before it"), "{missing}");
    // It refuses the request, so it is running.
    ends(Some(401));
    assert_eq!(host.manager.readiness(), Ok(()));
    assert!(
        host.manager
            .metrics_text()
            .contains("rest_client_requests_total{code=\"<error>\",method=\"GET\",host=\"cluster.example:6443\"} 2")
    );
}

#[tokio::test(start_paused = true)]
async fn a_plugin_of_which_all_runs_fail_is_neither_ready_nor_healthy() {
    let server = FakeServer::new();
    for name in ["a", "b", "c"] {
        server.put("pods", "ns", name, json!({}));
    }
    let host = Host::start(server, &[("pods", &["v1/Pod"])]);
    until("three runs", || host.manager.status()[0].n_runs == 3).await;
    assert_eq!(host.condition(0, "Healthy"), "True NoFaults: no key has a fault");
    // A failure of one object in three is due to that object.
    host.fails.lock().unwrap().insert("a");
    host.server.put("pods", "ns", "a", json!({"x": 1}));
    until("ten more runs", || host.manager.status()[0].n_runs >= 13).await;
    assert_eq!(host.ready(0), "True Running: it processes keys");

    host.fails.lock().unwrap().extend(["b", "c"]);
    let changes = host.manager.changes();
    host.server.put("pods", "ns", "b", json!({"x": 1}));
    until("the plugin not to be healthy", || host.condition(0, "Healthy").starts_with("False RunsFail: the last "))
        .await;
    let ready = host.ready(0);
    assert!(
        ready.starts_with("False RunsFail: the last ")
            && ready.ends_with(" runs, of 2 keys, failed; the last: v1/Pod ns/b: no luck"),
        "{ready}"
    );
    host.fails.lock().unwrap().clear();
    until("the plugin to be healthy", || host.ready(0) == "True Running: it processes keys").await;
    assert_eq!(host.condition(0, "Healthy"), "True NoFaults: no key has a fault");
    assert!(changes.has_changed().unwrap(), "whoever shows the status hears of it");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_which_all_runs_fail_makes_no_plugin_unready_for_others() {
    let server = FakeServer::new();
    for name in ["a", "b", "c"] {
        server.put("pods", "ns", name, json!({}));
    }
    server.put("pods", "other", "d", json!({}));
    let host = Host::start(server, &[("pods", &["v1/Pod"])]);
    until("four runs", || host.manager.status()[0].n_runs == 4).await;
    host.fails.lock().unwrap().extend(["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        host.server.put("pods", "ns", name, json!({"x": 1}));
    }
    until("ten more runs", || host.manager.status()[0].n_runs >= 14).await;
    assert_eq!(host.ready(0), "True Running: it processes keys");
    assert_eq!(host.condition(0, "Healthy"), "True NoFaults: no key has a fault");

    host.fails.lock().unwrap().insert("d");
    host.server.put("pods", "other", "d", json!({"x": 1}));
    until("the plugin not to be ready", || host.ready(0).starts_with("False RunsFail: the last ")).await;
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_is_not_given_is_not_printed() {
    let host = Host::start(FakeServer::new(), &[("pods", &["v1/Pod"])]);
    until("the plugin to run", || host.manager.status()[0].phase == Phase::Running).await;
    host.manager.disable("pods", "").unwrap();
    host.manager.enable("pods", "").unwrap();
    until("events", || host.events() == ["Disabled: plugin pods is disabled", "Enabled: plugin pods is enabled"]).await;
    host.manager.disable("pods", "").unwrap();
    assert_eq!(host.ready(0), "False Disabled: it is disabled");
}

/// The OpenAPI document of a group version with a kind Team, whose spec has these fields.
fn openapi(fields: Value) -> String {
    let team = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": fields}},
        "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Team"}],
    });
    json!({"components": {"schemas": {"Team": team}}}).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_declared_field_that_a_custom_kind_does_not_have_is_a_condition() {
    let server = FakeServer::new();
    server.state().resources.push(resource("example.org/v1/Team", "teams"));
    let document = openapi(json!({"members": {"type": "array"}}));
    server.state().garbage.insert("/openapi/v3/apis/example.org/v1".into(), document);
    let host = Host::start(server, &[("teams", &["example.org/v1/Team spec.membrs spec.members"])]);
    let unknown = "spec.membrs: example.org/v1/Team has no such field; did you mean spec.members?";
    let has = |text: &str| host.manager.status()[0].conditions.iter().any(|condition| condition.message == text);
    until("a condition", || has(unknown)).await;
    assert_eq!(host.condition(0, "FieldsMissing"), format!("True NotInSchema: {unknown}"));
    until("an event", || host.events() == [format!("UnknownField: plugin teams: {unknown}")]).await;
    assert!(host.ready(0).starts_with("True"), "what it declares may come with the next definition");
}

#[tokio::test(start_paused = true)]
async fn a_declared_field_that_no_object_has_is_a_condition_until_one_has_it() {
    let server = FakeServer::new();
    server.state().resources.push(resource("example.org/v1/Team", "teams"));
    let host = Host::start(server, &[("teams", &["example.org/v1/Team spec.membrs metadata.labels"])]);
    until("the plugin to run", || host.manager.status()[0].phase == Phase::Running).await;
    let conditions = || host.manager.status()[0].conditions.iter().map(|found| found.kind.clone()).collect::<Vec<_>>();
    assert_eq!(conditions(), ["Ready", "Healthy", "Progressing"], "there are no objects");
    for name in ["a", "b"] {
        host.server.put("teams", "ns", name, json!({"spec": {"members": []}}));
    }
    let has = |text: &str| host.manager.status()[0].conditions.iter().any(|condition| condition.message == text);
    until("a condition", || has("none of the 2 objects of example.org/v1/Team has spec.membrs")).await;
    assert!(host.condition(0, "FieldsMissing").starts_with("True NeverPresent: "));
    host.server.put("teams", "ns", "b", json!({"spec": {"membrs": []}}));
    until("no condition", || conditions() == ["Ready", "Healthy", "Progressing"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_overview_shows_runs_failures_keys_and_the_last_minutes() {
    let server = FakeServer::new();
    for name in ["a", "b"] {
        server.put("pods", "ns", name, json!({}));
    }
    let host = Host::start(server, &[("pods", &["v1/Pod"])]);
    host.fails.lock().unwrap().insert("b");
    let observed = host.manager.clone();
    let observing = tokio::spawn(async move { observed.observe().await });
    let runs = || host.manager.overview().plugins[0].runs;
    until("a success and two failures", || runs().success == 1 && runs().error >= 2).await;
    tokio::time::sleep(Duration::from_secs(62)).await;
    let overview = host.manager.overview();
    assert_eq!((overview.host.leads, overview.host.elections.len(), overview.host.up_seconds / 62), (true, 0, 1));
    let plugin = &overview.plugins[0];
    assert_eq!((plugin.phase, plugin.n_cached, plugin.queue.delayed), (Phase::Running, 2, 1));
    assert_eq!(plugin.last_error.as_deref(), Some("v1/Pod ns/b: no luck"));
    assert!(plugin.cached_bytes > 0 && plugin.memory_bytes >= plugin.cached_bytes, "{plugin:?}");
    assert!(plugin.latency.is_some(), "the key runs again and again");
    let series = &overview.series;
    assert!((12..=14).contains(&series.seconds_ago.len()), "{series:?}");
    assert!(series.runs_per_second.iter().any(|rate| *rate > 0.0), "{series:?}");

    let detail = host.manager.plugin_detail("pods").unwrap();
    assert_eq!(detail.series.seconds_ago.len(), series.seconds_ago.len());
    let key = &detail.queues[0].keys[0];
    assert_eq!((&*key.key, &*key.state, key.n_failures >= 2), ("v1/Pod ns/b", "delayed", true));
    assert_eq!(host.manager.plugin_detail("others"), None);

    // It is rebuilt only after a quarter of a second.
    host.server.put("pods", "ns", "c", json!({}));
    let cached = || host.manager.overview().plugins[0].n_cached;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(cached(), 2, "the same overview");
    until("another overview", || cached() == 3).await;
    observing.abort();
}
