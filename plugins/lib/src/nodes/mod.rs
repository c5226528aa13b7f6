//! Whether a Pod fits a Node: node selectors, required node affinity, taints and tolerations; and the zone of a Node.
//!
//! ```
//! use plugin_lib::nodes::{Placement, Target, Taint};
//! use std::collections::BTreeMap;
//!
//! // Decoded from `spec` of a Pod, or of a Pod template.
//! let placement: Placement = serde_json::from_str(r#"{"nodeSelector": {"disk": "ssd"}}"#)?;
//! let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
//! let node = Target { name: "n1", labels: &labels, taints: &[] };
//! assert!(placement.required().matches(&node));
//!
//! let taint = Taint { key: "gpu".into(), value: String::new(), effect: "NoSchedule".into() };
//! let fit = placement.for_daemon().daemon_fit(&Target { taints: &[taint], ..node }, false);
//! assert!(!fit.should_run && fit.should_continue);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! *Source*: Kubernetes' `component-helpers/scheduling/corev1/helpers.go`, `.../nodeaffinity/nodeaffinity.go`,
//! `component-helpers/node/topology/helpers.go`, `api/core/v1/toleration.go`,
//! `pkg/controller/daemon/daemon_controller.go` and `pkg/controller/daemon/util/daemonset_util.go`. Upstream also
//! returns an error for a term that does not parse, which callers that check whether a Pod fits ignore.

mod affinity;

pub use affinity::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Required, pin_to_node, pinned_node,
};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The fields of a Node that placement reads.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.labels`.
    pub labels: &'a BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: &'a [Taint],
}

/// A taint of a Node. For `spec.taints` in [`types!`](pintle_sdk::types): `"spec.taints": Vec<Taint>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
}

/// A toleration of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Toleration {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Tolerates taints with this key and effect, with any value and without a time limit.
    pub fn exists(key: &str, effect: &str) -> Self {
        Self { key: key.into(), operator: "Exists".into(), effect: effect.into(), ..Self::default() }
    }

    /// Whether it tolerates the taint. `comparisons` is the feature gate `TaintTolerationComparisonOperators`: without it, `Lt` and
    /// `Gt` tolerate nothing.
    #[doc(alias = "ToleratesTaint")]
    #[doc(alias = "compareNumericValues")]
    pub fn tolerates(&self, taint: &Taint, comparisons: bool) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect || !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            "Lt" | "Gt" if comparisons => {
                let (Some(own), Some(taints)) = (decimal(&self.value), decimal(&taint.value)) else { return false };
                if self.operator == "Lt" { taints < own } else { taints > own }
            }
            _ => false,
        }
    }

    /// Whether both are for the same taints, ignoring the time.
    #[doc(alias = "MatchToleration")]
    fn is_for_the_same(&self, other: &Self) -> bool {
        (&self.key, &self.effect, &self.operator, &self.value)
            == (&other.key, &other.effect, &other.operator, &other.value)
    }
}

/// Parses a whole number without plus sign or leading zeros.
#[doc(alias = "IsDecimalInteger")]
fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" && !text.starts_with('-') || digits.starts_with(|c: char| ('1'..='9').contains(&c));
    if is_plain { text.parse().ok() } else { None }
}

/// The first taint with one of these effects that no toleration tolerates.
#[doc(alias = "FindMatchingUntoleratedTaint")]
pub fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[&str],
    comparisons: bool,
) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint, comparisons)))
}

/// The part of a Pod's spec that decides on its placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Placement {
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub node_name: String,
    pub host_network: bool,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub affinity: Affinity,
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub tolerations: Vec<Toleration>,
}

/// The node affinity in a Pod's `spec.affinity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
}

/// Whether a DaemonSet should have a Pod on a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonFit {
    /// A Pod should be created if there is none.
    pub should_run: bool,
    /// An existing Pod may stay.
    pub should_continue: bool,
}

impl Placement {
    /// Requirements on a Node's labels and name: the node selector and the required node affinity. Parse once, match
    /// many Nodes.
    #[doc(alias = "GetRequiredNodeAffinity")]
    pub fn required(&self) -> Required {
        let selector = self.affinity.node_affinity.as_ref().and_then(NodeAffinity::required);
        Required::new(&self.node_selector, selector)
    }

    /// The same placement with the tolerations of DaemonSet Pods.
    #[doc(alias = "daemonPodTolerations")]
    #[must_use]
    pub fn for_daemon(mut self) -> Self {
        add_daemon_tolerations(&mut self.tolerations, self.host_network);
        self
    }

    /// Whether a DaemonSet should have a Pod like this on a Node. Call it on the result of
    /// [`for_daemon`](Self::for_daemon).
    ///
    /// Each call parses [`required`](Self::required). For many Nodes, use [`Daemon`].
    #[doc(alias = "NodeShouldRunDaemonPod")]
    pub fn daemon_fit(&self, node: &Target<'_>, comparisons: bool) -> DaemonFit {
        Daemon { required: self.required(), placement: self, comparisons }.fit(node)
    }
}

/// A DaemonSet's placement, prepared for many Nodes.
#[derive(Clone, Debug)]
pub struct Daemon<'a> {
    /// Its placement, with the tolerations of DaemonSets.
    pub placement: &'a Placement,
    /// Result of [`Placement::required`].
    pub required: Required,
    /// See [`Toleration::tolerates`].
    pub comparisons: bool,
}

impl Daemon<'_> {
    /// Whether a Node should have a Pod.
    #[doc(alias = "NodeShouldRunDaemonPod")]
    #[doc(alias = "nodeShouldRunDaemonPod")]
    #[doc(alias = "predicates")]
    pub fn fit(&self, node: &Target<'_>) -> DaemonFit {
        let placement = self.placement;
        let is_named = placement.node_name.is_empty() || placement.node_name == node.name;
        if !is_named || !self.required.matches(node) {
            return DaemonFit { should_run: false, should_continue: false };
        }
        let tolerates =
            |effects: &[&str]| untolerated(node.taints, &placement.tolerations, effects, self.comparisons).is_none();
        let should_run = tolerates(&["NoExecute", "NoSchedule"]);
        DaemonFit { should_run, should_continue: should_run || tolerates(&["NoExecute"]) }
    }
}

/// Adds the tolerations of DaemonSet Pods, in place of all that are for the same taints.
#[doc(alias = "AddOrUpdateDaemonPodTolerations")]
#[doc(alias = "AddOrUpdateTolerationInPodSpec")]
pub fn add_daemon_tolerations(tolerations: &mut Vec<Toleration>, host_network: bool) {
    let added = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ];
    let n_added = if host_network { added.len() } else { added.len() - 1 };
    for (key, effect) in &added[..n_added] {
        let toleration = Toleration::exists(&format!("node.kubernetes.io/{key}"), effect);
        let mut is_new = true;
        for current in tolerations.iter_mut().filter(|current| current.is_for_the_same(&toleration)) {
            current.clone_from(&toleration);
            is_new = false;
        }
        if is_new {
            tolerations.push(toleration);
        }
    }
}

/// Region and zone of a Node as one grouping key; empty if the labels have neither. The old labels take precedence.
#[doc(alias = "GetZoneKey")]
pub fn zone_key(labels: &BTreeMap<String, String>) -> String {
    let label = |old: &str, new: &str| labels.get(old).or_else(|| labels.get(new)).map_or("", String::as_str);
    let zone = label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    let region = label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region");
    if zone.is_empty() && region.is_empty() { String::new() } else { format!("{region}:\0:{zone}") }
}

#[cfg(test)]
mod tests;
