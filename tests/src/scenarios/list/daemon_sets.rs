//! DaemonSets. Each scenario has its own Nodes, without scheduler and kubelets: the scenario binds its Pods and writes their status.
//!
//! Which of several equal Nodes is updated first is up to the controller, so the scenarios end when all are.

mod lifecycle;
mod placement;
mod rollout;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::objects::{count, is_observed, pinned_node};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["daemonset-controller"], &[placement::SCENARIOS, rollout::SCENARIOS, lifecycle::SCENARIOS])];

const NODES: &str = "/api/v1/nodes";

/// Label of the Nodes of these scenarios: which scenario they belong to.
const LABEL: &str = "example.com/scenario";

/// An image with which Pods never become ready.
const BROKEN: &str = "image:broken";

/// The scheduler that the scenario acts as. That of the simulated nodes leaves its Pods alone.
const SCHEDULER: &str = "scenario";

/// What is compared beside Pods and events.
const KINDS: &[&str] = &["daemonsets", "controllerrevisions"];

/// A scenario of DaemonSets.
#[track_caller]
const fn scenario(name: &'static str, steps: crate::scenarios::Steps) -> Scenario {
    Scenario::new(name, steps).comparing(KINDS)
}

fn node_name(scenario: &str, name: &str) -> String {
    format!("daemon-{scenario}-{name}")
}

/// Creates a Node of a scenario, in place of one of an earlier run.
async fn create_node(s: &Stage, scenario: &str, name: &str, labels: Value, taints: Value) -> Result<()> {
    let name = node_name(scenario, name);
    let path = format!("{NODES}/{name}");
    if s.client.find(&path).await?.is_some() {
        s.client.delete(&path, None).await?;
    }
    // Without the condition of a taint, the node lifecycle controller removes it.
    let conditions: Vec<Value> = taints.as_array().into_iter().flatten().filter_map(condition_of).collect();
    let mut object = json!({
        "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": {"conditions": conditions},
    });
    object["metadata"]["labels"][LABEL] = json!(scenario);
    s.client.create(NODES, &object).await?;
    // The API server taints new Nodes as not ready.
    change_node(s, &path, &json!({"spec": {"taints": taints}})).await
}

/// The condition that leads to a taint with the effect NoSchedule.
fn condition_of(taint: &Value) -> Option<Value> {
    let kind = match taint["key"].as_str()?.strip_prefix("node.kubernetes.io/")? {
        "disk-pressure" => "DiskPressure",
        "network-unavailable" => "NetworkUnavailable",
        _ => return None,
    };
    Some(json!({"type": kind, "status": "True"}))
}

async fn change_node(s: &Stage, path: &str, patch: &Value) -> Result<()> {
    s.client.patch(path, PatchKind::Merge, patch).await?;
    Ok(())
}

async fn set_taints(s: &Stage, scenario: &str, name: &str, taints: Value) -> Result<()> {
    let path = format!("{NODES}/{}", node_name(scenario, name));
    change_node(s, &path, &json!({"spec": {"taints": taints}})).await
}

async fn set_label(s: &Stage, scenario: &str, name: &str, label: &str, value: Value) -> Result<()> {
    let path = format!("{NODES}/{}", node_name(scenario, name));
    let mut patch = json!({"metadata": {"labels": {}}});
    patch["metadata"]["labels"][label] = value;
    change_node(s, &path, &patch).await
}

/// Creates plain Nodes.
async fn create_nodes(s: &Stage, scenario: &str, names: &[&str]) -> Result<()> {
    for name in names {
        create_node(s, scenario, name, json!({}), json!([])).await?;
    }
    Ok(())
}

/// The DaemonSet `agent` on the Nodes of a scenario.
fn agent(scenario: &str) -> Value {
    json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "schedulerName": SCHEDULER,
                    // No kubelet confirms the end of a Pod.
                    "terminationGracePeriodSeconds": 0,
                    "nodeSelector": {LABEL: scenario},
                    "containers": [{"name": "c", "image": "image:1"}],
                },
            },
        },
    })
}

/// `agent` with a limit of what may be unavailable.
fn rolling_agent(scenario: &str, surge: Value, unavailable: Value) -> Value {
    let mut agent = agent(scenario);
    let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    agent["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": limits});
    agent
}

async fn set_image(s: &Stage, image: &str) -> Result<()> {
    let containers = json!([{"name": "c", "image": image}]);
    s.patch("daemonsets", "agent", &json!({"spec": {"template": {"spec": {"containers": containers}}}})).await?;
    Ok(())
}

/// Binds a Pod to the Node that it is pinned to, as a scheduler does. It may be gone by now.
async fn bind(s: &Stage, pod: &Value) -> Result<()> {
    let target = json!({"kind": "Node", "name": pinned_node(pod)});
    let binding = json!({"metadata": {"name": name_of(pod)}, "target": target});
    let result = s.client.create(&format!("{}/binding", s.one("pods", name_of(pod))), &binding).await;
    if s.client.find(&s.one("pods", name_of(pod))).await?.is_some_and(|pod| pod["spec"]["nodeName"].is_null()) {
        result?;
    }
    Ok(())
}

/// Writes what a kubelet would report of a Pod. It may be gone by now.
async fn report(s: &Stage, name: &str, phase: &str, ready: &str) -> Result<()> {
    let now = s.now_text();
    let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": now});
    let path = format!("{}/status", s.one("pods", name));
    let result =
        s.client.patch(&path, PatchKind::Merge, &json!({"status": {"phase": phase, "conditions": [ready]}})).await;
    if s.client.find(&s.one("pods", name)).await?.is_some() {
        result?;
    }
    Ok(())
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn image_of(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

/// The Node that a Pod is pinned to, without the prefix of the scenario.
fn pinned_to(pod: &Value) -> &str {
    pinned_node(pod).and_then(|node| node.rsplit('-').next()).unwrap_or_default()
}

/// Runs Pods until DaemonSet and Pods look as wanted: each new Pod is bound and becomes ready, but those of the image that is broken
/// do not become ready.
async fn run_until(s: &Stage, what: &str, looks: impl Fn(&Value, &[Value]) -> bool) -> Result<()> {
    eventually(PATIENCE, format!("agent to {what}"), async || {
        let pods = s.list("pods").await?;
        for pod in &pods {
            if pod["spec"]["schedulerName"] == SCHEDULER && pod["spec"]["nodeName"].is_null() {
                bind(s, pod).await?;
            }
            if pod["status"]["phase"] == "Pending" && image_of(pod) != BROKEN {
                report(s, name_of(pod), "Running", "True").await?;
            }
        }
        let agent = s.get("daemonsets", "agent").await?;
        ensure!(looks(&agent, &pods), "status {} of {} Pods", agent["status"], pods.len());
        Ok(Some(()))
    })
    .await
}

/// Runs Pods until so many Nodes have one that is available and up to date, and there are no others.
async fn rolled_out(s: &Stage, n: u64) -> Result<()> {
    run_until(s, &format!("have {n} Pods"), |agent, pods| {
        let fields = ["desiredNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"];
        is_observed(agent)
            && fields.iter().all(|field| count(agent, field) == n)
            && count(agent, "numberMisscheduled") == 0
            && pods.len() as u64 == n
    })
    .await
}

/// Notes on which Nodes the Pods are.
async fn observe_nodes(s: &Stage, when: &str) -> Result<()> {
    let pods = s.live_pods().await?;
    let mut nodes: Vec<&str> = pods.iter().map(pinned_to).collect();
    nodes.sort_unstable();
    s.observe(when, &json!(nodes));
    Ok(())
}

/// Notes numbers and images of the revisions.
async fn observe_revisions(s: &Stage, when: &str) -> Result<()> {
    let revisions = s.list("controllerrevisions").await?;
    let image = |revision: &Value| revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let mut numbers: Vec<_> = revisions.iter().map(|r| (r["revision"].as_i64(), image(r).to_string())).collect();
    numbers.sort_unstable();
    s.observe(when, &json!(numbers));
    Ok(())
}
