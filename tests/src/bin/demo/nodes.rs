//! The third story: a Node fails and its Pods move, it comes back, and another one is drained.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use pintle_tests::objects::{has_condition, template};
use pintle_tests::{ApiClient, PATIENCE, PatchKind, eventually};
use serde_json::{Value, json};

use crate::PODS;
use crate::time_line::TimeLine;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const NODES: &str = "/api/v1/nodes";

/// Pods of the Deployment.
const REPLICAS: usize = 4;

pub(crate) async fn tell(line: &TimeLine, client: &ApiClient) -> Result<()> {
    line.title(&format!(
        "create Deployment shop with {REPLICAS} replicas that tolerate a failed node for 2 s, and fail a node"
    ));
    client.create(DEPLOYMENTS, &shop()).await?;
    let node = eventually(PATIENCE, "ready Pods of shop", async || {
        let running = running(client, None).await?;
        Ok(running.first().filter(|_| running.len() == REPLICAS).cloned())
    })
    .await?;
    let fail = |value: Value| json!({"metadata": {"annotations": {"sim.pintle.dev/not-ready": value}}});
    change(client, &node, &fail(json!("true"))).await?;
    until_tainted(client, &node, &["not-ready:NoExecute", "not-ready:NoSchedule"]).await?;
    line.say(&format!("{node} is tainted: no Pod is scheduled to it, and those that are on it have to go"));
    until_only_elsewhere(client, &node).await?;
    line.say(&format!("{REPLICAS} Pods are ready on other nodes"));
    change(client, &node, &fail(Value::Null)).await?;
    until_tainted(client, &node, &[]).await?;
    line.say(&format!("{node} is back, without taints"));

    let node = running(client, None).await?.first().cloned().context("no Pod of shop is ready")?;
    line.title(&format!("drain {node}: cordon it, and evict its Pods of shop"));
    change(client, &node, &json!({"spec": {"unschedulable": true}})).await?;
    until_tainted(client, &node, &["unschedulable:NoSchedule"]).await?;
    line.say("it is tainted for scheduling");
    for pod in pods(client).await?.iter().filter(|pod| pod["spec"]["nodeName"] == *node) {
        let name = &pod["metadata"]["name"];
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let path = format!("{PODS}/{}/eviction", name.as_str().context("a Pod without a name")?);
        client.create(&path, &eviction).await?;
    }
    until_only_elsewhere(client, &node).await?;
    line.say(&format!("{REPLICAS} Pods are ready on other nodes"));
    change(client, &node, &json!({"spec": {"unschedulable": null}})).await?;
    until_tainted(client, &node, &[]).await?;
    line.say("it is uncordoned");
    Ok(())
}

fn shop() -> Value {
    let mut template = template("shop", "shop:1", "Always", &json!({}));
    let tolerates =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2});
    template["spec"]["tolerations"] =
        json!([tolerates("node.kubernetes.io/not-ready"), tolerates("node.kubernetes.io/unreachable")]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": "shop"}}, "template": template},
    })
}

/// The Pods of the Deployment, without those that terminate.
async fn pods(client: &ApiClient) -> Result<Vec<Value>> {
    let mut pods = client.list(PODS).await?;
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == "shop" && pod["metadata"]["deletionTimestamp"].is_null());
    Ok(pods)
}

/// The nodes of the ready Pods, in order, without one of them.
async fn running(client: &ApiClient, without: Option<&str>) -> Result<Vec<String>> {
    let pods = pods(client).await?;
    let ready = pods.iter().filter(|pod| has_condition(pod, "Ready", "True"));
    let mut nodes: Vec<String> = ready.filter_map(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned())).collect();
    nodes.retain(|node| Some(&**node) != without);
    nodes.sort();
    Ok(nodes)
}

async fn change(client: &ApiClient, node: &str, change: &Value) -> Result<()> {
    client.patch(&format!("{NODES}/{node}"), PatchKind::Merge, change).await.map(drop)
}

/// Waits until a node has exactly these taints of the controllers.
async fn until_tainted(client: &ApiClient, node: &str, wanted: &[&str]) -> Result<()> {
    let wanted: BTreeSet<String> = wanted.iter().map(|taint| format!("node.kubernetes.io/{taint}")).collect();
    eventually(PATIENCE, format!("{node} to have the taints {wanted:?}"), async || {
        let node = client.get(&format!("{NODES}/{node}")).await?;
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let taints: BTreeSet<String> =
            taints.map(|taint| format!("{}:{}", text(&taint["key"]), text(&taint["effect"]))).collect();
        ensure!(taints == wanted, "it has {taints:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until all Pods of the Deployment are ready, and none of them is on a node.
async fn until_only_elsewhere(client: &ApiClient, node: &str) -> Result<()> {
    eventually(PATIENCE, format!("{REPLICAS} ready Pods outside of {node}"), async || {
        let (all, elsewhere) = (pods(client).await?.len(), running(client, Some(node)).await?.len());
        ensure!((all, elsewhere) == (REPLICAS, REPLICAS), "there are {all} Pods, of which {elsewhere} are ready there");
        Ok(Some(()))
    })
    .await
}
