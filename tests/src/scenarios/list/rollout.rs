//! Rolling updates, Recreate, deadlines.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Group, MANY_AT_ONCE, STEPS};
use crate::objects::is_observed;
use crate::scenarios::stage::{Stage, deployment};
use crate::scenarios::{Chance, Scenario};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["deployment-controller", "replicaset-controller"], &[SCENARIOS])];

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a rolling update with surge 1 and nothing unavailable", |s| {
        Box::pin(rolling(s, json!(1), json!(0)))
    })
    .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rolling update with no surge and 1 unavailable", |s| Box::pin(rolling(s, json!(0), json!(1))))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rolling update with surge and unavailable of a quarter", |s| {
        Box::pin(rolling(s, json!("25%"), json!("25%")))
    })
    .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rolling update with surge of all", |s| Box::pin(rolling(s, json!("100%"), json!(0))))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rolling update with all unavailable", |s| Box::pin(rolling(s, json!(0), json!("100%"))))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rolling update with surge 2 and 1 unavailable", |s| Box::pin(rolling(s, json!(2), json!(1))))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rolling update with percentages that round to nothing", |s| {
        Box::pin(rolling(s, json!(0), json!("10%")))
    })
    .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a recreated Deployment has no Pods of two revisions", |s| Box::pin(recreate(s))).leaves(
        Chance { order: true, ..Chance::NONE },
        "new Pods may be available before or after the status that says that all old ones are gone",
    ),
    Scenario::new("a rollout that makes no progress says so", |s| Box::pin(deadline(s, false))),
    Scenario::new("a rollout that goes on after its deadline completes", |s| Box::pin(deadline(s, true)))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a stuck rollout keeps what is available", |s| Box::pin(stuck(s))),
    Scenario::new("a stuck rollout is scaled up in proportion", |s| Box::pin(proportional(s, 12))),
    Scenario::new("a stuck rollout is scaled down in proportion", |s| Box::pin(proportional(s, 5))),
    Scenario::new("a rollout is overtaken by the next", |s| Box::pin(rollover(s))).leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a stuck rollout is undone", |s| Box::pin(stuck_undone(s))).leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rollout restarts by an annotation of the template", |s| Box::pin(restart(s)))
        .leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("a rolling update waits for minReadySeconds", |s| Box::pin(slow(s))).leaves(STEPS, MANY_AT_ONCE),
    Scenario::new("unhealthy old Pods go first", |s| Box::pin(unhealthy_first(s))).leaves(STEPS, MANY_AT_ONCE),
];

/// An annotation of a template by which the nodes never call its Pods ready.
fn never_ready() -> Value {
    json!({"sim.pintle.dev/never-ready": "true"})
}

fn rolling_strategy(surge: &Value, unavailable: &Value) -> Value {
    json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
}

async fn rolling(s: &Stage, surge: Value, unavailable: Value) -> Result<()> {
    let spec = rolling_strategy(&surge, &unavailable);
    s.create("deployments", &deployment("web", 4, spec)).await?;
    s.rolled_out("web").await?;
    s.set_image("web", "image:2").await?;
    s.rolled_out("web").await?;
    all_of_image(s, 4, "image:2").await
}

async fn all_of_image(s: &Stage, n: usize, image: &str) -> Result<()> {
    s.until_all("pods", &format!("be {n} of {image}"), |pods| {
        pods.len() == n && pods.iter().all(|p| p["spec"]["containers"][0]["image"] == image)
    })
    .await?;
    Ok(())
}

async fn recreate(s: &Stage) -> Result<()> {
    let spec = json!({"strategy": {"type": "Recreate"}});
    s.create("deployments", &deployment("web", 3, spec)).await?;
    s.rolled_out("web").await?;
    s.set_image("web", "image:2").await?;
    s.rolled_out("web").await?;
    all_of_image(s, 3, "image:2").await?;
    // The new ReplicaSet may make a Pod only after the last old one has gone.
    let pods = s.list("pods").await?;
    ensure!(pods.len() == 3, "{} Pods", pods.len());
    Ok(())
}

async fn deadline(s: &Stage, goes_on: bool) -> Result<()> {
    // Long enough for each step of a busy machine to be progress.
    let mut web = deployment("web", 2, json!({"progressDeadlineSeconds": 15}));
    web["spec"]["template"]["metadata"]["annotations"] = never_ready();
    s.create("deployments", &web).await?;
    s.condition("web", "Progressing", "False", "ProgressDeadlineExceeded").await?;
    if goes_on {
        s.annotate_template("web", &json!({"sim.pintle.dev/never-ready": null})).await?;
        s.rolled_out("web").await?;
        all_of_image(s, 2, "image:1").await?;
    }
    Ok(())
}

/// Four good Pods, then a template whose Pods never become ready.
async fn get_stuck(s: &Stage, spec: Value) -> Result<()> {
    s.create("deployments", &deployment("web", 4, spec)).await?;
    s.rolled_out("web").await?;
    let template = json!({
        "metadata": {"annotations": never_ready()},
        "spec": {"containers": [{"name": "c", "image": "image:2"}]},
    });
    s.patch("deployments", "web", &json!({"spec": {"template": template}})).await?;
    // One more than wanted by surge, one less available: three old ones and two new ones.
    until_stuck(s, 5, 2).await
}

/// Waits until there are `n` Pods, `n_new` of them of the new template, none more to come.
async fn until_stuck(s: &Stage, n: u64, n_new: u64) -> Result<()> {
    s.until("deployments", "web", &format!("be stuck with {n_new} new Pods of {n}"), |d| {
        let status = &d["status"];
        is_observed(d)
            && status["replicas"] == n
            && status["updatedReplicas"] == n_new
            && status["readyReplicas"] == n - n_new
    })
    .await?;
    s.until_all("pods", "be as many", |pods| pods.len() as u64 == n).await?;
    Ok(())
}

async fn stuck(s: &Stage) -> Result<()> {
    get_stuck(s, rolling_strategy(&json!(1), &json!(1))).await
}

async fn proportional(s: &Stage, to: u32) -> Result<()> {
    get_stuck(s, rolling_strategy(&json!(1), &json!(1))).await?;
    s.scale("deployments", "web", to).await?;
    s.until("deployments", "web", "be scaled", |d| is_observed(d) && d["status"]["replicas"] == u64::from(to) + 1)
        .await?;
    s.until_all("pods", "be as many", |pods| pods.len() == to as usize + 1).await?;
    Ok(())
}

async fn rollover(s: &Stage) -> Result<()> {
    get_stuck(s, rolling_strategy(&json!(1), &json!(1))).await?;
    let template = json!({
        "metadata": {"annotations": {"sim.pintle.dev/never-ready": null}},
        "spec": {"containers": [{"name": "c", "image": "image:3"}]},
    });
    s.patch("deployments", "web", &json!({"spec": {"template": template}})).await?;
    s.rolled_out("web").await?;
    all_of_image(s, 4, "image:3").await
}

async fn stuck_undone(s: &Stage) -> Result<()> {
    get_stuck(s, rolling_strategy(&json!(1), &json!(1))).await?;
    s.undo("deployments", "web", None).await?;
    s.rolled_out("web").await?;
    all_of_image(s, 4, "image:1").await
}

async fn restart(s: &Stage) -> Result<()> {
    s.create("deployments", &deployment("web", 3, json!({}))).await?;
    s.rolled_out("web").await?;
    s.annotate_template("web", &json!({"restarted": "1"})).await?;
    s.rolled_out("web").await?;
    s.until_all("pods", "be three", |pods| pods.len() == 3).await?;
    Ok(())
}

async fn slow(s: &Stage) -> Result<()> {
    let mut spec = rolling_strategy(&json!(1), &json!(0));
    spec["minReadySeconds"] = json!(1);
    s.create("deployments", &deployment("web", 2, spec)).await?;
    s.rolled_out("web").await?;
    s.set_image("web", "image:2").await?;
    s.rolled_out("web").await?;
    all_of_image(s, 2, "image:2").await
}

async fn unhealthy_first(s: &Stage) -> Result<()> {
    let mut web = deployment("web", 3, rolling_strategy(&json!(0), &json!(1)));
    web["spec"]["template"]["metadata"]["annotations"] = never_ready();
    s.create("deployments", &web).await?;
    s.until("deployments", "web", "have three Pods", |d| d["status"]["replicas"] == 3).await?;
    s.until_all("pods", "be three", |pods| pods.len() == 3).await?;
    let template = json!({
        "metadata": {"annotations": {"sim.pintle.dev/never-ready": null}},
        "spec": {"containers": [{"name": "c", "image": "image:2"}]},
    });
    s.patch("deployments", "web", &json!({"spec": {"template": template}})).await?;
    s.rolled_out("web").await?;
    all_of_image(s, 3, "image:2").await
}
