//! A namespace with workloads in every state in which they can rest.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::scenarios::stage::{Stage, deployment, pod, replica_set, replication_controller};

/// An annotation of a template by which the nodes never call its Pods ready.
fn never_ready() -> Value {
    json!({"sim.pintle.dev/never-ready": "true"})
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
}

/// Fills a namespace with them, and waits until they rest.
///
/// # Errors
/// The API server refuses one, or one does not come to rest.
pub async fn fill(namespace: &Stage) -> Result<()> {
    tokio::try_join!(
        fill_with_deployments(namespace),
        fill_with_sets(namespace, "replicasets", "rs", replica_set),
        fill_with_sets(namespace, "replicationcontrollers", "rc", replication_controller),
    )
    .context("fill the namespace")?;
    fill_with_services(namespace).await.context("fill the namespace with Services")
}

/// Services of the Pods of workloads, and one whose Endpoints somebody else writes.
async fn fill_with_services(s: &Stage) -> Result<()> {
    let ports =
        json!([{"name": "web", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    for (name, app, n, more) in [
        ("plain", "plain", 3, json!({})),
        ("headless", "recreate", 3, json!({"clusterIP": "None"})),
        ("near", "surge", 3, json!({"trafficDistribution": "PreferSameNode"})),
        ("published", "rs-unready", 2, json!({"publishNotReadyAddresses": true})),
        ("unready", "rs-unready", 2, json!({})),
        ("nothing", "nothing", 0, json!({})),
    ] {
        let mut spec = json!({"selector": {"app": app}, "ports": ports});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let labels = json!({"tier": "front"});
        s.create("services", &json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).await?;
        until_listed(s, name, n).await?;
    }
    s.create("services", &json!({"metadata": {"name": "copied"}, "spec": {"ports": [{"port": 80}]}})).await?;
    let subsets = json!([
        {"addresses": [{"ip": "10.230.0.1"}, {"ip": "10.230.0.2"}], "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]},
        {"notReadyAddresses": [{"ip": "10.230.0.3"}], "ports": [{"name": "a", "port": 82}]},
    ]);
    s.create("endpoints", &json!({"metadata": {"name": "copied", "labels": {"tier": "back"}}, "subsets": subsets}))
        .await?;
    until_listed(s, "copied", 3).await
}

/// Waits until the slices of a Service have so many endpoints.
async fn until_listed(s: &Stage, service: &str, n: usize) -> Result<()> {
    s.until_all("endpointslices", &format!("have {n} endpoints of {service}"), |slices| {
        let of_service = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service;
        let slices: Vec<&Value> = slices.iter().filter(of_service).collect();
        let n_found: usize = slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).sum();
        !slices.is_empty() && n_found == n
    })
    .await
    .map(drop)
}

async fn fill_with_deployments(s: &Stage) -> Result<()> {
    let kinds = [
        ("plain", 3, json!({})),
        ("surge", 3, rolling(json!(1), json!(0))),
        ("unavailable", 3, rolling(json!(0), json!(1))),
        ("quarter", 4, rolling(json!("25%"), json!("25%"))),
        ("surge-all", 3, rolling(json!("100%"), json!(0))),
        ("recreate", 3, json!({"strategy": {"type": "Recreate"}})),
        ("slow", 2, json!({"minReadySeconds": 1})),
        ("paused", 3, json!({})),
        ("revisions", 3, json!({})),
        ("stuck", 3, json!({"progressDeadlineSeconds": 2})),
        ("annotated", 2, json!({})),
        ("empty", 0, json!({})),
        ("forgetful", 2, json!({"revisionHistoryLimit": 0})),
    ];
    for (name, replicas, spec) in &kinds {
        let mut object = deployment(name, *replicas, spec.clone());
        if *name == "annotated" {
            object["metadata"]["annotations"] =
                json!({"first": "1", "second": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
            object["metadata"]["labels"] = json!({"tier": "front"});
        }
        s.create("deployments", &object).await?;
    }
    for (name, ..) in &kinds {
        s.rolled_out(name).await?;
    }
    for name in ["quarter", "recreate", "revisions", "forgetful"] {
        s.set_image(name, "image:2").await?;
    }
    // A change that waits for the end of the pause.
    s.patch("deployments", "paused", &json!({"spec": {"paused": true}})).await?;
    s.set_image("paused", "image:2").await?;
    s.annotate_template("stuck", &never_ready()).await?;
    for name in ["quarter", "recreate", "revisions", "forgetful"] {
        s.rolled_out(name).await?;
    }
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "the third"}}});
    s.patch("deployments", "revisions", &cause).await?;
    s.set_image("revisions", "image:3").await?;
    s.rolled_out("revisions").await?;
    s.condition("paused", "Progressing", "Unknown", "DeploymentPaused").await?;
    s.condition("stuck", "Progressing", "False", "ProgressDeadlineExceeded").await
}

/// Five ReplicaSets or ReplicationControllers that belong to nobody.
async fn fill_with_sets(s: &Stage, plural: &str, prefix: &str, make: fn(&str, u32, Value) -> Value) -> Result<()> {
    let name = |suffix: &str| format!("{prefix}-{suffix}");
    // One Pod is there already, and is adopted.
    s.create("pods", &pod(&name("orphan"), &name("adopter"))).await?;
    for (suffix, replicas, spec) in [
        ("plain", 3, json!({})),
        ("empty", 0, json!({})),
        ("slow", 2, json!({"minReadySeconds": 1})),
        ("unready", 2, json!({"template": {"metadata": {"annotations": never_ready()}}})),
        ("adopter", 2, json!({})),
    ] {
        s.create(plural, &make(&name(suffix), replicas, spec)).await?;
    }
    for (suffix, n) in [("plain", 3), ("empty", 0), ("slow", 2), ("adopter", 2)] {
        s.ready(plural, &name(suffix), n).await?;
    }
    s.until(plural, &name("unready"), "have its Pods", |o| o["status"]["replicas"] == 2).await
}
