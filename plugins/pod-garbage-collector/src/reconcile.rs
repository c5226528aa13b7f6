//! One pass over all Pods.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::{Error, Key, Lister, Outcome, Query};
use plugin_lib::batch::SOON;
use plugin_lib::listing::fitting;
use serde::Deserialize;

use crate::doomed::{self, Doomed, Reason};
use crate::quarantine::Quarantine;
use crate::types::{Node, Pod};

/// The taint by which an administrator declares that a Node is down.
#[doc(alias = "TaintNodeOutOfService")]
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Most Pods that one run deletes, each with its metrics.
const MAX_PODS: usize = 5_000;

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "terminatedPodGCThreshold")]
    terminated_pod_gc_threshold: i64,
}

/// Candidates of the passes.
#[derive(Default)]
struct Candidates {
    terminated: Vec<Pod>,
    out_of_service: Vec<Pod>,
    /// By Node.
    orphaned: BTreeMap<String, Vec<Pod>>,
    unscheduled: Vec<Pod>,
}

/// Decides which Pods to delete.
///
/// # Errors
/// If the configuration or a Node does not fit its type. [`Error::Needs`] if Nodes seem to be deleted.
#[doc(alias = "gc")]
pub fn reconcile(_: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let config: Config = lister.config()?;
    let threshold = usize::try_from(config.terminated_pod_gc_threshold).unwrap_or(0);
    let mut candidates = Candidates::read(lister, threshold > 0)?;
    let mut quarantine = Quarantine::read(lister);
    let gone = quarantine.look(lister, candidates.orphaned.keys())?;

    let mut doomed = Vec::new();
    let mut add = |pods: Vec<Pod>, reason| doomed.extend(pods.into_iter().map(|pod| Doomed { pod, reason }));
    add(candidates.surplus(threshold), Reason::Terminated);
    sort(&mut candidates.out_of_service);
    add(candidates.out_of_service, Reason::OutOfService);
    let orphaned = candidates.orphaned.into_iter().filter(|(node, _)| gone.contains(node));
    add(in_order(orphaned.flat_map(|(_, pods)| pods)), Reason::Orphaned);
    add(candidates.unscheduled, Reason::Unscheduled);

    let mut seen = BTreeSet::new();
    doomed.retain(|one| seen.insert(one.pod.metadata.uid.clone()));
    let rest = doomed.split_off(doomed.len().min(MAX_PODS));
    let waiting = rest.iter().filter(|one| one.reason == Reason::Orphaned).map(|one| &one.pod.spec.node_name);
    let outcome = doomed::delete(&doomed, lister.now()?);
    let outcome = quarantine.keep(waiting, outcome);
    Ok(if rest.is_empty() { outcome } else { outcome.requeue_after(SOON) })
}

impl Candidates {
    /// Reads all Nodes and Pods. Ended Pods are the largest part, so they are left out if no pass needs them.
    #[doc(alias = "gcTerminating", alias = "gcOrphaned", alias = "gcUnscheduledTerminating")]
    fn read(lister: &impl Lister, with_terminated: bool) -> Result<Self, Error> {
        let nodes: BTreeMap<String, bool> = lister
            .list::<Node>(&Query::all())?
            .into_iter()
            .map(|node| (node.metadata.name.clone(), is_out_of_service(&node)))
            .collect();
        let mut found = Self::default();
        for pod in fitting::<Pod>(lister, &Query::all()) {
            let is_terminating = pod.metadata.deletion_timestamp.is_some();
            let node = &pod.spec.node_name;
            if with_terminated && is_terminated(&pod) {
                found.terminated.push(pod.clone());
            }
            match nodes.get(node) {
                Some(true) if is_terminating => found.out_of_service.push(pod),
                Some(_) => {}
                None if !node.is_empty() => found.orphaned.entry(node.clone()).or_default().push(pod),
                None if is_terminating => found.unscheduled.push(pod),
                None => {}
            }
        }
        Ok(found)
    }

    /// Ended Pods beyond the threshold.
    #[doc(alias = "gcTerminated")]
    fn surplus(&mut self, threshold: usize) -> Vec<Pod> {
        let n_surplus = self.terminated.len().saturating_sub(threshold);
        if n_surplus > 0 {
            sort(&mut self.terminated);
        }
        self.terminated.truncate(n_surplus);
        std::mem::take(&mut self.terminated)
    }
}

fn is_out_of_service(node: &Node) -> bool {
    let ready = node.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.is_none_or(|ready| ready.status != "True") && node.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Any phase except Pending, Running and Unknown.
#[doc(alias = "isPodTerminated")]
fn is_terminated(pod: &Pod) -> bool {
    !["Pending", "Running", "Unknown"].contains(&pod.status.phase.as_str())
}

/// Evicted ones first, so that users can still inspect the others.
#[doc(alias = "byEvictionAndCreationTimestamp")]
fn sort(pods: &mut [Pod]) {
    pods.sort_by(|a, b| {
        let order = |pod: &Pod| (!is_evicted(pod), pod.metadata.creation_timestamp);
        let name = |pod: &Pod| (pod.metadata.name.clone(), pod.metadata.namespace.clone());
        order(a).cmp(&order(b)).then_with(|| name(a).cmp(&name(b)))
    });
}

#[doc(alias = "PodIsEvicted")]
fn is_evicted(pod: &Pod) -> bool {
    pod.status.phase == "Failed" && pod.status.reason == "Evicted"
}

/// Ordered by namespace and name, as read.
fn in_order(pods: impl Iterator<Item = Pod>) -> Vec<Pod> {
    let mut pods: Vec<Pod> = pods.collect();
    pods.sort_by(|a, b| (&a.metadata.namespace, &a.metadata.name).cmp(&(&b.metadata.namespace, &b.metadata.name)));
    pods
}
