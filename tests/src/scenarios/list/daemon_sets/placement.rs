//! Which Nodes have a Pod.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    LABEL, NODES, agent, count, create_node, create_nodes, name_of, node_name, observe_nodes, rolled_out, run_until,
    scenario, set_label, set_taints,
};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("a DaemonSet has one Pod on each Node", |s| Box::pin(each_node(s))),
    scenario("a DaemonSet follows a new Node", |s| Box::pin(new_node(s))),
    scenario("a DaemonSet follows the labels of Nodes", |s| Box::pin(labels(s))),
    scenario("a DaemonSet runs where its node affinity matches", |s| Box::pin(affinity(s))),
    scenario("a DaemonSet without fitting Nodes has no Pods", |s| Box::pin(no_nodes(s))),
    scenario("a DaemonSet stays on a Node with a taint NoSchedule and does not come to another", |s| {
        Box::pin(no_schedule(s))
    }),
    // Its Pod is deleted by this controller, or by that of taints, or by both.
    scenario("a DaemonSet leaves a Node with a taint NoExecute and comes back", |s| Box::pin(no_execute(s)))
        .meddles_with_pods()
        .may_report(&["SuccessfulDelete", "TaintManagerEviction"]),
    scenario("a DaemonSet tolerates taints by its template and of unhealthy Nodes", |s| Box::pin(tolerated(s))),
    scenario("a DaemonSet on the network of the host tolerates Nodes without network", |s| Box::pin(host_network(s))),
    scenario("a DaemonSet loses its unscheduled Pod when the Node is gone", |s| Box::pin(gone(s))),
];

const DEDICATED: &str = "example.com/dedicated";

fn taint(key: &str, effect: &str) -> Value {
    json!([{"key": key, "effect": effect}])
}

async fn each_node(s: &Stage) -> Result<()> {
    create_nodes(s, "each", &["a", "b", "c"]).await?;
    let mut agent = agent("each");
    agent["metadata"]["annotations"] = json!({"example.com/note": "kept"});
    agent["spec"]["template"]["metadata"]["annotations"] = json!({"example.com/of-template": "1"});
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 3).await
}

async fn new_node(s: &Stage) -> Result<()> {
    create_nodes(s, "new", &["a"]).await?;
    s.create("daemonsets", &agent("new")).await?;
    rolled_out(s, 1).await?;
    create_nodes(s, "new", &["b", "c"]).await?;
    rolled_out(s, 3).await
}

async fn labels(s: &Stage) -> Result<()> {
    create_nodes(s, "labels", &["a", "b"]).await?;
    s.create("daemonsets", &agent("labels")).await?;
    rolled_out(s, 2).await?;
    set_label(s, "labels", "b", LABEL, json!("labels-no-more")).await?;
    rolled_out(s, 1).await?;
    observe_nodes(s, "without b").await?;
    set_label(s, "labels", "b", LABEL, json!("labels")).await?;
    rolled_out(s, 2).await
}

async fn affinity(s: &Stage) -> Result<()> {
    create_node(s, "affinity", "a", json!({"disk": "ssd"}), json!([])).await?;
    create_node(s, "affinity", "b", json!({"disk": "hdd"}), json!([])).await?;
    create_node(s, "affinity", "c", json!({"disk": "ssd", "old": "true"}), json!([])).await?;
    let mut agent = agent("affinity");
    let expressions =
        json!([{"key": "disk", "operator": "In", "values": ["ssd"]}, {"key": "old", "operator": "DoesNotExist"}]);
    agent["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}],
    }});
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 1).await?;
    observe_nodes(s, "at first").await?;
    set_label(s, "affinity", "c", "old", Value::Null).await?;
    rolled_out(s, 2).await
}

async fn no_nodes(s: &Stage) -> Result<()> {
    s.create("daemonsets", &agent("none")).await?;
    rolled_out(s, 0).await
}

async fn no_schedule(s: &Stage) -> Result<()> {
    create_nodes(s, "no-schedule", &["a", "b"]).await?;
    s.create("daemonsets", &agent("no-schedule")).await?;
    rolled_out(s, 2).await?;
    set_taints(s, "no-schedule", "b", taint(DEDICATED, "NoSchedule")).await?;
    create_node(s, "no-schedule", "c", json!({}), taint(DEDICATED, "NoSchedule")).await?;
    // The Pod stays, but its Node does not count. A change of the DaemonSet makes the controller count.
    s.patch("daemonsets", "agent", &json!({"spec": {"revisionHistoryLimit": 3}})).await?;
    run_until(s, "be misscheduled", |agent, _| {
        count(agent, "numberMisscheduled") == 1 && count(agent, "desiredNumberScheduled") == 1
    })
    .await?;
    observe_nodes(s, "with taints").await?;
    set_taints(s, "no-schedule", "b", json!([])).await?;
    rolled_out(s, 2).await
}

async fn no_execute(s: &Stage) -> Result<()> {
    create_nodes(s, "no-execute", &["a", "b"]).await?;
    s.create("daemonsets", &agent("no-execute")).await?;
    rolled_out(s, 2).await?;
    set_taints(s, "no-execute", "b", taint(DEDICATED, "NoExecute")).await?;
    rolled_out(s, 1).await?;
    observe_nodes(s, "with a taint").await?;
    set_taints(s, "no-execute", "b", json!([])).await?;
    rolled_out(s, 2).await
}

async fn tolerated(s: &Stage) -> Result<()> {
    create_node(s, "tolerated", "a", json!({}), taint(DEDICATED, "NoSchedule")).await?;
    create_node(s, "tolerated", "b", json!({}), taint(DEDICATED, "NoExecute")).await?;
    create_node(s, "tolerated", "c", json!({}), taint("node.kubernetes.io/unreachable", "NoExecute")).await?;
    create_node(s, "tolerated", "d", json!({}), taint("node.kubernetes.io/disk-pressure", "NoSchedule")).await?;
    create_node(s, "tolerated", "e", json!({}), taint("node.kubernetes.io/network-unavailable", "NoSchedule")).await?;
    let mut agent = agent("tolerated");
    // One of them is that of DaemonSets, with a limit that goes.
    agent["spec"]["template"]["spec"]["tolerations"] = json!([
        {"key": DEDICATED, "operator": "Exists"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    ]);
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 4).await
}

async fn host_network(s: &Stage) -> Result<()> {
    create_node(s, "host", "a", json!({}), taint("node.kubernetes.io/network-unavailable", "NoSchedule")).await?;
    let mut agent = agent("host");
    agent["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 1).await
}

async fn gone(s: &Stage) -> Result<()> {
    create_nodes(s, "gone", &["a", "b"]).await?;
    let mut agent = agent("gone");
    agent["spec"]["template"]["spec"]["schedulerName"] = json!("nobody");
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 2).await?;
    s.client.delete(&format!("{NODES}/{}", node_name("gone", "b")), None).await?;
    // A Node that goes does not run the controller; a Pod that changes does.
    let pods = s.list("pods").await?;
    let pod = pods.iter().find(|pod| super::pinned_to(pod) == "a").map(name_of).unwrap_or_default().to_owned();
    s.patch("pods", &pod, &json!({"metadata": {"labels": {"touched": "true"}}})).await?;
    rolled_out(s, 1).await?;
    observe_nodes(s, "left").await
}
