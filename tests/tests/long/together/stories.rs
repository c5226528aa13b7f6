//! What each of the eight is for, as somebody sees it who has it in a cluster.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use pintle_tests::scenarios::stage::{Stage, deployment, pod};
use pintle_tests::{PatchKind, eventually, webapps};
use serde_json::{Value, json};

use super::PATIENCE;

const ROLLED: &str = "config-reloader.example.com/hash";
const REMEMBERED: &str = "downscaler.example.com/replicas";
/// A namespace that some of the eight look after.
const TEAM: &str = "team";

/// Plays the story of the plugin of this name.
pub(crate) async fn run(plugin: &str, namespace: &Stage) -> Result<()> {
    match plugin {
        "config-reloader" => a_changed_config_map_rolls_pods(namespace).await,
        "pod-reaper" => an_evicted_pod_goes(namespace).await,
        "namespace-defaults" => a_namespace_is_closed(namespace).await,
        "robot-js" => a_namespace_gets_its_account(namespace).await,
        "config-replicator" => a_config_map_is_copied(namespace).await,
        "webapp-go" => an_application_comes_up(namespace).await,
        "janitor" => what_is_over_goes(namespace).await,
        "downscaler" => a_deployment_sleeps_and_wakes(namespace).await,
        _ => bail!("{plugin} has no story"),
    }
}

fn annotated(mut object: Value, name: &str, value: &str) -> Value {
    object["metadata"]["annotations"][name] = value.into();
    object
}

/// Waits until somebody has told something of an object.
async fn told(namespace: &Stage, name: &str, reason: &str) -> Result<()> {
    let is_about = |event: &Value| event["reason"] == reason && event["involvedObject"]["name"] == name;
    namespace.until_all("events", &format!("tell {reason} of {name}"), |events| events.iter().any(is_about)).await?;
    Ok(())
}

async fn a_changed_config_map_rolls_pods(namespace: &Stage) -> Result<()> {
    namespace.create("configmaps", &json!({"metadata": {"name": "flags"}, "data": {"LEVEL": "info"}})).await?;
    let reads_flags = json!({"template": {"spec": {"containers": [
        {"name": "c", "image": "image:1", "envFrom": [{"configMapRef": {"name": "flags"}}]},
    ]}}});
    let web = annotated(deployment("reloaded", 2, reads_flags), "config-reloader.example.com/auto", "true");
    namespace.create("deployments", &web).await?;
    let hash = |d: &Value| d["spec"]["template"]["metadata"]["annotations"][ROLLED].as_str().map(str::to_owned);
    namespace.until("deployments", "reloaded", "have a hash", |d| hash(d).is_some()).await?;
    namespace.rolled_out("reloaded").await?;
    let before = hash(&namespace.get("deployments", "reloaded").await?);
    namespace.patch("configmaps", "flags", &json!({"data": {"LEVEL": "debug"}})).await?;
    namespace.until("deployments", "reloaded", "have another hash", |d| hash(d) != before).await?;
    namespace.rolled_out("reloaded").await?;
    for pod in namespace.live_pods().await? {
        let annotation = &pod["metadata"]["annotations"][ROLLED];
        ensure!(annotation.as_str().map(str::to_owned) != before, "an old Pod: {}", pod["metadata"]["name"]);
    }
    told(namespace, "reloaded", "Reloaded").await
}

async fn an_evicted_pod_goes(namespace: &Stage) -> Result<()> {
    for (name, keep) in [("evicted", "false"), ("kept", "true")] {
        let mut pod = annotated(pod(name, name), "pod-reaper.example.com/keep", keep);
        // On a node that nobody plays, it stays as it is.
        pod["spec"]["nodeName"] = json!("elsewhere");
        namespace.create("pods", &pod).await?;
        let path = format!("{}/status", namespace.one("pods", name));
        let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
        namespace.client.patch(&path, PatchKind::Merge, &evicted).await?;
    }
    namespace.until_gone("pods", "evicted").await?;
    namespace.until("pods", "kept", "stay", |_| true).await?;
    told(namespace, "evicted", "Reaped").await
}

/// Waits until an object of any namespace, or none, looks as wanted.
async fn until_at(namespace: &Stage, path: &str, what: &str, looks: impl Fn(&Value) -> bool) -> Result<()> {
    eventually(PATIENCE, format!("{path} to {what}"), async || {
        let object = namespace.client.get(path).await?;
        ensure!(looks(&object), "{object}");
        Ok(Some(()))
    })
    .await
}

async fn a_namespace_is_closed(namespace: &Stage) -> Result<()> {
    let labels = json!({"namespace-defaults.example.com/size": "medium", "example.com/team": "web"});
    namespace.client.create("/api/v1/namespaces", &json!({"metadata": {"name": TEAM, "labels": labels}})).await?;
    let policy = format!("/apis/networking.k8s.io/v1/namespaces/{TEAM}/networkpolicies/default-deny");
    let is_closed = |policy: &Value| policy["spec"]["policyTypes"] == json!(["Ingress", "Egress"]);
    until_at(namespace, &policy, "be made", is_closed).await?;
    let limits = format!("/api/v1/namespaces/{TEAM}/limitranges/defaults");
    until_at(namespace, &limits, "be made", |l| l["spec"]["limits"][0]["default"]["memory"] == "512Mi").await?;
    // Somebody opens it.
    let open = json!({"spec": {"policyTypes": ["Egress"]}});
    namespace.client.patch(&policy, PatchKind::Merge, &open).await?;
    until_at(namespace, &policy, "be closed again", is_closed).await
}

async fn a_namespace_gets_its_account(namespace: &Stage) -> Result<()> {
    let account = format!("/api/v1/namespaces/{TEAM}/serviceaccounts/robot");
    until_at(namespace, &account, "be made", |_| true).await?;
    namespace.client.delete(&account, None).await?;
    until_at(namespace, &account, "be made again", |_| true).await
}

async fn a_config_map_is_copied(namespace: &Stage) -> Result<()> {
    let source = json!({"metadata": {"name": "shared"}, "data": {"LEVEL": "info"}});
    namespace
        .create("configmaps", &annotated(source, "config-replicator.example.com/to", "example.com/team=web"))
        .await?;
    let copy = format!("/api/v1/namespaces/{TEAM}/configmaps/shared");
    until_at(namespace, &copy, "be made", |copy| copy["data"]["LEVEL"] == "info").await?;
    namespace.patch("configmaps", "shared", &json!({"data": {"LEVEL": "debug"}})).await?;
    until_at(namespace, &copy, "follow", |copy| copy["data"]["LEVEL"] == "debug").await?;
    namespace.delete("configmaps", "shared", "Background").await?;
    eventually(PATIENCE, "the copy to go with its source", async || {
        Ok(namespace.client.find(&copy).await?.is_none().then_some(()))
    })
    .await
}

async fn an_application_comes_up(namespace: &Stage) -> Result<()> {
    let spec =
        json!({"image": "registry.example/shop:1", "replicas": 2, "host": "shop.example.org", "config": {"A": "1"}});
    let app = json!({"apiVersion": "example.com/v1", "kind": "WebApp", "metadata": {"name": "shop"}, "spec": spec});
    namespace.client.create(webapps::WEBAPPS, &app).await?;
    let app = webapps::ready(&namespace.client, "shop").await?;
    ensure!(app["status"]["url"] == "http://shop.example.org" && app["status"]["availableReplicas"] == 2, "{app}");
    Ok(())
}

async fn what_is_over_goes(namespace: &Stage) -> Result<()> {
    for (name, ttl) in [("over", "1s"), ("odd", "soon"), ("young", "1h")] {
        namespace
            .create("configmaps", &annotated(json!({"metadata": {"name": name}}), "janitor.example.com/ttl", ttl))
            .await?;
    }
    namespace.until_gone("configmaps", "over").await?;
    told(namespace, "odd", "InvalidTTL").await?;
    for name in ["odd", "young"] {
        namespace.until("configmaps", name, "stay", |_| true).await?;
    }
    Ok(())
}

/// Office hours of a day that is days away, whenever this runs.
fn another_day() -> Result<String> {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let days = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
    // 1970 began on a Thursday.
    let day = DAYS[usize::try_from((days + 3 + 3) % 7)?];
    Ok(format!("{day}-{day} 09:00-17:00"))
}

async fn a_deployment_sleeps_and_wakes(namespace: &Stage) -> Result<()> {
    let uptime = "downscaler.example.com/uptime";
    namespace.create("deployments", &annotated(deployment("office", 2, json!({})), uptime, &another_day()?)).await?;
    let remembered = |d: &Value| d["metadata"]["annotations"][REMEMBERED].clone();
    namespace.until("deployments", "office", "sleep", |d| d["spec"]["replicas"] == 0 && remembered(d) == "2").await?;
    namespace.patch("deployments", "office", &json!({"metadata": {"annotations": {uptime: null}}})).await?;
    namespace.until("deployments", "office", "wake", |d| d["spec"]["replicas"] == 2 && remembered(d).is_null()).await?;
    namespace.rolled_out("office").await
}
