//! Pods that go because of the taints of their Nodes, which have no kubelets.
//!
//! A finalizer holds each Pod, so that it is seen how it went. Where a Pod is to stay for some time, another one without tolerations
//! shows by going that the taint was seen.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Group, HOLD};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod};
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["taint-eviction-controller"], &[SCENARIOS])];

const NODES: &str = "/api/v1/nodes";

/// A Pod without tolerations.
const SIGN: &str = "sign";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Pod of a tainted Node goes", |s| Box::pin(untolerated(s))),
    Scenario::new("a Pod that tolerates the taints of its Node for a time goes after the shortest one", |s| {
        Box::pin(tolerated(s))
    }),
    Scenario::new("a Pod that tolerates the taint of its Node for a longer time goes after the first one", |s| {
        Box::pin(longer(s))
    }),
    Scenario::new("a Pod stays when the taint of its Node is removed in time", |s| Box::pin(removed(s))),
    Scenario::new("a Pod that tolerates the taint of its Node without end stays", |s| Box::pin(forever(s))),
    Scenario::new("a Pod of a tainted Node that is deleted in time cancels its eviction", |s| Box::pin(deleted(s))),
];

/// A toleration of a taint, for this time.
fn toleration(key: &str, seconds: Option<u64>) -> Value {
    let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

/// Creates the Node of the scenario.
pub(super) async fn create_node(s: &Stage) -> Result<()> {
    s.client.create(NODES, &json!({"metadata": {"name": s.ns}})).await.map(drop)
}

pub(super) async fn delete_node(s: &Stage) -> Result<()> {
    s.client.delete(&format!("{NODES}/{}", s.ns), None).await.map(drop)
}

/// Gives the Node these taints, and no others.
async fn taint(s: &Stage, keys: &[&str]) -> Result<()> {
    let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
    let path = format!("{NODES}/{}", s.ns);
    s.client.patch(&path, PatchKind::Merge, &json!({"spec": {"taints": taints}})).await.map(drop)
}

/// Creates a Pod on the Node.
async fn create(s: &Stage, name: &str, tolerations: &[Value]) -> Result<()> {
    let mut object = pod(name, "none");
    object["metadata"]["finalizers"] = json!([HOLD]);
    object["spec"]["nodeName"] = json!(s.ns);
    object["spec"]["tolerations"] = json!(tolerations);
    s.create("pods", &object).await.map(drop)
}

/// Waits until a Pod is deleted, and notes its conditions.
pub(super) async fn evicted(s: &Stage, name: &str) -> Result<()> {
    s.until("pods", name, "be deleted", |pod| !pod["metadata"]["deletionTimestamp"].is_null()).await?;
    let pod = s.get("pods", name).await?;
    let mut conditions = pod["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = Value::Null;
    }
    let grace = &pod["metadata"]["deletionGracePeriodSeconds"];
    s.observe(name, &json!({"phase": pod["status"]["phase"], "conditions": conditions, "grace period": grace}));
    Ok(())
}

/// Checks that a Pod is not deleted.
pub(super) async fn stays(s: &Stage, name: &str) -> Result<()> {
    let pod = s.get("pods", name).await?;
    ensure!(pod["metadata"]["deletionTimestamp"].is_null(), "{name} is deleted");
    s.observe(name, &json!("stays"));
    Ok(())
}

/// Waits for an event.
pub(super) async fn reported(s: &Stage, name: &str, message: &str) -> Result<()> {
    eventually(PATIENCE, format!("an event about {name}: {message}"), async || {
        let events = s.list("events").await?;
        let is_it = |event: &Value| event["involvedObject"]["name"] == name && event["message"] == message;
        Ok(events.iter().any(is_it).then_some(()))
    })
    .await
}

/// Removes Pods.
pub(super) async fn remove(s: &Stage, names: &[&str]) -> Result<()> {
    for name in names {
        s.client.delete(&s.one("pods", name), Some(&json!({"gracePeriodSeconds": 0}))).await?;
        s.patch("pods", name, &json!({"metadata": {"finalizers": null}})).await?;
        s.until_gone("pods", name).await?;
    }
    Ok(())
}

async fn untolerated(s: &Stage) -> Result<()> {
    create_node(s).await?;
    create(s, "before", &[]).await?;
    create(s, "of-another-taint", &[toleration("other", None)]).await?;
    taint(s, &["a"]).await?;
    evicted(s, "before").await?;
    evicted(s, "of-another-taint").await?;
    create(s, "after", &[]).await?;
    evicted(s, "after").await?;
    remove(s, &["before", "of-another-taint", "after"]).await?;
    delete_node(s).await
}

async fn tolerated(s: &Stage) -> Result<()> {
    create_node(s).await?;
    create(s, "one", &[toleration("a", Some(1)), toleration("b", Some(600))]).await?;
    create(s, "both", &[toleration("a", Some(600)), toleration("b", Some(2))]).await?;
    create(s, "none", &[toleration("a", Some(600)), toleration("b", Some(0))]).await?;
    taint(s, &["a", "b"]).await?;
    for name in ["one", "both", "none"] {
        evicted(s, name).await?;
    }
    remove(s, &["one", "both", "none"]).await?;
    delete_node(s).await
}

async fn longer(s: &Stage) -> Result<()> {
    create_node(s).await?;
    create(s, SIGN, &[]).await?;
    create(s, "one", &[toleration("a", Some(5))]).await?;
    taint(s, &["a"]).await?;
    evicted(s, SIGN).await?;
    let pod = s.get("pods", "one").await?;
    let mut tolerations = pod["spec"]["tolerations"].clone();
    for toleration in tolerations.as_array_mut().into_iter().flatten() {
        if toleration["key"] == "a" {
            toleration["tolerationSeconds"] = json!(600);
        }
    }
    s.patch("pods", "one", &json!({"spec": {"tolerations": tolerations}})).await?;
    evicted(s, "one").await?;
    remove(s, &[SIGN, "one"]).await?;
    delete_node(s).await
}

async fn removed(s: &Stage) -> Result<()> {
    create_node(s).await?;
    create(s, SIGN, &[]).await?;
    create(s, "one", &[toleration("a", Some(600))]).await?;
    taint(s, &["a"]).await?;
    evicted(s, SIGN).await?;
    taint(s, &[]).await?;
    reported(s, "one", &format!("Cancelling deletion of Pod {}/one", s.ns)).await?;
    stays(s, "one").await?;
    remove(s, &[SIGN, "one"]).await?;
    delete_node(s).await
}

async fn forever(s: &Stage) -> Result<()> {
    create_node(s).await?;
    create(s, SIGN, &[]).await?;
    create(s, "one", &[toleration("a", None)]).await?;
    let all = json!({"operator": "Exists"});
    create(s, "every-taint", &[all]).await?;
    taint(s, &["a"]).await?;
    evicted(s, SIGN).await?;
    remove(s, &[SIGN]).await?;
    taint(s, &[]).await?;
    taint(s, &["a"]).await?;
    create(s, "late", &[]).await?;
    evicted(s, "late").await?;
    stays(s, "one").await?;
    stays(s, "every-taint").await?;
    remove(s, &["late", "one", "every-taint"]).await?;
    delete_node(s).await
}

async fn deleted(s: &Stage) -> Result<()> {
    create_node(s).await?;
    create(s, SIGN, &[]).await?;
    create(s, "one", &[toleration("a", Some(600))]).await?;
    taint(s, &["a"]).await?;
    evicted(s, SIGN).await?;
    remove(s, &["one"]).await?;
    reported(s, "one", &format!("Cancelling deletion of Pod {}/one", s.ns)).await?;
    remove(s, &[SIGN]).await?;
    delete_node(s).await
}
