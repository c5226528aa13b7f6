//! Traces of runs reach a collector of OpenTelemetry, and a collector that is absent affects nothing else.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};

use anyhow::{Context as _, Result, ensure};
use pintle_tests::collector::{Collector, SeenSpan};
use pintle_tests::ports::free_ports;
use pintle_tests::{HostProcess, PATIENCE, TestCluster, eventually, tls};
use serde_json::{Value, json};

/// A free port of loopback.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A host with the Deployment and ReplicaSet controllers, which traces every run and exports every so many milliseconds.
fn traced(
    cluster: &TestCluster,
    collector: &str,
    every_ms: u32,
    environment: &[(&'static str, String)],
) -> Result<HostProcess> {
    let flags = [
        HostProcess::controllers(&["deployment", "replicaset"]),
        format!("--tracing-endpoint={collector}"),
        "--tracing-sampling-rate-per-million=1000000".to_owned(),
        "--controller-shutdown-timeout=60s".to_owned(),
    ];
    let mut environment = environment.to_vec();
    environment.push(("OTEL_BSP_SCHEDULE_DELAY", every_ms.to_string()));
    let kubeconfig = std::fs::read_to_string(cluster.kubeconfig())?;
    HostProcess::start_with_environment(&kubeconfig, &flags, &environment)
}

fn log(host: &HostProcess) -> String {
    std::fs::read_to_string(host.process.log()).unwrap_or_default()
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}})
}

/// Creates a Deployment, and waits until its Pods exist.
async fn roll_out(cluster: &TestCluster, name: &str) -> Result<()> {
    cluster.client.create("/apis/apps/v1/namespaces/default/deployments", &deployment(name)).await?;
    let path = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{name}");
    eventually(PATIENCE, format!("the Pods of {name}"), async || {
        Ok((cluster.client.list(&path).await?.len() == 2).then_some(()))
    })
    .await
}

/// The traces with such a span.
fn traces_with(spans: &[SeenSpan], find: impl Fn(&SeenSpan) -> bool) -> Vec<Vec<SeenSpan>> {
    let ids: BTreeSet<&str> = spans.iter().filter(|span| find(span)).map(|span| span.trace.as_str()).collect();
    ids.into_iter().map(|id| spans.iter().filter(|span| span.trace == id).cloned().collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runs_of_a_rollout_are_traces_from_the_queue_to_the_caches() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let collector = Collector::start(ANY).await?;
    let mut host = traced(&cluster, &collector.address.to_string(), 50, &[("POD_NAME", "pintle-0".to_owned())])?;
    let client = host.ready().await?;
    roll_out(&cluster, "web").await?;
    let creates = |span: &SeenSpan| span.name == "create apps/v1/ReplicaSet";
    // The caches may show what the run wrote before it ends; then it does not wait for them.
    let is_whole = |trace: &Vec<SeenSpan>| {
        let waits = |span: &SeenSpan| span.attribute("pintle.run.waits_for_caches") == "false";
        trace.iter().any(|span| span.name == "cache.wait" || waits(span))
    };
    let trace = eventually(PATIENCE, "the run that created the ReplicaSet, with its wait for the caches", async || {
        Ok(traces_with(&collector.spans(), creates).pop().filter(is_whole))
    })
    .await?;

    let find = |name: &str| trace.iter().find(|span| span.name == name).with_context(|| format!("{name}: {trace:#?}"));
    let root = find("reconcile deployment-controller")?;
    ensure!(root.parent.is_empty() && root.error.is_none(), "{root:?}");
    for (name, value) in [
        ("pintle.plugin.name", "deployment-controller"),
        ("pintle.queue", "deployment"),
        ("pintle.key.kind", "apps/v1/Deployment"),
        ("pintle.key.namespace", "default"),
        ("pintle.key.name", "web"),
        ("pintle.run.attempt", "0"),
        ("pintle.run.failed_mutations", "0"),
        ("pintle.run.omitted_spans", "0"),
    ] {
        ensure!(root.attribute(name) == value, "{name} of {root:#?}");
    }
    ensure!(root.attribute("pintle.plugin.digest").len() == 64, "{root:#?}");
    ensure!(root.attribute("pintle.run.mutations").parse::<usize>()? >= 1, "{root:#?}");
    for (name, value) in [("service.name", "pintle"), ("k8s.pod.name", "pintle-0")] {
        ensure!(root.resource.get(name).is_some_and(|found| found == value), "{name} of {:?}", root.resource);
    }
    for child in trace.iter().filter(|span| span.id != root.id) {
        ensure!(child.parent == root.id, "{child:#?} is not below {root:#?}");
    }
    let (wait, call) = (find("queue.wait")?, find("guest.reconcile")?);
    let create = find("create apps/v1/ReplicaSet")?;
    if let Ok(caches) = find("cache.wait") {
        ensure!(root.time.1 <= caches.time.1 && root.attribute("pintle.run.waits_for_caches") == "true", "{trace:#?}");
    }
    ensure!(wait.time.1 == root.time.0 && root.time.0 <= call.time.0, "{trace:#?}");
    ensure!(call.time.1 <= create.time.0 && create.time.1 <= root.time.1, "{trace:#?}");
    ensure!(call.attribute("pintle.call.reads").contains("apps/v1/Deployment: "), "{call:#?}");
    for (name, value) in [
        ("http.request.method", "POST"),
        ("pintle.request.verb", "create"),
        ("pintle.request.result", "ok"),
        ("pintle.object.kind", "apps/v1/ReplicaSet"),
        ("pintle.object.namespace", "default"),
    ] {
        ensure!(create.attribute(name) == value, "{name} of {create:#?}");
    }
    // Contents of objects are in no span.
    ensure!(!format!("{:?}", collector.spans()).contains("web:1"), "the image of a container is in a span");

    eventually(PATIENCE, "the count of exported spans", async || {
        let metrics = client.request("GET", "/metrics", &[], None).await?.text();
        let exported = metrics.lines().find_map(|line| line.strip_prefix("pintle_trace_spans_exported_total"));
        let n: u64 = exported.context("no such metric")?.trim_start_matches("{}").trim().parse()?;
        Ok((n >= collector.spans().len() as u64 / 2 && n > 0).then_some(()))
    })
    .await?;
    host.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_absent_comes_late_or_goes_affects_no_run_and_is_logged_once() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    // Nobody listens there.
    let [port] = free_ports()?;
    let address = SocketAddr::new(ANY.ip(), port);
    let mut host = traced(&cluster, &format!("http://{address}"), 50, &[])?;
    let client = host.ready().await?;
    let lines = |text: &str| log(&host).lines().filter(|line| line.contains(text)).count();
    let (lost, again) = ("traces cannot be exported", "traces are exported again");
    roll_out(&cluster, "before").await?;
    eventually(PATIENCE, "the line about the absent collector", async || Ok((lines(lost) > 0).then_some(()))).await?;
    let collector = Collector::start(address).await?;
    let mut n = 0;
    eventually(PATIENCE, "the line about the collector that came late", async || {
        n += 1;
        roll_out(&cluster, &format!("late-{n}")).await?;
        Ok((lines(again) > 0).then_some(()))
    })
    .await?;
    ensure!(!collector.spans().is_empty() && (lines(lost), lines(again)) == (1, 1), "{}", log(&host));
    drop(collector);
    eventually(PATIENCE, "the line about the collector that is gone", async || {
        n += 1;
        roll_out(&cluster, &format!("late-{n}")).await?;
        Ok((lines(lost) > 1).then_some(()))
    })
    .await?;
    ensure!((lines(lost), lines(again)) == (2, 1), "{}", log(&host));
    let metrics = client.request("GET", "/metrics", &[], None).await?.text();
    let dropped = "pintle_trace_spans_dropped_total{reason=\"export_failed\"} ";
    let dropped = metrics.lines().find_map(|line| line.strip_prefix(dropped)).context("no such metric")?;
    ensure!(dropped.parse::<u64>()? > 0, "{dropped}");
    host.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_exports_what_is_left_over_tls() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let (acceptor, certificate) = tls::self_signed(&["h2"])?;
    let collector = Collector::with_tls(acceptor).await?;
    let folder = tempfile::tempdir()?;
    let authorities = folder.path().join("authorities.pem");
    std::fs::write(&authorities, certificate)?;
    // The system's authorities, for this process. Nothing is exported before the end.
    let environment = [("SSL_CERT_FILE", authorities.display().to_string())];
    let mut host = traced(&cluster, &format!("https://{}", collector.address), 3_600_000, &environment)?;
    host.ready().await?;
    roll_out(&cluster, "web").await?;
    ensure!(collector.spans().is_empty(), "{:#?}", collector.spans());
    host.stop().await;
    let created = traces_with(&collector.spans(), |span| span.name == "create v1/Pod");
    ensure!(!created.is_empty(), "{:#?}", collector.spans());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_the_end_of_a_host_no_longer_than_it_may() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    // The system accepts connections, and nobody answers them.
    let silent = TcpListener::bind(ANY)?;
    let mut host = traced(&cluster, &silent.local_addr()?.to_string(), 50, &[])?;
    host.ready().await?;
    roll_out(&cluster, "web").await?;
    ensure!(host.process.stop(PATIENCE).await, "SIGTERM was not enough: {}", log(&host));
    ensure!(log(&host).contains("the host stops before the collector has accepted all traces"), "{}", log(&host));
    Ok(())
}
