//! A plugin is swapped all the time while a cluster is under load, and the cluster does not notice.
//!
//! `cargo test --workspace --test long storm:: -- --nocapture` prints the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use pintle_core::lifecycle::{Phase, Spec, SwapResult};
use pintle_runtime::manager::{Component, PluginOptions, PluginStatus};
use pintle_tests::components::{guest, manifest_of, plugin, with_manifest};
use pintle_tests::scenarios::history::{History, Recorder};
use pintle_tests::scenarios::rules::{self, UserActions};
use pintle_tests::scenarios::stage::{COMPARED, Stage};
use pintle_tests::{LocalHost, PATIENCE, TestCluster, eventually};
use pintle_wasm::{WasmConfig, WasmEngine};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

const DEPLOYMENTS: usize = 300;
const PODS: usize = 10;
/// Time between two swaps of one plugin.
const EVERY: Duration = Duration::from_millis(100);
/// Requests of the test's own client in flight.
const IN_FLIGHT: usize = 16;

/// More events at once than the recorder queues, which drops the rest, as client-go's does: rules about events do not hold.
const EVENTS_MAY_BE_DROPPED: bool = true;

const PLUGINS: [&str; 2] = ["replicaset-controller", "deployment-controller"];

/// A host with the two plugins on a fresh real control plane.
struct Fixture {
    cluster: TestCluster,
    namespace: Stage,
    host: LocalHost,
    _code: TempDir,
}

impl Fixture {
    async fn start() -> Result<Fixture> {
        let cluster = TestCluster::real().await?;
        cluster.client.create_namespace("storm").await?;
        // Admission wants it for every Pod; the controller that makes it does not run here.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        cluster.client.create("/api/v1/namespaces/storm/serviceaccounts", &account).await?;
        let namespace = Stage::new(cluster.client.clone(), cluster.kubeconfig(), "storm".into());
        // As a host has it: what was compiled once is loaded from the disk.
        let code = tempfile::tempdir()?;
        std::fs::set_permissions(code.path(), std::fs::Permissions::from_mode(0o700))?;
        let engine = WasmEngine::new(WasmConfig { cache_dir: Some(code.path().to_owned()), ..WasmConfig::default() })?;
        for name in PLUGINS {
            for n in [1, 2] {
                engine.load(name, &build(name, n)?)?;
            }
        }
        let host = LocalHost::start(cluster.kubeconfig()).await?;
        for name in PLUGINS {
            let loaded = engine.load(name, &plugin(name)?)?;
            let options = PluginOptions { origin: format!("built-in {name}"), ..PluginOptions::default() };
            host.manager.add(loaded, options)?;
        }
        host.manager.set_loader(Arc::new(engine));
        eventually(PATIENCE, "the caches to be synced", || async {
            Ok(host.manager.status().iter().all(|status| status.synced).then_some(()))
        })
        .await?;
        Ok(Fixture { cluster, namespace, host, _code: code })
    }

    async fn apply(&self, name: &str, bytes: Vec<u8>, spec: Value) -> Result<SwapResult> {
        let spec: Spec = serde_json::from_value(spec)?;
        let component = Component { origin: format!("next {name}"), bytes };
        let report = self.host.manager.apply(component, &spec, Some(name)).await?;
        Ok(report.result)
    }

    fn status(&self, name: &str) -> PluginStatus {
        self.host.manager.status().into_iter().find(|status| status.name == name).expect("the plugin is there")
    }

    async fn deploy(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let create = |name: String| async move { self.namespace.create("deployments", &deployment(&name)).await };
        let mut results = futures::stream::iter(names.map(create)).buffer_unordered(IN_FLIGHT);
        while let Some(result) = results.next().await {
            result?;
        }
        Ok(())
    }

    /// Waits until every Deployment says that all its Pods are there.
    async fn complete(&self, n: usize) -> Result<()> {
        eventually(PATIENCE, "every Deployment to have its Pods", || async {
            let all = self.namespace.list("deployments").await?;
            let done =
                all.iter().filter(|one| one["status"]["replicas"] == PODS && one["status"]["observedGeneration"] == 1);
            Ok((done.count() == n).then_some(()))
        })
        .await
    }

    /// What the cluster has come to, without what is left to chance: by Deployment, its status, and its ReplicaSets' with
    /// the number of their Pods.
    async fn end(&self) -> Result<BTreeMap<String, Value>> {
        let mut pods: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.namespace.list("pods").await? {
            *pods.entry(owner(&pod)).or_default() += 1;
        }
        let mut end = BTreeMap::new();
        for one in self.namespace.list("deployments").await? {
            let name = one["metadata"]["name"].as_str().context("no name")?.to_owned();
            let conditions = one["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let conditions: Vec<String> =
                conditions.iter().map(|one| format!("{}={} {}", one["type"], one["status"], one["reason"])).collect();
            let status = json!({"replicas": one["status"]["replicas"], "conditions": conditions});
            end.insert(name, json!({"status": status, "sets": {}}));
        }
        for set in self.namespace.list("replicasets").await? {
            let name = set["metadata"]["name"].as_str().context("no name")?;
            let n = pods.remove(name).unwrap_or_default();
            let of = end.get_mut(&owner(&set)).context("a ReplicaSet without its Deployment")?;
            of["sets"][name] = json!({"spec": set["spec"]["replicas"], "status": set["status"], "pods": n});
        }
        if let Some((name, n)) = pods.pop_first() {
            bail!("{n} Pods of {name:?}, which is no ReplicaSet");
        }
        Ok(end)
    }

    /// Of a histogram over all queues of the plugins, the bound below which this share of the values lies, in seconds.
    fn quantile(&self, metric: &str, share: f64) -> f64 {
        let text = self.host.manager.metrics_text();
        let mut buckets: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with(&format!("{metric}_bucket{{"))) {
            let bound = line.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            let bound: f64 = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap_or(f64::NAN) };
            let count: f64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0.0);
            buckets.entry(bound.to_bits()).or_insert((bound, 0.0)).1 += count;
        }
        let total = buckets.values().map(|(_, count)| *count).fold(0.0, f64::max);
        buckets.values().find(|(_, count)| *count >= total * share).map_or(f64::NAN, |(bound, _)| *bound)
    }
}

fn owner(object: &Value) -> String {
    object["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().to_owned()
}

fn deployment(app: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]},
            },
        },
    })
}

/// The `n`-th build of a plugin: the same code, another version.
fn build(name: &str, n: usize) -> Result<Vec<u8>> {
    with_manifest(&plugin(name)?, |manifest| manifest["version"] = format!("0.1.{n}").into())
}

/// Pauses of the swaps of a run, and the rest of the table's line.
#[derive(Default)]
struct Seen {
    end: BTreeMap<String, Value>,
    n_writes: usize,
    broken: Vec<String>,
    pauses: Vec<Duration>,
    applied: Vec<Duration>,
    seconds: f64,
    wait_p50: f64,
    wait_p99: f64,
}

/// Swaps both plugins between two builds until told to stop.
async fn storm(fixture: &Fixture, mut stop: oneshot::Receiver<()>) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let builds: Vec<Vec<Vec<u8>>> =
        PLUGINS.iter().map(|name| (0..2).map(|n| build(name, n + 1)).collect()).collect::<Result<_>>()?;
    let (mut pauses, mut applied) = (Vec::new(), Vec::new());
    // Rollouts delete more than a new version may.
    let spec: Spec = serde_json::from_value(json!({"strategy": {"probation": {"maxDeletions": 1_000_000}}}))?;
    let mut ticks = tokio::time::interval(EVERY);
    for turn in 0.. {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = &mut stop => break,
        }
        for (name, builds) in PLUGINS.iter().zip(&builds) {
            let component = Component { origin: format!("build {}", turn % 2), bytes: builds[turn % 2].clone() };
            let begun = Instant::now();
            let report = fixture.host.manager.apply(component, &spec, Some(name)).await?;
            applied.push(begun.elapsed());
            pauses.push(Duration::from_micros(report.pause_micros));
        }
    }
    Ok((pauses, applied))
}

async fn load(swaps: bool) -> Result<Seen> {
    let fixture = Fixture::start().await?;
    let recorder = Recorder::start(&fixture.namespace).await?;
    let begun = Instant::now();
    let (stop, stopped) = oneshot::channel();
    let storming = async { if swaps { storm(&fixture, stopped).await } else { Ok(Default::default()) } };
    let loading = async {
        fixture.deploy((0..DEPLOYMENTS).map(|n| format!("app-{n}"))).await?;
        fixture.complete(DEPLOYMENTS).await?;
        // There is nobody to tell if it never began.
        let _ = stop.send(());
        anyhow::Ok(())
    };
    let ((pauses, applied), ()) = futures::try_join!(storming, loading)?;
    let seconds = begun.elapsed().as_secs_f64();
    fixture.host.manager.idle(Duration::from_secs(1)).await;
    let history = history(&fixture, recorder).await?;
    let metric = "workqueue_queue_duration_seconds";
    let seen = Seen {
        end: fixture.end().await?,
        n_writes: history.writes.len(),
        broken: rules::broken(
            &history,
            UserActions { replaces_subject: EVENTS_MAY_BE_DROPPED, ..UserActions::default() },
        ),
        pauses,
        applied,
        seconds,
        wait_p50: fixture.quantile(metric, 0.5),
        wait_p99: fixture.quantile(metric, 0.99),
    };
    for name in PLUGINS {
        let status = fixture.status(name);
        assert_eq!((status.n_faults, status.phase), (0, Phase::Running), "{name}: {:?}", status.last_error);
    }
    fixture.cluster.stop().await;
    Ok(seen)
}

fn percentile(values: &[Duration], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort();
    let place = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
    values.get(place).map_or(0.0, |value| value.as_secs_f64() * 1e3)
}

fn line(out: &mut String, name: &str, seen: &Seen) {
    let _ = writeln!(
        out,
        "{name:<14} {:>8.1} {:>7} {:>7} {:>10.3} {:>10.3} {:>10.3} {:>9.1} {:>12.4} {:>12.4}",
        seen.seconds,
        seen.n_writes,
        seen.pauses.len(),
        percentile(&seen.pauses, 0.5),
        percentile(&seen.pauses, 0.99),
        percentile(&seen.pauses, 1.0),
        percentile(&seen.applied, 0.5),
        seen.wait_p50,
        seen.wait_p99,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_every_100_ms_changes_nothing() -> Result<()> {
    let still = load(false).await?;
    let stormy = load(true).await?;
    let mut table = format!(
        "{:<14} {:>8} {:>7} {:>7} {:>10} {:>10} {:>10} {:>9} {:>12} {:>12}\n",
        "300 x 10",
        "seconds",
        "writes",
        "swaps",
        "pause p50",
        "pause p99",
        "longest ms",
        "apply ms",
        "wait p50 <=s",
        "wait p99 <=s"
    );
    line(&mut table, "without swaps", &still);
    line(&mut table, "with swaps", &stormy);
    println!("{table}");
    assert_eq!(still.broken, [""; 0], "without swaps");
    assert_eq!(stormy.broken, [""; 0], "with swaps");
    assert_eq!(still.end.len(), DEPLOYMENTS);
    let differing: Vec<&String> = still.end.keys().filter(|name| still.end[*name] != stormy.end[*name]).collect();
    assert!(
        differing.is_empty(),
        "{differing:?}: {:?}",
        differing.first().map(|name| (&still.end[*name], &stormy.end[*name]))
    );
    assert!(stormy.pauses.len() >= 20, "only {} swaps: the load was over too soon", stormy.pauses.len());
    Ok(())
}

/// The bad next version of the ReplicaSet controller: the code of a test guest under the manifest of the built-in plugin.
fn bad(folder: &str) -> Result<Vec<u8>> {
    let real = manifest_of(&plugin("replicaset-controller")?)?;
    with_manifest(&guest(folder)?, |manifest| {
        *manifest = real;
        manifest["version"] = folder.into();
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_traps_from_its_50th_run_is_rolled_back_automatically() -> Result<()> {
    let fixture = Fixture::start().await?;
    let recorder = Recorder::start(&fixture.namespace).await?;
    let result = fixture.apply("replicaset-controller", bad("bad-replicaset-traps")?, json!({})).await?;
    assert_eq!(result, SwapResult::Switched);
    let n = 30;
    fixture.deploy((0..n).map(|n| format!("app-{n}"))).await?;
    fixture.complete(n).await?;
    fixture.host.manager.idle(Duration::from_secs(1)).await;
    let status = fixture.status("replicaset-controller");
    let swap = status.last_swap.context("no swap")?;
    println!("{}: {}", swap.reason, swap.message);
    assert_eq!((swap.result, swap.reason.as_str()), (SwapResult::RolledBack, "FaultsInProbation"));
    assert!(swap.message.contains("more than 2; the last: "), "{}", swap.message);
    assert_eq!(status.current.origin, "built-in replicaset-controller");
    assert!(status.faults["trap"] >= 3, "{:?}", status.faults);
    assert_eq!(broken(&fixture, recorder).await?, [""; 0]);
    let events = fixture.cluster.client.list("/api/v1/namespaces/default/events").await?;
    let told = |reason: &str| {
        events.iter().any(|event| event["reason"] == reason && event["involvedObject"]["kind"] == "ControllerPlugin")
    };
    assert!(told("RolledBack"), "{events:#?}");
    fixture.cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_with_wrong_outcomes_is_rejected_in_shadow_mode() -> Result<()> {
    let fixture = Fixture::start().await?;
    let recorder = Recorder::start(&fixture.namespace).await?;
    let n = 10;
    fixture.deploy((0..n).map(|n| format!("app-{n}"))).await?;
    fixture.complete(n).await?;
    fixture.host.manager.idle(Duration::from_secs(1)).await;
    let spec = json!({"strategy": {"shadow": {"runs": 20}}});
    let why = fixture.apply("replicaset-controller", bad("bad-replicaset-surplus")?, spec).await.unwrap_err();
    println!("{why}");
    let status = fixture.status("replicaset-controller");
    let swap = status.last_swap.context("no swap")?;
    assert_eq!((swap.result, swap.reason.as_str()), (SwapResult::Refused, "ShadowDiffers"));
    assert_eq!(status.current.origin, "built-in replicaset-controller");
    let diff = fixture.host.manager.diff("replicaset-controller").context("no diff")?;
    let new = &diff.differences[0].new;
    assert_eq!(new["steps"][0]["mutations"][0]["object"]["metadata"]["generateName"], "surplus-", "{new:#}");
    // A good build passes the same shadow.
    let spec = json!({"strategy": {"shadow": {"runs": 20, "forMs": 5000}}});
    let result = fixture.apply("replicaset-controller", build("replicaset-controller", 1)?, spec).await?;
    assert_eq!(result, SwapResult::Switched);
    fixture.host.manager.idle(Duration::from_secs(1)).await;
    assert_eq!(broken(&fixture, recorder).await?, [""; 0]);
    assert_eq!(fixture.namespace.list("pods").await?.len(), n * PODS);
    fixture.cluster.stop().await;
    Ok(())
}

/// Every write since the recorder's start.
async fn history(fixture: &Fixture, recorder: Recorder) -> Result<History> {
    let mut last = BTreeMap::new();
    for plural in COMPARED {
        for object in fixture.namespace.list(plural).await? {
            last.insert((plural, object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()), object);
        }
    }
    recorder.until(&last).await
}

/// The rules that the writes since the recorder's start have broken.
async fn broken(fixture: &Fixture, recorder: Recorder) -> Result<Vec<String>> {
    Ok(rules::broken(&history(fixture, recorder).await?, UserActions::default()))
}
