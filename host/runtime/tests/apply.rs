//! Components loaded while the host runs: each stage that can reject one, and the state afterwards.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_core::contract::manifest::{Limits, Manifest};
use pintle_core::contract::outcome::Outcome;
use pintle_core::lifecycle::{Phase, Spec, SwapResult};
use pintle_core::ports::guest::{FaultKind, Guest, Inspected, LoadFailure, Loader, PluginFault};
use pintle_runtime::manager::{Component, Manager, ManagerConfig, PluginOptions, PluginStatus, SwapError};
use pintle_testing::server::{resource, settle};
use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The runs: version and key.
type Log = Arc<Mutex<Vec<String>>>;

/// A plugin described by a script; its runs are logged.
fn scripted(manifest: Arc<Manifest>, script: &Value, log: &Log) -> Arc<dyn Guest> {
    let (version, log) = (manifest.version.clone(), log.clone());
    let (traps, keeps) = (script["traps"] == true, script["keeps"].as_str().map(ToOwned::to_owned));
    Arc::new(FakeGuest::new(manifest, move |key, _| {
        log.lock().unwrap().push(format!("{version} {}", key.object.name));
        if traps {
            return Err(PluginFault { kind: FaultKind::Trap, message: "unreachable".into() });
        }
        let state = keeps.iter().map(|value| ("kept".to_owned(), Some(value.clone()))).collect();
        Ok(Ok(Outcome { state, ..Outcome::default() }))
    }))
}

/// A component of these tests is JSON: a manifest, and whether it traps or keeps another state.
struct Scripts(Log);

impl Loader for Scripts {
    fn inspect(&self, origin: &str, bytes: &[u8]) -> Result<Inspected, LoadFailure> {
        let bad = |why: String| LoadFailure(format!("{origin}: {why}"));
        let script: Value = serde_json::from_slice(bytes).map_err(|why| bad(why.to_string()))?;
        let manifest =
            Manifest::parse(script["manifest"].to_string().as_bytes()).map_err(|why| bad(why.to_string()))?;
        Ok(Inspected { manifest: Arc::new(manifest), digest: digest(bytes) })
    }

    fn load(&self, origin: &str, bytes: &[u8], given: &Limits) -> Result<Arc<dyn Guest>, LoadFailure> {
        let manifest = self.inspect(origin, bytes)?.manifest;
        let maximum: Limits = serde_json::from_value(json!({"deadlineMs": 20_000})).unwrap();
        manifest.limits.within(given, &maximum).map_err(|why| LoadFailure(why.to_string()))?;
        let script: Value = serde_json::from_slice(bytes).unwrap();
        if script["broken"] == true {
            return Err(LoadFailure(format!("{origin}: component does not compile")));
        }
        Ok(scripted(manifest, &script, &self.0))
    }
}

/// Any function of the bytes is sufficient.
fn digest(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    format!("{sum:064x}")
}

fn script(version: &str, change: impl FnOnce(&mut Value)) -> Component {
    let mut script = json!({"manifest": {
        "name": "widgets", "version": version, "contract": "0.2",
        "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self"}]}],
        "queues": [{"name": "widgets"}],
        "grants": [{"verbs": ["create"], "kinds": ["v1/Pod"]}],
        "config": {"burst": {"type": "integer", "default": 5, "minimum": 1}},
    }});
    change(&mut script);
    Component { origin: format!("widgets-{version}.wasm"), bytes: script.to_string().into_bytes() }
}

fn spec(json: Value) -> Spec {
    serde_json::from_value(json).unwrap()
}

struct Host {
    manager: Arc<Manager>,
    server: Arc<FakeServer>,
    log: Log,
    _stop: oneshot::Sender<()>,
}

impl Host {
    /// A host with version 1.0.0 of `widgets`, and two Pods.
    async fn start() -> Self {
        let server = FakeServer::new();
        server.put("pods", "ns", "a", json!({}));
        server.put("pods", "ns", "b", json!({}));
        let manager = Arc::new(Manager::new(
            server.clone(),
            Arc::new(FakeWriters(FakeWriter::agreeable())),
            ManagerConfig::default(),
        ));
        let log = Log::default();
        let loader = Arc::new(Scripts(log.clone()));
        let first = script("1.0.0", |_| {});
        let guest = loader.load("first", &first.bytes, &Limits::default()).unwrap();
        let digest = digest(&first.bytes);
        manager.add(guest, PluginOptions { digest, origin: first.origin, ..PluginOptions::default() }).unwrap();
        manager.set_loader(loader);
        let (stop, stopped) = oneshot::channel();
        let inner = manager.clone();
        tokio::spawn(async move { inner.run(async { drop(stopped.await) }).await });
        let host = Self { manager, server, log, _stop: stop };
        host.idle().await;
        assert_eq!(host.ran(), ["1.0.0 a", "1.0.0 b"]);
        host
    }

    async fn idle(&self) {
        settle().await;
        self.manager.idle(Duration::from_secs(3600)).await;
    }

    /// The runs since the last call, without duplicates.
    fn ran(&self) -> Vec<String> {
        let ran: BTreeSet<String> = std::mem::take(&mut *self.log.lock().unwrap()).into_iter().collect();
        ran.into_iter().collect()
    }

    fn status(&self) -> PluginStatus {
        self.manager.status().into_iter().find(|status| status.name == "widgets").unwrap()
    }

    async fn apply(&self, component: Component, json: Value) -> Result<SwapResult, SwapError> {
        self.manager.apply(component, &spec(json), Some("widgets")).await.map(|report| report.result)
    }

    /// The component is rejected with this reason and a message that contains this text; version 1.0.0 continues.
    async fn refuses(&self, component: Component, json: Value, reason: &str, text: &str) {
        let why = self.apply(component, json).await.unwrap_err();
        assert_eq!(why.reason, reason, "{why}");
        assert!(why.message.contains(text), "{why}");
        let status = self.status();
        let swap = status.last_swap.unwrap();
        assert_eq!((swap.result, swap.reason.as_str(), &swap.message), (SwapResult::Refused, reason, &why.message));
        assert_eq!((status.current.version.as_str(), status.phase, status.stage), ("1.0.0", Phase::Running, None));
        assert_eq!(status.current.digest, digest(&script("1.0.0", |_| {}).bytes));
        self.idle().await;
        self.ran();
        self.server.put("pods", "ns", "a", json!({"spec": {"touched": reason}}));
        self.idle().await;
        assert_eq!(self.ran(), ["1.0.0 a"], "after {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_a_plugin_follow_its_version_and_end_with_it() {
    let host = Host::start().await;
    let has = |part: &str| {
        let text = host.manager.metrics_text();
        text.lines().any(|line| line.contains("\"widgets\"") && line.contains(part))
    };
    assert!(has("pintle_plugin_ready{plugin=\"widgets\"} 1") && has("pintle_plugin_healthy{plugin=\"widgets\"} 1"));
    assert!(has("pintle_plugin_info{plugin=\"widgets\",version=\"1.0.0\"") && has("limit_used_ratio_count"));
    assert!(has("pintle_run_duration_seconds_count{plugin=\"widgets\",outcome=\"success\"} 2"));
    assert!(has("pintle_plugin_cached_objects{plugin=\"widgets\"} 2"));
    assert!(has("pintle_plugin_swap_duration_seconds_count{plugin=\"widgets\"} 0"));
    assert_eq!(host.apply(script("2.0.0", |_| {}), json!({})).await, Ok(SwapResult::Switched));
    assert!(has("version=\"2.0.0\"") && !has("version=\"1.0.0\""));
    assert!(has("pintle_plugin_swap_duration_seconds_count{plugin=\"widgets\"} 1"));
    let pods = "pintle_cache_objects{kind=\"v1/Pod\"} 2\n";
    assert!(host.manager.metrics_text().contains(pods), "{}", host.manager.metrics_text());
    host.idle().await;
    assert!(host.manager.remove("widgets").await);
    settle().await;
    assert!(!has(""), "{}", host.manager.metrics_text());
}

#[tokio::test(start_paused = true)]
async fn a_component_takes_over_and_is_rolled_back() {
    let host = Host::start().await;
    let next = script("2.0.0", |_| {});
    let wanted = json!({"digest": format!("sha256:{}", digest(&next.bytes)), "config": {"burst": 7}});
    assert_eq!(host.apply(next.clone(), wanted).await, Ok(SwapResult::Switched));
    host.idle().await;
    assert_eq!(host.ran(), ["2.0.0 a", "2.0.0 b"]);
    let status = host.status();
    assert_eq!(status.current.origin, "widgets-2.0.0.wasm");
    assert_eq!(status.previous.unwrap().version, "1.0.0");
    assert_eq!(host.manager.spec("widgets").unwrap().config, json!({"burst": 7}));
    let lists = |host: &Host| host.server.state().requests.iter().filter(|line| line.contains("pods")).count();
    let n_lists = lists(&host);
    assert_eq!(host.manager.rollback("widgets").await.unwrap().reason, "RollbackRequested");
    host.idle().await;
    assert_eq!(host.ran(), ["1.0.0 a", "1.0.0 b"]);
    // The caches are kept.
    assert_eq!(lists(&host), n_lists);
    assert_eq!(host.manager.spec("widgets").unwrap().config, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_component_leaves_the_running_version_unchanged() {
    let host = Host::start().await;
    let garbage = Component { origin: "x.wasm".into(), bytes: b"garbage".to_vec() };
    host.refuses(garbage, json!({}), "BadComponent", "x.wasm: expected value").await;
    let older = script("2.0.0", |s| s["manifest"]["contract"] = "0.0".into());
    host.refuses(older, json!({}), "BadComponent", "contract \"0.0\", and this host supports 0.2").await;
    let tampered = json!({"digest": "0".repeat(64)});
    host.refuses(script("2.0.0", |_| {}), tampered, "DigestMismatch", "000 is required").await;
    let short = json!({"digest": "sha256:abc"});
    host.refuses(script("2.0.0", |_| {}), short, "BadSpec", r#"digest: "sha256:abc" is not a SHA-256"#).await;
    let other = script("2.0.0", |s| s["manifest"]["name"] = "gadgets".into());
    host.refuses(other, json!({}), "OtherPlugin", "is plugin \"gadgets\" according to its manifest, not \"widgets\"")
        .await;
    let broken = script("2.0.0", |s| s["broken"] = true.into());
    host.refuses(broken, json!({}), "BadComponent", "does not compile").await;
    host.refuses(script("2.0.0", |_| {}), json!({"config": {"burst": 0}}), "BadSpec", "burst").await;
    let limits = json!({"limits": {"deadlineMs": 20_001}});
    host.refuses(script("2.0.0", |_| {}), limits, "BadComponent", "limits.deadlineMs: 20001 is more than").await;
}

#[tokio::test(start_paused = true)]
async fn a_component_gets_more_grants_than_its_predecessor_only_from_the_operator() {
    let host = Host::start().await;
    let greedy = || script("2.0.0", |s| s["manifest"]["grants"][0]["verbs"] = json!(["create", "delete"]));
    host.refuses(greedy(), json!({}), "NotGranted", "delete").await;
    let curious = || {
        script("2.0.0", |s| {
            let watch = json!({"kind": "apps/v1/ReplicaSet", "enqueue": []});
            s["manifest"]["watches"].as_array_mut().unwrap().push(watch);
        })
    };
    host.refuses(curious(), json!({}), "NotGranted", "apps/v1/ReplicaSet").await;
    let pods = json!({"verbs": ["list", "watch", "create"], "kinds": ["v1/Pod"]});
    // Single writes can be denied; a watch is either granted or not.
    let deny = json!({"grants": [pods], "ungranted": "Deny"});
    host.refuses(curious(), deny.clone(), "NotGranted", "apps/v1/ReplicaSet").await;
    assert_eq!(host.apply(greedy(), deny).await, Ok(SwapResult::Switched));
    let all = json!({"grants": [{"verbs": ["*"], "kinds": ["*"]}]});
    assert_eq!(host.apply(curious(), all).await, Ok(SwapResult::Switched));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_a_custom_kind_does_not_have_rejects_the_component() {
    let host = Host::start().await;
    host.server.state().resources.push(resource("example.org/v1/Team", "teams"));
    let team = json!({
        "properties": {"spec": {"properties": {"members": {"type": "array"}}}},
        "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Team"}],
    });
    let document = json!({"components": {"schemas": {"Team": team}}}).to_string();
    host.server.state().garbage.insert("/openapi/v3/apis/example.org/v1".into(), document);
    let watching = |version: &str, field: &str| {
        let watch = json!({"kind": "example.org/v1/Team", "fields": [field]});
        script(version, |script| script["manifest"]["watches"].as_array_mut().unwrap().push(watch))
    };
    let all = || json!({"grants": [{"verbs": ["*"], "kinds": ["*"]}]});
    let unknown = "spec.membrs: example.org/v1/Team has no such field; did you mean spec.members?";
    host.refuses(watching("1.1.0", "spec.membrs"), all(), "UnknownField", unknown).await;
    assert_eq!(host.apply(watching("1.1.0", "spec.members"), all()).await.unwrap(), SwapResult::Switched);
}

#[tokio::test(start_paused = true)]
async fn caches_that_do_not_sync_reject_the_component() {
    let host = Host::start().await;
    let refusal = pintle_testing::server::error(pintle_core::ports::api::ApiErrorClass::Forbidden, 403);
    host.server.state().refusals.insert("replicasets".into(), refusal);
    let curious = script("2.0.0", |s| {
        let watch = json!({"kind": "apps/v1/ReplicaSet", "enqueue": []});
        s["manifest"]["watches"].as_array_mut().unwrap().push(watch);
    });
    let spec = json!({"grants": [{"verbs": ["*"], "kinds": ["*"]}], "strategy": {"syncTimeoutMs": 5_000}});
    host.refuses(curious, spec, "NotSynced", "missing: apps/v1/ReplicaSet").await;
    // No plugin watches it any more.
    assert!(host.manager.caches().stats().iter().all(|stats| &*stats.kind.name != "ReplicaSet"));
}

#[tokio::test(start_paused = true)]
async fn the_shadow_decides() {
    let host = Host::start().await;
    let shadow = || json!({"strategy": {"shadow": {"runs": 2}}});
    let differs = script("2.0.0", |s| s["keeps"] = "x".into());
    // Every key runs once for the comparison, so an idle plugin is compared as well.
    host.refuses(differs, shadow(), "ShadowDiffers", "differ, more than 0").await;
    assert!(host.manager.diff("widgets").unwrap().n_differences > 0);
    host.refuses(script("2.0.0", |s| s["traps"] = true.into()), shadow(), "ShadowFaults", "trap: unreachable").await;
    assert_eq!(host.status().n_faults, 0);
    assert_eq!(host.apply(script("2.0.0", |_| {}), shadow()).await, Ok(SwapResult::Switched));
    assert_eq!(host.manager.diff("widgets").unwrap().n_differences, 0);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_traps_is_rolled_back_automatically() {
    let host = Host::start().await;
    let traps = script("2.0.0", |s| s["traps"] = true.into());
    assert_eq!(host.apply(traps, json!({})).await, Ok(SwapResult::Switched));
    host.idle().await;
    let status = host.status();
    assert_eq!(status.current.version, "1.0.0");
    assert_eq!(status.last_swap.unwrap().result, SwapResult::RolledBack);
    let why = host.manager.rollback("widgets").await.unwrap_err();
    assert_eq!(why.reason, "NoPrevious");
}

#[tokio::test(start_paused = true)]
async fn grants_that_the_operator_removed_are_not_restored_automatically() {
    for (kinds, left) in [("v1/Pod", "1.0.0"), ("v1/Service", "2.0.0")] {
        let host = Host::start().await;
        let traps = script("2.0.0", |s| s["traps"] = true.into());
        let watched = json!({"verbs": ["list", "watch"], "kinds": ["v1/Pod"]});
        let grants = json!([watched, {"verbs": ["create"], "kinds": [kinds]}]);
        let spec = json!({"grants": grants, "ungranted": "Deny", "failurePolicy": "Quarantine"});
        assert_eq!(host.apply(traps, spec).await, Ok(SwapResult::Switched));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(host.status().current.version, left, "given: {kinds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_proven_version_can_be_rolled_back_too() {
    let host = Host::start().await;
    let curious = script("2.0.0", |s| {
        let watch = json!({"kind": "apps/v1/ReplicaSet", "enqueue": []});
        s["manifest"]["watches"].as_array_mut().unwrap().push(watch);
    });
    let spec = json!({
        "grants": [{"verbs": ["*"], "kinds": ["*"]}], "strategy": {"probation": {"runs": 2, "forMs": 10}},
    });
    assert_eq!(host.apply(curious, spec).await, Ok(SwapResult::Switched));
    host.idle().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(host.status().last_swap.unwrap().result, SwapResult::Proven);
    // The previous version released its subscription, and gets a new one.
    host.ran();
    host.server.put("pods", "ns", "c", json!({}));
    host.manager.rollback("widgets").await.unwrap();
    host.idle().await;
    assert_eq!(host.ran(), ["1.0.0 a", "1.0.0 b", "1.0.0 c", "2.0.0 c"]);
    host.server.put("pods", "ns", "d", json!({}));
    host.idle().await;
    assert_eq!(host.ran(), ["1.0.0 d"]);
    // The released caches are unused until the next swap.
    assert_eq!(host.manager.rollback("widgets").await.unwrap().to.unwrap().version, "2.0.0");
}

#[tokio::test(start_paused = true)]
async fn a_spec_disables_and_enables() {
    let host = Host::start().await;
    host.apply(script("2.0.0", |_| {}), json!({"disabled": true})).await.unwrap();
    settle().await;
    assert_eq!((host.status().phase, host.ran()), (Phase::Disabled, Vec::new()));
    host.apply(script("3.0.0", |_| {}), json!({})).await.unwrap();
    host.idle().await;
    assert_eq!(host.ran(), ["3.0.0 a", "3.0.0 b"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_unloaded_meanwhile_stays_unloaded() {
    let host = Host::start().await;
    let spec = spec(json!({"strategy": {"shadow": {"runs": 1000, "forMs": 1000}}}));
    let applying = host.manager.apply(script("2.0.0", |_| {}), &spec, Some("widgets"));
    let unloading = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        // The second caller gets the error `Busy`.
        let why = host.manager.apply(script("3.0.0", |_| {}), &Spec::default(), Some("widgets")).await.unwrap_err();
        assert_eq!(why.reason, "Busy");
        assert!(host.manager.remove("widgets").await);
    };
    let (applied, ()) = tokio::join!(applying, unloading);
    assert_eq!(applied.unwrap_err().reason, "NotFound");
    assert!(host.manager.status().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_loaded_and_unloaded() {
    let host = Host::start().await;
    let gadgets = || {
        script("1.0.0", |s| {
            s["manifest"]["name"] = "gadgets".into();
            s["manifest"]["queues"][0]["name"] = "gadgets".into();
        })
    };
    let manager = &host.manager;
    let why = manager.apply(gadgets(), &Spec::default(), None).await.unwrap_err();
    assert_eq!(why.reason, "NotGranted");
    let all = spec(json!({"grants": [{"verbs": ["*"], "kinds": ["*"]}]}));
    assert_eq!(manager.apply(gadgets(), &all, None).await.unwrap().reason, "Loaded");
    host.ran();
    host.idle().await;
    assert_eq!(host.ran(), ["1.0.0 a", "1.0.0 b"]);
    assert_eq!(manager.status().len(), 2);
    assert!(manager.remove("gadgets").await);
    assert_eq!(manager.status().len(), 1);
    let why = manager.rollback("gadgets").await.unwrap_err();
    assert_eq!(why.to_string(), "there is no plugin \"gadgets\"; loaded are widgets");
    let disabled = spec(json!({"grants": [{"verbs": ["*"], "kinds": ["*"]}], "disabled": true}));
    manager.apply(gadgets(), &disabled, None).await.unwrap();
    settle().await;
    assert!(host.ran().is_empty());
    manager.enable("gadgets", "a test").unwrap();
    host.idle().await;
    assert_eq!(host.ran(), ["1.0.0 a", "1.0.0 b"]);
}
