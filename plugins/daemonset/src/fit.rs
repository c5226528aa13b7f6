//! Which Nodes a DaemonSet fits.
//!
//! Not here: the rules themselves, which are those of [`plugin_lib::nodes`].

use pintle_sdk::{Error, Lister};
use plugin_lib::nodes::{Affinity, Daemon, Placement, Target};

use crate::types::{ListedDaemonSet, Node};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    toleration_comparisons: bool,
}

/// Whether the operators `Lt` and `Gt` of tolerations count.
///
/// # Errors
/// If the configuration does not fit its type.
pub(crate) fn comparisons(lister: &impl Lister) -> Result<bool, Error> {
    Ok(lister.config::<Config>()?.toleration_comparisons)
}

/// Prepares a placement, which has the tolerations of DaemonSets already, for many Nodes.
pub(crate) fn daemon(placement: &Placement, comparisons: bool) -> Daemon<'_> {
    Daemon { required: placement.required(), placement, comparisons }
}

/// A Node, as placement reads it.
pub(crate) fn target(node: &Node) -> Target<'_> {
    Target { name: &node.metadata.name, labels: &node.metadata.labels, taints: &node.spec.taints }
}

/// Where Pods of a DaemonSet may run.
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
