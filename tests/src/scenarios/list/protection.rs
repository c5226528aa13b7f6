//! What keeps volumes, claims and classes that are being deleted. Neither volumes are bound nor provisioned: the scenarios write what
//! would be.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Group, HOLD, delete, until_finalizers};
use crate::api::PatchKind;
use crate::scenarios::stage::Stage;

mod claims;
mod classes;
mod groups;
mod volumes;

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[
    (&["persistentvolumeclaim-protection-controller"], &[claims::SCENARIOS]),
    (&["persistentvolume-protection-controller"], &[volumes::SCENARIOS]),
    (&["volumeattributesclass-protection-controller"], &[classes::SCENARIOS]),
    (&["podgroup-protection-controller"], &[groups::SCENARIOS]),
];

async fn patch(s: &Stage, path: &str, patch: &Value) -> Result<()> {
    s.client.patch(path, PatchKind::Merge, patch).await.map(drop)
}

async fn patch_status(s: &Stage, path: &str, status: &Value) -> Result<()> {
    patch(s, &format!("{path}/status"), &json!({"status": status})).await
}

/// Notes what keeps an object that is being deleted.
async fn observe_kept(s: &Stage, when: &str, path: &str) -> Result<()> {
    let object = s.client.get(path).await?;
    ensure!(!object["metadata"]["deletionTimestamp"].is_null(), "{path} is not being deleted");
    s.observe(when, &object["metadata"]["finalizers"]);
    Ok(())
}
