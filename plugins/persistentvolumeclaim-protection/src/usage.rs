//! Usage of claims by Pods.
//!
//! *Invariants*
//! 1. A Pod uses claims from scheduling until its deletion, even after it has ended: the kubelet starts no Pod whose
//!    claim is being deleted, and unmounts late.
//! 2. A generic ephemeral volume uses the claim of its own Pod, until the Pod is shut down. Otherwise a Pod that waits
//!    for its claim's deletion would block it.
//! 3. A Pod refers to claims from its creation until it has ended: this is for the condition `Unused`.
//!
//! *Source*: `pvc_protection_controller.go`, `ephemeral.go` of component-helpers, and `pkg/volume/util`.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::{Error, Lister, LiveDetail, Need, ObjectKey, Query, Resource, log};
use plugin_lib::listing::fitting;
use plugin_lib::pods;
use plugin_lib::state::Record;

use crate::types::{PersistentVolumeClaim, Pod, PodStatusContainerStatuses};

/// Lists all Pods of a namespace; the host bounds the bytes of an answer.
const ALL: u32 = i32::MAX.unsigned_abs();

/// Most Nodes whose Pods are listed separately: the number of lists that a run can request. The list for the other
/// Nodes excludes all of them.
const MOST_NODES: usize = 1_200;

/// Relation of a Pod to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    /// The Pod blocks the claim's deletion.
    Use,
    /// The claim is not unused.
    Reference,
}

/// The claims that some Pods of a namespace use and refer to.
#[derive(Default)]
pub(crate) struct Usage {
    /// Names of claims.
    claims: BTreeSet<(String, Verb)>,
    /// Claim name of a generic ephemeral volume, and uid of its Pod.
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

    #[doc(alias = "podUsesPVCForDeletion")]
    #[doc(alias = "podUsesPVCForUnusedSince")]
    #[doc(alias = "podIsShutDown")]
    #[doc(alias = "VolumeClaimName")]
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
    #[doc(alias = "VolumeIsForPod")]
    pub(crate) fn has(&self, verb: Verb, claim: &PersistentVolumeClaim) -> bool {
        let name = &claim.metadata.name;
        let of_its_pod = |uid: &String| self.ephemeral.contains(&(name.clone(), uid.clone(), verb));
        self.claims.contains(&(name.clone(), verb))
            || claim.metadata.controller().is_some_and(|owner| of_its_pod(&owner.uid))
    }
}

/// Whether the Pod has ended: its phase is final, or it is being deleted and no container runs.
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
#[doc(alias = "notRunning")]
fn not_running(statuses: &[PodStatusContainerStatuses]) -> bool {
    statuses.iter().all(|status| status.state.terminated.is_some() || status.state.waiting.is_some())
}

/// Whether a Pod in the cache uses the claim, or refers to it. If a Pod does not fit its type, it is assumed to do so;
/// other claims are not affected.
#[doc(alias = "askInformer")]
pub(crate) fn in_cache(verb: Verb, claim: &PersistentVolumeClaim, lister: &impl Lister) -> bool {
    match pods_of(claim, lister) {
        Ok(pods) => Usage::of(pods).has(verb, claim),
        Err(error) => {
            log::error(&error.to_string());
            true
        }
    }
}

/// The Pods in the cache that may use the claim.
fn pods_of(claim: &PersistentVolumeClaim, lister: &impl Lister) -> Result<Vec<Pod>, Error> {
    let namespace = &claim.metadata.namespace;
    let by_name = Query::namespace(namespace).index("claim", &claim.metadata.name);
    let mut pods: Vec<Pod> = lister.list(&by_name)?;
    if let Some(owner) = claim.metadata.controller() {
        pods.extend(lister.get::<Pod>(namespace, &owner.name)?);
    }
    Ok(pods)
}

/// Live usage by the Pods of a namespace, some of which the cache may not have yet.
pub(crate) enum Live {
    /// The usage.
    Usage(Usage),
    /// Too many for one answer: list them by these Nodes, which the next run reads from the state.
    TooMany(Vec<String>),
}

/// The Nodes for listing the Pods of a namespace in parts, if stored.
pub(crate) fn nodes(lister: &impl Lister, namespace: &str) -> Record<Vec<String>> {
    Record::read(lister, ObjectKey::new("", namespace).state_name("nodes"))
}

/// Lists the Pods of a namespace. If one answer cannot have all of them, lists those of each Node, and then those of
/// all other Nodes. The Nodes come from the previous run: the cache may show others in each round of a run.
///
/// # Errors
/// If lists are needed first, or fail.
#[doc(alias = "askAPIServer")]
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
                return Ok(Live::TooMany(busiest_nodes(namespace, lister)));
            }
            // Pods without a Node use nothing yet.
            Err(error) if error.reason == "TooLarge" && Some(need) == needs.last() => usage.is_partial = true,
            Err(error) => return Err(Error::retry(format!("live list of pods failed: {}", error.message))),
        }
    }
    Ok(Live::Usage(usage))
}

/// The Nodes with the most Pods of a namespace.
fn busiest_nodes(namespace: &str, lister: &impl Lister) -> Vec<String> {
    let mut n_pods: BTreeMap<String, usize> = BTreeMap::new();
    for pod in fitting::<Pod>(lister, &Query::namespace(namespace)) {
        if !pod.spec.node_name.is_empty() {
            *n_pods.entry(pod.spec.node_name).or_default() += 1;
        }
    }
    let mut nodes: Vec<(String, usize)> = n_pods.into_iter().collect();
    nodes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    nodes.into_iter().take(MOST_NODES).map(|(node, _)| node).collect()
}
