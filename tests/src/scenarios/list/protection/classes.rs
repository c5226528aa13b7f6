//! VolumeAttributesClasses.

use anyhow::Result;
use serde_json::json;

use super::{HOLD, delete, observe_kept, patch, patch_status, until_finalizers};
use crate::scenarios::Scenario;
use crate::scenarios::list::until_gone;
use crate::scenarios::stage::Stage;

const FINALIZER: &str = "kubernetes.io/vac-protection";
const CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a class of volume attributes that nothing names goes at once", |s| Box::pin(unused(s))),
    Scenario::new("a class of volume attributes goes after the volume that names it", |s| Box::pin(of_volume(s))),
    Scenario::new("a class of volume attributes goes after the claim that names it", |s| Box::pin(of_claim(s))),
    Scenario::new("a class of volume attributes stays while a claim has it or changes to it", |s| Box::pin(changed(s))),
    Scenario::new("a class of volume attributes that has lost its finalizer gets it again", |s| Box::pin(restored(s))),
];

fn name(s: &Stage, name: &str) -> String {
    format!("{}-{name}", s.ns)
}

fn path(s: &Stage, class: &str) -> String {
    format!("{CLASSES}/{}", name(s, class))
}

async fn class(s: &Stage, class: &str) -> Result<()> {
    let object = json!({"metadata": {"name": name(s, class)}, "driverName": "driver.example.com",
        "parameters": {"iops": "100"}});
    s.client.create(CLASSES, &object).await?;
    until_finalizers(s, &path(s, class), &[FINALIZER]).await
}

async fn claim(s: &Stage, class: &str) -> Result<String> {
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none",
        "volumeAttributesClassName": name(s, class), "volumeName": "none",
    }});
    s.create("persistentvolumeclaims", &claim).await?;
    Ok(s.one("persistentvolumeclaims", "data"))
}

/// Another class comes and goes, so that the controller has looked at those before it.
async fn look(s: &Stage) -> Result<()> {
    class(s, "marker").await?;
    delete(s, &path(s, "marker")).await?;
    until_gone(s, &path(s, "marker")).await
}

async fn unused(s: &Stage) -> Result<()> {
    class(s, "gold").await?;
    class(s, "silver").await?;
    claim(s, "silver").await?;
    delete(s, &path(s, "gold")).await?;
    until_gone(s, &path(s, "gold")).await?;
    until_finalizers(s, &path(s, "silver"), &[FINALIZER]).await
}

async fn of_volume(s: &Stage) -> Result<()> {
    class(s, "gold").await?;
    let volume = json!({"metadata": {"name": name(s, "volume")}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "persistentVolumeReclaimPolicy": "Retain", "volumeAttributesClassName": name(s, "gold"),
        "csi": {"driver": "driver.example.com", "volumeHandle": "none"},
    }});
    s.client.create("/api/v1/persistentvolumes", &volume).await?;
    delete(s, &path(s, "gold")).await?;
    look(s).await?;
    observe_kept(s, "while a volume names it", &path(s, "gold")).await?;
    delete(s, &format!("/api/v1/persistentvolumes/{}", name(s, "volume"))).await?;
    until_gone(s, &path(s, "gold")).await
}

async fn of_claim(s: &Stage) -> Result<()> {
    class(s, "gold").await?;
    let claim = claim(s, "gold").await?;
    delete(s, &path(s, "gold")).await?;
    look(s).await?;
    observe_kept(s, "while a claim names it", &path(s, "gold")).await?;
    delete(s, &claim).await?;
    until_gone(s, &path(s, "gold")).await
}

async fn changed(s: &Stage) -> Result<()> {
    class(s, "gold").await?;
    class(s, "silver").await?;
    let claim = claim(s, "gold").await?;
    let target = json!({"targetVolumeAttributesClassName": name(s, "gold"), "status": "InProgress"});
    let has =
        json!({"phase": "Bound", "currentVolumeAttributesClassName": name(s, "gold"), "modifyVolumeStatus": target});
    patch_status(s, &claim, &has).await?;
    delete(s, &path(s, "gold")).await?;
    patch(s, &claim, &json!({"spec": {"volumeAttributesClassName": name(s, "silver")}})).await?;
    look(s).await?;
    observe_kept(s, "while the claim has it and changes to it", &path(s, "gold")).await?;
    patch_status(s, &claim, &json!({"modifyVolumeStatus": null})).await?;
    look(s).await?;
    observe_kept(s, "while the claim has it", &path(s, "gold")).await?;
    patch_status(s, &claim, &json!({"currentVolumeAttributesClassName": name(s, "silver")})).await?;
    until_gone(s, &path(s, "gold")).await?;
    until_finalizers(s, &path(s, "silver"), &[FINALIZER]).await
}

async fn restored(s: &Stage) -> Result<()> {
    class(s, "gold").await?;
    patch(s, &path(s, "gold"), &json!({"metadata": {"finalizers": [HOLD]}})).await?;
    until_finalizers(s, &path(s, "gold"), &[HOLD, FINALIZER]).await?;
    delete(s, &path(s, "gold")).await?;
    until_finalizers(s, &path(s, "gold"), &[HOLD]).await?;
    look(s).await?;
    observe_kept(s, "while another finalizer holds it", &path(s, "gold")).await?;
    patch(s, &path(s, "gold"), &json!({"metadata": {"finalizers": null}})).await?;
    until_gone(s, &path(s, "gold")).await
}
