//! The condition `Unused` of a claim: whether a Pod refers to it, and since when.

use pintle_sdk::api::meta::Condition;
use pintle_sdk::document::Document;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Mutation, Resource};

use crate::types::PersistentVolumeClaim;

#[doc(alias = "PersistentVolumeClaimUnused")]
const UNUSED: &str = "Unused";

/// Whether the claim should have the condition: it is bound.
pub(crate) fn is_due(claim: &PersistentVolumeClaim) -> bool {
    !claim.metadata.is_deleting() && claim.status.phase == "Bound"
}

/// Whether the condition differs or is absent.
#[doc(alias = "updateUnusedCondition")]
pub(crate) fn differs(claim: &PersistentVolumeClaim, is_used: bool) -> bool {
    match claim.status.conditions.iter().find(|condition| condition.type_ == UNUSED) {
        None => true,
        Some(condition) => (condition.status == "True") == is_used,
    }
}

/// The update of the status that sets the condition.
#[doc(alias = "setUnusedCondition")]
pub(crate) fn update(mut document: Document, is_used: bool, now: Timestamp) -> Mutation {
    const PATH: [&str; 2] = ["status", "conditions"];
    let (status, reason, message) = match is_used {
        true => ("False", "PodUsingPVC", "A pod is currently referencing this PVC"),
        false => ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    let new = Condition {
        type_: UNUSED.into(),
        status: status.into(),
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };
    let mut conditions: Vec<Condition> = document.get(&PATH).unwrap_or_default();
    match conditions.iter_mut().find(|condition| condition.type_ == UNUSED) {
        Some(condition) => *condition = new,
        None => conditions.push(new),
    }
    document.set(&PATH, &conditions);
    Mutation::update_status(&PersistentVolumeClaim::KIND, document)
}
