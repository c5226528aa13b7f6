//! The simulated nodes on the embedded cluster: what a kubelet and a scheduler would do, observed over HTTP.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::{Duration, Instant};

use pintle_nodes::{ApiClient, Connect, SimNodes, SimNodesConfig};
use pintle_sim::{SimCluster, SimConfig};
use serde_json::{Value, json};

/// Bound of each wait.
const DEADLINE: Duration = Duration::from_secs(30);

async fn start(ready_delay: Duration) -> (SimCluster, SimNodes, ApiClient) {
    let cluster = SimCluster::start(SimConfig::default()).await.unwrap();
    let connect = Connect::Kubeconfig(cluster.kubeconfig());
    let client = ApiClient::new(&connect).unwrap();
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

/// Polls until the condition holds; panics at the deadline.
async fn until(cluster: &SimCluster, what: &str, condition: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let end = Instant::now() + DEADLINE;
    loop {
        let pods: Vec<Value> = cluster.objects("", "pods").iter().map(|pod| (**pod).clone()).collect();
        if condition(&pods) {
            return pods;
        }
        assert!(Instant::now() < end, "not seen in {DEADLINE:?}: {what}; pods: {pods:#?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
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
        .send(http::Method::DELETE, "/api/v1/namespaces/default/pods/p3", "application/json", Vec::new().into())
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
    // The server has the status before the client counts the answer.
    until(&cluster, "the late Pod ready", |pods| pods.iter().any(is_ready) && again.stats().n_statuses() > 0).await;
    assert_eq!(again.stats().n_binds(), 1, "Pods from before the restart are unchanged");
    assert_eq!(again.stats().n_statuses(), 1);
    assert!(cluster.n_writes() - writes >= 2);
    again.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_pods_are_ready_within_the_deadline() {
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
