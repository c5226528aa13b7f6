//! Evictions because of taints: the condition that names the reason to the owner of a Pod, and the deletion.
//!
//! *Source*: `UpdatePodCondition` of Kubernetes' `pkg/api/v1/pod/util.go`, and `PatchPodStatus` of `pkg/util/pod/pod.go`.

use std::time::Duration;

use pintle_sdk::api::meta::{Condition, Metadata};
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Kind, LONGEST_REQUEUE, Mutation, PatchType};
use serde_json::{Value, json};

use crate::conditions::find;

const POD: Kind = Kind::new("", "v1", "Pod");

#[doc(alias = "DisruptionTarget")]
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// A controller's reason to delete Pods.
#[derive(Clone, Copy, Debug)]
pub struct Disruption {
    /// Reason of the condition `DisruptionTarget`.
    pub reason: &'static str,
    /// Message of the condition.
    pub message: &'static str,
}

impl Disruption {
    /// Whether the conditions of a Pod name this reason.
    pub fn is_set(&self, conditions: &[Condition]) -> bool {
        find(conditions, DISRUPTION_TARGET).is_some_and(|old| {
            (old.status.as_str(), old.reason.as_str(), old.message.as_str()) == ("True", self.reason, self.message)
                && old.last_probe_time.is_none()
        })
    }

    /// The patch of the status that sets the condition, unless it is set. The transition time stays if the status does.
    ///
    /// `generation` is the observed one; `None` or 0 is left out.
    #[doc(alias = "UpdatePodCondition")]
    #[doc(alias = "PatchPodStatus")]
    pub fn mark(
        &self,
        pod: &impl Metadata,
        conditions: &[Condition],
        generation: Option<i64>,
        now: Timestamp,
    ) -> Option<Mutation> {
        if self.is_set(conditions) {
            return None;
        }
        let old = find(conditions, DISRUPTION_TARGET);
        let since = old.filter(|old| old.status == "True").map_or(Some(now.truncate()), |old| old.last_transition_time);
        let mut condition = json!({
            "type": DISRUPTION_TARGET, "status": "True", "reason": self.reason, "message": self.message,
            "lastTransitionTime": since,
        });
        if let Some(generation) = generation.filter(|generation| *generation != 0) {
            condition["observedGeneration"] = json!(generation);
        } else if old.is_some_and(|old| old.observed_generation.is_some()) {
            condition["observedGeneration"] = Value::Null;
        }
        if old.is_some_and(|old| old.last_probe_time.is_some()) {
            condition["lastProbeTime"] = Value::Null;
        }
        // A new condition becomes the last one, an old one keeps its place.
        let body = json!({"status": {"conditions": [condition]}});
        let patch = Mutation::patch(&POD, pod.key(), PatchType::StrategicMerge, body);
        Some(patch.subresource("status").uid(pod.uid()))
    }
}

/// Deletes a Pod, and not a later one of this name, with its own grace period.
pub fn delete(pod: &impl Metadata) -> Mutation {
    Mutation::delete(&POD, pod.namespace(), pod.name()).uid(pod.uid())
}

/// Time until `due`, both in seconds since the host started; `None` if it has passed. Longer times are cut to the
/// longest requeue.
pub fn left(due: f64, now: f64) -> Option<Duration> {
    let left = due - now;
    (left > 0.0).then(|| Duration::from_secs_f64(left.min(LONGEST_REQUEUE.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use pintle_sdk::Action;
    use pintle_sdk::api::meta::ObjectMeta;

    use super::*;

    const WHY: Disruption = Disruption { reason: "DeletionByTaintManager", message: "m" };

    fn patched(conditions: Value, generation: Option<i64>) -> Option<Value> {
        let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
        let pod = ObjectMeta { name: "p".into(), namespace: "ns".into(), uid: "u".into(), ..ObjectMeta::default() };
        let now = Timestamp::parse("2026-01-01T00:00:00.9Z").unwrap();
        let patch = WHY.mark(&pod, &conditions, generation, now);
        assert_eq!(patch.is_none(), WHY.is_set(&conditions));
        match patch?.action {
            Action::Patch { body, subresource, preconditions, .. } => {
                assert_eq!((subresource.as_deref(), preconditions.uid.as_deref()), (Some("status"), Some("u")));
                let mut body: Value = serde_json::from_str(&body).unwrap();
                Some(body["status"]["conditions"][0].take())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_condition_is_set_once() {
        let new = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        assert_eq!(patched(json!([{"type": "Ready", "status": "True"}]), None), Some(new.clone()));
        assert_eq!(patched(json!([new]), None), None);
        // As upstream, another generation is no change.
        assert_eq!(patched(json!([new]), Some(3)), None);
        let mut observed = new.clone();
        observed["observedGeneration"] = json!(3);
        assert_eq!(patched(json!([]), Some(3)), Some(observed));
        assert_eq!(patched(json!([]), Some(0)), Some(new));
    }

    #[test]
    fn the_transition_time_is_that_of_the_status() {
        let old = |status: &str| {
            json!([{
                "type": "DisruptionTarget", "status": status, "reason": "PreemptionByScheduler", "observedGeneration": 2,
                "lastProbeTime": "2025-01-01T00:00:00Z", "lastTransitionTime": "2025-06-01T00:00:00Z",
            }])
        };
        let changed = |time: &str| {
            json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "m",
                "lastTransitionTime": time, "observedGeneration": null, "lastProbeTime": null,
            })
        };
        assert_eq!(patched(old("True"), None), Some(changed("2025-06-01T00:00:00Z")));
        assert_eq!(patched(old("False"), None), Some(changed("2026-01-01T00:00:00Z")));
    }

    #[test]
    fn times_beyond_every_requeue_are_cut() {
        for (due, now, expected) in [
            (10.0, 10.0, None),
            (5.0, 10.0, None),
            (10.5, 10.0, Some(Duration::from_millis(500))),
            (9.3e18, 10.0, Some(LONGEST_REQUEUE)),
            (f64::INFINITY, 0.0, Some(LONGEST_REQUEUE)),
            (f64::NAN, 0.0, None),
        ] {
            assert_eq!(left(due, now), expected, "{due}");
        }
    }
}
