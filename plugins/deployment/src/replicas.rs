//! Replica arithmetic: limits of a rolling update, and sums over ReplicaSets.
//!
//! *Flow*: pure functions from objects to numbers.
//!
//! *Invariants*
//! 1. All arithmetic is in 64 bits: values near the API's 32-bit limit do not overflow.
//! 2. `max_unavailable` and `max_surge` are never both zero for a rolling update of more than zero replicas.
//!
//! *Source*: deployment_util.go.

use pintle_sdk::int_or_percent::IntOrPercent;
use plugin_lib::number::narrow;

use crate::types::{Deployment, ReplicaSet};

/// Annotation of a ReplicaSet: replicas of its Deployment at the last scaling.
#[doc(alias = "DesiredReplicasAnnotation")]
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation of a ReplicaSet: the same plus the surge.
#[doc(alias = "MaxReplicasAnnotation")]
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// How old Pods are replaced.
#[doc(alias = "DeploymentStrategyType")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Some at a time.
    RollingUpdate,
    /// All old ones are deleted before the first new one is created.
    Recreate,
}

/// The strategy; the error is the name of an unknown one.
pub(crate) fn strategy(d: &Deployment) -> Result<Strategy, &str> {
    match d.spec.strategy.type_.as_str() {
        "RollingUpdate" => Ok(Strategy::RollingUpdate),
        "Recreate" => Ok(Strategy::Recreate),
        other => Err(other),
    }
}

/// `spec.replicas` of a Deployment, with the API's default.
pub(crate) fn wanted(d: &Deployment) -> i64 {
    d.spec.replicas.unwrap_or(1).into()
}

/// `spec.replicas` of a ReplicaSet, with the API's default.
pub(crate) fn size(set: &ReplicaSet) -> i64 {
    set.spec.replicas.unwrap_or(1).into()
}

/// Whether its size is above zero.
#[doc(alias = "FilterActiveReplicaSets")]
pub(crate) fn is_active(set: &ReplicaSet) -> bool {
    size(set) > 0
}

/// Surge and unavailable of a rolling update of `desired` replicas; `None` if a value is neither a number nor a
/// percentage.
#[doc(alias = "ResolveFenceposts")]
pub(crate) fn resolve_fenceposts(
    max_surge: Option<&IntOrPercent>,
    max_unavailable: Option<&IntOrPercent>,
    desired: i64,
) -> Option<(i64, i64)> {
    let scaled = |value: Option<&IntOrPercent>, up| value.map_or(Some(0), |value| value.scaled(narrow(desired), up));
    let surge = scaled(max_surge, true)?;
    let unavailable = scaled(max_unavailable, false)?;
    // Percentages round down to zero: the rollout must still be able to progress, and a surge might exceed a quota.
    Some(if surge == 0 && unavailable == 0 { (0, 1) } else { (surge.into(), unavailable.into()) })
}

fn fenceposts(d: &Deployment) -> (i64, i64) {
    let rolling = d.spec.strategy.rolling_update.clone().unwrap_or_default();
    // Validation rejects values that do not parse.
    resolve_fenceposts(rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref(), wanted(d)).unwrap_or((0, 0))
}

/// Pods above `replicas` that an update may start.
#[doc(alias = "MaxSurge")]
pub(crate) fn max_surge(d: &Deployment) -> i64 {
    if strategy(d) == Ok(Strategy::RollingUpdate) { fenceposts(d).0 } else { 0 }
}

/// Pods below `replicas` that an update may make unavailable.
#[doc(alias = "MaxUnavailable")]
pub(crate) fn max_unavailable(d: &Deployment) -> i64 {
    if strategy(d) != Ok(Strategy::RollingUpdate) || wanted(d) == 0 { 0 } else { fenceposts(d).1.min(wanted(d)) }
}

/// Current target size of the new ReplicaSet, given the total of all ReplicaSets (including itself).
///
/// # Errors
/// The name of an unknown strategy.
#[doc(alias = "NewRSNewReplicas")]
pub(crate) fn replicas_of_new(d: &Deployment, total: i64, new: i64) -> Result<i64, &str> {
    let desired = wanted(d);
    Ok(match strategy(d)? {
        Strategy::Recreate => desired,
        Strategy::RollingUpdate => {
            let surge = d.spec.strategy.rolling_update.as_ref().and_then(|rolling| rolling.max_surge.as_ref());
            let surge = surge.and_then(|surge| surge.scaled(narrow(desired), true)).unwrap_or(0);
            let room = desired + i64::from(surge) - total;
            if room <= 0 { new } else { new + room.min(desired - new) }
        }
    })
}

/// Whether `new` owns all desired replicas, according to itself and the Deployment.
#[doc(alias = "IsSaturated")]
pub(crate) fn is_saturated(d: &Deployment, new: &ReplicaSet) -> bool {
    let desired = new.metadata.annotations.get(DESIRED_REPLICAS).and_then(|text| text.parse::<i64>().ok());
    desired == Some(wanted(d)) && size(new) == wanted(d) && i64::from(new.status.available_replicas) == wanted(d)
}

/// How many old ReplicaSets are kept; `None` for all.
#[doc(alias = "HasRevisionHistoryLimit")]
pub(crate) fn history_limit(d: &Deployment) -> Option<i32> {
    d.spec.revision_history_limit.filter(|limit| *limit != i32::MAX)
}

/// Sum of `spec.replicas`.
#[doc(alias = "GetReplicaCountForReplicaSets")]
pub(crate) fn desired_of<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().map(size).sum()
}

/// Sum of `status.replicas`.
#[doc(alias = "GetActualReplicaCountForReplicaSets")]
pub(crate) fn actual_of<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().map(|set| i64::from(set.status.replicas)).sum()
}

/// Sum of `status.readyReplicas`.
#[doc(alias = "GetReadyReplicaCountForReplicaSets")]
pub(crate) fn ready_of<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().map(|set| i64::from(set.status.ready_replicas)).sum()
}

/// Sum of `status.availableReplicas`.
#[doc(alias = "GetAvailableReplicaCountForReplicaSets")]
pub(crate) fn available_of<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().map(|set| i64::from(set.status.available_replicas)).sum()
}

/// Sum of `status.terminatingReplicas`; `None` while a ReplicaSet with an observed generation does not report it.
#[doc(alias = "GetTerminatingReplicaCountForReplicaSets")]
pub(crate) fn terminating_of<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> Option<i64> {
    sets.into_iter().try_fold(0, |sum, set| match set.status.terminating_replicas {
        Some(count) => Some(sum + i64::from(count)),
        None if set.status.observed_generation == 0 => Some(sum),
        None => None,
    })
}

/// A count in an annotation; `None` if it is absent, negative, too large or not a number.
#[doc(alias = "getNonNegativeInt32FromAnnotation", alias = "GetDesiredReplicasAnnotation")]
#[doc(alias = "getMaxReplicasAnnotation")]
pub(crate) fn count_annotation(set: &ReplicaSet, name: &str) -> Option<i64> {
    let text = set.metadata.annotations.get(name)?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse::<i32>().ok().map(i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::{deployment, replica_set};

    fn value(text: &str) -> IntOrPercent {
        text.parse().map_or_else(|_| IntOrPercent::Text(text.to_owned()), IntOrPercent::Int)
    }

    #[test]
    fn surge_rounds_up_unavailable_rounds_down_and_both_are_never_zero() {
        for (surge, unavailable, desired, expected) in [
            ("0%", "0%", 0, (0, 1)),
            ("0%", "0%", 1, (0, 1)),
            ("0", "0", 10, (0, 1)),
            ("1%", "1%", 2, (1, 0)),
            ("0%", "1%", 2, (0, 1)),
            ("0%", "40%", 10, (0, 4)),
            ("25%", "25%", 10, (3, 2)),
            ("25%", "25%", 1, (1, 0)),
            ("56%", "0%", 9, (6, 0)),
            ("100%", "100%", 7, (7, 7)),
            ("3", "2", 10, (3, 2)),
            ("250%", "0", 4, (10, 0)),
        ] {
            let got = resolve_fenceposts(Some(&value(surge)), Some(&value(unavailable)), desired);
            assert_eq!(got, Some(expected), "surge {surge}, unavailable {unavailable}, of {desired}");
        }
        assert_eq!(resolve_fenceposts(None, None, 5), Some((0, 1)));
        assert!(resolve_fenceposts(Some(&value("oops")), None, 5).is_none());
        assert!(resolve_fenceposts(None, Some(&value("55$")), 5).is_none());
    }

    #[test]
    fn unavailable_is_at_most_the_replicas_and_zero_for_recreate() {
        let limits = |replicas: i64, unavailable: &str, kind: &str| {
            let d = deployment(&format!(
                "replicas: {replicas}\nstrategy: {{type: {kind}, rollingUpdate: {{maxSurge: 0, maxUnavailable: {unavailable}}}}}"
            ));
            (max_surge(&d), max_unavailable(&d))
        };
        assert_eq!(limits(10, "5", "RollingUpdate"), (0, 5));
        assert_eq!(limits(10, "30", "RollingUpdate"), (0, 10));
        assert_eq!(limits(0, "5", "RollingUpdate"), (0, 0));
        assert_eq!(limits(10, "'50%'", "RollingUpdate"), (0, 5));
        assert_eq!(limits(10, "5", "Recreate"), (0, 0));
    }

    #[test]
    fn the_new_replica_set_grows_as_far_as_the_surge_allows() {
        for (kind, desired, surge, old, new, expected) in [
            ("RollingUpdate", 1, "0", 5, 1, 1),
            ("RollingUpdate", 6, "5", 1, 1, 6),
            ("RollingUpdate", 6, "2", 5, 2, 3),
            ("RollingUpdate", 10, "0", 10, 0, 0),
            ("Recreate", 3, "1", 5, 0, 3),
        ] {
            let d = deployment(&format!(
                "replicas: {desired}\nstrategy: {{type: {kind}, rollingUpdate: {{maxSurge: {surge}, maxUnavailable: 1}}}}"
            ));
            assert_eq!(
                replicas_of_new(&d, old + new, new),
                Ok(expected),
                "{kind} {desired}+{surge}: {old} old, {new} new"
            );
        }
        assert!(replicas_of_new(&deployment("replicas: 1\nstrategy: {type: Blue}"), 0, 0).is_err());
    }

    #[test]
    fn terminating_is_unknown_while_a_synced_replica_set_does_not_tell() {
        let set = |status: &str| replica_set("a", &format!("status: {status}"));
        let never = set("{}");
        let silent = set("{observedGeneration: 1}");
        let two = set("{observedGeneration: 1, terminatingReplicas: 2}");
        assert_eq!(terminating_of([&never]), Some(0));
        assert_eq!(terminating_of([&never, &two, &two]), Some(4));
        assert_eq!(terminating_of([&silent, &two]), None);
    }

    #[test]
    fn saturation_needs_the_annotation_the_size_and_available_pods() {
        let d = deployment("replicas: 2");
        let set = |desired: &str, replicas: i64, available: i64| {
            replica_set(
                "a",
                &format!(
                    "metadata: {{annotations: {{{DESIRED_REPLICAS}: '{desired}'}}}}\nspec: {{replicas: {replicas}}}\nstatus: {{availableReplicas: {available}}}"
                ),
            )
        };
        assert!(is_saturated(&d, &set("2", 2, 2)));
        assert!(!is_saturated(&d, &set("1", 2, 2)));
        assert!(!is_saturated(&d, &set("x", 2, 2)));
        assert!(!is_saturated(&d, &set("2", 1, 1)));
        assert!(!is_saturated(&d, &set("2", 2, 1)));
    }

    #[test]
    fn a_count_that_is_not_a_plain_number_is_ignored() {
        for (text, expected) in [
            ("10", Some(10)),
            ("0", Some(0)),
            ("-1", None),
            ("", None),
            ("a", None),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", None),
        ] {
            let set = replica_set("a", &format!("metadata: {{annotations: {{{MAX_REPLICAS}: '{text}'}}}}"));
            assert_eq!(count_annotation(&set, MAX_REPLICAS), expected, "{text:?}");
        }
    }
}
