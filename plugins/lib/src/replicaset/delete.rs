//! Chooses and deletes Pods.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::api::meta::{HasController as _, Metadata as _};
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Lister, Outcome, Query, Step};

use super::owner::{HasSelector as _, Owner};
use super::{Brief, Pod};
use crate::pods;

/// Histogram of the ages of the Pods chosen for deletion, relative to the youngest.
#[doc(alias = "SortingDeletionAgeRatio")]
const AGE_RATIO_METRIC: &str = "replicaset_controller_sorting_deletion_age_ratio";

/// Adds a step that deletes this many of the owner's active Pods, by rank. `costs_count`: whether their annotated
/// deletion costs count.
#[doc(alias = "getPodsToDelete")]
pub(crate) fn push<O: Owner>(
    outcome: &mut Outcome,
    lister: &impl Lister,
    owner: &O,
    active: &[Brief<'_>],
    number: usize,
    now: Timestamp,
    costs_count: bool,
) -> Result<(), Error> {
    let mut active = active.iter().map(Brief::full).collect::<Result<Vec<_>, _>>()?;
    if !costs_count {
        active.iter_mut().for_each(|pod| pod.metadata.annotations = Default::default());
    }
    let chosen: Vec<&Pod> = if number < active.len() {
        let neighbours = neighbours(lister, owner)?;
        let on_node = |pod: &Pod| neighbours.get(&pod.spec.node_name).copied().unwrap_or_default();
        let sorted = pods::rank(&active, on_node, now);
        observe_ages(outcome, &sorted, number, now);
        sorted.into_iter().take(number).collect()
    } else {
        active.iter().collect()
    };
    let meta = owner.metadata();
    outcome.push(Step::parallel(chosen.into_iter().map(|pod| pods::delete(&O::KIND, meta, &pod.metadata))));
    Ok(())
}

/// Active Pods per Node of all owners with the same controller as this one (the ReplicaSets of one Deployment). Empty
/// without a controller.
#[doc(alias = "getIndirectlyRelatedPods")]
#[doc(alias = "getReplicaSetsWithSameController")]
#[doc(alias = "getPodsRankedByRelatedPodsOnSameNode")]
fn neighbours<O: Owner>(lister: &impl Lister, owner: &O) -> Result<BTreeMap<String, usize>, Error> {
    let mut per_node = BTreeMap::new();
    let meta = owner.metadata();
    let Some(controller) = meta.controller_uid() else { return Ok(per_node) };
    let mut seen = BTreeSet::new();
    for sibling in lister.list::<O::Listed>(&Query::namespace(meta.namespace()).controlled_by(controller))? {
        // A sibling with a bad selector has no Pods.
        let Ok(selector) = sibling.selector() else { continue };
        for pod in lister.list::<Pod>(&Query::namespace(meta.namespace()).labels(&selector))? {
            if pods::is_active(&pod) && seen.insert(pod.metadata.uid) {
                *per_node.entry(pod.spec.node_name).or_default() += 1;
            }
        }
    }
    Ok(per_node)
}

/// Records the ages of the chosen Pods relative to the youngest ready one, in whole numbers as upstream does.
#[doc(alias = "reportSortingDeletionAgeRatioMetric")]
fn observe_ages(outcome: &mut Outcome, sorted: &[&Pod], number: usize, now: Timestamp) {
    let age = |pod: &Pod| pod.metadata.creation_timestamp.map(|created| now.since(created).as_millis());
    let youngest = sorted.iter().filter(pods::is_ready).filter_map(|pod| age(pod)).min();
    let Some(youngest) = youngest.filter(|age| *age > 0) else { return };
    for pod in sorted.iter().take(number).filter(pods::is_ready) {
        if let Some(age) = age(pod) {
            // Ratios of ages within a century are far below 2^53.
            let ratio = (age / youngest) as f64;
            *outcome = std::mem::take(outcome).observe(AGE_RATIO_METRIC, Vec::new(), ratio);
        }
    }
}
