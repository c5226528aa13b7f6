//! The status of a Node that is silent.

use std::collections::BTreeSet;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Event, Mutation, PatchType, Refusal, Resource};
use serde_json::{Value, json};

use crate::types::{Node, READY, TRUE, UNKNOWN};

/// The conditions of which kubelets are the source. `NetworkUnavailable` is not one of them.
const OF_KUBELET: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Sets the conditions of the kubelet to `Unknown`. An event reports it if the Node was ready.
///
/// The patch fails with a conflict if the Node has changed, for example by a heartbeat that the cache does not show.
#[doc(alias = "tryUpdateNodeHealth", alias = "RecordNodeStatusChange")]
pub(crate) fn unknown(node: &Node, now: Timestamp) -> Mutation {
    let own = node.status.conditions.iter().map(|condition| condition.type_.as_str());
    let mut seen = BTreeSet::new();
    let order: Vec<&str> = own.chain(OF_KUBELET).filter(|kind| seen.insert(*kind)).collect();
    let of_kubelet = order.iter().filter(|kind| OF_KUBELET.contains(*kind));
    let conditions: Vec<Value> = of_kubelet.filter_map(|kind| condition(node, kind, now)).collect();
    // Otherwise the server moves those that change to the front.
    let order: Vec<Value> = order.iter().map(|kind| json!({"type": kind})).collect();
    let body = json!({"status": {"conditions": conditions, "$setElementOrder/conditions": order}});
    let patch = Mutation::patch(&Node::KIND, node.metadata.key(), PatchType::StrategicMerge, body)
        .subresource("status")
        .resource_version(&node.metadata.resource_version)
        .tolerate([Refusal::NotFound]);
    if node.ready() != Some(TRUE) {
        return patch;
    }
    let message = format!("Node {} status is now: NodeNotReady", node.metadata.name);
    patch.on_success(Event::normal(&Node::KIND, &node.metadata, "NodeNotReady", message))
}

/// The change of one condition, if any. The heartbeat stays that of the kubelet; without one, it is the creation of the
/// Node.
fn condition(node: &Node, kind: &str, now: Timestamp) -> Option<Value> {
    match node.condition(kind) {
        None => Some(json!({
            "type": kind, "status": UNKNOWN, "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.metadata.creation_timestamp, "lastTransitionTime": now,
        })),
        Some(current) if current.status != UNKNOWN => Some(json!({
            "type": kind, "status": UNKNOWN, "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
        })),
        Some(_) => None,
    }
}
