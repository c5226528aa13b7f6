//! Conditions of built-in kinds. Each kind has its own rule for updating an existing condition:
//!
//! | conditions | rule | place | transition time |
//! | --- | --- | --- | --- |
//! | `metav1.Condition`: newer kinds | [`set_condition`] | kept | of the last change of the status |
//! | of `apps` (Deployment, ReplicaSet) | [`set`] | last, if status or reason differ | of the last change of the status |
//! | of a Pod | [`set_pod_condition`] | kept | of the last change of the status |
//! | of a Job | [`set_job_condition`] | kept | of the last change of anything |

use pintle_sdk::api::meta::Condition;
pub use pintle_sdk::conditions::*;
use pintle_sdk::time::Timestamp;

/// Sets a condition by the rule of the `apps` controllers: a no-op if status and reason are unchanged; otherwise the
/// condition moves to the end, and keeps its transition time if only the reason differs.
#[doc(alias = "SetDeploymentCondition")]
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(current) = find(conditions, &condition.type_) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time = current.last_transition_time;
        }
    }
    remove(conditions, &condition.type_);
    conditions.push(condition);
}

/// Sets a condition of a Pod by the rule of Kubernetes' own components: in place, with the old transition time if the
/// status is unchanged. Returns whether anything changed.
///
/// *Source*: Kubernetes' `pkg/api/v1/pod/util.go`.
#[doc(alias = "UpdatePodCondition")]
pub fn set_pod_condition(conditions: &mut Vec<Condition>, condition: Condition, now: Timestamp) -> bool {
    let updated = set_condition(conditions, condition, now);
    let is_changed = updated != *conditions;
    *conditions = updated;
    is_changed
}

/// Sets a condition of a Job: any difference replaces it, with `now` as its times. An absent condition is not added
/// with the status `False`. Returns whether anything changed.
///
/// *Source*: Kubernetes' `pkg/controller/job/job_controller.go`.
#[doc(alias = "ensureJobConditionStatus")]
pub fn set_job_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let current = conditions.iter_mut().find(|condition| condition.type_ == kind);
    let is_same = |current: &Condition| {
        (current.status.as_str(), current.reason.as_str(), current.message.as_str()) == (status, reason, message)
    };
    if current.as_deref().is_some_and(is_same) || current.is_none() && status == "False" {
        return false;
    }
    let condition = Condition {
        type_: kind.into(),
        status: status.into(),
        last_probe_time: Some(now.truncate()),
        last_transition_time: Some(now.truncate()),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };
    match current {
        Some(current) => *current = condition,
        None => conditions.push(condition),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> Condition {
        Condition { type_: kind.into(), status: status.into(), reason: reason.into(), ..Condition::default() }
    }

    #[test]
    fn a_pod_condition_is_changed_in_place() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let mut conditions = vec![condition("Ready", "True", ""), condition("B", "True", "")];
        assert!(set_pod_condition(&mut conditions, condition("Ready", "False", "NodeLost"), at(1)));
        assert!(!set_pod_condition(&mut conditions, condition("Ready", "False", "NodeLost"), at(2)));
        assert!(set_pod_condition(&mut conditions, condition("DisruptionTarget", "True", "x"), at(3)));
        let types: Vec<_> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["Ready", "B", "DisruptionTarget"]);
        assert_eq!(conditions[0].last_transition_time, Some(at(1)));
    }

    /// As `TestEnsureJobConditions` of job_controller_test.go.
    #[test]
    fn a_job_condition_is_replaced_by_any_difference() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let mut conditions = Vec::new();
        let set = |conditions: &mut _, status: &str, message: &str, second| {
            set_job_condition(conditions, "Suspended", status, "r", message, at(second))
        };
        assert!(!set(&mut conditions, "False", "", 1) && conditions.is_empty());
        assert!(set(&mut conditions, "True", "", 2));
        assert!(!set(&mut conditions, "True", "", 3));
        assert_eq!(conditions[0].last_transition_time, Some(at(2)));
        assert!(set(&mut conditions, "True", "m", 4));
        assert_eq!((conditions[0].last_transition_time, conditions[0].last_probe_time), (Some(at(4)), Some(at(4))));
        assert!(set(&mut conditions, "False", "m", 5) && conditions.len() == 1);
    }
}
