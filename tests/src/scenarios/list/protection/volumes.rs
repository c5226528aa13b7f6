//! PersistentVolumes.

use anyhow::Result;
use serde_json::json;

use super::{HOLD, delete, observe_kept, patch, patch_status, until_finalizers};
use crate::scenarios::Scenario;
use crate::scenarios::list::until_gone;
use crate::scenarios::stage::Stage;

const FINALIZER: &str = "kubernetes.io/pv-protection";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a volume that is not bound goes at once", |s| Box::pin(unbound(s))),
    Scenario::new("a volume that is bound goes when it is released", |s| Box::pin(bound(s))),
    Scenario::new("a volume that has lost its finalizer gets it again", |s| Box::pin(restored(s))),
    Scenario::new("a volume that another finalizer holds loses only the one of its protection", |s| Box::pin(held(s))),
];

fn path(s: &Stage, name: &str) -> String {
    format!("/api/v1/persistentvolumes/{}-{name}", s.ns)
}

async fn volume(s: &Stage, name: &str) -> Result<()> {
    let volume = json!({"metadata": {"name": format!("{}-{name}", s.ns)}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/none"},
    }});
    s.client.create("/api/v1/persistentvolumes", &volume).await?;
    until_finalizers(s, &path(s, name), &[FINALIZER]).await
}

/// Another volume comes and goes, so that the controller has looked at those before it.
async fn look(s: &Stage) -> Result<()> {
    volume(s, "marker").await?;
    delete(s, &path(s, "marker")).await?;
    until_gone(s, &path(s, "marker")).await
}

async fn unbound(s: &Stage) -> Result<()> {
    for (name, phase) in [("pending", "Pending"), ("available", "Available"), ("failed", "Failed")] {
        volume(s, name).await?;
        patch_status(s, &path(s, name), &json!({"phase": phase})).await?;
        delete(s, &path(s, name)).await?;
        until_gone(s, &path(s, name)).await?;
    }
    Ok(())
}

async fn bound(s: &Stage) -> Result<()> {
    volume(s, "data").await?;
    patch_status(s, &path(s, "data"), &json!({"phase": "Bound"})).await?;
    delete(s, &path(s, "data")).await?;
    look(s).await?;
    observe_kept(s, "while it is bound", &path(s, "data")).await?;
    patch_status(s, &path(s, "data"), &json!({"phase": "Released"})).await?;
    until_gone(s, &path(s, "data")).await
}

async fn restored(s: &Stage) -> Result<()> {
    volume(s, "data").await?;
    patch_status(s, &path(s, "data"), &json!({"phase": "Bound"})).await?;
    patch(s, &path(s, "data"), &json!({"metadata": {"finalizers": null}})).await?;
    until_finalizers(s, &path(s, "data"), &[FINALIZER]).await?;
    patch_status(s, &path(s, "data"), &json!({"phase": "Released"})).await?;
    delete(s, &path(s, "data")).await?;
    until_gone(s, &path(s, "data")).await
}

async fn held(s: &Stage) -> Result<()> {
    volume(s, "data").await?;
    patch(s, &path(s, "data"), &json!({"metadata": {"finalizers": [FINALIZER, HOLD]}})).await?;
    delete(s, &path(s, "data")).await?;
    until_finalizers(s, &path(s, "data"), &[HOLD]).await?;
    look(s).await?;
    observe_kept(s, "while another finalizer holds it", &path(s, "data")).await?;
    patch(s, &path(s, "data"), &json!({"metadata": {"finalizers": null}})).await?;
    until_gone(s, &path(s, "data")).await
}
