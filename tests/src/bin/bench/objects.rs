//! The objects that are made, and the client that makes them.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::StreamExt as _;
use pintle_tests::{ApiClient, PatchKind};
use serde_json::{Value, json};

/// Requests of our own client in flight. More makes the API server slower, not faster, on two cores.
pub(crate) const IN_FLIGHT: usize = 32;

pub(crate) async fn prepare(client: &ApiClient) -> Result<()> {
    for namespace in ["bench", "probe"] {
        client.create_namespace(namespace).await?;
        // Admission wants it for every Pod; the controller that makes it is not measured.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        client.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await?;
    }
    Ok(())
}

pub(crate) async fn create_all(client: &ApiClient, path: &str, objects: impl Iterator<Item = Value>) -> Result<()> {
    in_flight(objects.map(|object| async move { client.create(path, &object).await })).await
}

/// Applies one merge patch to the objects at all of these paths.
pub(crate) async fn patch_all(client: &ApiClient, paths: impl Iterator<Item = String>, patch: &Value) -> Result<()> {
    in_flight(paths.map(|path| async move { client.patch(&path, PatchKind::Merge, patch).await })).await
}

/// Applies to the object at each path its own merge patch.
pub(crate) async fn patch_each(client: &ApiClient, patches: impl Iterator<Item = (String, Value)>) -> Result<()> {
    in_flight(patches.map(|(path, patch)| async move { client.patch(&path, PatchKind::Merge, &patch).await })).await
}

/// Deletes the objects at all of these paths with the same options.
pub(crate) async fn delete_all(client: &ApiClient, paths: impl Iterator<Item = String>, options: &Value) -> Result<()> {
    in_flight(paths.map(|path| async move { client.delete(&path, Some(options)).await })).await
}

/// Sends all requests, [`IN_FLIGHT`] at a time, until one fails.
pub(crate) async fn in_flight(requests: impl Iterator<Item = impl Future<Output = Result<Value>>>) -> Result<()> {
    let mut results = futures::stream::iter(requests).buffer_unordered(IN_FLIGHT);
    while let Some(result) = results.next().await {
        result?;
    }
    Ok(())
}

/// How many Pods there are, without reading them.
pub(crate) async fn count(client: &ApiClient) -> Result<u64> {
    let list = client.get("/api/v1/namespaces/bench/pods?limit=1").await?;
    let here = list["items"].as_array().map_or(0, Vec::len) as u64;
    Ok(here + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
}

pub(crate) fn small_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "bare-", "labels": {"app": "bare"}},
        "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
    })
}

/// About 3 KB as the API server stores it: probes, resources, environment, volumes, annotations.
pub(crate) fn realistic_pod() -> Value {
    let variables: Vec<Value> =
        (0..12).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value-number-{n}")})).collect();
    let annotations: BTreeMap<String, String> = (0..6)
        .map(|n| (format!("example.com/annotation-{n}"), "some text of the length that annotations have".into()))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "cached-", "annotations": annotations,
            "labels": {"app": "cached", "tier": "backend", "release": "stable", "pod-template-hash": "5d78c9869d"},
        },
        "spec": {
            "containers": [{
                "name": "app", "image": "registry.example/team/app:v1.2.3", "env": variables,
                "args": ["--listen=:8080", "--log-level=info"], "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "app"}}, {"name": "data", "emptyDir": {}}],
        },
    })
}

pub(crate) fn deployment(app: &str, pods: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
            },
        },
    })
}
