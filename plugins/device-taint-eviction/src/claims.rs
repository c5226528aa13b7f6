//! ResourceClaims and the Pods that use them.
//!
//! *Source*: `resourceclaim/{pod,resourceclaim}.go` of Kubernetes' `dynamic-resource-allocation`.

use std::collections::BTreeMap;

use pintle_sdk::{Error, Key, Lister, Outcome, Query};
use plugin_lib::listing::fitting;

use crate::types::{Config, Pod, ResourceClaim, ResourceClaimStatusReservedFor, pod_key};

/// Group of PodGroups.
const SCHEDULING: &str = "scheduling.k8s.io";

/// Most Pods that one claim runs: the limit of an outcome.
const MAX_PODS: usize = 10_000;

/// Runs the Pods for which a claim is reserved: a taint of its devices has changed.
///
/// # Errors
/// If the configuration or the claim does not fit its type.
#[doc(alias = "handleSliceChange", alias = "handleRuleChange", alias = "handlePods")]
pub(crate) fn wake(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let config: Config = lister.config()?;
    let Some(claim) = lister.get::<ResourceClaim>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let mut names = Vec::new();
    for consumer in &claim.status.reserved_for {
        if is_pod(consumer) {
            names.push(consumer.name.clone());
        } else if is_group(consumer, config) {
            names.extend(members(lister, &key.namespace, &consumer.name).into_iter().map(|pod| pod.metadata.name));
        }
    }
    names.truncate(MAX_PODS);
    Ok(names.iter().fold(Outcome::new(), |outcome, name| outcome.wake(pod_key(&key.namespace, name))))
}

/// The Pods that use a claim and for which it is reserved, by name.
///
/// # Errors
/// If a Pod does not fit its type.
#[doc(alias = "handlePods")]
pub(crate) fn users(
    claim: &ResourceClaim,
    lister: &impl Lister,
    config: Config,
) -> Result<BTreeMap<String, Pod>, Error> {
    let namespace = &claim.metadata.namespace;
    let mut pods = BTreeMap::new();
    for consumer in &claim.status.reserved_for {
        if is_pod(consumer) {
            let pod = lister.get::<Pod>(namespace, &consumer.name)?;
            pods.extend(pod.map(|pod| (consumer.name.clone(), pod)));
        } else if is_group(consumer, config) {
            let members = members(lister, namespace, &consumer.name).into_iter();
            pods.extend(members.map(|pod| (pod.metadata.name.clone(), pod)));
        }
    }
    let uses_it = |pod: &Pod| {
        let mut claims = claims_of(pod).into_iter().filter(|(name, _)| *name == claim.metadata.name);
        claims.any(|(_, is_owned)| uses(pod, claim, is_owned, config))
    };
    pods.retain(|_, pod| uses_it(pod));
    Ok(pods)
}

/// The Pods of a PodGroup.
fn members(lister: &impl Lister, namespace: &str, group: &str) -> Vec<Pod> {
    fitting(lister, &Query::namespace(namespace).index("group", group)).collect()
}

fn is_pod(consumer: &ResourceClaimStatusReservedFor) -> bool {
    consumer.api_group.is_empty() && consumer.resource == "pods"
}

fn is_group(consumer: &ResourceClaimStatusReservedFor, config: Config) -> bool {
    config.pod_group_claims && consumer.api_group == SCHEDULING && consumer.resource == "podgroups"
}

/// The claims of a Pod that exist: their names, and whether the Pod must be their owner.
#[doc(alias = "PodClaims")]
#[doc(alias = "Name")]
pub(crate) fn claims_of(pod: &Pod) -> Vec<(&str, bool)> {
    let mut made: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for status in &pod.status.resource_claim_statuses {
        made.entry(&status.name).or_insert(status.resource_claim_name.as_deref());
    }
    let mut claims = Vec::new();
    for claim in &pod.spec.resource_claims {
        if let Some(name) = &claim.resource_claim_name {
            claims.push((name.as_str(), false));
        } else if claim.resource_claim_template_name.is_some() {
            // Absent as long as the claim is not made, or if the Pod runs without it.
            claims.extend(made.get(claim.name.as_str()).copied().flatten().map(|name| (name, true)));
        }
    }
    let extended = pod.status.extended_resource_claim_status.as_ref().map(|status| status.resource_claim_name.as_str());
    claims.extend(extended.filter(|name| !name.is_empty()).map(|name| (name, true)));
    claims
}

/// Whether a claim is reserved for the Pod, and was made for it if `is_owned`.
pub(crate) fn uses(pod: &Pod, claim: &ResourceClaim, is_owned: bool, config: Config) -> bool {
    (!is_owned || is_for(pod, claim, config)) && is_reserved_for(pod, claim, config)
}

/// Whether a claim was made for the Pod, or for its group.
#[doc(alias = "IsForPod")]
#[doc(alias = "isForPodGroupByPod")]
fn is_for(pod: &Pod, claim: &ResourceClaim, config: Config) -> bool {
    let Some(owner) = claim.metadata.controller() else { return false };
    let is_of_scheduling =
        || owner.api_version.strip_prefix(SCHEDULING).is_some_and(|version| version.starts_with('/'));
    owner.uid == pod.metadata.uid
        || config.pod_group_claims
            && owner.kind == "PodGroup"
            && is_of_scheduling()
            && group_of(pod) == Some(owner.name.as_str())
}

/// Whether the Pod, or its group, is among the consumers of a claim.
#[doc(alias = "IsReservedForPod")]
fn is_reserved_for(pod: &Pod, claim: &ResourceClaim, config: Config) -> bool {
    claim.status.reserved_for.iter().any(|consumer| {
        consumer.uid == pod.metadata.uid || is_group(consumer, config) && group_of(pod) == Some(consumer.name.as_str())
    })
}

/// The PodGroup of a Pod.
fn group_of(pod: &Pod) -> Option<&str> {
    pod.spec.scheduling_group.as_ref()?.pod_group_name.as_deref()
}
