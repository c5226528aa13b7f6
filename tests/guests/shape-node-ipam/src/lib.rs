//! The shape of the node IPAM controller: an allocation over all keys. The cache shows the write of another key only later, so what
//! is handed out is reserved in the state, in the same outcome as the write; a refused write releases it.

use std::collections::BTreeMap;

use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, PatchType, Query, Resource, Step};
use plugin_lib::cidr::{self, Allocator};
use serde::Deserialize;
use serde_json::json;

pintle_sdk::types!("manifest.yaml");

/// Node -> range that it has got, and the cache may not show yet.
const RESERVED: &str = "reserved";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    cluster_cidr: String,
    node_mask_size: u8,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let settings: Settings = lister.config()?;
    let mut reserved: BTreeMap<String, String> = match lister.state(RESERVED) {
        Some(text) => serde_json::from_str(&text).map_err(|error| Error::Terminal(error.to_string()))?,
        None => BTreeMap::new(),
    };
    let before = reserved.clone();
    let keep = |reserved: &BTreeMap<String, String>, outcome: Outcome| {
        if *reserved == before { outcome } else { outcome.keep(RESERVED, json!(reserved).to_string()) }
    };
    // The last write of this key was refused: what it asked for is free.
    if !lister.failures().is_empty() {
        reserved.remove(&key.name);
    }
    let nodes: Vec<Node> = lister.list(&Query::all())?;
    // What the cache shows is no reservation any more; of a Node that is gone, neither.
    reserved.retain(|name, _| nodes.iter().any(|node| node.metadata.name == *name && node.spec.pod_cidr.is_empty()));
    let Some(node) = nodes.iter().find(|node| node.metadata.name == key.name) else {
        return Ok(keep(&reserved, Outcome::new()));
    };
    if !node.spec.pod_cidr.is_empty() || node.metadata.deletion_timestamp.is_some() {
        return Ok(keep(&reserved, Outcome::new()));
    }
    let range = match reserved.get(&key.name) {
        Some(range) => range.clone(),
        None => {
            let mut parts = Allocator::new(cidr::parse(&settings.cluster_cidr)?, settings.node_mask_size)?;
            let taken = nodes.iter().flat_map(|node| &node.spec.pod_cidrs).chain(reserved.values());
            for range in taken {
                // What somebody else wrote may be outside of the range, or no range at all.
                if let Ok(range) = cidr::parse(range) {
                    let _ = parts.occupy(&range);
                }
            }
            let Some(free) = parts.allocate() else {
                return Err(Error::retry(format!("{} has no free range left", settings.cluster_cidr)));
            };
            free.to_string()
        }
    };
    reserved.insert(key.name.clone(), range.clone());
    let body = json!({"spec": {"podCIDR": range, "podCIDRs": [range]}});
    let patch =
        Mutation::patch(&Node::KIND, node.metadata.key(), PatchType::StrategicMerge, body).uid(&node.metadata.uid);
    Ok(keep(&reserved, Outcome::new().step(Step::sequential([patch]))))
}

pintle_sdk::export!(reconcile);
