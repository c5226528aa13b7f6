//! Pods that nobody but the garbage collector of Pods deletes.
//!
//! A finalizer holds each of them, so that it is seen how it went. Their Nodes have no kubelets.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod};
use crate::scenarios::subject::TERMINATED_POD_GC_THRESHOLD;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["pod-garbage-collector-controller"], &[SCENARIOS])];

const NODES: &str = "/api/v1/nodes";

/// A finalizer that only the scenario removes.
const HOLD: &str = "example.com/hold";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Pod of the collector whose Node is gone fails and goes", |s| Box::pin(orphaned(s))),
    Scenario::new("a Pod of the collector that terminates without a Node fails and goes", |s| Box::pin(unscheduled(s))),
    Scenario::new("a Pod of the collector that terminates on a Node out of service fails and goes", |s| {
        Box::pin(out_of_service(s))
    }),
    Scenario::new("a Pod of the collector goes when more than the threshold have ended", |s| Box::pin(terminated(s)))
        .alone(),
];

fn node(s: &Stage, name: &str) -> String {
    format!("{}-{name}", s.ns)
}

/// Creates a Pod that is held, and that no taint evicts, on a Node of the scenario or on none.
async fn create(s: &Stage, name: &str, on: Option<&str>) -> Result<()> {
    let mut object = pod(name, "none");
    object["metadata"]["finalizers"] = json!([HOLD]);
    object["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    match on {
        Some(on) => object["spec"]["nodeName"] = json!(node(s, on)),
        // The scheduler of the simulated nodes leaves it alone.
        None => object["spec"]["schedulerName"] = json!("nobody"),
    }
    s.create("pods", &object).await?;
    Ok(())
}

async fn set_status(s: &Stage, name: &str, status: &Value) -> Result<()> {
    let path = format!("{}/status", s.one("pods", name));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": status})).await?;
    Ok(())
}

/// Waits until a Pod was deleted without a grace period, and notes what became of it.
async fn deleted(s: &Stage, name: &str) -> Result<()> {
    s.until("pods", name, "be deleted", |pod| pod["metadata"]["deletionGracePeriodSeconds"] == 0).await?;
    observe(s, name, name).await
}

async fn observe(s: &Stage, name: &str, what: &str) -> Result<()> {
    let pod = s.get("pods", name).await?;
    let mut conditions = pod["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        ensure!(condition["lastTransitionTime"].as_str().is_none_or(|time| time.len() == "2026-01-01T00:00:00Z".len()));
        condition["lastTransitionTime"] = Value::Null;
    }
    let status = json!({
        "phase": pod["status"]["phase"], "conditions": conditions,
        "observedGeneration": pod["status"]["observedGeneration"],
        "grace period": pod["metadata"]["deletionGracePeriodSeconds"],
    });
    s.observe(what, &status);
    Ok(())
}

async fn release(s: &Stage, names: &[&str]) -> Result<()> {
    for name in names {
        s.patch("pods", name, &json!({"metadata": {"finalizers": null}})).await?;
        s.until_gone("pods", name).await?;
    }
    Ok(())
}

/// Creates a Node with this status of its condition Ready, and with a taint or none.
async fn create_node(s: &Stage, name: &str, ready: &str, taint: Option<&str>) -> Result<()> {
    let mut object = json!({"metadata": {"name": node(s, name)}});
    if let Some(taint) = taint {
        object["spec"] = json!({"taints": [{"key": taint, "value": "nodeshutdown", "effect": "NoExecute"}]});
    }
    s.client.create(NODES, &object).await?;
    let time = "2026-01-01T00:00:00Z";
    let ready = json!({
        "type": "Ready", "status": ready, "reason": "Scenario", "message": "", "lastHeartbeatTime": time,
        "lastTransitionTime": time,
    });
    let path = format!("{NODES}/{}/status", node(s, name));
    s.client.patch(&path, PatchKind::Merge, &json!({"status": {"conditions": [ready]}})).await?;
    Ok(())
}

async fn delete_node(s: &Stage, name: &str) -> Result<()> {
    s.client.delete(&format!("{NODES}/{}", node(s, name)), None).await?;
    Ok(())
}

async fn orphaned(s: &Stage) -> Result<()> {
    const NAMES: [&str; 4] = ["ended", "evicted", "pending", "running"];
    create_node(s, "gone", "True", None).await?;
    for name in NAMES {
        create(s, name, Some("gone")).await?;
    }
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    set_status(s, "running", &json!({"phase": "Running", "conditions": [ready]})).await?;
    set_status(s, "ended", &json!({"phase": "Succeeded", "conditions": [ready]})).await?;
    let target = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    set_status(s, "evicted", &json!({"phase": "Running", "conditions": [target, ready]})).await?;
    delete_node(s, "gone").await?;
    for name in NAMES {
        deleted(s, name).await?;
    }
    let kept = s.get("pods", "evicted").await?["status"]["conditions"][0]["lastTransitionTime"].clone();
    s.observe(
        "time of a condition that was there",
        &json!(if kept == "2026-01-01T00:00:00Z" { "kept" } else { "new" }),
    );
    release(s, &NAMES).await
}

async fn unscheduled(s: &Stage) -> Result<()> {
    create(s, "waits", None).await?;
    create(s, "goes", None).await?;
    s.delete("pods", "goes", "Background").await?;
    s.until("pods", "goes", "fail", |pod| pod["status"]["phase"] == "Failed").await?;
    observe(s, "goes", "goes").await?;
    observe(s, "waits", "waits").await?;
    s.delete("pods", "waits", "Background").await?;
    release(s, &["goes", "waits"]).await
}

async fn out_of_service(s: &Stage) -> Result<()> {
    const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
    create_node(s, "down", "Unknown", Some(OUT_OF_SERVICE)).await?;
    create_node(s, "silent", "Unknown", None).await?;
    create_node(s, "up", "True", Some(OUT_OF_SERVICE)).await?;
    for name in ["down", "silent", "up"] {
        create(s, name, Some(name)).await?;
        s.delete("pods", name, "Background").await?;
    }
    create(s, "stays", Some("down")).await?;
    deleted(s, "down").await?;
    for name in ["silent", "up", "stays"] {
        observe(s, name, name).await?;
    }
    let at_once = json!({"gracePeriodSeconds": 0});
    for name in ["silent", "up", "stays"] {
        s.client.delete(&s.one("pods", name), Some(&at_once)).await?;
    }
    release(s, &["down", "silent", "up", "stays"]).await?;
    for name in ["down", "silent", "up"] {
        delete_node(s, name).await?;
    }
    Ok(())
}

/// Of the Pods that have ended, evicted ones go first. Those of earlier scenarios are older than all others of this one, so whether
/// there are any does not matter.
async fn terminated(s: &Stage) -> Result<()> {
    create_node(s, "silent", "Unknown", None).await?;
    let names: Vec<String> = (0..TERMINATED_POD_GC_THRESHOLD).map(|i| format!("ended-{i:03}")).collect();
    for name in &names {
        create(s, name, Some("silent")).await?;
        set_status(s, name, &json!({"phase": if name.ends_with('0') { "Failed" } else { "Succeeded" }})).await?;
    }
    for name in ["evicted-1", "evicted-2"] {
        create(s, name, Some("silent")).await?;
        set_status(s, name, &json!({"phase": "Failed", "reason": "Evicted"})).await?;
    }
    for name in ["evicted-1", "evicted-2"] {
        deleted(s, name).await?;
    }
    let left = eventually(PATIENCE, "no more Pods than the threshold", async || {
        let pods = s.list("pods").await?;
        let left = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count();
        Ok((left == names.len()).then_some(left))
    })
    .await?;
    s.observe("left", &json!(left));
    release(s, &["evicted-1", "evicted-2"]).await?;
    for name in &names {
        s.client.delete(&s.one("pods", name), Some(&json!({"gracePeriodSeconds": 0}))).await?;
        release(s, &[name]).await?;
    }
    delete_node(s, "silent").await
}
