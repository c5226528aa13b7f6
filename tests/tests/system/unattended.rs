//! What users and operators see of objects that no running controller acts on.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use anyhow::{Result, ensure};
use pintle_tests::{HostProcess, PATIENCE, TestCluster, eventually};
use serde_json::json;

/// A host with these controllers, on a cluster with a ReplicaSet and a claim of devices.
async fn started(cluster: &TestCluster, flags: &[&str]) -> Result<HostProcess> {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let host = cluster.host(&flags)?;
    host.answers().await?;
    Ok(host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_in_place_of_kube_controller_manager_logs_kinds_without_a_controller_once() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let objects = [
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": []}}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            json!({"metadata": {"name": "web"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}),
        ),
    ];
    for (path, object) in objects {
        cluster.client.create(path, &object).await?;
    }
    let namespace = HostProcess::controllers(&["namespace"]);
    let mut beside = started(&cluster, &[&namespace, "--beside-kube-controller-manager"]).await?;
    let host = started(&cluster, &[&namespace]).await?;
    let claim = "no controller for resource.k8s.io/v1/ResourceClaim is running: resourceclaim-controller is not part of this Pintle yet";
    let sets =
        "no controller for apps/v1/ReplicaSet is running: replicaset-controller is built in, and does not run here";
    eventually(PATIENCE, "both kinds in the log", async || {
        let log = host.log_tail();
        Ok((log.contains(claim) && log.contains(sets)).then_some(()))
    })
    .await?;
    let log = host.log_tail();
    let about = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    // The cluster has a Service and a ServiceCIDR; the namespace controller runs.
    let of_cluster = about("v1/Service is") + about("v1/ServiceCIDR is");
    ensure!(about("no controller for") == 4 && of_cluster == 2 && about("v1/Namespace is") == 0, "{log}");
    // It started before.
    ensure!(beside.is_running() && !beside.log_tail().contains("no controller for"), "{}", beside.log_tail());
    Ok(())
}
