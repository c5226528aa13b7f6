//! The kinds of `tests/webapp`, on a cluster, and when an application of theirs is ready.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{ApiClient, eventually, workspace_dir};

/// WebApps of the default namespace.
pub const WEBAPPS: &str = "/apis/example.com/v1/namespaces/default/webapps";
/// What they claim outside of the cluster.
pub const CLAIMS: &str = "/apis/example.com/v1/externalnames";

const PATIENCE: Duration = Duration::from_secs(300);

/// Defines WebApps and their claims, and waits until they are served.
///
/// # Errors
/// As [`define_kinds`].
pub async fn define(client: &ApiClient) -> Result<()> {
    define_kinds(client, "tests/webapp/crd.yaml", &[WEBAPPS, CLAIMS]).await
}

/// Defines the kinds of a file of this workspace, and waits until their objects can be listed at these paths.
///
/// # Errors
/// The API server refuses, or does not serve them in time.
pub async fn define_kinds(client: &ApiClient, file: &str, lists: &[&str]) -> Result<()> {
    let text = std::fs::read_to_string(workspace_dir().join(file))?;
    for document in serde_norway::Deserializer::from_str(&text) {
        let crd = Value::deserialize(document)?;
        let name = crd["metadata"]["name"].as_str().context("a CRD without a name")?;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        client.create(path, &crd).await?;
        eventually(PATIENCE, "the kind to be served", || async {
            let crd = client.get(&format!("{path}/{name}")).await?;
            Ok(condition(&crd, "Established").then_some(()))
        })
        .await?;
    }
    // Established is not yet stored: until then the answer is 429.
    for path in lists {
        eventually(PATIENCE, "the kind to be stored", || async { client.list(path).await.map(Some) }).await?;
    }
    Ok(())
}

fn condition(object: &Value, name: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|condition| condition["type"] == name).any(|condition| condition["status"] == "True")
}

/// Waits until what has been asked of a WebApp last is there, and returns it.
///
/// # Errors
/// It is not, in time; the message holds its status.
pub async fn ready(client: &ApiClient, name: &str) -> Result<Value> {
    let path = format!("{WEBAPPS}/{name}");
    let looked = eventually(PATIENCE, "the WebApp to be ready", || async {
        let app = client.get(&path).await?;
        let is_seen = app["status"]["observedGeneration"] == app["metadata"]["generation"];
        Ok((is_seen && condition(&app, "Ready")).then_some(app))
    });
    match looked.await {
        Ok(app) => Ok(app),
        Err(why) => Err(why.context(format!("{:#}", client.get(&path).await?["status"]))),
    }
}
