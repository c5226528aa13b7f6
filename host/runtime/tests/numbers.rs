//! Numbers of a manifest that come from settings, in a whole host: each has its effect, and changes with the
//! configuration.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use pintle_core::contract::manifest::{Limits, Manifest};
use pintle_core::contract::outcome::{Outcome, ReconcileError};
use pintle_core::lifecycle::{Spec, SwapResult};
use pintle_core::object::id::Key;
use pintle_core::ports::guest::{Guest, Inspected, LoadFailure, Loader};
use pintle_core::ports::view::View;
use pintle_runtime::manager::{Component, Manager, ManagerConfig, PluginOptions};
use pintle_testing::server::settle;
use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// A plugin whose numbers all come from settings. A key that is a Pod named `bad` fails; the others take a second.
fn component() -> Component {
    let number = |setting: &str| json!({"config": setting});
    let manifest = json!({
        "name": "widgets", "version": "1.0.0", "contract": "0.2",
        "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self", "delayMs": number("batch")}]}],
        "queues": [
            {"name": "widgets", "concurrency": number("workers"), "resyncMs": number("resync"), "maxRetries": number("retries"),
             "backoff": {"fixedMs": number("fixed"), "baseMs": number("base"), "maxMs": number("most"), "qps": 1000}},
            {"name": "loop", "tickMs": number("period")},
        ],
        "config": {
            "batch": {"type": "duration", "default": "0s"},
            "workers": {"type": "integer", "default": 1},
            "resync": {"type": "duration", "default": "0s"},
            "retries": {"type": "integer", "optional": true},
            "fixed": {"type": "duration", "optional": true},
            "base": {"type": "duration", "default": "1s"},
            "most": {"type": "integer", "default": 4_000},
            "period": {"type": "duration", "default": "0s"},
        },
    });
    Component { origin: "widgets.wasm".into(), bytes: manifest.to_string().into_bytes() }
}

/// The runs: seconds since the start, and the name of the key.
#[derive(Clone, Default)]
struct Runs {
    log: Arc<Mutex<Vec<String>>>,
    n_now: Arc<AtomicUsize>,
    n_most: Arc<AtomicUsize>,
}

impl Loader for Runs {
    fn inspect(&self, origin: &str, bytes: &[u8]) -> Result<Inspected, LoadFailure> {
        let manifest = Manifest::parse(bytes).map_err(|why| LoadFailure(format!("{origin}: {why}")))?;
        Ok(Inspected { manifest: Arc::new(manifest), digest: "0".repeat(64) })
    }

    fn load(&self, origin: &str, bytes: &[u8], _: &Limits) -> Result<Arc<dyn Guest>, LoadFailure> {
        let (runs, start) = (self.clone(), Instant::now());
        let reconcile = move |key: Key, _: Arc<dyn View>| {
            let runs = runs.clone();
            async move {
                let name = key.object.name.to_string();
                runs.log.lock().unwrap().push(format!("{}:{name}", start.elapsed().as_secs()));
                if name == "bad" {
                    return Ok(Err(ReconcileError::Retry { message: "not yet".to_owned(), after: None }));
                }
                if name != "loop" {
                    runs.n_most.fetch_max(runs.n_now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    sleep(Duration::from_secs(1)).await;
                    runs.n_now.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(Ok(Outcome::default()))
            }
            .boxed()
        };
        Ok(Arc::new(FakeGuest::asynchronous(self.inspect(origin, bytes)?.manifest, reconcile)))
    }
}

struct Host {
    manager: Arc<Manager>,
    server: Arc<FakeServer>,
    runs: Runs,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<()>,
}

impl Host {
    /// A host with the plugin in this configuration, and these Pods.
    fn start(config: &Value, pods: &[&str]) -> Self {
        let server = FakeServer::new();
        for pod in pods {
            server.put("pods", "ns", pod, json!({}));
        }
        let writers = Arc::new(FakeWriters(FakeWriter::agreeable()));
        let manager = Arc::new(Manager::new(server.clone(), writers, ManagerConfig::default()));
        let runs = Runs::default();
        let component = component();
        let guest = runs.load(&component.origin, &component.bytes, &Limits::default()).unwrap();
        let spec = Spec { config: config.clone(), ..Spec::default() };
        manager.add(guest, PluginOptions { spec, ..PluginOptions::default() }).unwrap();
        manager.set_loader(Arc::new(runs.clone()));
        let (stop, stopped) = oneshot::channel();
        let inner = manager.clone();
        let running = tokio::spawn(async move { inner.run(async { drop(stopped.await) }).await });
        Self { manager, server, runs, stop, running }
    }

    async fn configure(&self, config: Value) -> Result<SwapResult, String> {
        let spec = Spec { config, ..Spec::default() };
        let applied = self.manager.apply(component(), &spec, Some("widgets")).await;
        applied.map(|report| report.result).map_err(|why| why.message)
    }

    fn ran(&self) -> String {
        std::mem::take(&mut *self.runs.log.lock().unwrap()).join(" ")
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }
}

/// The runs within `seconds` of a host with this configuration.
async fn runs_of(config: Value, pods: &[&str], seconds: u64) -> (String, usize) {
    let host = Host::start(&config, pods);
    sleep(Duration::from_secs(seconds)).await;
    let found = (host.ran(), host.runs.n_most.load(Ordering::Relaxed));
    host.stop().await;
    found
}

#[tokio::test(start_paused = true)]
async fn a_tick_has_the_period_that_its_setting_gives_and_none_with_0() {
    assert_eq!(runs_of(json!({}), &[], 100).await.0, "");
    assert_eq!(runs_of(json!({"period": "15s"}), &[], 40).await.0, "0:loop 15:loop 30:loop");
    assert_eq!(runs_of(json!({"period": "1m30s"}), &[], 100).await.0, "0:loop 90:loop");
}

#[tokio::test(start_paused = true)]
async fn a_setting_gives_the_number_of_workers() {
    for workers in [1, 3] {
        let (_, n_most) = runs_of(json!({"workers": workers}), &["a", "b", "c", "d", "e"], 100).await;
        assert_eq!(n_most, workers);
    }
}

#[tokio::test(start_paused = true)]
async fn a_setting_gives_the_period_of_the_resync() {
    assert_eq!(runs_of(json!({}), &["a"], 100).await.0, "0:a");
    assert_eq!(runs_of(json!({"resync": "40s"}), &["a"], 100).await.0, "0:a 40:a 80:a");
}

#[tokio::test(start_paused = true)]
async fn settings_give_the_delays_after_failures_and_their_number() {
    assert_eq!(runs_of(json!({}), &["bad"], 14).await.0, "0:bad 1:bad 3:bad 7:bad 11:bad");
    assert_eq!(runs_of(json!({"base": "3s", "most": 5_000}), &["bad"], 14).await.0, "0:bad 3:bad 8:bad 13:bad");
    assert_eq!(runs_of(json!({"fixed": "6s"}), &["bad"], 14).await.0, "0:bad 6:bad 12:bad");
    assert_eq!(runs_of(json!({"retries": 2}), &["bad"], 14).await.0, "0:bad 1:bad 3:bad");
    assert_eq!(runs_of(json!({"retries": 0}), &["bad"], 14).await.0, "0:bad");
}

#[tokio::test(start_paused = true)]
async fn a_setting_delays_the_keys_of_a_rule() {
    for (config, expected) in [(json!({}), "10:a 12:a"), (json!({"batch": "5s"}), "15:a")] {
        let host = Host::start(&config, &[]);
        sleep(Duration::from_secs(10)).await;
        host.server.put("pods", "ns", "a", json!({}));
        sleep(Duration::from_secs(2)).await;
        host.server.put("pods", "ns", "a", json!({"spec": {"nodeName": "n"}}));
        sleep(Duration::from_secs(20)).await;
        assert_eq!(host.ran(), expected, "{config}");
        host.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_configuration_changes_the_numbers_and_a_rejected_one_nothing() {
    let host = Host::start(&json!({"period": "15s"}), &[]);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(host.ran(), "0:loop 15:loop");
    let why = host.configure(json!({"period": "5ms"})).await.unwrap_err();
    assert_eq!(
        why,
        "plugin \"widgets\": setting \"period\": it sets queues[1].tickMs of the manifest, which must be at least 10 ms, or 0 for no tick, not 5 ms"
    );
    sleep(Duration::from_secs(20)).await;
    assert_eq!(host.ran(), "30:loop", "the running version goes on");
    // The clock of a new version starts with it.
    assert_eq!(host.configure(json!({"period": "4s"})).await, Ok(SwapResult::Switched));
    sleep(Duration::from_secs(9)).await;
    assert_eq!(host.ran(), "0:loop 4:loop 8:loop");
    // It also restarts if the period is the same.
    assert_eq!(host.configure(json!({"period": "4s", "workers": 2})).await, Ok(SwapResult::Switched));
    sleep(Duration::from_secs(6)).await;
    assert_eq!(host.ran(), "0:loop 4:loop");
    assert_eq!(host.configure(json!({"period": "0s"})).await, Ok(SwapResult::Switched));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(host.ran(), "");
    // The delay of a rule belongs to the subscription to the caches.
    assert_eq!(host.configure(json!({"batch": "3s"})).await, Ok(SwapResult::Switched));
    settle().await;
    host.server.put("pods", "ns", "a", json!({}));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(host.ran(), "3:a");
    host.stop().await;
}
