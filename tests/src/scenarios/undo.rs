//! What `kubectl rollout undo` sends.
//!
//! Source: `k8s.io/kubectl/pkg/polymorphichelpers/rollback.go`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::stage::Stage;
use crate::api::PatchKind;

/// Annotations that stay those of the Deployment.
const KEPT: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
];

/// Rolls an object back.
pub(super) async fn undo(s: &Stage, plural: &str, name: &str, to: Option<u64>) -> Result<()> {
    let object = s.get(plural, name).await?;
    let path = s.one(plural, name);
    if plural != "deployments" {
        let revisions = revisions(s, "controllerrevisions", &object, |of| of["revision"].as_u64()).await?;
        let data = &chosen(&revisions, to)?["data"];
        return s.client.patch(&path, PatchKind::StrategicMerge, data).await.map(drop);
    }
    let number = |set: &Value| set["metadata"]["annotations"][KEPT[1]].as_str()?.parse().ok();
    let sets = revisions(s, "replicasets", &object, number).await?;
    let set = chosen(&sets, to)?;
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    let annotations = |of: &Value, is_kept: bool| {
        let mut all = of["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        all.retain(|name, _| KEPT.contains(&name.as_str()) == is_kept);
        all
    };
    let annotations: Map<String, Value> =
        annotations(&object, true).into_iter().chain(annotations(set, false)).collect();
    let patch = json!([
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]);
    s.client.patch(&path, PatchKind::Json, &patch).await.map(drop)
}

/// The objects of an owner that have a revision, by it.
async fn revisions(
    s: &Stage,
    plural: &str,
    owner: &Value,
    number: impl Fn(&Value) -> Option<u64>,
) -> Result<BTreeMap<u64, Value>> {
    let uid = &owner["metadata"]["uid"];
    let is_owned = |object: &Value| {
        object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|of| of["uid"] == *uid)
    };
    let all = s.list(plural).await?.into_iter().filter(is_owned);
    Ok(all.filter_map(|object| Some((number(&object)?, object))).collect())
}

/// The revision of this number, or the one before the last.
fn chosen(revisions: &BTreeMap<u64, Value>, to: Option<u64>) -> Result<&Value> {
    match to {
        Some(number) => revisions.get(&number),
        None => revisions.values().rev().nth(1),
    }
    .context("there is no such revision")
}
