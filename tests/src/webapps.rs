//! The kinds of `tests/webapp`, on a cluster, and when an application of theirs is ready.

use anyhow::Result;
use serde_json::Value;

use crate::objects::{has_condition, is_observed};
use crate::{ApiClient, PATIENCE, definitions, eventually};

/// WebApps of the default namespace.
pub const WEBAPPS: &str = "/apis/example.com/v1/namespaces/default/webapps";
/// What they claim outside of the cluster.
pub const CLAIMS: &str = "/apis/example.com/v1/externalnames";

/// Defines WebApps and their claims, and waits until they are served.
///
/// # Errors
/// As [`definitions::define`].
pub async fn define(client: &ApiClient) -> Result<()> {
    definitions::define_all(client, "tests/webapp/crd.yaml").await
}

/// Waits until what has been asked of a WebApp last is there, and returns it.
///
/// # Errors
/// It is not, in time; the message holds its status.
pub async fn ready(client: &ApiClient, name: &str) -> Result<Value> {
    let path = format!("{WEBAPPS}/{name}");
    let looked = eventually(PATIENCE, "the WebApp to be ready", || async {
        let app = client.get(&path).await?;
        Ok((is_observed(&app) && has_condition(&app, "Ready", "True")).then_some(app))
    });
    match looked.await {
        Ok(app) => Ok(app),
        Err(why) => Err(why.context(format!("{:#}", client.get(&path).await?["status"]))),
    }
}
