//! PersistentVolumeClaims.

use anyhow::Result;
use serde_json::{Value, json};

use super::{HOLD, delete, observe_kept, patch, until_finalizers};
use crate::scenarios::Scenario;
use crate::scenarios::list::until_gone;
use crate::scenarios::stage::{Stage, pod};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a claim that no Pod uses goes at once", |s| Box::pin(unused(s))),
    Scenario::new("a claim that a Pod uses goes after the Pod", |s| Box::pin(used(s))).meddles_with_pods(),
    Scenario::new("a claim of a Pod that has ended goes after the Pod", |s| Box::pin(ended(s))).meddles_with_pods(),
    Scenario::new("a claim of a Pod that is not scheduled goes at once", |s| Box::pin(unscheduled(s))),
    Scenario::new("a claim that has lost its finalizer gets it again", |s| Box::pin(restored(s))),
    Scenario::new("a claim of an ephemeral volume goes once its Pod is shut down", |s| Box::pin(ephemeral(s)))
        .meddles_with_pods(),
];

fn path(s: &Stage, name: &str) -> String {
    s.one("persistentvolumeclaims", name)
}

async fn claim(s: &Stage, name: &str) -> Result<()> {
    s.create("persistentvolumeclaims", &with_owner(name, &json!([]))).await?;
    until_finalizers(s, &path(s, name), &[FINALIZER]).await
}

fn with_owner(name: &str, owners: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none",
    }})
}

/// A Pod with a volume.
fn user(name: &str, volume: &Value) -> Value {
    let mut user = pod(name, "none");
    user["spec"]["volumes"] = json!([volume]);
    user
}

fn of_claim(name: &str) -> Value {
    json!({"name": "data", "persistentVolumeClaim": {"claimName": name}})
}

fn end_at_once(pod: &mut Value) {
    pod["metadata"]["annotations"] = json!({"sim.pintle.dev/complete-after": "1ms"});
    pod["spec"]["restartPolicy"] = json!("Never");
}

/// Another claim comes and goes, so that the controller has looked at those before it.
async fn look(s: &Stage) -> Result<()> {
    claim(s, "marker").await?;
    delete(s, &path(s, "marker")).await?;
    until_gone(s, &path(s, "marker")).await
}

async fn unused(s: &Stage) -> Result<()> {
    for name in ["a", "b", "c"] {
        claim(s, name).await?;
    }
    s.create("pods", &user("other", &of_claim("b"))).await?;
    s.until("pods", "other", "be scheduled", |pod| !pod["spec"]["nodeName"].is_null()).await?;
    for name in ["a", "c"] {
        delete(s, &path(s, name)).await?;
    }
    for name in ["a", "c"] {
        until_gone(s, &path(s, name)).await?;
    }
    until_finalizers(s, &path(s, "b"), &[FINALIZER]).await
}

async fn used(s: &Stage) -> Result<()> {
    claim(s, "data").await?;
    s.create("pods", &user("user", &of_claim("data"))).await?;
    s.until("pods", "user", "run", |pod| pod["status"]["phase"] == "Running").await?;
    delete(s, &path(s, "data")).await?;
    look(s).await?;
    observe_kept(s, "while the Pod runs", &path(s, "data")).await?;
    s.delete("pods", "user", "Background").await?;
    until_gone(s, &path(s, "data")).await
}

async fn ended(s: &Stage) -> Result<()> {
    claim(s, "data").await?;
    let mut user = user("user", &of_claim("data"));
    end_at_once(&mut user);
    s.create("pods", &user).await?;
    s.until("pods", "user", "end", |pod| pod["status"]["phase"] == "Succeeded").await?;
    delete(s, &path(s, "data")).await?;
    look(s).await?;
    observe_kept(s, "while the Pod is there", &path(s, "data")).await?;
    s.delete("pods", "user", "Background").await?;
    until_gone(s, &path(s, "data")).await
}

async fn unscheduled(s: &Stage) -> Result<()> {
    claim(s, "data").await?;
    let mut user = user("user", &of_claim("data"));
    user["spec"]["schedulerName"] = json!("nobody");
    s.create("pods", &user).await?;
    delete(s, &path(s, "data")).await?;
    until_gone(s, &path(s, "data")).await
}

async fn restored(s: &Stage) -> Result<()> {
    claim(s, "data").await?;
    patch(s, &path(s, "data"), &json!({"metadata": {"finalizers": [HOLD]}})).await?;
    until_finalizers(s, &path(s, "data"), &[HOLD, FINALIZER]).await?;
    delete(s, &path(s, "data")).await?;
    until_finalizers(s, &path(s, "data"), &[HOLD]).await?;
    // One that is being deleted does not get it again.
    look(s).await?;
    observe_kept(s, "while another finalizer holds it", &path(s, "data")).await?;
    patch(s, &path(s, "data"), &json!({"metadata": {"finalizers": null}})).await?;
    until_gone(s, &path(s, "data")).await
}

async fn ephemeral(s: &Stage) -> Result<()> {
    let spec = with_owner("", &json!([]))["spec"].take();
    let mut user = user("user", &json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}));
    user["metadata"]["finalizers"] = json!([HOLD]);
    end_at_once(&mut user);
    let uid = s.create("pods", &user).await?["metadata"]["uid"].take();
    s.until("pods", "user", "end", |pod| pod["status"]["phase"] == "Succeeded").await?;
    // Where the controller of ephemeral volumes runs, it makes the same claim.
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "user", "uid": uid,
        "controller": true, "blockOwnerDeletion": true}]);
    let made = s.create("persistentvolumeclaims", &with_owner("user-data", &owner)).await;
    let there = s.client.find(&path(s, "user-data")).await?;
    if there.is_none() {
        made?;
    }
    until_finalizers(s, &path(s, "user-data"), &[FINALIZER]).await?;
    delete(s, &path(s, "user-data")).await?;
    look(s).await?;
    observe_kept(s, "while the Pod is there", &path(s, "user-data")).await?;
    let at_once = json!({"gracePeriodSeconds": 0});
    s.client.delete(&s.one("pods", "user"), Some(&at_once)).await?;
    until_gone(s, &path(s, "user-data")).await?;
    s.until("pods", "user", "be there", |pod| !pod["metadata"]["deletionTimestamp"].is_null()).await?;
    s.patch("pods", "user", &json!({"metadata": {"finalizers": null}})).await?;
    s.until_gone("pods", "user").await
}
