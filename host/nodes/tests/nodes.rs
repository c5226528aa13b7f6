//! The simulated nodes on the embedded cluster: the behaviour of a kubelet and a scheduler, observed over HTTP.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::{Duration, Instant};

use pintle_nodes::{ApiClient, Connect, SimNodes, SimNodesConfig};
use pintle_sim::{SimCluster, SimConfig};
use pintle_testing::{PATIENCE, eventually};
use serde_json::{Value, json};

async fn start(ready_delay: Duration) -> (SimCluster, SimNodes, ApiClient) {
    let cluster = SimCluster::start(SimConfig::default()).await.unwrap();
    let connect = Connect::Kubeconfig(cluster.kubeconfig());
    let client = ApiClient::new(&connect).await.unwrap();
    let nodes = SimNodes::start(SimNodesConfig { ready_delay, ..SimNodesConfig::new(connect) }).await.unwrap();
    (cluster, nodes, client)
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

async fn create(client: &ApiClient, pod: &Value) {
    let path = "/api/v1/namespaces/default/pods";
    client.send(http::Method::POST, path, "application/json", pod.to_string().into()).await.unwrap();
}

async fn until(cluster: &SimCluster, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let seen = eventually(PATIENCE, what, async || {
        let pods: Vec<Value> = cluster.objects("", "pods").iter().map(|pod| (**pod).clone()).collect();
        anyhow::ensure!(condition(&pods), "{pods:#?}");
        Ok(Some(pods))
    });
    seen.await.unwrap()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_bound_become_ready_and_end_when_they_are_deleted() {
    let (cluster, nodes, client) = start(Duration::ZERO).await;
    assert_eq!(cluster.objects("", "nodes").len(), 3);
    for index in 0..20 {
        create(&client, &pod(&format!("p{index}"))).await;
    }
    let pods = until(&cluster, "20 ready Pods", |pods| pods.len() == 20 && pods.iter().all(is_ready)).await;
    let mut ips: Vec<&str> = pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
    ips.sort_unstable();
    ips.dedup();
    assert_eq!(ips.len(), 20, "addresses are unique");
    let on_first = pods.iter().filter(|pod| pod["spec"]["nodeName"] == "sim-node-0").count();
    assert!((6..=7).contains(&on_first), "{on_first} of 20 Pods on one of three nodes");
    assert_eq!(pods[0]["status"]["phase"], "Running");
    client
        .send(http::Method::DELETE, "/api/v1/namespaces/default/pods/p3", "application/json", Vec::new())
        .await
        .unwrap();
    until(&cluster, "p3 gone", |pods| pods.len() == 19).await;
    assert_eq!(nodes.stats().n_binds(), 20);
    nodes.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_and_restarts_are_respected() {
    let (cluster, nodes, client) = start(Duration::ZERO).await;
    let mut never = pod("never");
    never["metadata"]["annotations"] = json!({"sim.pintle.dev/never-ready": "true"});
    let mut fails = pod("fails");
    fails["metadata"]["annotations"] = json!({"sim.pintle.dev/fail-after": "10ms"});
    let mut done = pod("done");
    done["metadata"]["annotations"] = json!({"sim.pintle.dev/complete-after": "10ms"});
    for pod in [&never, &fails, &done] {
        create(&client, pod).await;
    }
    let phase = |pods: &[Value], name: &str| {
        pods.iter().find(|pod| pod["metadata"]["name"] == name).map(|pod| pod["status"]["phase"].clone())
    };
    let pods = until(&cluster, "each in its phase", |pods| {
        phase(pods, "never") == Some(json!("Running"))
            && phase(pods, "fails") == Some(json!("Failed"))
            && phase(pods, "done") == Some(json!("Succeeded"))
    })
    .await;
    assert!(!pods.iter().any(is_ready));
    nodes.stop().await;
    create(&client, &pod("late")).await;
    let writes = cluster.n_writes();
    let again = SimNodes::start(SimNodesConfig {
        heartbeat: None,
        ..SimNodesConfig::new(Connect::Endpoint(cluster.base_url()))
    });
    let again = again.await.unwrap();
    // The server has the status before the client counts the response.
    until(&cluster, "the late Pod ready", |pods| pods.iter().any(is_ready) && again.stats().n_statuses() > 0).await;
    assert_eq!(again.stats().n_binds(), 1, "Pods from before the restart are unchanged");
    assert_eq!(again.stats().n_statuses(), 1);
    assert!(cluster.n_writes() - writes >= 2);
    again.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_pods_become_ready() {
    let (cluster, nodes, client) = start(Duration::ZERO).await;
    let begin = Instant::now();
    for index in 0..500 {
        create(&client, &pod(&format!("p{index}"))).await;
    }
    until(&cluster, "500 ready Pods", |pods| pods.len() == 500 && pods.iter().all(is_ready)).await;
    println!("500 Pods created, bound and ready in {:?}", begin.elapsed());
    assert_eq!(nodes.stats().n_failures(), 0);
    nodes.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_come_fail_recover_and_go_by_command() {
    let (cluster, nodes, client) = start(Duration::ZERO).await;
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "edge", "labels": {"sim.pintle.dev/node": "true", "zone": "far"}}});
    let send = async |method, path: &str, media, body: &Value| {
        client.send(method, path, media, body.to_string().into()).await.unwrap();
    };
    send(http::Method::POST, "/api/v1/nodes", "application/json", &node).await;
    let mut far = pod("far");
    far["spec"]["nodeSelector"] = json!({"zone": "far"});
    create(&client, &far).await;
    let pods = until(&cluster, "a Pod on the new node", |pods| pods.iter().all(is_ready) && pods.len() == 1).await;
    assert_eq!(pods[0]["spec"]["nodeName"], "edge");
    let find = |name: &str| {
        let all = cluster.objects("", "nodes");
        all.iter().find(|node| node["metadata"]["name"] == name).map(|node| (**node).clone())
    };
    let is_usable = |node: Value| is_ready(&node) && node["spec"]["taints"].is_null();
    until(&cluster, "the node ready", |_| find("edge").is_some_and(is_usable)).await;
    let merge = "application/merge-patch+json";
    let fail = json!({"metadata": {"annotations": {"sim.pintle.dev/not-ready": "true"}}});
    send(http::Method::PATCH, "/api/v1/nodes/edge", merge, &fail).await;
    until(&cluster, "the Pod not ready", |pods| !pods.iter().any(is_ready)).await;
    until(&cluster, "the node not ready", |_| {
        find("edge").is_some_and(|node| !is_ready(&node) && node["spec"]["taints"].is_array())
    })
    .await;
    let recover = json!({"metadata": {"annotations": {"sim.pintle.dev/not-ready": null}}});
    send(http::Method::PATCH, "/api/v1/nodes/edge", merge, &recover).await;
    until(&cluster, "the Pod ready again", |pods| pods.iter().all(is_ready)).await;
    until(&cluster, "the node ready again", |_| find("edge").is_some_and(is_usable)).await;
    let lease = |name: &str| {
        cluster.objects("coordination.k8s.io", "leases").iter().any(|lease| lease["metadata"]["name"] == name)
    };
    until(&cluster, "the lease of the new node", |_| lease("edge")).await;
    send(http::Method::DELETE, "/api/v1/nodes/edge", "application/json", &json!({})).await;
    create(&client, &pod("next")).await;
    let is_next_ready = |pods: &[Value]| pods.iter().any(|pod| pod["metadata"]["name"] == "next" && is_ready(pod));
    until(&cluster, "a Pod on another node", is_next_ready).await;
    assert_eq!(find("edge"), None);
    nodes.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_a_class_are_bound_to_volumes_that_go_with_them() {
    let cluster = SimCluster::start(SimConfig::default()).await.unwrap();
    let connect = Connect::Kubeconfig(cluster.kubeconfig());
    let client = ApiClient::new(&connect).await.unwrap();
    let nodes = SimNodes::start(SimNodesConfig { volumes: true, ..SimNodesConfig::new(connect) }).await.unwrap();
    let post = async |path: &str, body: Value| {
        client.send(http::Method::POST, path, "application/json", body.to_string().into()).await.unwrap();
    };
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "sim.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    post("/apis/storage.k8s.io/v1/storageclasses", class).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec":
        {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    post("/api/v1/namespaces/default/persistentvolumeclaims", claim).await;
    let mut user = pod("user");
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    create(&client, &user).await;
    let phase = |plural: &str| cluster.objects("", plural).first().map(|object| object["status"]["phase"].clone());
    until(&cluster, "claim and volume bound", |_| {
        ["persistentvolumeclaims", "persistentvolumes"].iter().all(|plural| phase(plural) == Some(json!("Bound")))
    })
    .await;
    let claim = "/api/v1/namespaces/default/persistentvolumeclaims/data";
    client.send(http::Method::DELETE, claim, "application/json", Vec::new()).await.unwrap();
    // No controller removes the finalizers that protect a volume in use; here, none added them.
    until(&cluster, "the volume gone", |_| phase("persistentvolumes").is_none()).await;
    nodes.stop().await;
    cluster.shutdown().await;
}
