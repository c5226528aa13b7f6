//! PodGroups. Their API and their controller are off by a feature gate.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{HOLD, delete, observe_kept, patch, until_finalizers};
use crate::scenarios::Scenario;
use crate::scenarios::list::until_gone;
use crate::scenarios::stage::{Stage, pod};

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

const NO_API: &str = "it does not serve scheduling.k8s.io/v1beta1";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a PodGroup without Pods goes at once", |s| Box::pin(unused(s))).gated().only_real(NO_API),
    Scenario::new("a PodGroup whose Pods run goes after the last one of them", |s| Box::pin(used(s)))
        .meddles_with_pods()
        .gated()
        .only_real(NO_API),
    Scenario::new("a PodGroup goes once each of its Pods has succeeded or failed", |s| Box::pin(ended(s)))
        .meddles_with_pods()
        .gated()
        .only_real(NO_API),
    Scenario::new("a PodGroup waits for a Pod that is not scheduled", |s| Box::pin(unscheduled(s)))
        .meddles_with_pods()
        .gated()
        .only_real(NO_API),
    Scenario::new("a PodGroup that another finalizer holds loses its own and no other", |s| Box::pin(held(s)))
        .gated()
        .only_real(NO_API),
    Scenario::new("a PodGroup that has lost its finalizer does not get it again", |s| Box::pin(lost(s)))
        .gated()
        .only_real(NO_API),
];

fn path(s: &Stage, name: &str) -> String {
    format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups/{name}", s.ns)
}

/// A PodGroup, which the API server gives its finalizer.
async fn group(s: &Stage, name: &str) -> Result<()> {
    let object = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    });
    let path = path(s, name);
    let (collection, _) = path.rsplit_once('/').context("no collection")?;
    s.client.create(collection, &object).await?;
    until_finalizers(s, &path, &[FINALIZER]).await
}

/// A Pod of a group.
fn member(name: &str, group: &str) -> Value {
    let mut member = pod(name, "none");
    member["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    member
}

/// Creates a Pod that ends with this exit code.
async fn ends(s: &Stage, name: &str, group: &str, code: u32) -> Result<()> {
    let mut member = member(name, group);
    member["metadata"]["annotations"] =
        json!({"sim.pintle.dev/complete-after": "1ms", "sim.pintle.dev/exit-code": code.to_string()});
    member["spec"]["restartPolicy"] = json!("Never");
    s.create("pods", &member).await?;
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    s.until("pods", name, &format!("be {phase}"), |pod| pod["status"]["phase"] == phase).await
}

/// Another group comes and goes, so that the controller has looked at those before it.
async fn look(s: &Stage) -> Result<()> {
    group(s, "marker").await?;
    delete(s, &path(s, "marker")).await?;
    until_gone(s, &path(s, "marker")).await
}

async fn unused(s: &Stage) -> Result<()> {
    for name in ["a", "b"] {
        group(s, name).await?;
    }
    s.create("pods", &member("other", "b")).await?;
    s.until("pods", "other", "run", |pod| pod["status"]["phase"] == "Running").await?;
    delete(s, &path(s, "a")).await?;
    until_gone(s, &path(s, "a")).await?;
    until_finalizers(s, &path(s, "b"), &[FINALIZER]).await
}

async fn used(s: &Stage) -> Result<()> {
    group(s, "a").await?;
    for name in ["first", "last"] {
        s.create("pods", &member(name, "a")).await?;
        s.until("pods", name, "run", |pod| pod["status"]["phase"] == "Running").await?;
    }
    delete(s, &path(s, "a")).await?;
    look(s).await?;
    observe_kept(s, "while both Pods run", &path(s, "a")).await?;
    s.delete("pods", "first", "Background").await?;
    s.until_gone("pods", "first").await?;
    look(s).await?;
    observe_kept(s, "while the last Pod runs", &path(s, "a")).await?;
    s.delete("pods", "last", "Background").await?;
    until_gone(s, &path(s, "a")).await
}

async fn ended(s: &Stage) -> Result<()> {
    group(s, "a").await?;
    s.create("pods", &member("long", "a")).await?;
    s.until("pods", "long", "run", |pod| pod["status"]["phase"] == "Running").await?;
    ends(s, "good", "a", 0).await?;
    ends(s, "bad", "a", 1).await?;
    delete(s, &path(s, "a")).await?;
    look(s).await?;
    observe_kept(s, "while one Pod runs", &path(s, "a")).await?;
    s.delete("pods", "long", "Background").await?;
    until_gone(s, &path(s, "a")).await
}

async fn unscheduled(s: &Stage) -> Result<()> {
    group(s, "a").await?;
    let mut waiting = member("waiting", "a");
    waiting["spec"]["schedulerName"] = json!("nobody");
    s.create("pods", &waiting).await?;
    // It keeps no other group.
    group(s, "b").await?;
    delete(s, &path(s, "b")).await?;
    until_gone(s, &path(s, "b")).await?;
    delete(s, &path(s, "a")).await?;
    look(s).await?;
    observe_kept(s, "while a Pod is not scheduled", &path(s, "a")).await?;
    s.delete("pods", "waiting", "Background").await?;
    until_gone(s, &path(s, "a")).await
}

async fn held(s: &Stage) -> Result<()> {
    group(s, "a").await?;
    patch(s, &path(s, "a"), &json!({"metadata": {"finalizers": [HOLD, FINALIZER]}})).await?;
    delete(s, &path(s, "a")).await?;
    until_finalizers(s, &path(s, "a"), &[HOLD]).await?;
    look(s).await?;
    observe_kept(s, "while another finalizer holds it", &path(s, "a")).await?;
    patch(s, &path(s, "a"), &json!({"metadata": {"finalizers": null}})).await?;
    until_gone(s, &path(s, "a")).await
}

async fn lost(s: &Stage) -> Result<()> {
    group(s, "a").await?;
    s.create("pods", &member("user", "a")).await?;
    s.until("pods", "user", "run", |pod| pod["status"]["phase"] == "Running").await?;
    patch(s, &path(s, "a"), &json!({"metadata": {"finalizers": null, "labels": {"seen": "once"}}})).await?;
    look(s).await?;
    until_finalizers(s, &path(s, "a"), &[]).await?;
    delete(s, &path(s, "a")).await?;
    until_gone(s, &path(s, "a")).await
}
