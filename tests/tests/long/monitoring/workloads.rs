//! Objects that lead to each metric of the controllers of workloads, Services and Nodes.

use std::time::Duration;

use anyhow::Result;
use pintle_tests::objects::{last_due, template};
use pintle_tests::{ApiClient, PATIENCE, PatchKind, eventually};
use serde_json::{Value, json};

/// The controllers that act on them, by the names of their manifests.
pub(super) const CONTROLLERS: [&str; 11] = [
    "job-controller",
    "cronjob-controller",
    "statefulset-controller",
    "horizontal-pod-autoscaler-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "node-lifecycle-controller",
    "node-ipam-controller",
    "taint-eviction-controller",
    "device-taint-eviction-controller",
    // Its object is the certificate authority of the API server.
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
];
/// Flags without which some metrics are not served.
pub(super) const FLAGS: [&str; 3] =
    ["--horizontal-pod-autoscaler-sync-period=2s", "--allocate-node-cidrs=true", "--cluster-cidr=10.128.0.0/12"];

const IMAGE: &str = "registry.example/c";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEVICES: &str = "/apis/resource.k8s.io/v1";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

/// Creates them. `deployment` is there, and has at most 9 replicas.
pub(super) async fn create(client: &ApiClient, deployment: &str) -> Result<()> {
    for job in jobs() {
        client.create(JOBS, &job).await?;
    }
    cron_job(client).await?;
    services(client, deployment).await?;
    nodes(client).await?;
    client.create(STATEFUL_SETS, &stateful_set("db", 2)).await?;
    // Nobody serves metrics: one autoscaler fails to compute, and one of another target, which is below its least size, has no need to.
    client.create(STATEFUL_SETS, &stateful_set("idle", 1)).await?;
    for (name, kind, target, least) in [("fails", "Deployment", deployment, 1), ("scales", "StatefulSet", "idle", 2)] {
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target},
                "minReplicas": least, "maxReplicas": 9,
                "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
                }}],
            },
        });
        client.create(AUTOSCALERS, &autoscaler).await?;
    }
    Ok(())
}

fn stateful_set(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
            "template": template(name, IMAGE, "Always", &json!({})),
        },
    })
}

/// One that selects the Pods of the Deployment, and one without a selector, whose Endpoints the user writes.
async fn services(client: &ApiClient, deployment: &str) -> Result<()> {
    let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    let ports = json!([{"port": 80}]);
    let selecting = json!({"selector": {"app": deployment}, "ports": ports, "trafficDistribution": "PreferSameZone"});
    client.create(SERVICES, &service("selecting", selecting)).await?;
    client.create(SERVICES, &service("external", json!({"ports": ports}))).await?;
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "external"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}],
    });
    client.create("/api/v1/namespaces/default/endpoints", &endpoints).await.map(drop)
}

/// A Node that comes and goes, and one that is not ready and has a taint, with a Pod that does not tolerate it, and one that does and
/// whose device is tainted.
async fn nodes(client: &ApiClient) -> Result<()> {
    const NAME: &str = "failed";
    let gone = format!("{NODES}/gone");
    client.create(NODES, &json!({"metadata": {"name": "gone"}})).await?;
    eventually(PATIENCE, "a range of a Node", async || {
        Ok(client.get(&gone).await?["spec"]["podCIDR"].is_string().then_some(()))
    })
    .await?;
    client.delete(&gone, None).await?;
    let taint = json!({"key": "example.com/failed", "effect": "NoExecute"});
    client.create(NODES, &json!({"metadata": {"name": NAME}, "spec": {"taints": [taint]}})).await?;
    let ready = json!({"type": "Ready", "status": "False", "lastHeartbeatTime": null, "lastTransitionTime": null});
    let status = json!({"status": {"conditions": [ready]}});
    client.patch(&format!("{NODES}/{NAME}/status"), PatchKind::Merge, &status).await?;
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({"metadata": {"name": name}, "spec": spec});
        pod["spec"]["nodeName"] = NAME.into();
        pod["spec"]["containers"] = json!([{"name": "c", "image": IMAGE}]);
        pod
    };
    client.create(PODS, &pod("on-tainted-node", json!({}))).await?;
    let pool = json!({"name": NAME, "generation": 1, "resourceSliceCount": 1});
    let device = json!({"name": "one", "taints": [taint]});
    let slice = json!({"driver": "example.com", "nodeName": NAME, "pool": pool, "devices": [device]});
    client.create(&format!("{DEVICES}/resourceslices"), &json!({"metadata": {"name": NAME}, "spec": slice})).await?;
    let request = json!({"name": "r", "exactly": {"deviceClassName": "none"}});
    let claim = json!({"metadata": {"name": NAME}, "spec": {"devices": {"requests": [request]}}});
    let claims = format!("{DEVICES}/namespaces/default/resourceclaims");
    client.create(&claims, &claim).await?;
    let spec = json!({
        "tolerations": [{"key": taint["key"], "operator": "Exists"}],
        "resourceClaims": [{"name": "c", "resourceClaimName": NAME}],
    });
    let user = client.create(PODS, &pod("with-tainted-device", spec)).await?;
    let result = json!({"request": "r", "driver": "example.com", "pool": NAME, "device": "one"});
    let status = json!({"status": {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "with-tainted-device", "uid": user["metadata"]["uid"]}],
    }});
    client.patch(&format!("{claims}/{NAME}/status"), PatchKind::Merge, &status).await.map(drop)
}

/// One that succeeds by indexes, one whose failure a policy handles, and one of another controller.
fn jobs() -> [Value; 3] {
    let job = |name: &str, spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});

    [
        job(
            "indexed",
            json!({
                "completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1,
                "template": ends_with("0"),
            }),
        ),
        job(
            "policy",
            json!({
                "template": ends_with("3"),
                "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]},
            }),
        ),
        job("external", json!({"managedBy": "example.com/queue", "template": ends_with("0")})),
    ]
}

/// A template of Pods that end with this exit code.
fn ends_with(code: &str) -> Value {
    template("job", IMAGE, "Never", &json!({"sim.pintle.dev/exit-code": code}))
}

/// One that is due: it ran last some minutes ago.
async fn cron_job(client: &ApiClient) -> Result<()> {
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *", "suspend": true,
            "jobTemplate": {"spec": {"template": ends_with("0")}},
        },
    });
    client.create(CRON_JOBS, &cron_job).await?;
    let path = format!("{CRON_JOBS}/tick");
    client
        .patch(&format!("{path}/status"), PatchKind::Merge, &last_due(jiff::Timestamp::now(), Duration::from_secs(150)))
        .await?;
    client.patch(&path, PatchKind::Merge, &json!({"spec": {"suspend": false}})).await.map(drop)
}
