//! Objects of many kinds.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use super::{Doomed, define};
use crate::scenarios::stage::{Stage, replica_set};

/// How many objects there are of each kind.
const N_OBJECTS: usize = 50;

/// How many requests are in flight.
const N_AT_ONCE: usize = 16;

/// Custom kinds beside the built-in ones.
const CUSTOM: [(&str, &str); 13] = [
    ("ants", "Ant"),
    ("bees", "Bee"),
    ("cats", "Cat"),
    ("dogs", "Dog"),
    ("eels", "Eel"),
    ("foxes", "Fox"),
    ("goats", "Goat"),
    ("hens", "Hen"),
    ("ibexes", "Ibex"),
    ("jays", "Jay"),
    ("kites", "Kite"),
    ("lions", "Lion"),
    ("mules", "Mule"),
];

/// A namespace with many objects of forty kinds is deleted.
pub(super) async fn forty(s: &Stage) -> Result<()> {
    let mut kinds: Vec<(String, Value)> = built_in(&format!("{}-x", s.ns));
    for (plural, kind) in CUSTOM {
        let object = json!({"apiVersion": format!("{}.example.com/v1", s.ns), "kind": kind});
        kinds.push((define(s, plural, kind).await?, object));
    }
    ensure!(kinds.len() >= 40, "only {} kinds", kinds.len());
    let doomed = Doomed::create(s).await?;
    let objects = kinds.iter().flat_map(|(path, object)| (0..N_OBJECTS).map(move |n| (path, object, n)));
    let created = futures::stream::iter(objects).map(|(path, object, n)| async move {
        let mut object = object.clone();
        object["metadata"]["name"] = json!(format!("object-{n}"));
        s.client.create(path, &object).await.map(drop)
    });
    created.buffer_unordered(N_AT_ONCE).try_collect::<()>().await?;
    doomed.delete().await?;
    doomed.gone().await
}

/// The collections of built-in kinds, and an object of each without its name. No controller makes Pods of them, and admission gives
/// none of them a finalizer, which only a controller that does not run would remove.
fn built_in(ns: &str) -> Vec<(String, Value)> {
    let labels = json!({"app": "a"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "image:1"}]}});
    let job = json!({"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}]}}});
    let selector = json!({"matchLabels": labels});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"});
    let backend = json!({"service": {"name": "none", "port": {"number": 80}}});
    let devices = json!({"devices": {"requests": []}});
    let mut never = replica_set("a", 0, json!({}));
    never["metadata"] = json!({});
    let none = json!({"spec": {"replicas": 0, "template": pod, "selector": labels}});
    let all = [
        ("/api/v1", "configmaps", json!({})),
        ("/api/v1", "secrets", json!({})),
        ("/api/v1", "services", json!({"spec": {"clusterIP": "None"}})),
        ("/api/v1", "endpoints", json!({})),
        ("/api/v1", "limitranges", json!({"spec": {"limits": []}})),
        ("/api/v1", "resourcequotas", json!({"spec": {}})),
        ("/api/v1", "podtemplates", json!({"template": pod})),
        ("/api/v1", "replicationcontrollers", none),
        ("/api/v1", "serviceaccounts", json!({})),
        ("/api/v1", "events", json!({"involvedObject": {"kind": "Pod", "namespace": ns, "name": "none"}})),
        ("/apis/apps/v1", "deployments", never.clone()),
        ("/apis/apps/v1", "replicasets", never),
        ("/apis/apps/v1", "daemonsets", json!({"spec": {"selector": selector, "template": pod}})),
        (
            "/apis/apps/v1",
            "statefulsets",
            json!({"spec": {"replicas": 0, "serviceName": "none", "selector": selector, "template": pod}}),
        ),
        ("/apis/apps/v1", "controllerrevisions", json!({"revision": 1, "data": {}})),
        ("/apis/batch/v1", "jobs", json!({"spec": job})),
        (
            "/apis/batch/v1",
            "cronjobs",
            json!({"spec": {"suspend": true, "schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}}),
        ),
        (
            "/apis/autoscaling/v2",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}}}),
        ),
        ("/apis/policy/v1", "poddisruptionbudgets", json!({"spec": {"selector": selector}})),
        ("/apis/networking.k8s.io/v1", "networkpolicies", json!({"spec": {"podSelector": {}}})),
        ("/apis/networking.k8s.io/v1", "ingresses", json!({"spec": {"defaultBackend": backend}})),
        ("/apis/coordination.k8s.io/v1", "leases", json!({"spec": {}})),
        ("/apis/rbac.authorization.k8s.io/v1", "roles", json!({"rules": []})),
        ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", json!({"roleRef": role})),
        ("/apis/discovery.k8s.io/v1", "endpointslices", json!({"addressType": "IPv4", "endpoints": []})),
        ("/apis/storage.k8s.io/v1", "csistoragecapacities", json!({"storageClassName": "none"})),
        ("/apis/resource.k8s.io/v1", "resourceclaims", json!({"spec": devices})),
        ("/apis/resource.k8s.io/v1", "resourceclaimtemplates", json!({"spec": {"spec": devices}})),
    ];
    all.into_iter().map(|(group, plural, object)| (format!("{group}/namespaces/{ns}/{plural}"), object)).collect()
}
