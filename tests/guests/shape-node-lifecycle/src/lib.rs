//! The shape of the node lifecycle controller: a tick looks at all Nodes. A Node is healthy as long as something of it changes within
//! the grace period, by the clock that nobody sets; the times that kubelets write are compared for equality only. After a restart
//! every Node has the whole period again. The Pods of a Node that went silent are keys of another queue.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::{Error, Key, Lister, Mutation, ObjectKey, Outcome, PatchType, Query, Resource, Step};
use serde::{Deserialize, Serialize};
use serde_json::json;

pintle_sdk::types!("manifest.yaml");

const HEALTH: &str = "health";
const PODS: &str = "node_lifecycle_controller_pods";
const CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What was seen of a Node.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Health {
    /// Heartbeat of its condition and time of its Lease, as texts.
    seen: [String; 2],
    /// When one of them changed last, in seconds since the start of the host.
    at: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    /// In milliseconds.
    grace_period: u64,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == PODS { pods_of(&key.name, lister) } else { all_nodes(lister) }
}

fn all_nodes(lister: &impl Lister) -> Result<Outcome, Error> {
    let settings: Settings = lister.config()?;
    let (now, grace) = (lister.uptime().as_secs_f64(), Duration::from_millis(settings.grace_period).as_secs_f64());
    let old: BTreeMap<String, Health> = match lister.state(HEALTH) {
        Some(text) => serde_json::from_str(&text).map_err(|error| Error::Terminal(error.to_string()))?,
        None => BTreeMap::new(),
    };
    let (mut health, mut patches) = (BTreeMap::new(), Vec::new());
    let mut n_unhealthy = 0;
    for node in lister.list::<Node>(&Query::all())? {
        let name = node.metadata.name.clone();
        let ready = node.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let heartbeat = ready.and_then(|ready| ready.last_heartbeat_time).map(|time| time.micros()).unwrap_or_default();
        let lease = lister.get::<Lease>("kube-node-lease", &name)?.and_then(|lease| lease.spec.renew_time);
        let seen = [heartbeat, lease.map(|time| time.micros()).unwrap_or_default()];
        let of_node = match old.get(&name) {
            Some(old) if old.seen == seen => old.clone(),
            _ => Health { seen, at: now },
        };
        let is_silent = now - of_node.at > grace;
        health.insert(name, of_node);
        if is_silent && ready.is_none_or(|ready| ready.status != "Unknown") {
            patches.push(unknown(&node, lister.now()?));
        }
        n_unhealthy += u32::from(is_silent || ready.is_none_or(|ready| ready.status != "True"));
    }
    Ok(Outcome::new().step(Step::parallel(patches)).keep(HEALTH, json!(health).to_string()).observe(
        "node_collector_unhealthy_nodes_in_zone",
        vec![String::new()],
        f64::from(n_unhealthy),
    ))
}

/// The Pods of a Node that is not ready are not ready either.
fn pods_of(node: &str, lister: &impl Lister) -> Result<Outcome, Error> {
    let node_object = lister.get::<Node>("", node)?;
    let conditions = node_object.iter().flat_map(|node| &node.status.conditions);
    if !conditions.clone().any(|condition| condition.type_ == "Ready" && condition.status != "True") {
        return Ok(Outcome::new());
    }
    let now = lister.now()?;
    let pods: Vec<Pod> = lister.list(&Query::all().index("node", node))?;
    let patches = pods.iter().filter(|pod| is_ready(pod)).map(|pod| {
        let body = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]}});
        let key = ObjectKey::new(&pod.metadata.namespace, &pod.metadata.name);
        let patch = Mutation::patch(&Pod::KIND, key, PatchType::StrategicMerge, body);
        patch.subresource("status").uid(&pod.metadata.uid)
    });
    Ok(Outcome::new().step(Step::parallel(patches)))
}

fn is_ready(pod: &Pod) -> bool {
    pod.status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn unknown(node: &Node, now: pintle_sdk::time::Timestamp) -> Mutation {
    let unknown = |kind: &&str| {
        json!({
            "type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
        })
    };
    let conditions: Vec<_> = CONDITIONS.iter().map(unknown).collect();
    let body = json!({"status": {"conditions": conditions}});
    let patch = Mutation::patch(&Node::KIND, node.metadata.key(), PatchType::StrategicMerge, body);
    patch.subresource("status").uid(&node.metadata.uid)
}

pintle_sdk::export!(reconcile);
