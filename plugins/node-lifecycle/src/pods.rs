//! Pods on Nodes that are not ready are not ready either, so that no endpoint leads to them. No Pod is deleted here.
//!
//! A Pod is marked when it is bound to such a Node, and with all others of its Node when the monitor has marked that.

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, PatchType, Query, Refusal, Resource, Step};
use plugin_lib::listing::fitting;
use serde_json::json;

use crate::types::{FALSE, Node, Pod, READY, TRUE};

/// Name of the index of Pods by Node.
const BY_NODE: &str = "node";

/// Marks one Pod, or the Pods of a Node.
///
/// # Errors
/// If the Pod, or its Node, does not fit its type.
#[doc(alias = "processPod")]
pub(crate) fn sync(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let is_node = key.kind == Node::KIND;
    let pod = if is_node { None } else { lister.get::<Pod>(&key.namespace, &key.name)? };
    let name = if is_node { Some(&key.name) } else { pod.as_ref().map(|pod| &pod.spec.node_name) };
    let Some(name) = name.filter(|name| !name.is_empty()).cloned() else { return Ok(Outcome::new()) };
    let node = lister.get::<Node>("", &name)?;
    // Nothing is known of a Node without the condition.
    if node.as_ref().and_then(Node::ready).is_none_or(|ready| ready == TRUE) {
        return Ok(Outcome::new());
    }
    let now = lister.now()?;
    let pods: Vec<Pod> = match pod {
        Some(pod) => vec![pod],
        None => fitting(lister, &Query::all().index(BY_NODE, name)).collect(),
    };
    Ok(Outcome::new().step(Step::parallel(pods.iter().filter_map(|pod| mark(pod, now)))))
}

/// Sets the condition of a Pod, if it has one that says otherwise.
#[doc(alias = "MarkPodsNotReady")]
fn mark(pod: &Pod, now: Timestamp) -> Option<Mutation> {
    let ready = pod.status.conditions.iter().find(|condition| condition.type_ == READY)?;
    if ready.status == FALSE {
        return None;
    }
    let condition = json!({"type": READY, "status": FALSE, "lastTransitionTime": now});
    let body = json!({"status": {"conditions": [condition]}});
    let patch = Mutation::patch(&Pod::KIND, pod.metadata.key(), PatchType::StrategicMerge, body);
    let event = Event::warning(&Pod::KIND, &pod.metadata, "NodeNotReady", "Node is not ready");
    Some(patch.subresource("status").uid(&pod.metadata.uid).tolerate([Refusal::NotFound]).on_success(event))
}
