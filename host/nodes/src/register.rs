//! Node objects and their leases.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::{ApiClient, ClientError};
use crate::requests::host_ip;
use crate::time::{rfc3339, rfc3339_micro};
use crate::{SimNodesConfig, SimNodesError};

/// Tries to reach a server that is still starting.
const N_TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// Concurrent registrations or lease renewals.
const N_AT_ONCE: usize = 16;
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

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
    send(client, Method::POST, "/api/v1/nodes", JSON, &node(name)).await?;
    let path = format!("/api/v1/nodes/{name}");
    send(client, Method::PATCH, &format!("{path}/status"), MERGE, &status(config, name)).await?;
    untaint(client, &path).await
}

/// Removes the taint that admission gives a new node. The node lifecycle controller removes it in a complete cluster; here none may
/// run. Other taints stay.
async fn untaint(client: &ApiClient, path: &str) -> Result<(), ClientError> {
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        match try_untaint(client, path).await {
            Err(error) if is_passing(&error) && n_tries < N_TRIES => tokio::time::sleep(BETWEEN_TRIES).await,
            done => return done,
        }
    }
}

async fn try_untaint(client: &ApiClient, path: &str) -> Result<(), ClientError> {
    let node = client.send(Method::GET, path, JSON, Bytes::new()).await?;
    let node: Value = serde_json::from_slice(&node).map_err(|error| ClientError::Transport(error.to_string()))?;
    let taints = node["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    let rest: Vec<&Value> = taints
        .iter()
        .filter(|taint| taint["key"] != "node.kubernetes.io/not-ready" || taint["effect"] != "NoSchedule")
        .collect();
    if rest.len() == taints.len() {
        return Ok(());
    }
    // The resourceVersion prevents the loss of a taint that another client adds meanwhile.
    let body = json!({"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": rest}});
    client.send(Method::PATCH, path, MERGE, Bytes::from(body.to_string())).await.map(|_| ())
}

/// Whether a retry may help.
fn is_passing(error: &ClientError) -> bool {
    error.code().is_none_or(|code| code == 409 || code == 429 || code >= 500)
}

/// Sends until the server answers; "already exists" counts as success.
async fn send(
    client: &ApiClient,
    method: Method,
    path: &str,
    content_type: &'static str,
    body: &Value,
) -> Result<(), ClientError> {
    let body = Bytes::from(body.to_string());
    let mut n_tries = 0;
    loop {
        n_tries += 1;
        match client.send(method.clone(), path, content_type, body.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(409) && method == Method::POST => return Ok(()),
            Err(error) => {
                if !is_passing(&error) || n_tries >= N_TRIES {
                    return Err(error);
                }
            }
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "sim.pintle.dev/node": "true",
        }},
        "spec": {},
    })
}

fn status(config: &SimNodesConfig, name: &str) -> Value {
    let now = rfc3339(Timestamp::now());
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let resources =
        json!({"cpu": "1k", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": config.n_pods_per_node.to_string()});
    json!({"status": {
        "capacity": resources, "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": host_ip(name)}, {"type": "Hostname", "address": name}],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "nodeInfo": {
            "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "simulated", "osImage": "simulated",
            "containerRuntimeVersion": "sim://1", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }})
}

/// Renews the leases until cancelled.
pub(crate) async fn heartbeats(client: ApiClient, names: Vec<String>, interval: Duration, cancel: CancellationToken) {
    let seconds = interval.as_secs().saturating_mul(4).max(1);
    loop {
        let now = rfc3339_micro(Timestamp::now());
        let beats = stream::iter(&names).for_each_concurrent(N_AT_ONCE, |name| beat(&client, name, &now, seconds));
        tokio::select! {
            () = cancel.cancelled() => return,
            () = beats => {}
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn beat(client: &ApiClient, name: &str, now: &str, seconds: u64) {
    let collection = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now});
    let renew = Bytes::from(json!({"spec": spec}).to_string());
    let renewed = client.send(Method::PATCH, &format!("{collection}/{name}"), MERGE, renew).await;
    let result = match renewed {
        Err(error) if error.code() == Some(404) => {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec});
            client.send(Method::POST, collection, JSON, Bytes::from(lease.to_string())).await
        }
        renewed => renewed,
    };
    if let Err(error) = result {
        // A lease outlasts four heartbeats.
        tracing::debug!(node = name, %error, "lease not renewed");
    }
}
