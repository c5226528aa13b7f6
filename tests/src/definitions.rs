//! Kinds that tests define.

use anyhow::{Context, Result};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::objects::has_condition;
use crate::{ApiClient, PATIENCE, eventually, workspace_dir};

/// The path of all definitions.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Creates a CustomResourceDefinition, unless it exists, and waits until objects of its first version can be listed.
///
/// # Errors
/// The API server refuses, or does not serve the kind in time.
pub async fn define(client: &ApiClient, definition: &Value) -> Result<()> {
    let name = definition["metadata"]["name"].as_str().context("a definition without a name")?;
    let path = format!("{DEFINITIONS}/{name}");
    if client.find(&path).await?.is_none()
        && let Err(error) = client.create(DEFINITIONS, definition).await
    {
        // Somebody else may have been faster.
        client.find(&path).await?.with_context(|| format!("{error:#}"))?;
    }
    eventually(PATIENCE, format!("{name} to be established"), async || {
        Ok(has_condition(&client.get(&path).await?, "Established", "True").then_some(()))
    })
    .await?;
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned).with_context(|| format!("{name} is not complete"));
    let (group, version) = (text(&spec["group"])?, text(&spec["versions"][0]["name"])?);
    let collection = format!("/apis/{group}/{version}/{}", text(&spec["names"]["plural"])?);
    // The API server refuses with 429 until its cache of a new kind is ready.
    eventually(PATIENCE, format!("{collection} to be served"), async || {
        client.list(&collection).await.map(|_| Some(()))
    })
    .await
}

/// Defines the kinds of a file of this workspace, as [`define`] does.
///
/// # Errors
/// As [`define`]; or the file cannot be read.
pub async fn define_all(client: &ApiClient, file: &str) -> Result<()> {
    let text = std::fs::read_to_string(workspace_dir().join(file)).with_context(|| format!("read {file}"))?;
    for document in serde_norway::Deserializer::from_str(&text) {
        define(client, &Value::deserialize(document)?).await?;
    }
    Ok(())
}

/// The metrics API of Pods as a CustomResourceDefinition: what each Pod uses is an object of its name.
///
/// # Errors
/// As [`define`].
pub async fn define_metrics(client: &ApiClient) -> Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, testing"},
        },
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    });
    define(client, &definition).await
}
