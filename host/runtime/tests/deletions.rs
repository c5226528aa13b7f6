//! A new version that would delete many objects is held before the first deletion.

use std::sync::Arc;
use std::time::Duration;

use pintle_core::contract::manifest::{Limits, Manifest};
use pintle_core::contract::outcome::{Order, Outcome};
use pintle_core::lifecycle::{Spec, SwapResult};
use pintle_core::ports::guest::{Guest, Inspected, LoadFailure, Loader};
use pintle_core::ports::view::{Query, View};
use pintle_runtime::manager::{Component, Manager, ManagerConfig};
use pintle_testing::server::settle;
use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters, delete, pod, step, steps, until};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A component is text: the version, and the maximum number of Pods of a ReplicaSet that it deletes.
struct Texts;

fn parse(bytes: &[u8]) -> (String, usize) {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (version, n) = text.split_once(' ').unwrap();
    (version.to_owned(), n.parse().unwrap())
}

impl Loader for Texts {
    fn inspect(&self, _: &str, bytes: &[u8]) -> Result<Inspected, LoadFailure> {
        let manifest = json!({
            "name": "guard", "eventSource": "kubelet", "version": parse(bytes).0, "contract": "0.2", "queues": [{"name": "guard"}],
            "watches": [
                {"kind": "apps/v1/ReplicaSet", "enqueue": [{"to": "self"}]},
                {"kind": "v1/Pod", "fields": ["metadata.ownerReferences"], "enqueue": []},
            ],
            "grants": [{"verbs": ["delete"], "kinds": ["v1/Pod"]}],
        });
        let manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap());
        Ok(Inspected { manifest, digest: String::from_utf8_lossy(bytes).into_owned() })
    }

    fn load(&self, origin: &str, bytes: &[u8], _: &Limits) -> Result<Arc<dyn Guest>, LoadFailure> {
        let (manifest, (_, n)) = (self.inspect(origin, bytes)?.manifest, parse(bytes));
        Ok(Arc::new(FakeGuest::new(manifest, move |_, view| Ok(Ok(deletes(&*view, n))))))
    }
}

fn deletes(view: &dyn View, n: usize) -> Outcome {
    let pods = view.list(&pod(), &Query::default()).unwrap();
    let name = |text: &Arc<str>| {
        let pod: Value = serde_json::from_str(text).unwrap();
        pod["metadata"]["name"].as_str().unwrap().to_owned()
    };
    let deletions = pods.iter().take(n).map(|text| delete(&name(text))).collect();
    steps(vec![step(Order::Parallel, deletions)])
}

struct Host {
    manager: Arc<Manager>,
    server: Arc<FakeServer>,
    writer: Arc<FakeWriter>,
    _stop: oneshot::Sender<()>,
}

impl Host {
    /// A host without plugins, with the built-in component `carried 14`, and a ReplicaSet with 14 Pods.
    fn start() -> Self {
        let server = FakeServer::new();
        server.put("replicasets", "ns", "set", json!({}));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "uid-set", "controller": true}]);
        for i in 0..14 {
            server.put("pods", "ns", &format!("pod-{i}"), json!({"metadata": {"ownerReferences": owner}}));
        }
        let writer = FakeWriter::onto(&server, |_, _| Ok(()));
        let carries = Arc::new(|bytes: &[u8]| bytes == b"carried 14");
        let config = ManagerConfig { grant_requested: true, carries, ..ManagerConfig::default() };
        let manager = Arc::new(Manager::new(server.clone(), Arc::new(FakeWriters(writer.clone())), config));
        manager.set_loader(Arc::new(Texts));
        let (stop, stopped) = oneshot::channel();
        let inner = manager.clone();
        tokio::spawn(async move { inner.run(async { drop(stopped.await) }).await });
        Self { manager, server, writer, _stop: stop }
    }

    async fn apply(&self, component: &str, spec: Value) -> SwapResult {
        let component = Component { origin: "test".into(), bytes: component.into() };
        let spec: Spec = serde_json::from_value(spec).unwrap();
        let report = self.manager.apply(component, &spec, None).await.unwrap();
        settle().await;
        report.result
    }

    fn n_pods(&self) -> usize {
        self.server.n_objects("pods")
    }

    fn condition(&self, kind: &str) -> Option<String> {
        let status = self.manager.status().remove(0);
        let found = status.conditions.into_iter().find(|condition| condition.kind == kind);
        found.map(|found| format!("{} {}: {}", found.status, found.reason, found.message))
    }

    fn events(&self) -> Vec<String> {
        let log = self.writer.log();
        let created = log.iter().zip(self.writer.bodies()).filter(|(line, _)| line.starts_with("create events"));
        let reason = |(_, body): (&String, Value)| {
            // A component cannot use another one's name as the event source, whatever its manifest contains.
            assert_eq!([&body["source"]["component"], &body["reportingComponent"]], ["guard", "guard"]);
            body["reason"].as_str().unwrap().to_owned()
        };
        created.map(reason).collect()
    }
}

const HELD: &str = "version 2.0.0 wants to delete 14 objects at once, and 5 in a minute are the maximum in its probation (the plugin \
                    owns 14): nothing is sent and no run starts. `pintle plugin approve guard` lets it delete, `pintle plugin rollback \
                    guard` restores the previous version";

#[tokio::test(start_paused = true)]
async fn a_new_version_that_deletes_everything_is_held_until_the_operator_agrees() {
    let host = Host::start();
    host.apply("1.0.0 0", json!({})).await;
    host.apply("2.0.0 14", json!({"strategy": {"probation": {"runs": 1, "forMs": 1000}}})).await;
    until("the deletions to be held", || host.condition("DeletionsHeld").is_some()).await;
    assert_eq!(host.condition("DeletionsHeld").unwrap(), format!("True DeletionsInProbation: {HELD}"));
    assert_eq!(host.condition("Ready").unwrap(), format!("False DeletionsHeld: {HELD}"));
    // Time proves nothing, and further changes start no runs.
    let n_runs = host.manager.status()[0].n_runs;
    for i in 0..50 {
        host.server.put("replicasets", "ns", "set", json!({"i": i}));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let status = host.manager.status().remove(0);
    assert_eq!((host.n_pods(), status.n_runs), (14, n_runs));
    assert_eq!(status.last_swap.unwrap().result, SwapResult::Switched);
    assert_eq!(host.events(), ["Swapped", "DeletionsHeld"]);

    host.manager.approve("guard", "by uid 0").unwrap();
    until("the Pods to go", || host.n_pods() == 0).await;
    assert_eq!(
        (host.condition("DeletionsHeld"), host.condition("Ready").unwrap()),
        (None, "True Running: it processes keys".into())
    );
    until("proof", || host.manager.status()[0].last_swap.as_ref().unwrap().result == SwapResult::Proven).await;
    assert_eq!(host.manager.approve("guard", "").unwrap_err().reason, "NothingHeld");
    assert_eq!(host.manager.approve("other", "").unwrap_err().reason, "NotFound");
    assert!(host.events().contains(&"DeletionsApproved".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_version_whose_deletions_are_held_can_be_rolled_back_or_replaced() {
    let host = Host::start();
    host.apply("1.0.0 0", json!({})).await;
    host.apply("2.0.0 14", json!({})).await;
    until("the deletions to be held", || host.condition("DeletionsHeld").is_some()).await;
    host.manager.rollback("guard").await.unwrap();
    settle().await;
    assert_eq!((host.n_pods(), host.condition("DeletionsHeld")), (14, None));
    assert_eq!(host.manager.status()[0].current.version, "1.0.0");

    host.apply("3.0.0 14", json!({})).await;
    until("the deletions to be held", || host.condition("DeletionsHeld").is_some()).await;
    // The next version is new as well.
    host.apply("4.0.0 14", json!({})).await;
    until("the deletions to be held", || host.condition("DeletionsHeld").is_some_and(|held| held.contains("4.0.0")))
        .await;
    host.apply("5.0.0 0", json!({})).await;
    assert_eq!((host.n_pods(), host.condition("DeletionsHeld")), (14, None));
    assert!(host.condition("Ready").unwrap().starts_with("True"));
}

#[tokio::test(start_paused = true)]
async fn what_the_bound_allows_is_deleted_and_its_fields_change_it() {
    for (n, strategy, n_left) in [
        (5, json!({}), 9),
        (6, json!({}), 14),
        (6, json!({"maxDeletions": 6}), 8),
        (1, json!({"maxDeletions": 0, "maxDeletionPercent": 0}), 14),
        (7, json!({"maxDeletions": 0, "maxDeletionPercent": 50}), 7),
        (8, json!({"maxDeletions": 0, "maxDeletionPercent": 50}), 14),
        (14, json!({"maxDeletionPercent": 100}), 0),
    ] {
        let host = Host::start();
        host.apply("1.0.0 0", json!({})).await;
        host.apply(&format!("2.0.0 {n}"), json!({"strategy": {"probation": strategy}})).await;
        let is_held = n_left == 14;
        until("the version to run", || host.condition("DeletionsHeld").is_some() == is_held && host.n_pods() == n_left)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_loaded_is_bounded_and_a_component_that_the_host_carries_is_not() {
    let host = Host::start();
    host.apply("1.0.0 14", json!({})).await;
    until("the deletions to be held", || host.condition("DeletionsHeld").is_some()).await;
    assert_eq!(host.n_pods(), 14);
    host.apply("carried 14", json!({})).await;
    until("the Pods to go", || host.n_pods() == 0).await;
    let host = Host::start();
    host.apply("carried 14", json!({})).await;
    until("the Pods to go", || host.n_pods() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_component_that_a_host_before_has_proven_is_not_bounded_when_it_is_loaded_again() {
    let host = Host::start();
    host.manager.set_proven("guard", "1.0.0 14");
    host.apply("1.0.0 14", json!({})).await;
    until("the Pods to go", || host.n_pods() == 0).await;
    assert!(!host.manager.status()[0].bounds_deletions);
    for (plugin, digest) in [("guard", "0.9.0 14"), ("other", "1.0.0 14")] {
        let host = Host::start();
        host.manager.set_proven(plugin, digest);
        host.apply("1.0.0 14", json!({})).await;
        until("the deletions to be held", || host.condition("DeletionsHeld").is_some()).await;
        assert_eq!(host.n_pods(), 14, "{plugin} {digest}");
    }
    // The next version is new.
    let host = Host::start();
    host.manager.set_proven("guard", "1.0.0 0");
    host.apply("1.0.0 0", json!({})).await;
    host.apply("2.0.0 14", json!({})).await;
    until("the deletions to be held", || host.condition("DeletionsHeld").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn the_status_tells_whether_deletions_are_bounded_until_that_ends() {
    let is_bounded = |host: &Host| host.manager.status()[0].bounds_deletions;
    let host = Host::start();
    host.apply("1.0.0 0", json!({"strategy": {"probation": {"runs": 1, "forMs": 60_000}}})).await;
    settle().await;
    assert!(is_bounded(&host));
    let mut changes = host.manager.changes();
    changes.mark_unchanged();
    tokio::time::advance(Duration::from_secs(61)).await;
    changes.changed().await.unwrap();
    assert!(!is_bounded(&host), "its time is over");
    let host = Host::start();
    host.apply("1.0.0 14", json!({})).await;
    until("the deletions to be held", || host.condition("DeletionsHeld").is_some()).await;
    assert!(is_bounded(&host));
    host.manager.approve("guard", "test").unwrap();
    assert!(!is_bounded(&host), "an operator has agreed");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_deletes_in_the_shadow_what_the_old_one_keeps_is_rejected() {
    let host = Host::start();
    host.apply("1.0.0 0", json!({})).await;
    let component = Component { origin: "test".into(), bytes: b"2.0.0 14".to_vec() };
    let shadow = json!({"strategy": {"shadow": {"runs": 3, "maxDifferences": 100}}});
    let spec: Spec = serde_json::from_value(shadow).unwrap();
    let why = host.manager.apply(component, &spec, None).await.unwrap_err();
    assert_eq!(why.reason, "ShadowDeletes");
    assert!(
        why.message.starts_with("the new version would delete 14 objects that the old one keeps, more than 5"),
        "{why}"
    );
    let report = host.manager.diff("guard").unwrap();
    assert_eq!((report.n_deletions, host.n_pods()), (14, 14));
}
