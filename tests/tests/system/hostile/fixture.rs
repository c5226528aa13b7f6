//! The embedded cluster, a host with the real sandbox, and a client that measures.
//!
//! Cluster and client have threads of their own: what is measured is how the host serves its plugins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use pintle_core::contract::manifest::Limits;
use pintle_core::lifecycle::{FailurePolicy, Spec};
use pintle_core::ports::guest::Guest;
use pintle_runtime::manager::{Component, Manager, PluginOptions, PluginStatus};
use pintle_tests::{ApiClient, LocalHost, PATIENCE, PatchKind, TestCluster, components, eventually};
use pintle_wasm::{WasmConfig, WasmEngine, inspect};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::attacks::{KEYS, create_targets};

/// Changes that the neighbour must follow during each attack.
const N_PROBES: usize = 25;
/// Objects beside the one that the neighbour changes.
const N_BESIDE: usize = 50;
const PROBE: &str = "/api/v1/namespaces/calm/configmaps/probe";

pub(crate) struct Fixture {
    pub(crate) outside: Runtime,
    inside: Runtime,
    cluster: TestCluster,
    host: LocalHost,
    engine: WasmEngine,
}

/// How long a change takes to have its effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) median: Duration,
}

impl Fixture {
    pub(crate) fn start() -> Result<Self> {
        let (outside, inside) = (Runtime::new()?, Runtime::new()?);
        let cluster = outside.block_on(TestCluster::embedded())?;
        outside.block_on(set_up(&cluster.client))?;
        // Endless loops end by their deadline, however fast their calls are.
        let max_limits = Limits { host_calls: Some(1_000_000_000), ..Limits::default() };
        let engine = WasmEngine::new(WasmConfig { max_limits, ..WasmConfig::default() })?;
        let host = inside.block_on(LocalHost::start(cluster.kubeconfig()))?;
        host.manager.set_loader(Arc::new(engine.clone()));
        let fixture = Self { outside, inside, cluster, host, engine };
        fixture.add("echo", &components::guest("echo")?)?;
        fixture.wait("echo", "caches", |status| status.synced)?;
        Ok(fixture)
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.host.manager
    }

    pub(crate) fn client(&self) -> &ApiClient {
        &self.cluster.client
    }

    /// Loads a guest and adds it. Keys that fault back off, and the plugin is not paused: it attacks for as long as it is there.
    pub(crate) fn add(&self, name: &str, bytes: &[u8]) -> Result<Arc<dyn Guest>> {
        let guest = self.engine.load(name, bytes)?;
        let spec = Spec { failure_policy: FailurePolicy::Retry, ..Spec::default() };
        let _inside = self.inside.enter();
        self.host.manager.add(guest.clone(), PluginOptions { spec, ..PluginOptions::default() })?;
        Ok(guest)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        if self.inside.block_on(self.host.manager.remove(name)) { Ok(()) } else { bail!("{name} was not there") }
    }

    /// Has the host take a component as it would while it runs; the error is what it says.
    pub(crate) fn apply(&self, bytes: Vec<u8>) -> Result<(), String> {
        let component = Component { origin: "attack.wasm".into(), bytes };
        let applied = self.inside.block_on(self.host.manager.apply(component, &Spec::default(), None));
        applied.map(|_| ()).map_err(|why| why.to_string())
    }

    pub(crate) fn status(&self, name: &str) -> Result<PluginStatus> {
        let status = self.host.manager.status().into_iter().find(|status| status.name == name);
        status.with_context(|| format!("{name} is not loaded"))
    }

    /// Waits until the status of a plugin is so.
    pub(crate) fn wait(&self, name: &str, what: &str, is: impl Fn(&PluginStatus) -> bool) -> Result<PluginStatus> {
        self.outside.block_on(eventually(PATIENCE, what, async || {
            let status = self.status(name)?;
            ensure!(is(&status), "{status:?}");
            Ok(Some(status))
        }))
    }

    /// Events with this reason about objects of the attacked namespace.
    pub(crate) fn events(&self, reason: &str) -> Result<Vec<Value>> {
        let events = self.outside.block_on(self.cluster.client.list("/api/v1/namespaces/hostile/events"))?;
        Ok(events.into_iter().filter(|event| event["reason"] == reason).collect())
    }

    /// The keys' objects that are gone, or have data or an owner: they are created without any, and no attack may write them.
    pub(crate) fn harmed(&self) -> Result<Vec<String>> {
        let objects = self.outside.block_on(self.cluster.client.list("/api/v1/namespaces/hostile/configmaps"))?;
        let is_whole = |name: &str| {
            let object = objects.iter().find(|object| object["metadata"]["name"] == name);
            object.is_some_and(|object| object["data"].is_null() && object["metadata"]["ownerReferences"].is_null())
        };
        Ok(KEYS.into_iter().filter(|name| !is_whole(name)).map(str::to_owned).collect())
    }

    /// Changes an object again and again, and measures how long the neighbour takes to follow.
    pub(crate) fn probe(&self) -> Result<Latency> {
        let mut took = self.outside.block_on(async {
            let watched = "/api/v1/namespaces/calm/configmaps?watch=true&fieldSelector=metadata.name%3Dprobe";
            let mut watch = self.cluster.client.watch(watched).await?;
            let mut took = Vec::new();
            for _ in 0..N_PROBES {
                let now = self.cluster.client.get(PROBE).await?;
                let n = now["data"]["n"].as_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or_default() + 1;
                let wanted = n.to_string();
                let started = Instant::now();
                self.cluster.client.patch(PROBE, PatchKind::Merge, &json!({"data": {"n": wanted}})).await?;
                loop {
                    let event = watch.next(PATIENCE).await?.context("the watch ended")?;
                    if event["object"]["data"]["echo"] == wanted.as_str() {
                        break;
                    }
                }
                took.push(started.elapsed());
            }
            anyhow::Ok(took)
        })?;
        took.sort();
        Ok(Latency { median: took[took.len() / 2] })
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.inside.block_on(self.host.stop())
    }
}

/// What attacks are about, and objects beside the one that the neighbour changes.
async fn set_up(client: &ApiClient) -> Result<()> {
    create_targets(client).await?;
    for i in 0..N_BESIDE {
        let beside = json!({"metadata": {"name": format!("beside-{i}")}});
        client.create("/api/v1/namespaces/calm/configmaps", &beside).await?;
    }
    Ok(())
}

/// Components that no compiler produces: what they are, and a part of the host's error.
pub(crate) fn rejected() -> Result<Vec<(&'static str, Vec<u8>, &'static str)>> {
    let good = components::guest("echo")?;
    let json = inspect("echo", &good).map_err(|why| anyhow!("{why}"))?.manifest_json;
    let section = with_manifest(&[], &json);
    let bare = good.strip_suffix(section.as_slice()).context("the manifest is the last section")?.to_vec();
    let text = |wat: &str| anyhow::Ok(with_manifest(&wat::parse_str(wat)?, &json));
    let of_core = |fields: &str, export: &str| {
        text(&format!(
            r#"(component
                (core module $m {fields} (func (export "f")))
                (core instance $i (instantiate $m))
                (func (export "{export}") (canon lift (core func $i "f")))
            )"#
        ))
    };
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    let changed = |change: &dyn Fn(&mut Value)| components::with_manifest(&good, change);
    let names = |n: usize| (0..n).map(|i| format!("n{i:04}")).collect::<Value>();
    // Of a kind whose fields are not known.
    let deep_path = |change: &dyn Fn(&mut Value, String)| {
        changed(&|m| {
            m["watches"] = json!([{"kind": "apps/v1/ControllerRevision", "enqueue": [{"to": "self"}]}]);
            change(m, format!("data{}", ".a".repeat(50_000)));
        })
    };
    let watches = |n: usize| (0..n).map(|i| json!({"kind": format!("example.com/v1/W{i}")})).collect::<Value>();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    Ok(vec![
        ("nothing", Vec::new(), "this is not WebAssembly"),
        ("a script", b"#!/bin/sh".to_vec(), "this is not WebAssembly"),
        ("a core module", wat::parse_str("(module)")?, "not a component"),
        ("half a component", good[..middle].to_vec(), "the component is damaged"),
        ("damaged code", damaged, "component"),
        ("no manifest", bare.clone(), "no manifest"),
        ("two manifests", with_manifest(&good, &json), "2 manifests"),
        ("another world", of_core("", "run")?, "exports no function \"reconcile\""),
        ("wrong types", of_core("", "reconcile")?, "does not fit the contract"),
        (
            "a server of WASI",
            text(r#"(component (import "wasi:http/incoming-handler@0.2.9" (instance)))"#)?,
            "imports wasi:http/incoming-handler",
        ),
        ("another contract", text(r#"(component (import "pintle:controller/view@0.0.9" (instance)))"#)?, "view@0.0.9"),
        ("an older contract", changed(&|m| m["contract"] = "0.0".into())?, "contract \"0.0\", and this host supports"),
        ("threads", of_core("(memory 1 1 shared)", "reconcile")?, "threads must be enabled"),
        ("64-bit memory", of_core("(memory i64 1)", "reconcile")?, "memory64 must be enabled"),
        ("a gigabyte to begin with", of_core("(memory 16384)", "reconcile")?, "declares a memory of 1073741824 bytes"),
        ("100,001 functions", of_core(&"(func)".repeat(100_000), "reconcile")?, "100001 functions"),
        (
            "a function of a megabyte",
            of_core(&format!("(func {})", "nop ".repeat(1 << 20)), "reconcile")?,
            "bytes of a function",
        ),
        ("a kilobyte that takes minutes to compile", of_core(&loops(400, 400), "reconcile")?, "nested loops"),
        ("a table without end", of_core("(table 10000000 funcref)", "reconcile")?, "exceeds the limit"),
        (
            "a grant of 216,000 combinations",
            changed(&|m| {
                m["grants"] = json!([{
                    "verbs": ["*"], "kinds": ["v1/Secret"], "subresources": names(60), "namespaces": names(60), "names": names(60),
                }])
            })?,
            "1728000 are too many, at most 4096",
        ),
        (
            "a long list in a grant",
            changed(&|m| m["grants"] = json!([{"verbs": ["get"], "kinds": ["v1/Secret"], "names": names(257)}]))?,
            "names: 257 are too many, at most 256",
        ),
        (
            "a long value in a grant",
            changed(&|m| m["grants"] = json!([{"verbs": ["get"], "kinds": [format!("v1/{}", "x".repeat(2_000))]}]))?,
            "kinds: one has 2003 bytes",
        ),
        (
            "an adoption of everything",
            changed(&|m| {
                m["grants"] = json!([{
                    "verbs": ["patch", "delete"], "kinds": ["v1/ConfigMap"], "of": "controlled", "adopt": true,
                }])
            })?,
            "no watch of the manifest declares `selects`",
        ),
        ("a deep field", deep_path(&|m, path| m["watches"][0]["fields"] = json!([path]))?, "it has more than"),
        (
            "a deep index",
            deep_path(&|m, path| m["watches"][0]["indexes"] = json!([{"name": "i", "field": path}]))?,
            "it has more than",
        ),
        (
            "a deep selector",
            deep_path(&|m, path| m["watches"][0]["selects"] = json!({"field": path, "form": "map"}))?,
            "it has more than",
        ),
        (
            "a deep comparison",
            deep_path(&|m, path| m["watches"][0]["enqueue"][0]["changed"] = json!([path]))?,
            "it has more than",
        ),
        (
            "a deep condition",
            deep_path(&|m, path| m["watches"][0]["enqueue"][0]["present"] = json!(path))?,
            "it has more than",
        ),
        (
            "a deep name",
            deep_path(&|m, path| {
                m["watches"][0]["enqueue"] = json!([{"to": "field", "kind": "v1/Pod", "field": path}])
            })?,
            "it has more than",
        ),
        (
            "a deep namespace",
            deep_path(&|m, path| {
                m["watches"][0]["enqueue"] =
                    json!([{"to": "field", "kind": "v1/Pod", "field": "metadata.name", "namespaceField": path}]);
            })?,
            "it has more than",
        ),
        ("many watches", changed(&|m| m["watches"] = watches(257))?, "257 are too many"),
        (
            "65 rules of a watch",
            changed(&|m| m["watches"][0]["enqueue"] = vec![json!({"to": "self"}); 65].into())?,
            "65 are too many, at most 64",
        ),
        (
            "257 compared fields",
            changed(&|m| m["watches"][0]["enqueue"][0]["changed"] = vec![json!("data.n"); 257].into())?,
            "257 are too many, at most 256",
        ),
        ("no backoff", changed(&|m| m["queues"][0]["backoff"] = json!({"fixedMs": 0}))?, "backoff.fixedMs"),
        ("a manifest of 1 MiB", changed(&|m| m["description"] = "x".repeat(1 << 20).into())?, "bytes of its manifest"),
        (
            "a deep manifest",
            with_manifest(&bare, &json.replacen('{', &format!(r#"{{"aliases":{deep},"#), 1)),
            "manifest",
        ),
        (
            "more memory than there is",
            changed(&|m| m["limits"]["memoryBytes"] = json!(1_u64 << 40))?,
            "limits.memoryBytes",
        ),
        ("a watch of Secrets", changed(&|m| m["watches"] = json!([{"kind": "v1/Secret"}]))?, "v1/Secret"),
    ])
}

/// A function whose locals are written in loops inside one another.
fn loops(n_locals: usize, n_loops: usize) -> String {
    let write = |i| format!("(local.set {i} (local.get {}))", (i + 1) % n_locals);
    let (locals, writes) = ("i32 ".repeat(n_locals), (0..n_locals).map(write).collect::<String>());
    format!(
        "(func (local {locals}) {} {writes} {})",
        "(loop ".repeat(n_loops),
        "(br_if 0 (local.get 0)))".repeat(n_loops)
    )
}

fn with_manifest(component: &[u8], json: &str) -> Vec<u8> {
    let mut bytes = component.to_vec();
    pintle_build::add_manifest(&mut bytes, json.as_bytes());
    bytes
}
