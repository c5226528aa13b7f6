//! States of Pods.

use std::time::Duration;

use crate::api::core::Pod;
use crate::api::meta::Condition;
use crate::conditions;
use crate::time::Timestamp;

/// Whether it has neither ended nor is being deleted.
#[doc(alias = "IsPodActive")]
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !pod.metadata.is_deleting()
}

/// Whether all its containers have ended for good.
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
}

/// Whether it is being deleted and has not ended yet.
pub fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.is_deleting()
}

/// The condition `Ready`.
pub fn ready_condition(pod: &Pod) -> Option<&Condition> {
    conditions::find(&pod.status.conditions, "Ready")
}

/// Whether it is ready.
pub fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Whether it has been ready for `min_ready_seconds`.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    if !is_ready(pod) {
        return false;
    }
    let Ok(min_ready) = u64::try_from(min_ready_seconds) else {
        return true;
    };
    min_ready == 0
        || ready_condition(pod)
            .and_then(|condition| condition.last_transition_time)
            .is_some_and(|since| since.plus(Duration::from_secs(min_ready)) <= now)
}

/// Time until it will be [available](is_available); `None` if it is so already, or not ready.
#[doc(alias = "nextPodAvailabilityCheck")]
pub fn until_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let min_ready = u64::try_from(min_ready_seconds).ok().filter(|seconds| *seconds > 0)?;
    let since = ready_condition(pod).filter(|condition| condition.status == "True")?.last_transition_time?;
    Some(since.plus(Duration::from_secs(min_ready)).since(now)).filter(|left| !left.is_zero())
}
