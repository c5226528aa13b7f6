//! Which Nodes a DaemonSet fits.
//!
//! Not here: the rules themselves, which are those of [`pintle_sdk::nodes`].

use pintle_sdk::nodes::{Affinity, Daemon, Placement, Target};

use crate::types::{ListedDaemonSet, Node};

/// Prepares a placement, which has the tolerations of DaemonSets already, for many Nodes. The feature gate
/// `TaintTolerationComparisonOperators` is off.
pub(crate) fn daemon(placement: &Placement) -> Daemon<'_> {
    Daemon { required: placement.required(), placement, comparisons: false }
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
