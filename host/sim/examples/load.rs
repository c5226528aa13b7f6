//! Measures how many Pods per second the embedded API server takes, with a watcher that sees them all.
//!
//! `cargo run --release -p pintle-sim --example load -- [PODS] [CONNECTIONS]`

use std::error::Error;
use std::time::Instant;

use pintle_sim::{SimCluster, SimConfig};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let n_pods: usize = args.next().map(|text| text.parse()).transpose()?.unwrap_or(10_000);
    let n_connections: usize = args.next().map(|text| text.parse()).transpose()?.unwrap_or(16);
    let config = SimConfig { history_writes: 0, watch_log_events: n_pods * 2, ..SimConfig::default() };
    let cluster = SimCluster::start(config).await?;
    let url = format!("{}/api/v1/namespaces/default/pods", cluster.base_url());
    let mut watch = reqwest::get(format!("{url}?watch=true&resourceVersion={}", cluster.resource_version())).await?;
    let body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "web-5d4f8c7b9-", "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9", "uid": "0", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": [{"name": "web", "image": "nginx:1", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}, "env": [{"name": "A", "value": "b"}]}]},
    })
    .to_string();
    let start = Instant::now();
    let writers: Vec<_> = (0..n_connections)
        .map(|n| {
            let (url, body) = (url.clone(), body.clone());
            let mine = n_pods / n_connections + usize::from(n < n_pods % n_connections);
            tokio::spawn(async move {
                let client = reqwest::Client::new();
                for _ in 0..mine {
                    let request = client.post(&url).header("Content-Type", "application/json").body(body.clone());
                    request.send().await?.error_for_status()?.bytes().await?;
                }
                Ok::<_, reqwest::Error>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    let written = start.elapsed();
    let mut seen = 0;
    while seen < n_pods {
        let chunk = watch.chunk().await?.ok_or("the watch ended early")?;
        seen += chunk.iter().filter(|byte| **byte == b'\n').count();
    }
    let seconds = written.as_secs_f64();
    eprintln!(
        "{n_pods} pods in {seconds:.2} s, {:.0} per second; all seen by a watch after {:.2} s",
        n_pods as f64 / seconds,
        start.elapsed().as_secs_f64()
    );
    cluster.shutdown().await;
    Ok(())
}
