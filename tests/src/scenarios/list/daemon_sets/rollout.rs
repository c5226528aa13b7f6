//! Changes of the template.

use anyhow::Result;
use serde_json::json;

use super::{
    BROKEN, agent, count, create_nodes, image_of, is_observed, name_of, observe_nodes, observe_revisions, pinned_to,
    report, rolled_out, rolling_agent, run_until, scenario, set_image,
};
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("a DaemonSet is updated with one Node unavailable", |s| {
        Box::pin(update(s, "unavailable", json!(0), json!(1)))
    }),
    scenario("a DaemonSet is updated with half of its Nodes unavailable", |s| {
        Box::pin(update(s, "half", json!(0), json!("50%")))
    }),
    scenario("a DaemonSet is updated with a surge of one", |s| Box::pin(update(s, "surge", json!(1), json!(0)))),
    scenario("a DaemonSet is updated with a surge of all", |s| {
        Box::pin(update(s, "surge-all", json!("100%"), json!(0)))
    }),
    scenario("a DaemonSet with OnDelete is updated Pod by Pod by its user", |s| Box::pin(on_delete(s)))
        .meddles_with_pods(),
    scenario("a DaemonSet is rolled back to a revision that gets a new number", |s| Box::pin(rollback(s))),
    scenario("a DaemonSet keeps as much history as it says", |s| Box::pin(history(s))),
    scenario("a DaemonSet that waits for minReadySeconds is updated", |s| Box::pin(slow(s))),
    scenario("a DaemonSet whose minReadySeconds change keeps its Pods and its revision", |s| Box::pin(min_ready(s))),
    scenario("a DaemonSet update with a broken image stops at the limit", |s| Box::pin(stuck(s))).meddles_with_pods(),
    scenario("a DaemonSet update with a broken image is undone", |s| Box::pin(undone(s))).meddles_with_pods(),
    scenario("a DaemonSet update with a surge and a broken image keeps the old Pod", |s| Box::pin(stuck_surge(s))),
    scenario("a DaemonSet whose template loses a toleration leaves a Node by a surge", |s| Box::pin(moves(s))),
];

async fn update(s: &Stage, scenario: &str, surge: serde_json::Value, unavailable: serde_json::Value) -> Result<()> {
    create_nodes(s, scenario, &["a", "b", "c"]).await?;
    s.create("daemonsets", &rolling_agent(scenario, surge, unavailable)).await?;
    rolled_out(s, 3).await?;
    set_image(s, "image:2").await?;
    rolled_out(s, 3).await?;
    observe_revisions(s, "revisions").await
}

async fn on_delete(s: &Stage) -> Result<()> {
    create_nodes(s, "on-delete", &["a", "b"]).await?;
    let mut agent = agent("on-delete");
    agent["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 2).await?;
    set_image(s, "image:2").await?;
    run_until(s, "know the change", |agent, _| is_observed(agent) && count(agent, "updatedNumberScheduled") == 0)
        .await?;
    for n in 1..=2 {
        let pods = s.list("pods").await?;
        let old = pods.iter().filter(|pod| image_of(pod) == "image:1").min_by_key(|pod| pinned_to(pod));
        let old = old.map(name_of).unwrap_or_default().to_owned();
        s.delete("pods", &old, "Background").await?;
        run_until(s, "replace the Pod", |agent, pods| {
            count(agent, "updatedNumberScheduled") == n && count(agent, "numberAvailable") == 2 && pods.len() == 2
        })
        .await?;
    }
    Ok(())
}

async fn rollback(s: &Stage) -> Result<()> {
    create_nodes(s, "rollback", &["a", "b"]).await?;
    s.create("daemonsets", &agent("rollback")).await?;
    rolled_out(s, 2).await?;
    set_image(s, "image:2").await?;
    rolled_out(s, 2).await?;
    observe_revisions(s, "before").await?;
    s.undo("daemonsets", "agent", None).await?;
    rolled_out(s, 2).await?;
    observe_revisions(s, "after").await
}

async fn history(s: &Stage) -> Result<()> {
    create_nodes(s, "history", &["a"]).await?;
    let mut agent = agent("history");
    agent["spec"]["revisionHistoryLimit"] = json!(1);
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 1).await?;
    for image in ["image:2", "image:3", "image:4"] {
        set_image(s, image).await?;
        rolled_out(s, 1).await?;
    }
    s.until_all("controllerrevisions", "be two", |revisions| revisions.len() == 2).await?;
    observe_revisions(s, "kept").await
}

async fn slow(s: &Stage) -> Result<()> {
    create_nodes(s, "slow", &["a", "b"]).await?;
    let mut agent = agent("slow");
    agent["spec"]["minReadySeconds"] = json!(2);
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 2).await?;
    set_image(s, "image:2").await?;
    rolled_out(s, 2).await
}

async fn min_ready(s: &Stage) -> Result<()> {
    create_nodes(s, "min-ready", &["a", "b"]).await?;
    s.create("daemonsets", &agent("min-ready")).await?;
    rolled_out(s, 2).await?;
    s.patch("daemonsets", "agent", &json!({"spec": {"minReadySeconds": 100_000}})).await?;
    run_until(s, "not be available", |agent, _| {
        is_observed(agent) && count(agent, "numberReady") == 2 && count(agent, "numberUnavailable") == 2
    })
    .await?;
    s.patch("daemonsets", "agent", &json!({"spec": {"minReadySeconds": 1}})).await?;
    rolled_out(s, 2).await?;
    observe_revisions(s, "revisions").await
}

/// Two Nodes, of which b has a Pod that is not ready: it is updated first, to a Pod that never becomes ready.
async fn get_stuck(s: &Stage, scenario: &str) -> Result<()> {
    create_nodes(s, scenario, &["a", "b"]).await?;
    s.create("daemonsets", &rolling_agent(scenario, json!(0), json!(1))).await?;
    rolled_out(s, 2).await?;
    let pods = s.list("pods").await?;
    let sick = pods.iter().find(|pod| pinned_to(pod) == "b").map(name_of).unwrap_or_default().to_owned();
    report(s, &sick, "Running", "False").await?;
    run_until(s, "see the Pod that is not ready", |agent, _| count(agent, "numberUnavailable") == 1).await?;
    set_image(s, BROKEN).await?;
    run_until(s, "be stuck", |agent, pods| {
        let is_broken = |node: &str| pods.iter().any(|pod| pinned_to(pod) == node && image_of(pod) == BROKEN);
        is_observed(agent)
            && count(agent, "updatedNumberScheduled") == 1
            && count(agent, "numberAvailable") == 1
            && is_broken("b")
            && pods.len() == 2
    })
    .await
}

async fn stuck(s: &Stage) -> Result<()> {
    get_stuck(s, "stuck").await?;
    observe_nodes(s, "Pods").await
}

async fn undone(s: &Stage) -> Result<()> {
    get_stuck(s, "undone").await?;
    s.undo("daemonsets", "agent", None).await?;
    rolled_out(s, 2).await?;
    observe_revisions(s, "revisions").await
}

async fn stuck_surge(s: &Stage) -> Result<()> {
    create_nodes(s, "stuck-surge", &["a"]).await?;
    let mut agent = rolling_agent("stuck-surge", json!(1), json!(0));
    // Of two Pods on a Node, the status counts one by the second in which it was created.
    agent["spec"]["minReadySeconds"] = json!(1);
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 1).await?;
    set_image(s, BROKEN).await?;
    run_until(s, "have both Pods", |agent, pods| is_observed(agent) && pods.len() == 2).await?;
    observe_nodes(s, "Pods").await
}

/// The Pod on the Node that no longer fits goes only when the others are available.
async fn moves(s: &Stage) -> Result<()> {
    create_nodes(s, "moves", &["a", "b"]).await?;
    super::set_taints(s, "moves", "b", json!([{"key": "example.com/dedicated", "effect": "NoSchedule"}])).await?;
    let mut agent = rolling_agent("moves", json!(1), json!(0));
    agent["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "example.com/dedicated", "operator": "Exists"}]);
    s.create("daemonsets", &agent).await?;
    rolled_out(s, 2).await?;
    s.patch("daemonsets", "agent", &json!({"spec": {"template": {"spec": {"tolerations": null}}}})).await?;
    rolled_out(s, 1).await?;
    observe_nodes(s, "left").await
}
