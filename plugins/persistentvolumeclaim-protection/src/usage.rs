//! Which claims Pods use.
//!
//! *Invariants*
//! 1. A Pod uses claims from when it is scheduled until it is gone, also after it has ended: the kubelet starts no Pod whose claim is
//!    being deleted, and unmounts late.
//! 2. A generic ephemeral volume uses the claim that belongs to its Pod, until the Pod is shut down. Otherwise a Pod that waits for its
//!    claim to go would hold it.
//!
//! *Source*: `podUsesPVCForDeletion`, `podIsShutDown`; `ephemeral.go` of component-helpers.

use std::collections::BTreeSet;

use pintle_sdk::{Error, Lister, LiveDetail, Need, Query, Resource};

use crate::{PersistentVolumeClaim, Pod};

/// All Pods of a namespace; the host bounds the bytes of an answer, and a longer one is an error.
const ALL: u32 = i32::MAX.unsigned_abs();

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
        for pod in pods.into_iter().filter(|pod| !pod.spec.node_name.is_empty()) {
            let is_shut_down = pod.metadata.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0);
            for volume in pod.spec.volumes {
                if let Some(claim) = volume.persistent_volume_claim {
                    usage.claims.insert(claim.claim_name);
                } else if volume.ephemeral.is_some() && !is_shut_down {
                    let claim = format!("{}-{}", pod.metadata.name, volume.name);
                    usage.ephemeral.insert((claim, pod.metadata.uid.clone()));
                }
            }
        }
        usage
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

/// What the Pods of the namespace use, of which the cache may not have all yet.
///
/// # Errors
/// If they must be listed first, or that fails.
pub(crate) fn live(namespace: &str, lister: &impl Lister) -> Result<Usage, Error> {
    let need = Need::live_list(&Pod::KIND, namespace, ALL).detail(LiveDetail::Projection);
    let pods =
        lister.ask(need)?.map_err(|error| Error::retry(format!("live list of pods failed: {}", error.message)))?;
    Ok(Usage::of(serde_json::from_str::<Vec<Pod>>(&pods)?))
}
