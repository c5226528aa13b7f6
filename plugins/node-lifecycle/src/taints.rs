//! Taints of Nodes, and the patch that changes them.

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Mutation, PatchType, Refusal, Resource};
use serde_json::{Value, json};

use crate::types::{FALSE, Node, NodeCondition, Taint, UNKNOWN};

pub(crate) const NO_EXECUTE: &str = "NoExecute";
pub(crate) const NO_SCHEDULE: &str = "NoSchedule";

#[doc(alias = "TaintNodeNotReady", alias = "NotReadyTaintTemplate")]
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
#[doc(alias = "TaintNodeUnreachable", alias = "UnreachableTaintTemplate")]
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
#[doc(alias = "TaintNodeUnschedulable")]
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";

/// The taints that follow conditions.
#[doc(alias = "taintKeyToNodeConditionMap")]
pub(crate) const OF_CONDITIONS: [&str; 6] =
    [NOT_READY, UNREACHABLE, NETWORK_UNAVAILABLE, MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE];

/// The taint of a condition with its status, if any.
#[doc(alias = "nodeConditionToTaintKeyStatusMap")]
pub(crate) fn of_condition(condition: &NodeCondition) -> Option<&'static str> {
    match (condition.type_.as_str(), condition.status.as_str()) {
        ("Ready", "False") => Some(NOT_READY),
        ("Ready", "Unknown") => Some(UNREACHABLE),
        ("MemoryPressure", "True") => Some(MEMORY_PRESSURE),
        ("DiskPressure", "True") => Some(DISK_PRESSURE),
        ("NetworkUnavailable", "True") => Some(NETWORK_UNAVAILABLE),
        ("PIDPressure", "True") => Some(PID_PRESSURE),
        _ => None,
    }
}

/// The taint `NoExecute` of a Node whose condition `Ready` has this status, and the one that it excludes.
pub(crate) fn of_ready(status: &str) -> Option<(&'static str, &'static str)> {
    match status {
        FALSE => Some((NOT_READY, UNREACHABLE)),
        UNKNOWN => Some((UNREACHABLE, NOT_READY)),
        _ => None,
    }
}

/// Whether the Node has a taint by which its Pods are evicted.
pub(crate) fn is_evicting(node: &Node) -> bool {
    [NOT_READY, UNREACHABLE].iter().any(|key| node.has_taint(key, NO_EXECUTE))
}

/// Replaces a taint with the effect `NoExecute` by the other one.
#[doc(alias = "SwapNodeControllerTaint")]
pub(crate) fn swap(node: &Node, add: &str, remove: &str, now: Timestamp) -> Mutation {
    change(node, NO_EXECUTE, &[add], &[remove], now)
}

/// Removes both taints by which Pods are evicted.
#[doc(alias = "markNodeAsReachable", alias = "RemoveTaintOffNode")]
pub(crate) fn remove_evicting(node: &Node, now: Timestamp) -> Mutation {
    change(node, NO_EXECUTE, &[], &[UNREACHABLE, NOT_READY], now)
}

/// Adds and removes taints with this effect. A taint that the Node has already is replaced, with the time `now`.
///
/// The list is written as a whole, so the patch fails with a conflict if the Node has changed.
#[doc(alias = "AddOrUpdateTaintOnNode", alias = "AddOrUpdateTaint", alias = "PatchNodeTaints")]
pub(crate) fn change(node: &Node, effect: &str, add: &[&str], remove: &[&str], now: Timestamp) -> Mutation {
    let new = |key: &str| Taint {
        key: key.to_owned(),
        effect: effect.to_owned(),
        time_added: Some(now.truncate()),
        ..Taint::default()
    };
    let mut taints = Vec::with_capacity(node.spec.taints.len() + add.len());
    for taint in &node.spec.taints {
        let is_one_of = |keys: &[&str]| taint.effect == effect && keys.contains(&taint.key.as_str());
        if is_one_of(add) {
            taints.push(new(&taint.key));
        } else if !is_one_of(remove) {
            taints.push(taint.clone());
        }
    }
    taints.extend(add.iter().filter(|key| !node.has_taint(key, effect)).map(|key| new(key)));
    let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
    Mutation::patch(&Node::KIND, node.metadata.key(), PatchType::StrategicMerge, json!({"spec": {"taints": taints}}))
        .resource_version(&node.metadata.resource_version)
        .tolerate([Refusal::NotFound])
}
