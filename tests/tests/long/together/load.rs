//! What is in the cluster besides: the same for the host and for the processes that it is compared with.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _};
use pintle_tests::audited::Audited;
use pintle_tests::scenarios::stage::{Stage, deployment};
use serde_json::json;

const CONFIG_MAPS: usize = 200;
const DEPLOYMENTS: usize = 100;

/// Bytes in each ConfigMap.
const CONFIG_BYTES: usize = 1 << 10;

/// Requests in flight.
const IN_FLIGHT: usize = 16;

/// Fills the namespace `load`: ConfigMaps, and Deployments with a Pod each. Answers a namespace for the stories, in another namespace.
pub(crate) async fn fill(audited: &Audited) -> Result<Stage> {
    let [load, namespace] = ["load", "stories"]
        .map(|namespace| Stage::new(audited.plane.client(), audited.plane.kubeconfig(), namespace.to_owned()));
    for namespace in [&load, &namespace] {
        namespace.client.create_namespace(&namespace.ns).await?;
        namespace.open().await?;
    }
    let load = &load;
    let config_maps = (0..CONFIG_MAPS).map(|i| async move {
        let config_map =
            json!({"metadata": {"name": format!("load-{i:03}")}, "data": {"file": "x".repeat(CONFIG_BYTES)}});
        load.create("configmaps", &config_map).await.map(drop)
    });
    futures::stream::iter(config_maps).buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
    let deployments = (0..DEPLOYMENTS).map(|i| async move {
        load.create("deployments", &deployment(&format!("load-{i:03}"), 1, json!({}))).await.map(drop)
    });
    futures::stream::iter(deployments).buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
    let up = |d: &serde_json::Value| d["status"]["availableReplicas"] == 1;
    load.until_all("deployments", "be available", |all| all.len() == DEPLOYMENTS && all.iter().all(up)).await?;
    Ok(namespace)
}
