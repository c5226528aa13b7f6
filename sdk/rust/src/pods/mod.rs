//! States of Pods, for the types of [`types!`](crate::types).
//!
//! | question | function |
//! | --- | --- |
//! | is it active? | [`is_active`], [`is_terminal`], [`is_terminating`], [`is_succeeded`], [`is_failed`], [`state`] |
//! | is it available? | [`is_ready`], [`ready_since`], [`is_available`], [`until_available`] |
//! | how and when did it end? | [`failed_container`], [`finished_at`], [`is_disruption_target`] |
//!
//! *Source*: Kubernetes' `pkg/api/v1/pod/util.go`, `pkg/controller/controller_utils.go`, `pkg/controller/job/backoff_utils.go` and
//! `pkg/controller/job/pod_failure_policy.go`.

mod containers;

pub use containers::{
    Container, Exit, HasConditions, HasContainers, HasEndTimes, Role, State, containers_finished_at, failed_container,
    finished_at, is_disruption_target, is_failed, is_succeeded, state,
};

use std::time::Duration;

use crate::time::Timestamp;

/// A Pod with `status.phase`.
#[diagnostic::on_unimplemented(message = "`{Self}` has no phase", note = "declare `status.phase` in the manifest")]
pub trait HasPhase {
    /// `status.phase`.
    fn phase(&self) -> &str;
}

/// A Pod with `metadata.deletionTimestamp`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no deletion timestamp",
    note = "declare `metadata.deletionTimestamp` in the manifest"
)]
pub trait MayBeDeleting {
    /// Whether it is being deleted.
    fn is_deleting(&self) -> bool;
}

/// A Pod with the condition `Ready`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no conditions",
    note = "declare `type`, `status` and `lastTransitionTime` of `status.conditions` in the manifest"
)]
pub trait HasReadiness {
    /// Since when it has been ready. The inner `None`: it is ready, and the time is unknown.
    fn ready(&self) -> Option<Option<Timestamp>>;
}

impl<T: HasPhase + ?Sized> HasPhase for &T {
    fn phase(&self) -> &str {
        (**self).phase()
    }
}

impl<T: MayBeDeleting + ?Sized> MayBeDeleting for &T {
    fn is_deleting(&self) -> bool {
        (**self).is_deleting()
    }
}

impl<T: HasReadiness + ?Sized> HasReadiness for &T {
    fn ready(&self) -> Option<Option<Timestamp>> {
        (**self).ready()
    }
}

/// Whether it has neither ended nor is being deleted.
#[doc(alias = "IsPodActive")]
pub fn is_active(pod: &(impl HasPhase + MayBeDeleting)) -> bool {
    !is_terminal(pod) && !pod.is_deleting()
}

/// Whether all its containers have ended for good.
pub fn is_terminal(pod: &impl HasPhase) -> bool {
    matches!(pod.phase(), "Succeeded" | "Failed")
}

/// Whether it is being deleted and has not ended yet.
pub fn is_terminating(pod: &(impl HasPhase + MayBeDeleting)) -> bool {
    !is_terminal(pod) && pod.is_deleting()
}

/// Whether it is ready.
pub fn is_ready(pod: &impl HasReadiness) -> bool {
    pod.ready().is_some()
}

/// Since when it has been ready; `None` if it is not, or the time is unknown.
pub fn ready_since(pod: &impl HasReadiness) -> Option<Timestamp> {
    pod.ready().flatten()
}

/// Whether it has been ready for `min_ready_seconds`.
pub fn is_available(pod: &impl HasReadiness, min_ready_seconds: i32, now: Timestamp) -> bool {
    let min_ready = u64::try_from(min_ready_seconds).unwrap_or(0);
    let long_enough = |since: Timestamp| since.plus(Duration::from_secs(min_ready)) <= now;
    is_ready(pod) && (min_ready == 0 || ready_since(pod).is_some_and(long_enough))
}

/// Time until it is [available](is_available); `None` if it is already, or is not ready.
#[doc(alias = "nextPodAvailabilityCheck")]
pub fn until_available(pod: &impl HasReadiness, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let min_ready = u64::try_from(min_ready_seconds).ok().filter(|seconds| *seconds > 0)?;
    Some(ready_since(pod)?.plus(Duration::from_secs(min_ready)).since(now)).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::types!("v1/Pod": [
        "metadata.deletionTimestamp",
        "metadata.labels",
        "metadata.ownerReferences",
        "status.conditions",
        "status.phase",
    ]);

    /// A Pod that has been ready for `ready` seconds, or is not ready.
    fn texts(ready: Option<&str>) -> String {
        let condition = match ready {
            None => r#"{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}"#.to_owned(),
            Some("") => r#"{"type": "Ready", "status": "True", "lastTransitionTime": null}"#.to_owned(),
            Some(time) => format!(r#"{{"type": "Ready", "status": "True", "lastTransitionTime": "{time}"}}"#),
        };
        format!(
            r#"{{"status": {{"phase": "Running", "conditions": [{{"type": "\u003cother>", "status": "True"}}, {condition}]}}}}"#
        )
    }

    #[test]
    fn a_pod_is_available_after_its_time() {
        let now = Timestamp::parse("2026-01-01T00:01:00Z").unwrap();
        for (ready, min_ready, available, left) in [
            (None, 0, false, None),
            (Some("2026-01-01T00:01:00Z"), 0, true, None),
            (Some(""), 0, true, None),
            (Some(""), 1, false, None),
            (Some("2026-01-01T00:01:00Z"), 1, false, Some(1)),
            (Some("2026-01-01T00:00:30Z"), 31, false, Some(1)),
            (Some("2026-01-01T00:00:30Z"), 30, true, None),
            (Some("2026-01-01T00:01:10Z"), 30, false, Some(40)),
        ] {
            let text = texts(ready);
            let pod: Pod = serde_json::from_str(&text).unwrap();
            let left = left.map(Duration::from_secs);
            assert_eq!((is_available(&pod, min_ready, now), until_available(&pod, min_ready, now)), (available, left));
        }
    }

    #[test]
    fn pods_end_and_go_away_independently() {
        for (phase, deleting, active, terminating) in [
            ("Pending", false, true, false),
            ("Running", true, false, true),
            ("Failed", false, false, false),
            ("Succeeded", true, false, false),
        ] {
            let deletion = if deleting { r#""2026-01-01T00:00:00Z""# } else { "null" };
            let text =
                format!(r#"{{"metadata": {{"deletionTimestamp": {deletion}}}, "status": {{"phase": "{phase}"}}}}"#);
            let pod: Pod = serde_json::from_str(&text).unwrap();
            assert_eq!((is_active(&pod), is_terminating(&pod)), (active, terminating), "{phase}");
        }
    }
}
