//! What leads to a run of an Errand (`tests/errand`), in a host: the parts of the contract that a manifest has and a guest does not see.

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{ApiClient, PATIENCE, TestCluster, definitions, eventually};

/// Errands of the default namespace.
pub const ERRANDS: &str = "/apis/example.com/v1/namespaces/default/errands";

const PODS: &str = "/api/v1/namespaces/default/pods";
const ROUNDS: &str = "errand_controller_rounds_total";
const GAUGE: &str = "errand_controller_pods{namespace=\"default\"}";
/// Defines Errands, and waits until they are served.
///
/// # Errors
/// As [`definitions::define_all`].
pub async fn define(client: &ApiClient) -> Result<()> {
    definitions::define_all(client, "tests/errand/crd.yaml").await
}

/// Creates an Errand.
///
/// # Errors
/// The API server refuses.
pub async fn create(client: &ApiClient, name: &str, spec: Value) -> Result<()> {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Errand", "metadata": {"name": name}, "spec": spec});
    client.create(ERRANDS, &object).await?;
    Ok(())
}

/// Waits until an Errand has an answer, and returns it.
///
/// # Errors
/// It has none, in time.
pub async fn answer(client: &ApiClient, name: &str) -> Result<String> {
    eventually(PATIENCE, format!("the answer of errand {name}"), async || {
        let errand = client.get(&format!("{ERRANDS}/{name}")).await?;
        Ok(errand["status"]["answer"].as_str().map(str::to_owned))
    })
    .await
}

/// Waits until an Errand has this answer.
async fn answers(client: &ApiClient, name: &str, expected: &str) -> Result<()> {
    eventually(PATIENCE, format!("errand {name} to answer {expected}"), async || {
        let errand = client.get(&format!("{ERRANDS}/{name}")).await?;
        ensure!(errand["status"]["answer"] == expected, "{}", errand["status"]);
        Ok(Some(()))
    })
    .await
}

/// The sum of the series of a host that begin so.
async fn metric(host: &ApiClient, series: &str) -> Result<f64> {
    let text = host.request("GET", "/metrics", &[], None).await?.text();
    let values = text
        .lines()
        .filter(|line| line.starts_with(series))
        .map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>().with_context(|| line.to_owned()));
    values.sum()
}

async fn at_least(host: &ApiClient, series: &str, expected: f64) -> Result<()> {
    within(host, series, expected..=f64::INFINITY).await
}

/// Waits until the host has so many Pods in its caches.
async fn cached_pods(host: &ApiClient, n: f64) -> Result<()> {
    within(host, "pintle_cache_objects{kind=\"v1/Pod\"}", n..=n).await
}

async fn within(host: &ApiClient, series: &str, expected: RangeInclusive<f64>) -> Result<()> {
    eventually(PATIENCE, format!("{series} to be in {expected:?}"), async || {
        let found = metric(host, series).await?;
        ensure!(expected.contains(&found), "it is {found}");
        Ok(Some(()))
    })
    .await
}

/// Runs an Errand controller of this name (in its manifest), and shows that each of these leads to a run: a rule by index, a rule to the
/// tick, the period of a tick that a setting gives, and a file that is followed. Shows the label of its queues and its gauge by key too.
///
/// # Errors
/// One does not, in time; the message holds the end of the host's log.
pub async fn what_leads_to_runs(cluster: &TestCluster, component: &Path, controller: &str) -> Result<()> {
    define(&cluster.client).await?;
    // No controller makes it here, and the API server admits no Pod without it.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    cluster.client.create("/api/v1/namespaces/default/serviceaccounts", &account).await?;
    let folder = tempfile::tempdir()?;
    let greeting = folder.path().join("greeting");
    std::fs::write(&greeting, "hello")?;
    let component = component.display().to_string();

    let mut host = cluster.host(std::slice::from_ref(&component))?;
    let metrics = host.ready().await?;
    let led = by_rules(&cluster.client, &metrics).await;
    led.with_context(|| format!("{controller}; the log ends with:\n{}\n", host.log_tail()))?;
    host.stop().await;

    let settings = [
        format!("--set={controller}.every=300ms"),
        format!("--set={controller}.greeting={}", json!({"file": greeting})),
    ];
    let mut host = cluster.host(&[&[component], &settings[..]].concat())?;
    let metrics = host.ready().await?;
    let led = by_settings(&cluster.client, &metrics, &greeting).await;
    led.with_context(|| format!("{controller}; the log ends with:\n{}\n", host.log_tail()))?;
    host.stop().await;
    Ok(())
}

/// With an hour between two rounds.
async fn by_rules(client: &ApiClient, metrics: &ApiClient) -> Result<()> {
    at_least(metrics, ROUNDS, 1.0).await?;
    // X3: a Pod leads to the Errand that names it, and to no other.
    create(client, "counts", json!({"do": "count", "of": "web"})).await?;
    create(client, "sees", json!({"do": "tally"})).await?;
    answers(client, "counts", "absent").await?;
    answers(client, "sees", "0").await?;
    client.create(PODS, &pod("web")).await?;
    at_least(metrics, "errand_controller_deletions_total{result=\"deleted\"}", 1.0).await?;
    eventually(PATIENCE, "the Pod to be gone", async || {
        Ok(client.find(&format!("{PODS}/web")).await?.is_none().then_some(()))
    })
    .await?;
    // No order holds between two watches: the Pod is there before the Errand that counts it.
    cached_pods(metrics, 0.0).await?;
    client.create(PODS, &pod("other")).await?;
    cached_pods(metrics, 1.0).await?;
    create(client, "looks", json!({"do": "tally"})).await?;
    answers(client, "looks", "1").await?;
    answers(client, "sees", "0").await.context("the rule led to an Errand that does not name the Pod")?;
    // X9: the values of the two keys add up.
    at_least(metrics, GAUGE, 1.0).await?;
    ensure!(metric(metrics, GAUGE).await? == 1.0, "0 and 1");

    // X4: the tick runs all, though its time has not come.
    ensure!(metric(metrics, ROUNDS).await? == 1.0, "no round was due");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rounds"}});
    client.create("/api/v1/namespaces/default/configmaps", &map).await?;
    answers(client, "sees", "1").await?;
    ensure!(metric(metrics, ROUNDS).await? == 2.0, "one more round");
    at_least(metrics, GAUGE, 2.0).await
}

/// With 300 ms between two rounds, and a word in a file.
async fn by_settings(client: &ApiClient, metrics: &ApiClient, greeting: &Path) -> Result<()> {
    create(client, "greets", json!({"do": "greet", "of": "ann"})).await?;
    answers(client, "greets", "hello, ann").await?;
    // X11: the host reads it again within a minute.
    std::fs::write(greeting, "welcome")?;
    // X1
    at_least(metrics, ROUNDS, 3.0).await?;
    // X10: both queues have one label, and none has its name.
    at_least(metrics, "workqueue_adds_total{name=\"errand\"}", 4.0).await?;
    for name in ["errands", "rounds"] {
        let series = format!("workqueue_adds_total{{name=\"{name}\"}}");
        ensure!(metric(metrics, &series).await? == 0.0, "{series}");
    }
    answers(client, "greets", "welcome, ann").await
}

/// A Pod that nobody schedules.
fn pod(name: &str) -> Value {
    let spec = json!({
        "schedulerName": "nobody", "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "example.com/main:1"}],
    });
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}
