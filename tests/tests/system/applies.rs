//! Server-side applies that come at the same time: one creates the object, the others add to it, and none is a conflict.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use pintle_tests::TestCluster;
use serde_json::json;

const N_AT_ONCE: usize = 4;
/// Enough for the embedded cluster to refuse some if it did not try again.
const N_OBJECTS: usize = 50;

async fn all_succeed(cluster: TestCluster) -> Result<()> {
    for object in 0..N_OBJECTS {
        let path = format!("/api/v1/namespaces/default/configmaps/a{object}");
        let apply = async |n: usize| {
            let mine = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("a{object}")}, "data": {n.to_string(): ""}});
            cluster.client.apply(&path, &format!("manager-{n}"), false, &mine).await
        };
        try_join_all((0..N_AT_ONCE).map(apply)).await?;
        let left = cluster.client.get(&path).await?;
        ensure!(left["data"].as_object().map(serde_json::Map::len) == Some(N_AT_ONCE), "{left}");
        let managers = left["metadata"]["managedFields"].as_array().map(Vec::len);
        ensure!(managers == Some(N_AT_ONCE), "{:#}", left["metadata"]["managedFields"]);
    }
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_applies_at_once_one_creates_on_the_embedded_cluster() -> Result<()> {
    all_succeed(TestCluster::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_applies_at_once_one_creates_on_the_real_api_server() -> Result<()> {
    all_succeed(TestCluster::real().await?).await
}
