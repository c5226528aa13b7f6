//! Of each plugin that keeps Pods an object with ten children whose status is right, as the input of a case.

use serde_json::{Value, json};

use super::N_CHILDREN as N;

pub(super) const BEFORE: &str = "2025-12-31T23:00:00Z";
pub(super) const NOW: &str = "2026-01-01T12:00:00Z";
const IMAGE: &str = "web:now";

/// Name of the plugin, and the input.
pub(super) fn all() -> [(&'static str, Value); 9] {
    [
        ("deployment-controller", deployment()),
        ("replicaset-controller", replica_set()),
        ("replicationcontroller-controller", replication_controller()),
        ("statefulset-controller", stateful_set()),
        ("daemonset-controller", daemon_set()),
        ("job-controller", job()),
        ("cronjob-controller", cron_job()),
        ("disruption-controller", budget()),
        ("horizontal-pod-autoscaler-controller", autoscaler()),
    ]
}

fn deployment() -> Value {
    let sets = children(|number| {
        let mut set = object("apps/v1", "ReplicaSet", &format!("web-{number}"));
        let (image, size) = if number == N - 1 { (IMAGE.to_owned(), N) } else { (format!("web:{number}"), 0) };
        let labels = json!({"app": "web", "pod-template-hash": number.to_string()});
        set["metadata"]["labels"] = labels.clone();
        set["metadata"]["ownerReferences"] = json!([owner("apps/v1/Deployment")]);
        set["metadata"]["annotations"] = json!({
            "deployment.kubernetes.io/revision": (number + 1).to_string(),
            "deployment.kubernetes.io/desired-replicas": N.to_string(),
            "deployment.kubernetes.io/max-replicas": (N + 1).to_string(),
        });
        set["spec"] = json!({
            "replicas": size,
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}},
        });
        set["status"] = json!({
            "observedGeneration": 1, "replicas": size, "readyReplicas": size, "availableReplicas": size,
            "terminatingReplicas": 0,
        });
        set
    });
    let status = json!({
        "observedGeneration": 1, "replicas": N, "updatedReplicas": N, "readyReplicas": N, "availableReplicas": N,
        "terminatingReplicas": 0,
        "conditions": [
            condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable"),
        ],
    });
    let mut deployment = root("apps/v1", "Deployment", replicated(), status);
    deployment["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": N.to_string()});
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    case(deployment, [sets])
}

fn replica_set() -> Value {
    case(root("apps/v1", "ReplicaSet", replicated(), counts()), [pods("apps/v1/ReplicaSet", |_, _| {})])
}

fn replication_controller() -> Value {
    let mut spec = replicated();
    spec["selector"] = json!({"app": "web"});
    case(root("v1", "ReplicationController", spec, counts()), [pods("v1/ReplicationController", |_, _| {})])
}

/// The status of a ReplicaSet or ReplicationController.
fn counts() -> Value {
    json!({
        "observedGeneration": 1, "replicas": N, "readyReplicas": N, "availableReplicas": N, "fullyLabeledReplicas": N,
        "terminatingReplicas": 0,
    })
}

fn stateful_set() -> Value {
    let mut spec = replicated();
    spec["serviceName"] = "web".into();
    spec["podManagementPolicy"] = "Parallel".into();
    spec["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    let status = json!({
        "observedGeneration": 1, "replicas": N, "readyReplicas": N, "availableReplicas": N, "currentReplicas": N,
        "updatedReplicas": N, "currentRevision": "web-h1", "updateRevision": "web-h1", "collisionCount": 0,
    });
    let pods = pods("apps/v1/StatefulSet", |number, pod| {
        pod["metadata"]["labels"] = json!({
            "app": "web", "controller-revision-hash": "web-h1", "apps.kubernetes.io/pod-index": number.to_string(),
            "statefulset.kubernetes.io/pod-name": format!("web-{number}"),
        });
    });
    let revision = revision("StatefulSet", "controller.kubernetes.io/hash");
    case(root("apps/v1", "StatefulSet", spec, status), [vec![revision], pods])
}

fn daemon_set() -> Value {
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}}, "template": template(), "revisionHistoryLimit": 2,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
    });
    let status = json!({
        "observedGeneration": 1, "currentNumberScheduled": N, "numberMisscheduled": 0, "desiredNumberScheduled": N,
        "numberReady": N, "updatedNumberScheduled": N, "numberAvailable": N,
    });
    let node = |number| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}")}});
    let pods = pods("apps/v1/DaemonSet", |number, pod| {
        pod["metadata"]["labels"] = json!({"app": "web", "controller-revision-hash": "h1"});
        pod["spec"]["nodeName"] = format!("node-{number}").into();
    });
    let revision = revision("DaemonSet", "controller-revision-hash");
    case(root("apps/v1", "DaemonSet", spec, status), [vec![revision], children(node), pods])
}

fn job() -> Value {
    let spec = json!({
        "parallelism": N, "completions": N, "backoffLimit": 6, "selector": {"matchLabels": {"app": "web"}},
        "template": template(),
    });
    let status = json!({"active": N, "ready": N, "terminating": 0, "startTime": BEFORE, "uncountedTerminatedPods": {}});
    let pods = pods("batch/v1/Job", |_, pod| {
        pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    });
    case(root("batch/v1", "Job", spec, status), [pods])
}

fn cron_job() -> Value {
    let jobs = children(|number| {
        let mut job = object("batch/v1", "Job", &format!("web-{number}"));
        job["metadata"]["ownerReferences"] = json!([owner("batch/v1/CronJob")]);
        job
    });
    let active = children(|number| {
        let name = format!("web-{number}");
        let uid = format!("uid-{name}");
        json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": name, "uid": uid})
    });
    let spec = json!({
        "schedule": "0 0 * * *", "concurrencyPolicy": "Allow", "suspend": false,
        "jobTemplate": {"spec": {"template": template()}},
    });
    let status = json!({"active": active, "lastScheduleTime": "2026-01-01T00:00:00Z"});
    case(root("batch/v1", "CronJob", spec, status), [jobs])
}

fn budget() -> Value {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1});
    let mut allowed = condition("DisruptionAllowed", "SufficientPods");
    allowed["observedGeneration"] = 1.into();
    allowed["message"] = "".into();
    let status = json!({
        "disruptionsAllowed": N - 1, "currentHealthy": N, "desiredHealthy": 1, "expectedPods": N,
        "observedGeneration": 1, "conditions": [allowed],
    });
    case(root("policy/v1", "PodDisruptionBudget", spec, status), [pods("apps/v1/ReplicaSet", |_, _| {})])
}

/// An autoscaler whose target has the size that it should have, with the answers that it needs.
fn autoscaler() -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": BEFORE});
    let calculated = "the HPA was able to successfully calculate a replica count from memory resource";
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1, "maxReplicas": 20,
        "metrics": [{
            "type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}},
        }],
    });
    let status = json!({
        "currentReplicas": N, "desiredReplicas": N, "lastScaleTime": BEFORE, "observedGeneration": 1,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "100Mi"}}}],
        "conditions": [
            condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size"),
            condition("ScalingActive", "True", "ValidMetricFound", calculated),
            condition("ScalingLimited", "False", "DesiredWithinRange", "the desired count is within the acceptable range"),
        ],
    });
    let root = root("autoscaling/v2", "HorizontalPodAutoscaler", spec, status);
    let mut case = case(root, [pods("apps/v1/ReplicaSet", |_, _| {})]);
    case["resources"] = json!([{
        "kind": "apps/v1/Deployment", "plural": "deployments", "namespaced": true, "verbs": ["get", "list"],
        "subresources": ["scale", "status"], "preferred": true,
    }]);
    case["subresources"] = json!([{
        "kind": "apps/v1/Deployment", "namespace": "default", "name": "web", "subresource": "scale",
        "answer": {
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": N}, "status": {"replicas": N, "selector": "app=web"},
        },
    }]);
    let metrics = children(|number| {
        json!({
            "metadata": {"name": format!("web-{number}"), "namespace": "default", "labels": {"app": "web"}},
            "timestamp": NOW, "window": "1m0s", "containers": [{"name": "c", "usage": {"cpu": "100m", "memory": "100Mi"}}],
        })
    });
    let path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb";
    case["raw"] = json!({path: {"items": metrics}});
    case["uptime"] = 100_000.0.into();
    case
}

pub(super) fn children(child: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..N).map(child).collect()
}

/// The input of a case about the object `web`, with these objects beside it.
pub(super) fn case<const K: usize>(root: Value, more: [Vec<Value>; K]) -> Value {
    let text = |field: &str| root[field].as_str().unwrap_or_default();
    let kind = format!("{}/{}", text("apiVersion"), text("kind"));
    let objects: Vec<Value> = std::iter::once(root).chain(more.into_iter().flatten()).collect();
    json!({"key": {"kind": kind, "namespace": "default", "name": "web"}, "now": NOW, "objects": objects})
}

/// A value with more fields, also of the objects in it.
pub(super) fn with(mut value: Value, more: Value) -> Value {
    json_patch::merge(&mut value, &more);
    value
}

/// Pods of the object `web` of a kind such as `apps/v1/ReplicaSet`.
pub(super) fn pods(kind: &str, change: impl Fn(usize, &mut Value)) -> Vec<Value> {
    children(|number| {
        let mut pod = pod(&format!("web-{number}"));
        pod["metadata"]["ownerReferences"] = json!([owner(kind)]);
        change(number, &mut pod);
        pod
    })
}

fn condition(kind: &str, reason: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "lastUpdateTime": BEFORE, "lastTransitionTime": BEFORE})
}

/// A spec with as many replicas as there are children.
fn replicated() -> Value {
    json!({"replicas": N, "selector": {"matchLabels": {"app": "web"}}, "template": template()})
}

pub(super) fn object(version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": version, "kind": kind,
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7", "generation": 1,
            "labels": {"app": "web"}, "creationTimestamp": BEFORE,
        },
    })
}

fn root(version: &str, kind: &str, spec: Value, status: Value) -> Value {
    let mut object = object(version, kind, "web");
    object["spec"] = spec;
    object["status"] = status;
    object
}

/// A reference to the object `web` of a kind such as `apps/v1/ReplicaSet`.
pub(super) fn owner(kind: &str) -> Value {
    let (version, kind) = kind.rsplit_once('/').unwrap_or_default();
    json!({
        "apiVersion": version, "kind": kind, "name": "web", "uid": "uid-web", "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": IMAGE}]}})
}

pub(super) fn pod(name: &str) -> Value {
    let mut pod = object("v1", "Pod", name);
    pod["spec"] = json!({"nodeName": "node-1", "containers": [{"name": "c", "image": IMAGE}]});
    pod["status"] = json!({
        "phase": "Running", "startTime": BEFORE,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}],
    });
    pod
}

/// The revision that [`template`] has, and the label that has its hash.
fn revision(kind: &str, hash: &str) -> Value {
    let mut revision = object("apps/v1", "ControllerRevision", "web-h1");
    revision["metadata"]["labels"] = json!({"app": "web", hash: "h1"});
    revision["metadata"]["ownerReferences"] = json!([owner(&format!("apps/v1/{kind}"))]);
    let mut template = template();
    template["$patch"] = "replace".into();
    revision["data"] = json!({"spec": {"template": template}});
    revision["revision"] = 1.into();
    revision
}
