//! Node objects and their leases.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::client::{ApiClient, ClientError, JSON, MERGE, Request};
use crate::machine::Nodes;
use crate::node::{self, NodeState, ObservedNode};
use crate::time::rfc3339_micro;
use crate::watch::{Observation, observe};
use crate::{Clock, SimNodesConfig, SimNodesError};

/// Most pending observations; a full channel blocks the watch.
const N_WAITING: usize = 64;

/// Most attempts to reach a server that is still starting.
const N_TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// Most concurrent registrations or lease renewals.
const N_AT_ONCE: usize = 16;

/// Creates or updates all nodes.
pub(crate) async fn all(client: &ApiClient, config: &SimNodesConfig, names: &[String]) -> Result<(), SimNodesError> {
    stream::iter(names)
        .map(|name| async move {
            one(client, config, name).await.map_err(|source| SimNodesError::Register { name: name.clone(), source })
        })
        .buffer_unordered(N_AT_ONCE)
        .try_collect::<()>()
        .await
}

async fn one(client: &ApiClient, config: &SimNodesConfig, name: &str) -> Result<(), ClientError> {
    send(client, &Request::post("/api/v1/nodes", node::object(name))).await?;
    let path = format!("/api/v1/nodes/{name}");
    let status = node::status(name, NodeState::Ready, config.n_pods_per_node, (config.clock.0)());
    send(client, &Request::patch(format!("{path}/status"), MERGE, status)).await?;
    retried(|| untaint(client, config, &path)).await
}

/// Sends until the server responds; "already exists" counts as success.
async fn send(client: &ApiClient, request: &Request) -> Result<(), ClientError> {
    let attempt = || async move {
        match client.perform(request).await {
            Err(error) if error.code() == Some(409) && request.method == Method::POST => Ok(()),
            done => done.map(drop),
        }
    };
    retried(attempt).await
}

/// Retries while it may help, at most [`N_TRIES`] times.
async fn retried<T: Future<Output = Result<(), ClientError>>>(attempt: impl Fn() -> T) -> Result<(), ClientError> {
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        match attempt().await {
            Err(error) if is_passing(&error) && n_tries < N_TRIES => tokio::time::sleep(BETWEEN_TRIES).await,
            done => return done,
        }
    }
}

/// Whether a retry may help.
fn is_passing(error: &ClientError) -> bool {
    error.code().is_none_or(|code| code == 409 || code == 429 || code >= 500)
}

/// Removes the taint that admission gives a new node, before the first Pod is bound.
async fn untaint(client: &ApiClient, config: &SimNodesConfig, path: &str) -> Result<(), ClientError> {
    let node = client.send(Method::GET, path, JSON, Vec::new()).await?;
    let node: ObservedNode = serde_json::from_str(&node).map_err(|error| ClientError::Transport(error.to_string()))?;
    settle(client, &node, config).await
}

/// Sends the updates of a node.
async fn settle(client: &ApiClient, node: &ObservedNode, config: &SimNodesConfig) -> Result<(), ClientError> {
    for write in node::writes(node, config.n_pods_per_node, (config.clock.0)()) {
        client.perform(&write).await?;
    }
    Ok(())
}

/// Follows the Nodes until cancelled: publishes the simulated ones, and sends their updates.
pub(crate) async fn follow(
    client: ApiClient,
    config: SimNodesConfig,
    publish: watch::Sender<Arc<Nodes>>,
    cancel: CancellationToken,
) {
    let (sender, mut seen) = mpsc::channel(N_WAITING);
    let watcher = tokio::spawn(observe::<ObservedNode>(client.clone(), "/api/v1/nodes", sender, cancel.clone()));
    let own: HashSet<String> = config.node_names().into_iter().collect();
    let is_simulated = |node: &ObservedNode| own.contains(&node.metadata.name) || (config.adopt && node.is_labelled());
    let mut nodes = Nodes::new();
    let mut unsettled: BTreeSet<String> = BTreeSet::new();
    loop {
        let observation = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            // The watcher holds the sender until it is cancelled.
            observation = seen.recv() => if observation.is_some() { observation } else { break },
            () = tokio::time::sleep(BETWEEN_TRIES), if !unsettled.is_empty() => None,
        };
        if let Some(observation) = observation {
            match observation {
                Observation::List(all) => {
                    let all = all.into_iter().filter(is_simulated);
                    nodes = all.map(|node| (node.metadata.name.clone(), node)).collect();
                    unsettled = nodes.keys().cloned().collect();
                }
                Observation::Changed(node) if is_simulated(&node) => {
                    unsettled.insert(node.metadata.name.clone());
                    nodes.insert(node.metadata.name.clone(), *node);
                }
                Observation::Changed(node) => drop(nodes.remove(&node.metadata.name)),
                Observation::Deleted(uid) => nodes.retain(|_, node| node.metadata.uid != uid),
            }
            publish.send_replace(Arc::new(nodes.clone()));
        }
        for name in std::mem::take(&mut unsettled) {
            let Some(node) = nodes.get(&name) else { continue };
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                result = settle(&client, node, &config) => result,
            };
            if let Err(error) = result {
                tracing::debug!(node = name, %error, "node not updated");
                // The watch delivers a newer version; anything else is retried.
                if !matches!(error.code(), Some(404 | 409)) {
                    unsettled.insert(name);
                }
            }
        }
    }
    // A watcher that panicked has already stopped.
    let _ = watcher.await;
}

/// Renews the leases of reachable nodes until cancelled.
pub(crate) async fn heartbeats(
    client: ApiClient,
    mut nodes: watch::Receiver<Arc<Nodes>>,
    interval: Duration,
    clock: Clock,
    cancel: CancellationToken,
) {
    let seconds = interval.as_secs().saturating_mul(4).max(1);
    loop {
        let reachable = |node: &&ObservedNode| node.state() != NodeState::Unreachable;
        let names: Vec<String> =
            nodes.borrow_and_update().values().filter(reachable).map(|node| node.metadata.name.clone()).collect();
        let now = rfc3339_micro((clock.0)());
        let beats = stream::iter(&names).for_each_concurrent(N_AT_ONCE, |name| beat(&client, name, &now, seconds));
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = beats => {}
        }
        let has_new_names = async {
            let is_new =
                |nodes: &Arc<Nodes>| nodes.values().filter(reachable).any(|node| !names.contains(&node.metadata.name));
            if nodes.wait_for(is_new).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = has_new_names => {}
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn beat(client: &ApiClient, name: &str, now: &str, seconds: u64) {
    let collection = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now});
    let renew = Request::patch(format!("{collection}/{name}"), MERGE, json!({"spec": spec}));
    let result = match client.perform(&renew).await {
        Err(error) if error.code() == Some(404) => {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec});
            client.perform(&Request::post(collection, lease)).await
        }
        renewed => renewed,
    };
    if let Err(error) = result {
        // A lease lasts for four heartbeats.
        tracing::debug!(node = name, %error, "lease not renewed");
    }
}
