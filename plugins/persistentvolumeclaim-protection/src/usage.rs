//! Which claims Pods use.
//!
//! *Invariants*
//! 1. A Pod uses claims from when it is scheduled until it is gone, also after it has ended: the kubelet starts no Pod whose claim is
//!    being deleted, and unmounts late.
//! 2. A generic ephemeral volume uses the claim that belongs to its Pod, until the Pod is shut down. Otherwise a Pod that waits for its
//!    claim to go would hold it.
//!
//! *Source*: `podUsesPVCForDeletion`, `podIsShutDown`; `ephemeral.go` of component-helpers.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::{Error, Lister, LiveDetail, Need, ObjectKey, Query, Resource};
use plugin_lib::state::Record;

use crate::types::{PersistentVolumeClaim, Pod};

/// All Pods of a namespace; the host bounds the bytes of an answer.
const ALL: u32 = i32::MAX.unsigned_abs();

/// Most Nodes whose Pods are listed separately: a run can ask for that many lists, and the list of the other Nodes names all of them.
const MOST_NODES: usize = 1_200;

/// The claims that some Pods of one namespace use.
#[derive(Default)]
pub(crate) struct Usage {
    /// Names of claims.
    claims: BTreeSet<String>,
    /// Name of the claim of a generic ephemeral volume, and uid of its Pod.
    ephemeral: BTreeSet<(String, String)>,
}

impl Usage {
    fn of(pods: impl IntoIterator<Item = Pod>) -> Self {
        let mut usage = Self::default();
        usage.add(pods);
        usage
    }

    fn add(&mut self, pods: impl IntoIterator<Item = Pod>) {
        for pod in pods.into_iter().filter(|pod| !pod.spec.node_name.is_empty()) {
            let is_shut_down = pod.metadata.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0);
            for volume in pod.spec.volumes {
                if let Some(claim) = volume.persistent_volume_claim {
                    self.claims.insert(claim.claim_name);
                } else if volume.ephemeral.is_some() && !is_shut_down {
                    let claim = format!("{}-{}", pod.metadata.name, volume.name);
                    self.ephemeral.insert((claim, pod.metadata.uid.clone()));
                }
            }
        }
    }

    /// Whether one of the Pods uses the claim.
    pub(crate) fn has(&self, claim: &PersistentVolumeClaim) -> bool {
        let name = &claim.metadata.name;
        let of_its_pod = |uid: &String| self.ephemeral.contains(&(name.clone(), uid.clone()));
        self.claims.contains(name) || claim.metadata.controller().is_some_and(|owner| of_its_pod(&owner.uid))
    }
}

/// Whether a Pod in the cache uses the claim.
///
/// # Errors
/// If a Pod does not fit its type.
pub(crate) fn in_cache(claim: &PersistentVolumeClaim, lister: &impl Lister) -> Result<bool, Error> {
    let namespace = &claim.metadata.namespace;
    let by_name = Query::namespace(namespace).index("claim", &claim.metadata.name);
    let mut pods: Vec<Pod> = lister.list(&by_name)?;
    if let Some(owner) = claim.metadata.controller() {
        pods.extend(lister.get::<Pod>(namespace, &owner.name)?);
    }
    Ok(Usage::of(pods).has(claim))
}

/// What the Pods of a namespace use, of which the cache may not have all yet.
pub(crate) enum Live {
    /// They use this.
    Usage(Usage),
    /// One answer has no room for them: list them by these Nodes, which the next run finds in the state.
    TooMany(Vec<String>),
}

/// The Nodes by which the Pods of a namespace are listed, if they are.
pub(crate) fn nodes(lister: &impl Lister, namespace: &str) -> Record<Vec<String>> {
    Record::read(lister, ObjectKey::new("", namespace).state_name("nodes"))
}

/// Lists the Pods of a namespace. Of more than one answer can have, those of each Node, and then those of all other Nodes. The Nodes are
/// kept from the run before: the cache may show others in each round of a run.
///
/// # Errors
/// If they must be listed first, or that fails.
pub(crate) fn live(namespace: &str, kept: Option<&Vec<String>>, lister: &impl Lister) -> Result<Live, Error> {
    let all = || Need::live_list(&Pod::KIND, namespace, ALL).detail(LiveDetail::Projection);
    let needs: Vec<Need> = match kept {
        None => vec![all()],
        Some(nodes) => {
            // A Pod without a Node uses nothing yet.
            let none = "spec.nodeName!=".to_owned();
            let others: Vec<String> = nodes.iter().map(|node| format!("{none}{node}")).chain([none.clone()]).collect();
            let by_node = nodes.iter().map(|node| all().fields(format!("spec.nodeName={node}")));
            by_node.chain([all().fields(others.join(","))]).collect()
        }
    };
    let unanswered: Vec<Need> = needs.iter().filter(|need| lister.answer(need).is_none()).cloned().collect();
    if !unanswered.is_empty() {
        return Err(Error::Needs(unanswered));
    }
    let mut usage = Usage::default();
    for need in &needs {
        match lister.ask(need.clone())? {
            Ok(pods) => usage.add(serde_json::from_str::<Vec<Pod>>(&pods)?),
            Err(error) if error.reason == "TooLarge" && kept.is_none() => {
                return Ok(Live::TooMany(busiest_nodes(namespace, lister)?));
            }
            Err(error) => return Err(Error::retry(format!("live list of pods failed: {}", error.message))),
        }
    }
    Ok(Live::Usage(usage))
}

/// The Nodes with most Pods of a namespace.
fn busiest_nodes(namespace: &str, lister: &impl Lister) -> Result<Vec<String>, Error> {
    let mut n_pods: BTreeMap<String, usize> = BTreeMap::new();
    for pod in lister.list::<Pod>(&Query::namespace(namespace))? {
        if !pod.spec.node_name.is_empty() {
            *n_pods.entry(pod.spec.node_name).or_default() += 1;
        }
    }
    let mut nodes: Vec<(String, usize)> = n_pods.into_iter().collect();
    nodes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    Ok(nodes.into_iter().take(MOST_NODES).map(|(node, _)| node).collect())
}
