//! Inputs of the plugins that protect, clean up and complete objects: what they look at exists ten times.

use serde_json::{Value, json};

use super::cases::{BEFORE, NOW, case, children, object, owner, pod, pods};

/// Name of the plugin, and the input.
pub(super) fn all() -> [(&'static str, Value); 9] {
    [
        ("ttl-after-finished-controller", finished_job()),
        ("pod-garbage-collector-controller", ended_pods()),
        ("persistentvolumeclaim-protection-controller", claims_in_use()),
        ("persistentvolume-protection-controller", bound_volume()),
        ("volumeattributesclass-protection-controller", named_class()),
        ("podgroup-protection-controller", group_with_pods()),
        ("ephemeral-volume-controller", ephemeral_volumes()),
        ("ttl-controller", nodes()),
        ("clusterrole-aggregation-controller", aggregated_roles()),
    ]
}

/// A Job whose time has not come, beside ten others.
fn finished_job() -> Value {
    let finished = |name: &str| {
        let mut job = object("batch/v1", "Job", name);
        job["spec"] = json!({"ttlSecondsAfterFinished": 1_000_000});
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": BEFORE}]});
        job
    };
    case(finished("web"), [children(|number| finished(&format!("web-{number}")))])
}

/// Pods that have ended, as few as may stay, each on a Node of its own.
fn ended_pods() -> Value {
    let pods = children(|number| {
        let mut pod = pod(&format!("web-{number}"));
        pod["spec"]["nodeName"] = format!("node-{number}").into();
        pod["status"] = json!({"phase": "Succeeded"});
        pod
    });
    let nodes = children(|number| cluster_scoped("v1", "Node", &format!("node-{number}")));
    tick("orphaned_pods_nodes", [pods, nodes].concat())
}

/// Claims that are being deleted while Pods use them.
fn claims_in_use() -> Value {
    let claims = children(|number| {
        let mut claim = being_deleted(object("v1", "PersistentVolumeClaim", &format!("web-{number}")));
        claim["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
        claim["spec"] = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        claim
    });
    let pods = pods("apps/v1/StatefulSet", |number, pod| {
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("web-{number}")}}]);
    });
    let objects = [claims, pods].concat();
    json!({"key": {"kind": "v1/Namespace", "name": "default"}, "now": NOW, "objects": objects})
}

/// A bound volume. Nothing else matters to it.
fn bound_volume() -> Value {
    let volume = |name: &str| {
        let mut volume = being_deleted(cluster_scoped("v1", "PersistentVolume", name));
        volume["metadata"]["finalizers"] = json!(["kubernetes.io/pv-protection"]);
        volume["status"] = json!({"phase": "Bound"});
        volume
    };
    about(volume("web"), children(|number| volume(&format!("web-{number}"))))
}

/// A class that is being deleted while volumes name it.
fn named_class() -> Value {
    let mut class = being_deleted(cluster_scoped("storage.k8s.io/v1", "VolumeAttributesClass", "web"));
    class["metadata"]["finalizers"] = json!(["kubernetes.io/vac-protection"]);
    class["driverName"] = "driver.example.com".into();
    let volumes = children(|number| {
        let mut volume = cluster_scoped("v1", "PersistentVolume", &format!("web-{number}"));
        volume["spec"] = json!({"volumeAttributesClassName": "web"});
        volume
    });
    about(class, volumes)
}

/// A PodGroup that is being deleted while its Pods run.
fn group_with_pods() -> Value {
    let mut group = being_deleted(object("scheduling.k8s.io/v1beta1", "PodGroup", "web"));
    group["metadata"]["finalizers"] = json!(["scheduling.k8s.io/podgroup-protection"]);
    let member = |number| {
        let mut pod = pod(&format!("web-{number}"));
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "web"});
        pod
    };
    case(group, [children(member)])
}

/// A Pod whose volumes have their claims.
fn ephemeral_volumes() -> Value {
    let mut root = pod("web");
    root["spec"]["volumes"] = children(|number| {
        let template = json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }});
        json!({"name": number.to_string(), "ephemeral": {"volumeClaimTemplate": template}})
    })
    .into();
    let claims = children(|number| {
        let mut claim = object("v1", "PersistentVolumeClaim", &format!("web-{number}"));
        claim["metadata"]["ownerReferences"] = json!([owner("v1/Pod")]);
        claim
    });
    case(root, [claims])
}

/// A Node that has the annotation of a small cluster.
fn nodes() -> Value {
    let node = |name: &str| {
        let mut node = cluster_scoped("v1", "Node", name);
        node["metadata"]["annotations"] = json!({"node.alpha.kubernetes.io/ttl": "0"});
        node
    };
    about(node("web"), children(|number| node(&format!("web-{number}"))))
}

/// A role that has the rules of those that it selects.
fn aggregated_roles() -> Value {
    let rule = |number: usize| json!({"apiGroups": [""], "resources": [format!("kind-{number}")], "verbs": ["get"]});
    let roles = children(|number| {
        let mut role = cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", &format!("web-{number}"));
        role["metadata"]["labels"] = json!({"part": "of-web"});
        role["rules"] = json!([rule(number)]);
        role
    });
    let mut root = cluster_scoped("rbac.authorization.k8s.io/v1", "ClusterRole", "web");
    root["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"part": "of-web"}}]});
    root["rules"] = children(rule).into();
    about(root, roles)
}

pub(super) fn being_deleted(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = BEFORE.into();
    object
}

pub(super) fn cluster_scoped(version: &str, kind: &str, name: &str) -> Value {
    let mut object = object(version, kind, name);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    object
}

/// The input of a case about a cluster-scoped object.
pub(super) fn about(root: Value, more: Vec<Value>) -> Value {
    let mut case = case(root, [more]);
    if let Some(key) = case["key"].as_object_mut() {
        key.remove("namespace");
    }
    case
}

/// The input of a case about all objects.
pub(super) fn tick(name: &str, objects: Vec<Value>) -> Value {
    json!({"key": {"kind": "pintle/v1/Tick", "name": name}, "now": NOW, "objects": objects})
}
