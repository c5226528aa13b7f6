//! The Nodes that a DaemonSet fits.
//!
//! The rules themselves are in [`plugin_lib::nodes`].

use pintle_sdk::{Error, Lister};
use plugin_lib::nodes::{Affinity, Daemon, Placement, Target};

use crate::types::{ListedDaemonSet, Node};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    toleration_comparisons: bool,
}

/// Whether the toleration operators `Lt` and `Gt` are enabled.
///
/// # Errors
/// If the configuration does not fit its type.
pub(crate) fn comparisons(lister: &impl Lister) -> Result<bool, Error> {
    Ok(lister.config::<Config>()?.toleration_comparisons)
}

/// Prepares a placement that already has the tolerations of DaemonSets, for many Nodes.
pub(crate) fn daemon(placement: &Placement, comparisons: bool) -> Daemon<'_> {
    Daemon { required: placement.required(), placement, comparisons }
}

/// The fields of a Node that placement reads.
pub(crate) fn target(node: &Node) -> Target<'_> {
    Target { name: &node.metadata.name, labels: &node.metadata.labels, taints: &node.spec.taints }
}

/// Placement of a DaemonSet's Pods.
pub(crate) fn placement(set: &ListedDaemonSet) -> Placement {
    let spec = &set.spec.template.spec;
    let node_affinity = spec.affinity.as_ref().map(|affinity| affinity.node_affinity.clone());
    let placement = Placement {
        node_name: spec.node_name.clone(),
        host_network: spec.host_network,
        node_selector: spec.node_selector.clone(),
        affinity: Affinity { node_affinity },
        tolerations: spec.tolerations.clone(),
    };
    placement.for_daemon()
}
