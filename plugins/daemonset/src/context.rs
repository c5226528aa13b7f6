//! Inputs of one run: the DaemonSet, the Nodes that it fits, and its Pods.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Lister, Query};
use plugin_lib::history::POD_LABEL;
use plugin_lib::nodes::{DaemonFit, Placement, pinned_node};
use plugin_lib::pods;

use crate::fit::{self, target};
use crate::types::{DaemonSet, Node, Pod};

/// Label of Pods: the generation of their template, which older clients use.
#[doc(alias = "DaemonSetTemplateGenerationKey")]
pub(crate) const GENERATION_LABEL: &str = "pod-template-generation";
/// Annotation of DaemonSets with the generation of the template.
#[doc(alias = "DeprecatedTemplateGeneration")]
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// Inputs of one run.
pub(crate) struct Context {
    /// The DaemonSet.
    pub(crate) set: DaemonSet,
    /// Hash of the revision of its template.
    pub(crate) hash: String,
    /// Generation of its template, if it has one.
    pub(crate) generation: Option<String>,
    /// Node -> whether it should have a Pod.
    pub(crate) fits: BTreeMap<String, DaemonFit>,
    /// Node, which may be deleted -> Pods, the one to keep first. Never empty. Ended Pods that are being deleted are
    /// left out, because they need no further change.
    pub(crate) pods: BTreeMap<String, Vec<Pod>>,
    /// Hashes of the revisions of all Pods.
    pub(crate) live_hashes: BTreeSet<String>,
    /// Time of the run.
    pub(crate) now: Timestamp,
}

impl Context {
    /// Reads the Nodes, and groups the DaemonSet's Pods by Node. Pods for no Node are ignored.
    ///
    /// # Errors
    /// An object does not decode.
    #[doc(alias = "getNodesToDaemonPods", alias = "GetTemplateGeneration")]
    pub(crate) fn new(lister: &impl Lister, set: DaemonSet, hash: String, owned: Vec<Pod>) -> Result<Self, Error> {
        let spec = set.spec.template.spec.parse::<Option<Placement>>().map_err(|error| not_a_pod_spec(&set, &error))?;
        let placement = spec.unwrap_or_default().for_daemon();
        let daemon = fit::daemon(&placement, fit::comparisons(lister)?);
        let nodes = lister.list::<Node>(&Query::all())?;
        let fits = nodes.into_iter().map(|node| {
            let fit = daemon.fit(&target(&node));
            (node.metadata.name, fit)
        });
        let fits = fits.collect();
        let mut live_hashes = BTreeSet::new();
        let mut by_node: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in owned {
            let Some(node) = node_of(&pod).map(str::to_owned) else { continue };
            live_hashes.extend(pod.metadata.labels.get(POD_LABEL).cloned());
            if !(pods::is_terminal(&pod) && pod.metadata.is_deleting()) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        by_node.values_mut().for_each(|pods| pods.sort_by(|a, b| order(a).cmp(&order(b))));
        let generation = set.metadata.annotations.get(GENERATION).and_then(|text| text.parse::<i64>().ok());
        let generation = generation.map(|number| number.to_string());
        Ok(Self { set, hash, generation, fits, pods: by_node, live_hashes, now: lister.now()? })
    }

    /// The Pods on, or for, a Node.
    pub(crate) fn on(&self, node: &str) -> &[Pod] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// Whether a Pod has been ready for `minReadySeconds`.
    pub(crate) fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, self.set.spec.min_ready_seconds, self.now)
    }

    /// Whether a Pod was made from the current template.
    #[doc(alias = "IsPodUpdated")]
    pub(crate) fn is_updated(&self, pod: &Pod) -> bool {
        let has_generation = |own: &String| pod.metadata.labels.get(GENERATION_LABEL) == Some(own);
        self.has_hash(pod) || self.generation.as_ref().is_some_and(has_generation)
    }

    /// Whether a Pod has the hash of the current revision.
    pub(crate) fn has_hash(&self, pod: &Pod) -> bool {
        !self.hash.is_empty() && pod.metadata.labels.get(POD_LABEL) == Some(&self.hash)
    }

    /// Number of Nodes that should have a Pod.
    pub(crate) fn n_desired(&self) -> usize {
        self.fits.values().filter(|fit| fit.should_run).count()
    }
}

/// The error for a template that does not decode. A retry does not help until it changes.
pub(crate) fn not_a_pod_spec(set: &DaemonSet, error: &serde_json::Error) -> Error {
    Error::terminal(format!("spec.template.spec of DaemonSet {} is not the spec of a Pod: {error}", set.metadata.name))
}

/// The Node on which a Pod runs, or for which it is.
fn node_of(pod: &Pod) -> Option<&str> {
    let affinity = pod.spec.affinity.as_ref().map(|affinity| &affinity.node_affinity);
    pinned_node(&pod.spec.node_name, affinity).ok()
}

/// Pods with a Node first, then the oldest, then by name.
#[doc(alias = "podByCreationTimestampAndPhase")]
fn order(pod: &Pod) -> (bool, Option<Timestamp>, &str) {
    (pod.spec.node_name.is_empty(), pod.metadata.creation_timestamp, &pod.metadata.name)
}
