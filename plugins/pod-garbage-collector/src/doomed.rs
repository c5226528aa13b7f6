//! Pods to delete: their writes and metrics.

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Moment, Mutation, Outcome, PatchType, Resource, Step};
use serde_json::{Value, json};

use crate::types::{Pod, PodStatusConditions};

#[doc(alias = "DisruptionTarget")]
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Reason label of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    #[doc(alias = "PodGCReasonTerminated")]
    Terminated,
    #[doc(alias = "PodGCReasonTerminatingOutOfService")]
    OutOfService,
    #[doc(alias = "PodGCReasonOrphaned")]
    Orphaned,
    #[doc(alias = "PodGCReasonTerminatingUnscheduled")]
    Unscheduled,
}

/// A Pod to delete.
pub(crate) struct Doomed {
    pub(crate) pod: Pod,
    pub(crate) reason: Reason,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

impl Doomed {
    /// Sets the Pod to Failed, unless it has ended.
    #[doc(alias = "markFailedAndDeletePodWithCondition", alias = "PatchPodStatus")]
    fn fail(&self, now: Timestamp) -> Option<Mutation> {
        let Pod { metadata, status, .. } = &self.pod;
        if ["Succeeded", "Failed"].contains(&status.phase.as_str()) {
            return None;
        }
        let mut patch = json!({"phase": "Failed"});
        if metadata.generation != 0 {
            patch["observedGeneration"] = json!(metadata.generation);
        }
        if self.reason == Reason::Orphaned {
            patch["conditions"] = json!([disruption_target(metadata.generation, &status.conditions, now)]);
            let mut types: Vec<&str> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
            if !types.contains(&DISRUPTION_TARGET) {
                types.push(DISRUPTION_TARGET);
            }
            let order: Vec<Value> = types.into_iter().map(|kind| json!({"type": kind})).collect();
            patch["$setElementOrder/conditions"] = json!(order);
        }
        let body = json!({"status": patch});
        let patch = Mutation::patch(&Pod::KIND, metadata.key(), PatchType::StrategicMerge, body);
        Some(patch.subresource("status").uid(&metadata.uid))
    }

    fn delete(&self) -> Mutation {
        let metadata = &self.pod.metadata;
        Mutation::delete(&Pod::KIND, &metadata.namespace, &metadata.name).uid(&metadata.uid).grace_period_seconds(0)
    }
}

/// As for other Pod conditions: the transition time stays if the status does.
#[doc(alias = "UpdatePodCondition")]
fn disruption_target(generation: i64, conditions: &[PodStatusConditions], now: Timestamp) -> Value {
    let old = conditions.iter().find(|condition| condition.type_ == DISRUPTION_TARGET && condition.status == "True");
    let since = old.map_or(Some(now.truncate()), |old| old.last_transition_time);
    let mut condition = json!({
        "type": DISRUPTION_TARGET, "status": "True", "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists", "lastTransitionTime": since,
    });
    if generation != 0 {
        condition["observedGeneration"] = json!(generation);
    }
    condition
}

/// Deletes the Pods independently of each other. Ended ones take one request each, in parallel; the others are deleted
/// sequentially, each after it is set to Failed.
#[doc(alias = "markFailedAndDeletePod", alias = "markFailedAndDeletePodWithCondition")]
pub(crate) fn delete(doomed: &[Doomed], now: Timestamp) -> Outcome {
    let mut together = Step::parallel([]);
    let mut ended = Vec::new();
    let mut others = Vec::new();
    for one in doomed {
        match one.fail(now) {
            None => {
                together.mutations.push(one.delete());
                ended.push(one);
            }
            Some(fail) => others.push((one, fail)),
        }
    }
    let mut outcome = Outcome::new().step(together);
    if let Some(last) = outcome.last_place() {
        for (one, position) in ended.into_iter().zip(0..=last.position) {
            outcome = count(outcome, one, pintle_sdk::Place { position, ..last });
        }
    }
    for (one, fail) in others {
        outcome.push(Step::sequential([fail, one.delete()]).always());
        if let Some(deleted) = outcome.last_place() {
            outcome = count(outcome, one, deleted);
        }
    }
    outcome
}

/// Counts a deletion, and its failure, which includes a failure to set the Pod to Failed.
#[doc(alias = "DeletingPodsTotal", alias = "DeletingPodsErrorTotal")]
fn count(outcome: Outcome, one: &Doomed, deleted: pintle_sdk::Place) -> Outcome {
    let labels = || vec![one.pod.metadata.namespace.clone(), one.reason.name().to_owned()];
    outcome.observe("pod_gc_collector_force_delete_pods_total", labels(), 1.0).observe_at(
        Moment::Failed(deleted),
        "pod_gc_collector_force_delete_pod_errors_total",
        labels(),
        1.0,
    )
}
