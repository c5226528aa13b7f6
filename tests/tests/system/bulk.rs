//! Runs that decide on many Pods at once. Each of their writes has samples, which must not count as too many.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use pintle_tests::{ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, eventually};
use serde_json::json;

/// More than a run may have samples without writes, with two for each Pod.
const MANY: usize = 600;
const IN_FLIGHT: usize = 16;

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_are_collected_at_once_on_the_embedded_cluster() -> Result<()> {
    collected(TestCluster::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_are_collected_at_once_on_the_real_control_plane() -> Result<()> {
    collected(TestCluster::real().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_of_a_job_end_at_once_on_the_embedded_cluster() -> Result<()> {
    replaced(TestCluster::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_of_a_job_end_at_once_on_the_real_control_plane() -> Result<()> {
    replaced(TestCluster::real().await?).await
}

async fn collected(cluster: TestCluster) -> Result<()> {
    let client = &cluster.client;
    create_account(client).await?;
    futures::stream::iter(0..MANY)
        .map(|n| ended(client, n))
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<Vec<()>>()
        .await?;
    let host = start(&cluster, "pod-garbage-collector-controller").await?;
    eventually(PATIENCE, "one Pod to be left", async || {
        let n = client.list(PODS).await?.len();
        ensure!(n == 1, "{n} are left");
        Ok(Some(()))
    })
    .await?;
    stop(host).await?;
    cluster.stop().await;
    Ok(())
}

/// There are no nodes: Pods stay as they are until the test ends them.
async fn replaced(cluster: TestCluster) -> Result<()> {
    let client = &cluster.client;
    create_account(client).await?;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "many"},
        "spec": {
            "completions": 2 * MANY, "parallelism": MANY,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}]}},
        },
    });
    client.create(JOBS, &job).await?;
    let job = async |succeeded: usize| {
        eventually(PATIENCE, format!("the Job to have {MANY} active and {succeeded} succeeded Pods"), async || {
            let status = client.get(&format!("{JOBS}/many")).await?["status"].clone();
            ensure!(
                status["active"] == MANY && status["succeeded"].as_u64().unwrap_or(0) == succeeded as u64,
                "{status}"
            );
            Ok(Some(()))
        })
        .await
    };
    let host = start(&cluster, "job-controller").await?;
    job(0).await?;
    stop(host).await?;
    // One run sees that all of them have ended, and makes as many.
    let pods = client.list(PODS).await?;
    let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
    let ends = futures::stream::iter(names).map(|name| end(client, name));
    ends.buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await?;
    let host = start(&cluster, "job-controller").await?;
    job(MANY).await?;
    stop(host).await?;
    cluster.stop().await;
    Ok(())
}

/// A real API server wants it for each Pod.
async fn create_account(client: &ApiClient) -> Result<()> {
    client.create(ACCOUNTS, &json!({"metadata": {"name": "default"}})).await.map(drop)
}

async fn start(cluster: &TestCluster, controller: &str) -> Result<HostProcess> {
    let mut host =
        cluster.host(&[HostProcess::controllers(&[controller]), "--terminated-pod-gc-threshold=1".to_owned()])?;
    host.ready().await?;
    Ok(host)
}

/// Stops a host in which nothing has faulted.
async fn stop(host: HostProcess) -> Result<()> {
    let log = std::fs::read_to_string(host.process.log())?;
    ensure!(!log.contains("faulted"), "{log}");
    host.stop().await;
    Ok(())
}

/// Creates a Pod that has ended.
async fn ended(client: &ApiClient, n: usize) -> Result<()> {
    let name = format!("ended-{n}");
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "image:1"}]}});
    client.create(PODS, &pod).await?;
    end(client, &name).await
}

async fn end(client: &ApiClient, name: &str) -> Result<()> {
    let status = json!({"status": {"phase": "Succeeded"}});
    client.patch(&format!("{PODS}/{name}/status"), PatchKind::Merge, &status).await.map(drop)
}
