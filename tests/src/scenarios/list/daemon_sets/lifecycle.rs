//! Pods that end, go, or change hands; and the end of a DaemonSet.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    agent, count, create_nodes, name_of, node_name, observe_nodes, observe_revisions, pinned_to, report, rolled_out,
    run_until, scenario, set_image,
};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("a DaemonSet replaces a failed Pod", |s| Box::pin(ended(s, "failed", "Failed"))).meddles_with_pods(),
    scenario("a DaemonSet replaces a failed Pod again and again", |s| Box::pin(fails_again(s))).meddles_with_pods(),
    scenario("a DaemonSet replaces a Pod that has succeeded", |s| Box::pin(ended(s, "succeeded", "Succeeded")))
        .meddles_with_pods(),
    scenario("a DaemonSet replaces a Pod that somebody deletes", |s| Box::pin(deleted(s))).meddles_with_pods(),
    scenario("a DaemonSet releases a Pod that loses its label and replaces it", |s| Box::pin(released(s)))
        .meddles_with_pods(),
    scenario("a DaemonSet adopts a Pod that matches", |s| Box::pin(adopts(s))).meddles_with_pods(),
    scenario("a DaemonSet that is deleted takes Pods and revisions with it", |s| {
        Box::pin(goes(s, "goes", "Background"))
    }),
    scenario("a DaemonSet that is deleted in the foreground goes last", |s| {
        Box::pin(goes(s, "foreground", "Foreground"))
    }),
    scenario("a DaemonSet that is created again adopts Pods and revisions of the one before", |s| Box::pin(again(s))),
    scenario("a DaemonSet that is created again with another template replaces the Pods that it adopts", |s| {
        Box::pin(again_changed(s))
    }),
];

/// The name of the Pod for a Node.
async fn pod_for(s: &Stage, node: &str) -> Result<String> {
    let pods = s.live_pods().await?;
    let pod = pods.iter().find(|pod| pinned_to(pod) == node).context("the Node has no Pod")?;
    Ok(name_of(pod).to_owned())
}

async fn start(s: &Stage, scenario: &str) -> Result<()> {
    create_nodes(s, scenario, &["a", "b"]).await?;
    s.create("daemonsets", &agent(scenario)).await?;
    rolled_out(s, 2).await
}

/// Waits until the Pod is gone and another one is there and available.
async fn replaced(s: &Stage, old: &str) -> Result<()> {
    run_until(s, &format!("replace {old}"), |agent, pods| {
        pods.iter().all(|pod| name_of(pod) != old) && pods.len() == 2 && count(agent, "numberAvailable") == 2
    })
    .await
}

async fn ended(s: &Stage, scenario: &str, phase: &str) -> Result<()> {
    start(s, scenario).await?;
    let pod = pod_for(s, "b").await?;
    report(s, &pod, phase, "False").await?;
    replaced(s, &pod).await
}

async fn fails_again(s: &Stage) -> Result<()> {
    start(s, "fails-again").await?;
    for _ in 0..3 {
        let pod = pod_for(s, "b").await?;
        report(s, &pod, "Failed", "False").await?;
        replaced(s, &pod).await?;
    }
    Ok(())
}

async fn deleted(s: &Stage) -> Result<()> {
    start(s, "deleted").await?;
    let pod = pod_for(s, "a").await?;
    s.delete("pods", &pod, "Background").await?;
    replaced(s, &pod).await
}

async fn released(s: &Stage) -> Result<()> {
    start(s, "released").await?;
    let pod = pod_for(s, "a").await?;
    s.patch("pods", &pod, &json!({"metadata": {"labels": {"app": "debug"}}})).await?;
    run_until(s, "replace the Pod", |agent, pods| {
        let orphan = pods.iter().find(|other| name_of(other) == pod);
        orphan.is_some_and(|orphan| orphan["metadata"]["ownerReferences"].is_null())
            && pods.len() == 3
            && count(agent, "numberAvailable") == 2
    })
    .await
}

/// Node a has a Pod of the user already; it is not of the template, so OnDelete keeps it.
async fn adopts(s: &Stage) -> Result<()> {
    create_nodes(s, "adopts", &["a", "b"]).await?;
    let mut agent = agent("adopts");
    agent["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let mut pod = json!({
        "metadata": {"name": "mine", "labels": {"app": "agent"}},
        "spec": agent["spec"]["template"]["spec"],
    });
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node_name("adopts", "a")]}]);
    pod["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }});
    s.create("pods", &pod).await?;
    s.create("daemonsets", &agent).await?;
    run_until(s, "adopt", |agent, pods| {
        let mine = pods.iter().find(|pod| name_of(pod) == "mine");
        mine.is_some_and(|mine| !mine["metadata"]["ownerReferences"].is_null())
            && pods.len() == 2
            && count(agent, "numberAvailable") == 2
            && count(agent, "updatedNumberScheduled") == 1
    })
    .await?;
    observe_nodes(s, "Nodes").await
}

async fn goes(s: &Stage, scenario: &str, policy: &str) -> Result<()> {
    start(s, scenario).await?;
    s.delete("daemonsets", "agent", policy).await?;
    s.until_gone("daemonsets", "agent").await?;
    s.until_all("pods", "be gone", <[Value]>::is_empty).await?;
    s.until_all("controllerrevisions", "be gone", <[Value]>::is_empty).await?;
    Ok(())
}

/// Deletes the DaemonSet, and waits until Pods and revisions have no owner.
async fn orphan(s: &Stage) -> Result<()> {
    s.delete("daemonsets", "agent", "Orphan").await?;
    s.until_gone("daemonsets", "agent").await?;
    let is_orphan = |object: &Value| object["metadata"]["ownerReferences"].is_null();
    s.until_all("pods", "be orphans", |pods| pods.len() == 2 && pods.iter().all(is_orphan)).await?;
    s.until_all("controllerrevisions", "be orphans", |all| !all.is_empty() && all.iter().all(is_orphan)).await?;
    Ok(())
}

async fn again(s: &Stage) -> Result<()> {
    start(s, "again").await?;
    orphan(s).await?;
    let kept = s.list("pods").await?;
    s.create("daemonsets", &agent("again")).await?;
    rolled_out(s, 2).await?;
    let pods = s.list("pods").await?;
    let is_kept = |pod: &&Value| kept.iter().any(|old| old["metadata"]["uid"] == pod["metadata"]["uid"]);
    s.observe("Pods that were kept", &json!(pods.iter().filter(is_kept).count()));
    observe_revisions(s, "revisions").await
}

async fn again_changed(s: &Stage) -> Result<()> {
    start(s, "changed").await?;
    orphan(s).await?;
    let mut agent = agent("changed");
    agent["spec"]["template"]["spec"]["containers"][0]["image"] = json!("image:2");
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 2).await?;
    set_image(s, "image:1").await?;
    rolled_out(s, 2).await?;
    observe_revisions(s, "revisions").await
}
