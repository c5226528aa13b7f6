//! Writes the status of a budget.
//!
//! *Source*: `disruption.go`, and `apps/poddisruptionbudget/helpers.go` of component-helpers.

use pintle_sdk::api::meta::Condition;
use pintle_sdk::document::Document;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Mutation, Resource, find_condition, set_condition};
use plugin_lib::status;
use serde_json::json;

use crate::disrupted::Disrupted;
use crate::types::PodDisruptionBudget;

#[doc(alias = "DisruptionAllowedCondition")]
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
#[doc(alias = "SufficientPodsReason")]
const SUFFICIENT_PODS: &str = "SufficientPods";
#[doc(alias = "InsufficientPodsReason")]
const INSUFFICIENT_PODS: &str = "InsufficientPods";
#[doc(alias = "SyncFailedReason")]
const SYNC_FAILED: &str = "SyncFailed";

/// The Pod counts of a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) expected: i32,
    pub(crate) desired_healthy: i32,
    pub(crate) current_healthy: i32,
}

impl Numbers {
    /// Allowed evictions. Without Pods there are none: the first Pods may be created before the next status.
    fn disruptions_allowed(&self) -> i32 {
        if self.expected <= 0 { 0 } else { self.current_healthy.saturating_sub(self.desired_healthy).max(0) }
    }
}

/// The update to these numbers; `None` if the status already has them.
#[doc(alias = "updatePdbStatus", alias = "UpdateDisruptionAllowedCondition", alias = "ConditionsAreUpToDate")]
pub(crate) fn calculated(
    pdb: &PodDisruptionBudget,
    document: Document,
    numbers: &Numbers,
    disrupted: &Disrupted,
    now: Timestamp,
) -> Option<Mutation> {
    let Numbers { expected, desired_healthy, current_healthy } = *numbers;
    let allowed = numbers.disruptions_allowed();
    let (old, generation) = (&pdb.status, pdb.metadata.generation);
    let verdict = if allowed > 0 { ("True", SUFFICIENT_PODS) } else { ("False", INSUFFICIENT_PODS) };
    let has_verdict = |condition: &Condition| (condition.status.as_str(), condition.reason.as_str()) == verdict;
    if (old.expected_pods, old.desired_healthy, old.current_healthy) == (expected, desired_healthy, current_healthy)
        && old.disruptions_allowed == allowed
        && old.disrupted_pods == disrupted.pods
        && old.observed_generation == generation
        && find_condition(&old.conditions, DISRUPTION_ALLOWED).is_some_and(has_verdict)
    {
        return None;
    }
    let (is_allowed, reason) = verdict;
    let mut new = json!({
        "currentHealthy": current_healthy,
        "desiredHealthy": desired_healthy,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
        "conditions": set_condition(&old.conditions, condition(is_allowed, reason, "", generation), now),
    });
    if !disrupted.pods.is_empty() {
        new["disruptedPods"] = json!(disrupted.pods);
    }
    Some(status::replace::<PodDisruptionBudget>(document, &new))
}

/// The update to a status that allows nothing; `None` if it already does.
#[doc(alias = "failSafe")]
pub(crate) fn failed(
    pdb: &PodDisruptionBudget,
    mut document: Document,
    error: &str,
    now: Timestamp,
) -> Option<Mutation> {
    let old = &pdb.status;
    let failed = condition("False", SYNC_FAILED, error, old.observed_generation);
    let conditions = set_condition(&old.conditions, failed, now);
    if old.disruptions_allowed == 0 && old.conditions == conditions {
        return None;
    }
    document.set(&["status", "disruptionsAllowed"], &0);
    document.set(&["status", "conditions"], &conditions);
    Some(Mutation::update_status(&PodDisruptionBudget::KIND, document))
}

fn condition(status: &str, reason: &str, message: &str, observed: i64) -> Condition {
    Condition {
        type_: DISRUPTION_ALLOWED.into(),
        status: status.into(),
        observed_generation: (observed != 0).then_some(observed),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    }
}
