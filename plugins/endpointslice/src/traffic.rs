//! Hints by the field `trafficDistribution`: each ready endpoint is for its own zone, and on request for its own Node.
//!
//! *Source*: `trafficdist/trafficdist.go`.

use plugin_lib::slices::{Changes, Endpoint, ForNode, ForZone, Hints, Slice, is_ready};

use crate::topology::has_hints;
use crate::types::Service;

const PREFER_SAME_NODE: &str = "PreferSameNode";

/// The distribution of a Service, if it is known. Hints by topology have priority.
#[doc(alias = "validTrafficDistribution")]
pub(crate) fn distribution(service: &Service) -> Option<&str> {
    let distribution = service.spec.traffic_distribution.as_deref()?;
    let is_known = matches!(distribution, "PreferClose" | "PreferSameZone" | PREFER_SAME_NODE);
    (is_known && !has_hints(service)).then_some(distribution)
}

/// Sets the hints of ready endpoints, also in otherwise unchanged slices.
#[doc(alias = "ReconcileHints")]
pub(crate) fn reconcile_hints(changes: &mut Changes, distribution: &str) {
    let to_nodes = distribution == PREFER_SAME_NODE;
    let differs = |endpoint: &Endpoint| {
        is_ready(endpoint)
            && endpoint.hints.clone().unwrap_or_default() != hints(endpoint, to_nodes).unwrap_or_default()
    };
    let needs_update = |slice: &Slice| slice.object.endpoints.iter().any(differs);
    let unchanged = std::mem::take(&mut changes.unchanged).into_iter();
    let (outdated, unchanged): (Vec<_>, Vec<_>) = unchanged.partition(needs_update);
    changes.unchanged = unchanged;
    changes.update.extend(outdated);
    let written = changes.create.iter_mut().chain(&mut changes.update);
    for endpoint in written.flat_map(|slice| &mut slice.object.endpoints).filter(|endpoint| is_ready(endpoint)) {
        endpoint.hints = hints(endpoint, to_nodes);
    }
}

fn hints(endpoint: &Endpoint, to_nodes: bool) -> Option<Hints> {
    let for_zones: Vec<ForZone> = endpoint.zone.iter().map(|zone| ForZone { name: zone.clone() }).collect();
    let node = endpoint.node_name.iter().filter(|_| to_nodes);
    let for_nodes: Vec<ForNode> = node.map(|node| ForNode { name: node.clone() }).collect();
    let is_empty = for_zones.is_empty() && for_nodes.is_empty();
    (!is_empty).then_some(Hints { for_nodes, for_zones })
}
