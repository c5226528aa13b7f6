//! Nodes that are not ready, or whose kubelets send no heartbeats. The Nodes of these scenarios have no kubelets: the
//! scenario sends what they would send.
//!
//! Each scenario has a zone of its own, with a Node that lives, so that others do not change the state of its zone. Nodes
//! of the cluster are alive, so that evictions are never halted.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::{Stage, pod};
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["node-lifecycle-controller"], &[SCENARIOS])];

const NODES: &str = "/api/v1/nodes";

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// A time of all heartbeats: only its changes matter.
const TIME: &str = "2026-01-01T00:00:00Z";

/// Conditions of which kubelets are the source, beside `Ready`.
const PRESSURES: [&str; 3] = ["MemoryPressure", "DiskPressure", "PIDPressure"];

/// The Node of each zone that lives.
const ALIVE: &str = "alive";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Node without conditions has no taint, and none when it is ready", |s| Box::pin(new(s))),
    Scenario::new("a Node that is not ready is tainted for scheduling and for eviction", |s| Box::pin(not_ready(s))),
    Scenario::new("a Node that is unreachable is tainted as such", |s| Box::pin(unreachable(s))),
    Scenario::new("a Node whose Lease is not renewed becomes unreachable", |s| Box::pin(silent(s))),
    Scenario::new("a Node whose Lease is renewed stays ready with an old status", |s| Box::pin(renewed(s))),
    Scenario::new("a Node has the taints of its conditions", |s| Box::pin(conditions(s))),
    Scenario::new("a Node that is cordoned has a taint until it is uncordoned", |s| Box::pin(cordon(s))),
    Scenario::new("a Node that was not ready and falls silent has the other taint", |s| Box::pin(swapped(s))),
    Scenario::new("a Node that is back loses its taints", |s| Box::pin(back(s))),
    Scenario::new("a Node that falls silent has no ready Pods", |s| Box::pin(silent_pods(s))),
    Scenario::new("a Pod that is bound to a Node that is not ready is not ready", |s| Box::pin(bound(s))),
    Scenario::new("a Node has the old labels of its system and architecture", |s| Box::pin(labels(s))),
    Scenario::new("a Node that comes and goes is reported", |s| Box::pin(deleted(s))),
    Scenario::new("a Node of a zone without ready Nodes is tainted while others are ready", |s| {
        Box::pin(whole_zone(s))
    }),
    Scenario::new("a Node of a small zone with many unready Nodes is not tainted for eviction", |s| {
        Box::pin(small_zone(s))
    }),
];

fn full(s: &Stage, name: &str) -> String {
    format!("{}-{name}", s.ns)
}

fn path(s: &Stage, name: &str) -> String {
    format!("{NODES}/{}", full(s, name))
}

/// Creates a Node in the zone of the scenario, and its Lease.
async fn create(s: &Stage, name: &str) -> Result<()> {
    let labels = json!({"topology.kubernetes.io/region": "scenarios", "topology.kubernetes.io/zone": s.ns});
    s.client.create(NODES, &json!({"metadata": {"name": full(s, name), "labels": labels}})).await?;
    let metadata = json!({"name": full(s, name), "namespace": "kube-node-lease"});
    let spec = json!({"holderIdentity": full(s, name), "leaseDurationSeconds": 40, "renewTime": micros(s)});
    s.client.create(LEASES, &json!({"metadata": metadata, "spec": spec})).await?;
    Ok(())
}

fn micros(s: &Stage) -> String {
    s.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Renews the Lease of a Node.
async fn renew(s: &Stage, name: &str) -> Result<()> {
    let lease = format!("{LEASES}/{}", full(s, name));
    s.client.patch(&lease, PatchKind::Merge, &json!({"spec": {"renewTime": micros(s)}})).await?;
    Ok(())
}

/// A condition as a kubelet posts it.
fn condition(kind: &str, status: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Scenario", "message": "", "lastHeartbeatTime": TIME,
        "lastTransitionTime": TIME,
    })
}

/// Posts a status with these conditions.
async fn post(s: &Stage, name: &str, conditions: &[(&str, &str)]) -> Result<()> {
    let conditions: Vec<Value> = conditions.iter().map(|(kind, status)| condition(kind, status)).collect();
    let status = json!({"status": {"conditions": conditions}});
    s.client.patch(&format!("{}/status", path(s, name)), PatchKind::Merge, &status).await?;
    Ok(())
}

/// Posts a whole status.
async fn post_ready(s: &Stage, name: &str, ready: &str) -> Result<()> {
    let pressures = PRESSURES.map(|kind| (kind, "False"));
    post(s, name, &[&pressures[..], &[("Ready", ready)]].concat()).await
}

/// Creates a Node with this readiness.
async fn create_ready(s: &Stage, name: &str, ready: &str) -> Result<()> {
    create(s, name).await?;
    post_ready(s, name, ready).await
}

/// Key and effect of the taints, in order.
fn taints(node: &Value) -> Vec<String> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().trim_start_matches("node.kubernetes.io/").to_owned();
    let mut taints: Vec<String> =
        all.map(|taint| format!("{}:{}", text(&taint["key"]), text(&taint["effect"]))).collect();
    taints.sort();
    taints
}

/// Waits until a Node looks as wanted. These Nodes live meanwhile.
async fn until(s: &Stage, name: &str, alive: &[&str], what: &str, looks: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually(PATIENCE, format!("{name} to {what}"), async || {
        for one in alive {
            renew(s, one).await?;
        }
        let node = s.client.get(&path(s, name)).await?;
        ensure!(looks(&node), "it has {} and {}", node["spec"], node["status"]["conditions"]);
        Ok(Some(node))
    })
    .await
}

/// Waits until a Node has exactly these taints, and notes them.
async fn has_taints(s: &Stage, name: &str, alive: &[&str], wanted: &[&str], when: &str) -> Result<()> {
    let node = until(s, name, alive, &format!("have the taints {wanted:?}"), |node| taints(node) == wanted).await?;
    s.observe(&format!("taints of {name}, {when}"), &json!(taints(&node)));
    // Those for scheduling may be of the API server, which gives them no time.
    let evicting =
        node["spec"]["taints"].as_array().into_iter().flatten().filter(|taint| taint["effect"] == "NoExecute");
    let times: Vec<bool> = evicting.map(|taint| taint["timeAdded"].is_string()).collect();
    s.observe(&format!("taints of {name} that evict have a time, {when}"), &json!(times));
    Ok(())
}

/// Notes the conditions of a Node.
fn observe_conditions(s: &Stage, name: &str, node: &Value, when: &str) {
    let mut conditions = node["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        let created = &node["metadata"]["creationTimestamp"];
        for field in ["lastHeartbeatTime", "lastTransitionTime"] {
            let time = &condition[field];
            let kept = if time == TIME { "kept" } else { "new" };
            condition[field] = json!(if time == created && field == "lastHeartbeatTime" { "created" } else { kept });
        }
    }
    s.observe(&format!("conditions of {name}, {when}"), &conditions);
}

fn is_unknown(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "Unknown")
}

/// Waits until a Node is unreachable, while the others live, and notes its conditions.
async fn becomes_unknown(s: &Stage, name: &str, alive: &[&str]) -> Result<()> {
    let node = until(s, name, alive, "be unreachable", is_unknown).await?;
    observe_conditions(s, name, &node, "when it is unreachable");
    Ok(())
}

/// Waits until events about a Node have these reasons, and notes them.
async fn reported(s: &Stage, name: &str, wanted: &[&str]) -> Result<()> {
    const OWN: [&str; 3] = ["RegisteredNode", "RemovingNode", "NodeNotReady"];
    let events = eventually(PATIENCE, format!("the events {wanted:?} of {name}"), async || {
        renew(s, ALIVE).await?;
        let mut events: Vec<String> = Vec::new();
        for event in s.client.list("/api/v1/namespaces/default/events").await? {
            let is_own = OWN.iter().any(|reason| event["reason"] == *reason);
            if is_own && event["involvedObject"]["name"] == full(s, name) {
                let source = &event["source"]["component"];
                events.push(format!("{} {} {} {source}", event["type"], event["reason"], event["message"]));
            }
        }
        events.sort();
        let is_there = |reason: &&&str| events.iter().any(|event| event.contains(**reason));
        Ok((wanted.iter().filter(is_there).count() == wanted.len()).then_some(events))
    })
    .await?;
    s.observe(&format!("events of {name}"), &json!(events));
    Ok(())
}

async fn delete(s: &Stage, names: &[&str]) -> Result<()> {
    for name in names {
        s.client.delete(&path(s, name), None).await?;
        s.client.delete(&format!("{LEASES}/{}", full(s, name)), None).await?;
    }
    Ok(())
}

/// Creates a Pod on a Node, which runs and is ready.
async fn create_pod(s: &Stage, name: &str, on: &str) -> Result<()> {
    let mut object = pod(name, "none");
    object["spec"]["nodeName"] = json!(full(s, on));
    s.create("pods", &object).await?;
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": TIME});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let status = json!({"status": {"phase": "Running", "conditions": conditions}});
    s.client.patch(&format!("{}/status", s.one("pods", name)), PatchKind::Merge, &status).await?;
    Ok(())
}

fn ready_of(pod: &Value) -> &Value {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|one| one["type"] == "Ready").unwrap_or(&Value::Null)
}

/// Waits until a Pod is not ready, and notes its conditions.
async fn pod_not_ready(s: &Stage, name: &str) -> Result<()> {
    eventually(PATIENCE, format!("{name} not to be ready"), async || {
        renew(s, ALIVE).await?;
        Ok((ready_of(&s.get("pods", name).await?)["status"] == "False").then_some(()))
    })
    .await?;
    let mut conditions = s.get("pods", name).await?["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = json!(if condition["lastTransitionTime"] == TIME { "kept" } else { "new" });
    }
    s.observe(&format!("conditions of {name}"), &conditions);
    Ok(())
}

async fn delete_pods(s: &Stage, names: &[&str]) -> Result<()> {
    for name in names {
        s.client.delete(&s.one("pods", name), Some(&json!({"gracePeriodSeconds": 0}))).await?;
        s.until_gone("pods", name).await?;
    }
    Ok(())
}

const NOT_READY: [&str; 2] = ["not-ready:NoExecute", "not-ready:NoSchedule"];
const UNREACHABLE: [&str; 2] = ["unreachable:NoExecute", "unreachable:NoSchedule"];

/// The API server taints it as not ready, but it has no condition that says so.
async fn new(s: &Stage) -> Result<()> {
    create(s, "one").await?;
    has_taints(s, "one", &["one"], &[], "when it is new").await?;
    post_ready(s, "one", "True").await?;
    has_taints(s, "one", &["one"], &[], "when it is ready").await?;
    delete(s, &["one"]).await
}

async fn not_ready(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "False").await?;
    has_taints(s, "one", &[ALIVE, "one"], &NOT_READY, "when it is not ready").await?;
    delete(s, &[ALIVE, "one"]).await
}

async fn unreachable(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "Unknown").await?;
    has_taints(s, "one", &[ALIVE, "one"], &UNREACHABLE, "when it is unreachable").await?;
    delete(s, &[ALIVE, "one"]).await
}

async fn silent(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "True").await?;
    has_taints(s, "one", &[ALIVE, "one"], &[], "when it is ready").await?;
    becomes_unknown(s, "one", &[ALIVE]).await?;
    has_taints(s, "one", &[ALIVE], &UNREACHABLE, "when it is unreachable").await?;
    reported(s, "one", &["NodeNotReady"]).await?;
    has_taints(s, ALIVE, &[ALIVE], &[], "which lives").await?;
    delete(s, &[ALIVE, "one"]).await
}

/// Another Node, which is as old, shows that the time has passed.
async fn renewed(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "True").await?;
    create_ready(s, "other", "True").await?;
    has_taints(s, "one", &[ALIVE, "one"], &[], "when it is ready").await?;
    becomes_unknown(s, "other", &[ALIVE, "one"]).await?;
    has_taints(s, "other", &[ALIVE, "one"], &UNREACHABLE, "when it is unreachable").await?;
    let node = s.client.get(&path(s, "one")).await?;
    observe_conditions(s, "one", &node, "which lives");
    delete(s, &[ALIVE, "one", "other"]).await
}

async fn conditions(s: &Stage) -> Result<()> {
    create_ready(s, "one", "True").await?;
    has_taints(s, "one", &["one"], &[], "when it is ready").await?;
    for (kind, taint) in [
        ("MemoryPressure", "memory-pressure:NoSchedule"),
        ("DiskPressure", "disk-pressure:NoSchedule"),
        ("PIDPressure", "pid-pressure:NoSchedule"),
        ("NetworkUnavailable", "network-unavailable:NoSchedule"),
    ] {
        post(s, "one", &[("Ready", "True"), (kind, "True")]).await?;
        has_taints(s, "one", &["one"], &[taint], kind).await?;
    }
    post(s, "one", &[("Ready", "True"), ("MemoryPressure", "Unknown"), ("DiskPressure", "False")]).await?;
    has_taints(s, "one", &["one"], &[], "without pressure").await?;
    delete(s, &["one"]).await
}

async fn cordon(s: &Stage) -> Result<()> {
    create_ready(s, "one", "True").await?;
    has_taints(s, "one", &["one"], &[], "when it is ready").await?;
    s.client.patch(&path(s, "one"), PatchKind::Merge, &json!({"spec": {"unschedulable": true}})).await?;
    has_taints(s, "one", &["one"], &["unschedulable:NoSchedule"], "when it is cordoned").await?;
    s.client.patch(&path(s, "one"), PatchKind::Merge, &json!({"spec": {"unschedulable": null}})).await?;
    has_taints(s, "one", &["one"], &[], "when it is uncordoned").await?;
    delete(s, &["one"]).await
}

async fn swapped(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "False").await?;
    has_taints(s, "one", &[ALIVE, "one"], &NOT_READY, "when it is not ready").await?;
    becomes_unknown(s, "one", &[ALIVE]).await?;
    has_taints(s, "one", &[ALIVE], &UNREACHABLE, "when it is unreachable").await?;
    // A status with the old heartbeat is no sign of life.
    renew(s, "one").await?;
    post_ready(s, "one", "False").await?;
    has_taints(s, "one", &[ALIVE, "one"], &NOT_READY, "when it is not ready again").await?;
    delete(s, &[ALIVE, "one"]).await
}

async fn back(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "False").await?;
    let other = json!({"key": "example.com/other", "value": "kept", "effect": "NoExecute"});
    has_taints(s, "one", &[ALIVE, "one"], &NOT_READY, "when it is not ready").await?;
    eventually(PATIENCE, "a taint of somebody else", async || {
        let mut node = s.client.get(&path(s, "one")).await?;
        let Some(taints) = node["spec"]["taints"].as_array_mut() else { return Ok(None) };
        taints.push(other.clone());
        Ok(s.client.update(&path(s, "one"), &node).await.is_ok().then_some(()))
    })
    .await?;
    post_ready(s, "one", "True").await?;
    has_taints(s, "one", &[ALIVE, "one"], &["example.com/other:NoExecute"], "when it is back").await?;
    delete(s, &[ALIVE, "one"]).await
}

async fn silent_pods(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "True").await?;
    has_taints(s, "one", &[ALIVE, "one"], &[], "when it is ready").await?;
    create_pod(s, "first", "one").await?;
    create_pod(s, "second", "one").await?;
    create_pod(s, "elsewhere", ALIVE).await?;
    becomes_unknown(s, "one", &[ALIVE]).await?;
    has_taints(s, "one", &[ALIVE], &UNREACHABLE, "when it is unreachable").await?;
    pod_not_ready(s, "first").await?;
    pod_not_ready(s, "second").await?;
    s.observe("a Pod elsewhere", &ready_of(&s.get("pods", "elsewhere").await?)["status"]);
    delete_pods(s, &["first", "second", "elsewhere"]).await?;
    delete(s, &[ALIVE, "one"]).await
}

/// The Pod has its status before it is bound, so that it is ready when the controller sees it on its Node.
async fn bound(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "False").await?;
    has_taints(s, "one", &[ALIVE, "one"], &NOT_READY, "when it is not ready").await?;
    let mut object = pod("late", "none");
    object["spec"]["schedulerName"] = json!("nobody");
    s.create("pods", &object).await?;
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": TIME});
    let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
    s.client.patch(&format!("{}/status", s.one("pods", "late")), PatchKind::Merge, &status).await?;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": full(s, "one")},
    });
    s.client.create(&format!("{}/binding", s.one("pods", "late")), &binding).await?;
    pod_not_ready(s, "late").await?;
    delete_pods(s, &["late"]).await?;
    delete(s, &[ALIVE, "one"]).await
}

async fn labels(s: &Stage) -> Result<()> {
    const NAMES: [&str; 4] =
        ["kubernetes.io/os", "beta.kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/arch"];
    create_ready(s, "one", "True").await?;
    for (when, change, os, arch) in [
        ("new", json!({NAMES[0]: "linux", NAMES[3]: "arm"}), "linux", "arm"),
        ("with an architecture", json!({NAMES[2]: "amd64"}), "linux", "amd64"),
        ("with another system", json!({NAMES[1]: "windows"}), "linux", "amd64"),
    ] {
        s.client.patch(&path(s, "one"), PatchKind::Merge, &json!({"metadata": {"labels": change}})).await?;
        let node = until(s, "one", &["one"], &format!("have the old labels {os} and {arch}"), |node| {
            let labels = &node["metadata"]["labels"];
            labels[NAMES[1]] == os && labels[NAMES[3]] == arch
        })
        .await?;
        s.observe(&format!("labels, {when}"), &json!(NAMES.map(|name| node["metadata"]["labels"][name].clone())));
    }
    delete(s, &["one"]).await
}

async fn deleted(s: &Stage) -> Result<()> {
    create_ready(s, ALIVE, "True").await?;
    create_ready(s, "one", "True").await?;
    reported(s, "one", &["RegisteredNode"]).await?;
    delete(s, &["one"]).await?;
    reported(s, "one", &["RegisteredNode", "RemovingNode"]).await?;
    delete(s, &[ALIVE]).await
}

async fn whole_zone(s: &Stage) -> Result<()> {
    create_ready(s, "one", "False").await?;
    has_taints(s, "one", &["one"], &NOT_READY, "which is alone").await?;
    delete(s, &["one"]).await
}

/// Three of four Nodes are not ready. The one that became so first may be tainted before the others are.
async fn small_zone(s: &Stage) -> Result<()> {
    const NAMES: [&str; 4] = [ALIVE, "a", "b", "c"];
    for name in NAMES {
        create_ready(s, name, "True").await?;
    }
    for name in NAMES {
        has_taints(s, name, &NAMES, &[], "when it is ready").await?;
    }
    reported(s, "c", &["RegisteredNode"]).await?;
    for name in ["a", "b", "c"] {
        post_ready(s, name, "False").await?;
    }
    for name in ["a", "b", "c"] {
        until(s, name, &NAMES, "be tainted for scheduling", |node| taints(node).contains(&NOT_READY[1].to_owned()))
            .await?;
    }
    // In this time, a zone in its normal state would have tainted all of them.
    let passed = s.now() + std::time::Duration::from_secs(45);
    until(s, ALIVE, &NAMES, "live on", |_| s.now() > passed).await?;
    let mut n_evicting = 0;
    for name in ["a", "b", "c"] {
        n_evicting += usize::from(taints(&s.client.get(&path(s, name)).await?).contains(&NOT_READY[0].to_owned()));
    }
    s.observe("most of three Nodes that are tainted for eviction", &json!(n_evicting.max(1)));
    delete(s, &NAMES).await
}
