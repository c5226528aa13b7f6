//! The fields of a Node that the nodes use, and its required state: conditions, capacity, no taint while it is ready.
//!
//! Flow: a user labels a Node to simulate it, and annotates it to simulate failures. [`writes`] returns the requests
//! that update the object.
//!
//! Invariants: pure; a Node in the required state needs no request.

use std::collections::HashMap;

use jiff::Timestamp;
use pintle_core::kubernetes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::{MERGE, Request, STRATEGIC};
use crate::requests::host_ip;
use crate::time::rfc3339;
use crate::watch::Watched;

/// The label of simulated Nodes.
pub(crate) const LABEL: &str = "sim.pintle.dev/node";
/// The taint of a Node that is not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Annotations of a failing Node.
const IS_UNREACHABLE: &str = "sim.pintle.dev/unreachable";
const IS_NOT_READY: &str = "sim.pintle.dev/not-ready";

/// A Node as the watch delivers it, without most fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ObservedNode {
    /// Identity, labels and annotations.
    pub metadata: NodeMeta,
    /// Desired state.
    pub spec: NodeSpec,
    /// Observed state.
    pub status: NodeStatus,
}

/// Metadata of an observed Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeMeta {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Resource version.
    pub resource_version: String,
    /// Labels.
    pub labels: HashMap<String, String>,
    /// Annotations; `sim.pintle.dev/...` control the simulation.
    pub annotations: HashMap<String, String>,
}

/// Spec of an observed Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<Taint>,
}

/// A taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// When it was added, for eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// Status of an observed Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Conditions.
    pub conditions: Vec<NodeCondition>,
    /// Allocatable resources.
    pub allocatable: HashMap<String, Value>,
}

/// A condition of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeCondition {
    /// Type.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// The state of a simulated node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    Ready,
    /// Its container runtime is down: it reports that, and can neither start nor stop containers.
    NotReady,
    /// It does not report.
    Unreachable,
}

impl Watched for ObservedNode {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn uid(&self) -> &str {
        &self.metadata.uid
    }
}

impl ObservedNode {
    /// A ready Node without labels.
    pub(crate) fn named(name: &str) -> Self {
        Self { metadata: NodeMeta { name: name.to_owned(), ..NodeMeta::default() }, ..Self::default() }
    }

    /// The state that its annotations set.
    pub(crate) fn state(&self) -> NodeState {
        let is_set = |name: &str| self.metadata.annotations.get(name).is_some_and(|text| text == "true");
        match (is_set(IS_UNREACHABLE), is_set(IS_NOT_READY)) {
            (true, _) => NodeState::Unreachable,
            (false, true) => NodeState::NotReady,
            (false, false) => NodeState::Ready,
        }
    }

    /// Whether its label requests simulation.
    pub(crate) fn is_labelled(&self) -> bool {
        self.metadata.labels.get(LABEL).is_some_and(|text| text == "true")
    }
}

/// The condition Ready.
fn ready(state: NodeState, now: &str) -> Value {
    let (status, reason, message) = match state {
        NodeState::Ready => ("True", "KubeletReady", "kubelet is posting ready status"),
        _ => ("False", "KubeletNotReady", "container runtime is down"),
    };
    condition("Ready", status, reason, message, now)
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now})
}

/// A new Node.
pub(crate) fn object(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", LABEL: "true",
        }},
        "spec": {},
    })
}

/// The complete status of a Node.
pub(crate) fn status(name: &str, state: NodeState, n_pods: u32, now: Timestamp) -> Value {
    let now = rfc3339(now);
    let resources = json!({"cpu": "1k", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": n_pods.to_string()});
    let condition = |kind, reason, message| condition(kind, "False", reason, message, &now);
    json!({"status": {
        "capacity": resources, "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": host_ip(name)}, {"type": "Hostname", "address": name}],
        "conditions": [
            condition("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ready(state, &now),
        ],
        "nodeInfo": {
            "machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "simulated", "osImage": "simulated",
            "containerRuntimeVersion": "sim://1", "kubeletVersion": format!("v{}", kubernetes::VERSION), "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }})
}

/// The requests that update a simulated Node to its state.
///
/// In a complete cluster, the node lifecycle controller manages the taint of a Node that is not ready; here it may not
/// run. Other taints stay.
pub(crate) fn writes(node: &ObservedNode, n_pods: u32, now: Timestamp) -> Vec<Request> {
    let state = node.state();
    if state == NodeState::Unreachable {
        return Vec::new();
    }
    let (meta, mut writes) = (&node.metadata, Vec::new());
    let path = format!("/api/v1/nodes/{}", meta.name);
    let mut patch = |path: String, content_type, body| writes.push(Request::patch(path, content_type, body));
    let hostname = "kubernetes.io/hostname";
    if !meta.labels.contains_key(hostname) {
        let labels = json!({hostname: meta.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
        patch(path.clone(), MERGE, json!({"metadata": {"labels": labels}}));
    }
    let wanted = if state == NodeState::Ready { "True" } else { "False" };
    match node.status.conditions.iter().find(|condition| condition.r#type == "Ready") {
        Some(found) if !node.status.allocatable.is_empty() => {
            if found.status != wanted {
                let body = json!({"status": {"conditions": [ready(state, &rfc3339(now))]}});
                patch(format!("{path}/status"), STRATEGIC, body);
            }
        }
        _ => patch(format!("{path}/status"), STRATEGIC, status(&meta.name, state, n_pods, now)),
    }
    let is_ours = |taint: &Taint| taint.key == NOT_READY && taint.effect == "NoSchedule";
    let is_tainted = node.spec.taints.iter().any(is_ours);
    if is_tainted == (state == NodeState::Ready) {
        let mut taints: Vec<Taint> = node.spec.taints.iter().filter(|taint| !is_ours(taint)).cloned().collect();
        if !is_tainted {
            taints.push(Taint { key: NOT_READY.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
        }
        // The version prevents the loss of a taint that another client adds concurrently; the other requests change it.
        // After them, the next observation has the new one.
        if writes.is_empty() {
            let body = json!({"metadata": {"resourceVersion": meta.resource_version}, "spec": {"taints": taints}});
            writes.push(Request::patch(path, MERGE, body));
        }
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(value: Value) -> ObservedNode {
        let mut node = json!({"metadata": {"name": "n", "resourceVersion": "7", "labels": {"kubernetes.io/hostname": "n"}},
            "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]}});
        for (part, fields) in value.as_object().unwrap() {
            for (field, value) in fields.as_object().unwrap() {
                node[part][field] = value.clone();
            }
        }
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn a_node_gets_what_it_lacks() {
        let off = json!({"sim.pintle.dev/not-ready": "true"});
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let taint = json!([{"key": NOT_READY, "effect": "NoSchedule"}, {"key": "mine", "effect": "NoSchedule"}]);
        for (name, value, wanted) in [
            ("as it should be", json!({}), &[][..]),
            (
                "new",
                json!({"metadata": {"labels": {}}, "status": {"conditions": []}}),
                &["/api/v1/nodes/n", "/api/v1/nodes/n/status"],
            ),
            ("without capacity", json!({"status": {"allocatable": {}}}), &["/api/v1/nodes/n/status"]),
            ("tainted at first", json!({"spec": {"taints": taint}}), &["/api/v1/nodes/n"]),
            ("reported as silent", json!({"status": {"conditions": ready("Unknown")}}), &["/api/v1/nodes/n/status"]),
            ("asked to fail", json!({"metadata": {"annotations": off}}), &["/api/v1/nodes/n/status"]),
            (
                "failed without taint",
                json!({"metadata": {"annotations": off}, "status": {"conditions": ready("False")}}),
                &["/api/v1/nodes/n"],
            ),
            (
                "failed",
                json!({"metadata": {"annotations": off}, "status": {"conditions": ready("False")}, "spec": {"taints": taint}}),
                &[],
            ),
            (
                "unreachable",
                json!({"metadata": {"annotations": {"sim.pintle.dev/unreachable": "true"}}, "status": {"conditions": ready("Unknown")}}),
                &[],
            ),
        ] {
            let paths: Vec<String> =
                writes(&node(value), 10, Timestamp::UNIX_EPOCH).into_iter().map(|write| write.path).collect();
            assert_eq!(paths, wanted, "{name}");
        }
    }

    #[test]
    fn other_taints_stay() {
        let taints = json!([{"key": NOT_READY, "effect": "NoSchedule"}, {"key": NOT_READY, "effect": "NoExecute"},
            {"key": "mine", "value": "x", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]);
        let node = node(json!({"spec": {"taints": taints}}));
        let body = writes(&node, 10, Timestamp::UNIX_EPOCH).remove(0).body;
        let rest: Vec<&Value> = taints.as_array().unwrap().iter().skip(1).collect();
        assert_eq!(body, json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": rest}}));
    }
}
