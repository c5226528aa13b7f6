//! Which claims Pods use.
//!
//! *Invariants*
//! 1. A Pod uses claims from when it is scheduled until it is gone, also after it has ended: the kubelet starts no Pod whose claim is
//!    being deleted, and unmounts late.
//! 2. A generic ephemeral volume uses the claim that belongs to its Pod, until the Pod is shut down. Otherwise a Pod that waits for its
//!    claim to go would hold it.
//! 3. A Pod refers to claims from when it is created until it has ended: this is for the condition `Unused`.
//!
//! *Source*: `podUsesPVCForDeletion`, `podIsShutDown`, `podUsesPVCForUnusedSince`; `ephemeral.go` of component-helpers; `IsPodTerminated`
//! of `pkg/volume/util`.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::{Error, Lister, LiveDetail, Need, ObjectKey, Query, Resource};
use plugin_lib::pods;
use plugin_lib::state::Record;

use crate::types::{PersistentVolumeClaim, Pod, PodStatusContainerStatuses};

/// All Pods of a namespace; the host bounds the bytes of an answer.
const ALL: u32 = i32::MAX.unsigned_abs();

/// Most Nodes whose Pods are listed separately: a run can ask for that many lists, and the list of the other Nodes names all of them.
const MOST_NODES: usize = 1_200;

/// What a Pod does with a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// It keeps a claim that is being deleted.
    Use,
    /// It makes a claim not unused.
    Reference,
}

/// The claims that some Pods of one namespace use and refer to.
#[derive(Default)]
pub(crate) struct Usage {
    /// Names of claims.
    claims: BTreeSet<(String, Verb)>,
    /// Name of the claim of a generic ephemeral volume, and uid of its Pod.
    ephemeral: BTreeSet<(String, String, Verb)>,
    /// Whether other Pods, without a Node, may refer to claims.
    pub(crate) is_partial: bool,
}

impl Usage {
    fn of(pods: impl IntoIterator<Item = Pod>) -> Self {
        let mut usage = Self::default();
        usage.add(pods);
        usage
    }

    fn add(&mut self, pods: impl IntoIterator<Item = Pod>) {
        for pod in pods {
            let is_scheduled = !pod.spec.node_name.is_empty();
            let is_shut_down = pod.metadata.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0);
            let refers = (!is_terminated(&pod)).then_some(Verb::Reference);
            for volume in pod.spec.volumes {
                if let Some(claim) = volume.persistent_volume_claim {
                    let verbs = is_scheduled.then_some(Verb::Use).into_iter().chain(refers);
                    self.claims.extend(verbs.map(|verb| (claim.claim_name.clone(), verb)));
                } else if volume.ephemeral.is_some() {
                    let verbs = (is_scheduled && !is_shut_down).then_some(Verb::Use).into_iter().chain(refers);
                    let claim = format!("{}-{}", pod.metadata.name, volume.name);
                    self.ephemeral.extend(verbs.map(|verb| (claim.clone(), pod.metadata.uid.clone(), verb)));
                }
            }
        }
    }

    /// Whether one of the Pods uses the claim, or refers to it.
    pub(crate) fn has(&self, verb: Verb, claim: &PersistentVolumeClaim) -> bool {
        let name = &claim.metadata.name;
        let of_its_pod = |uid: &String| self.ephemeral.contains(&(name.clone(), uid.clone(), verb));
        self.claims.contains(&(name.clone(), verb))
            || claim.metadata.controller().is_some_and(|owner| of_its_pod(&owner.uid))
    }
}

/// Whether the Pod has ended: as a whole, or it is being deleted and no container runs.
#[doc(alias = "IsPodTerminated")]
fn is_terminated(pod: &Pod) -> bool {
    let status = &pod.status;
    pods::is_terminal(pod)
        || pod.metadata.is_deleting()
            && not_running(&status.init_container_statuses)
            && not_running(&status.container_statuses)
            && not_running(&status.ephemeral_container_statuses)
}

/// Whether each of the containers waits or has ended.
fn not_running(statuses: &[PodStatusContainerStatuses]) -> bool {
    statuses.iter().all(|status| status.state.terminated.is_some() || status.state.waiting.is_some())
}

/// What Pods in the cache do with the claim.
///
/// # Errors
/// If a Pod does not fit its type.
pub(crate) fn in_cache(claim: &PersistentVolumeClaim, lister: &impl Lister) -> Result<Usage, Error> {
    let namespace = &claim.metadata.namespace;
    let by_name = Query::namespace(namespace).index("claim", &claim.metadata.name);
    let mut pods: Vec<Pod> = lister.list(&by_name)?;
    if let Some(owner) = claim.metadata.controller() {
        pods.extend(lister.get::<Pod>(namespace, &owner.name)?);
    }
    Ok(Usage::of(pods))
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
            let none = "spec.nodeName!=".to_owned();
            let others: Vec<String> = nodes.iter().map(|node| format!("{none}{node}")).chain([none.clone()]).collect();
            let by_node = nodes.iter().map(|node| all().fields(format!("spec.nodeName={node}")));
            by_node.chain([all().fields(others.join(",")), all().fields("spec.nodeName=")]).collect()
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
            // Of these nothing is in use yet.
            Err(error) if error.reason == "TooLarge" && Some(need) == needs.last() => usage.is_partial = true,
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
