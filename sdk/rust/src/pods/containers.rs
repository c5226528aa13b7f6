//! How containers and Pods ended.

use std::time::Duration;

use super::{HasPhase, HasReadiness, MayBeDeleting};
use crate::time::Timestamp;

/// The role of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of `spec.containers`.
    Main,
    /// One of `spec.initContainers` that ends before the next one starts.
    Init,
    /// One of `spec.initContainers` with `restartPolicy: Always`.
    Sidecar,
}

/// How a container ended: `state.terminated` of its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// `exitCode`.
    pub code: i32,
    /// `finishedAt`.
    pub at: Option<Timestamp>,
}

/// A container with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container<'a> {
    /// Name.
    pub name: &'a str,
    /// Role.
    pub role: Role,
    /// How it ended; `None` while it runs or waits.
    pub exit: Option<Exit>,
}

/// A Pod with the exits of its containers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not have the ends of containers",
    note = "declare `spec.initContainers.name`, `spec.initContainers.restartPolicy`, and `name`, `state.terminated.exitCode` and \
            `state.terminated.finishedAt` of `status.containerStatuses` and `status.initContainerStatuses` in the manifest"
)]
pub trait HasContainers {
    /// Containers with a status: first the main ones, then those of `spec.initContainers`, each in the order of the
    /// statuses.
    fn containers(&self) -> Vec<Container<'_>>;
}

impl<T: HasContainers + ?Sized> HasContainers for &T {
    fn containers(&self) -> Vec<Container<'_>> {
        (**self).containers()
    }
}

/// A Pod with the fields for its end time, in addition to its containers.
///
/// [`types!`](crate::types) implements it if `metadata.creationTimestamp`, `metadata.deletionTimestamp`,
/// `metadata.deletionGracePeriodSeconds`, and `type`, `status` and `lastTransitionTime` of `status.conditions` are declared.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not have the times of its end",
    note = "declare `metadata.creationTimestamp`, `metadata.deletionTimestamp`, `metadata.deletionGracePeriodSeconds`, and \
            `type`, `status` and `lastTransitionTime` of `status.conditions` in the manifest"
)]
pub trait HasEndTimes {
    /// Since when it has not been ready: the time of the condition `Ready` if its status is `False`.
    fn not_ready_since(&self) -> Option<Timestamp>;
    /// Deletion timestamp and grace period.
    fn deletion(&self) -> Option<(Timestamp, Duration)>;
    /// Creation timestamp.
    fn created(&self) -> Option<Timestamp>;
}

/// A Pod with conditions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no conditions",
    note = "declare `type` and `status` of `status.conditions` in the manifest"
)]
pub trait HasConditions {
    /// `status` of the condition of this type.
    fn condition(&self, kind: &str) -> Option<&str>;
}

/// Whether the Pod ended for an external reason: preemption, eviction, or a taint.
#[doc(alias = "DisruptionTarget")]
pub fn is_disruption_target(pod: &impl HasConditions) -> bool {
    pod.condition("DisruptionTarget") == Some("True")
}

/// Whether all its containers succeeded.
pub fn is_succeeded(pod: &impl HasPhase) -> bool {
    pod.phase() == "Succeeded"
}

/// Whether it counts as failed: it has failed, or, unless only Pods in the phase `Failed` count
/// (`podReplacementPolicy: Failed` of a Job), it is being deleted and has not succeeded.
#[doc(alias = "isPodFailed")]
pub fn is_failed(pod: &(impl HasPhase + MayBeDeleting), only_failed_phase: bool) -> bool {
    pod.phase() == "Failed" || !only_failed_phase && pod.is_deleting() && !is_succeeded(pod)
}

/// When the last container ended: a main one, or a sidecar, which ends after them. `None` if a sidecar with a status is
/// running, or if there is no sidecar and a main container is running, or no time is known.
///
/// *Source*: `getFinishTimeFromContainers` of Kubernetes' `pkg/controller/job/backoff_utils.go`.
pub fn containers_finished_at(pod: &impl HasContainers) -> Option<Timestamp> {
    let containers = pod.containers();
    let latest = |role: Role, mut latest: Option<Timestamp>| {
        for container in containers.iter().filter(|container| container.role == role) {
            latest = latest.max(Some(container.exit?.at?));
        }
        latest
    };
    latest(Role::Sidecar, latest(Role::Main, None))
}

/// End time of an ended Pod: the time of its containers; else since when it has not been ready; else the time of its
/// deletion request; else its creation time.
///
/// *Source*: `getFinishedTime` of Kubernetes' `pkg/controller/job/backoff_utils.go`.
#[doc(alias = "getFinishedTime")]
pub fn finished_at(pod: &(impl HasContainers + HasEndTimes)) -> Option<Timestamp> {
    containers_finished_at(pod)
        .or_else(|| pod.not_ready_since())
        .or_else(|| pod.deletion().map(|(at, grace)| at.minus(grace)))
        .or_else(|| pod.created())
}

/// The first container that failed with a code that `matches` accepts, for rules such as a Job's `onExitCodes`; main
/// ones come first. `container` limits it to one name.
///
/// *Source*: `matchOnExitCodes` of Kubernetes' `pkg/controller/job/pod_failure_policy.go`.
pub fn failed_container<'a>(
    pod: &'a impl HasContainers,
    container: Option<&str>,
    matches: impl Fn(i32) -> bool,
) -> Option<(Container<'a>, i32)> {
    pod.containers().into_iter().filter(|one| container.is_none_or(|name| one.name == name)).find_map(|one| {
        let code = one.exit?.code;
        (code != 0 && matches(code)).then_some((one, code))
    })
}

/// The state of a Pod, by the rules of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not ended, and is not ready.
    Unready,
    /// It is ready, but not for long enough. The remaining time; `None` if the start is unknown.
    Ready(Option<Duration>),
    /// It has been ready for long enough.
    Available,
    /// It is being deleted and has not ended.
    Terminating,
    /// All its containers succeeded.
    Succeeded,
    /// It failed.
    Failed,
}

/// The state of a Pod.
pub fn state(pod: &(impl HasPhase + HasReadiness + MayBeDeleting), min_ready_seconds: i32, now: Timestamp) -> State {
    match pod.phase() {
        "Succeeded" => State::Succeeded,
        "Failed" => State::Failed,
        _ if pod.is_deleting() => State::Terminating,
        _ if super::is_available(pod, min_ready_seconds, now) => State::Available,
        _ if super::is_ready(pod) => State::Ready(super::until_available(pod, min_ready_seconds, now)),
        _ => State::Unready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::types!("v1/Pod": [
        "metadata.creationTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "metadata.deletionTimestamp",
        "spec.initContainers.name",
        "spec.initContainers.restartPolicy",
        "status.phase",
        "status.conditions.type",
        "status.conditions.status",
        "status.conditions.lastTransitionTime",
        "status.containerStatuses.name",
        "status.containerStatuses.state.terminated.exitCode",
        "status.containerStatuses.state.terminated.finishedAt",
        "status.initContainerStatuses.name",
        "status.initContainerStatuses.state.terminated.exitCode",
        "status.initContainerStatuses.state.terminated.finishedAt",
    ]);

    /// `main=CODE@SECOND`, `init=..`, `sidecar=..`; without a code it is running. `created=S`, `deleted=S+GRACE`,
    /// `unready=S`.
    fn pod(text: &str) -> Pod {
        let time = |second: &str| format!("2026-01-01T00:00:{second:0>2}Z");
        let (mut mains, mut inits, mut specs, mut meta, mut conditions) = (vec![], vec![], vec![], vec![], vec![]);
        for (i, (name, value)) in text.split_whitespace().map(|word| word.split_once('=').unwrap()).enumerate() {
            let status = || match value.split_once('@') {
                None => format!(r#"{{"name": "c{i}", "state": {{"running": {{}}}}}}"#),
                Some((code, at)) => {
                    let at = if at.is_empty() { "null".into() } else { format!("{:?}", time(at)) };
                    format!(
                        r#"{{"name": "c{i}", "state": {{"terminated": {{"exitCode": {code}, "finishedAt": {at}}}}}}}"#
                    )
                }
            };
            match name {
                "main" => mains.push(status()),
                "init" | "sidecar" => {
                    let policy = if name == "sidecar" { r#", "restartPolicy": "Always""# } else { "" };
                    specs.push(format!(r#"{{"name": "c{i}"{policy}}}"#));
                    inits.push(status());
                }
                "created" => meta.push(format!(r#""creationTimestamp": "{}""#, time(value))),
                "deleted" => {
                    let (at, grace) = value.split_once('+').unwrap();
                    let at = time(at);
                    meta.push(format!(r#""deletionTimestamp": "{at}", "deletionGracePeriodSeconds": {grace}"#));
                }
                "unready" => conditions.push(format!(
                    r#"{{"type": "Ready", "status": "False", "lastTransitionTime": "{}"}}"#,
                    time(value)
                )),
                "condition" => conditions.push(format!(r#"{{"type": "{value}", "status": "True"}}"#)),
                other => panic!("what is {other}?"),
            }
        }
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        serde_json::from_str(&format!(
            r#"{{"metadata": {{{}}}, "spec": {{"initContainers": {}}},
                "status": {{"containerStatuses": {}, "initContainerStatuses": {}, "conditions": {}}}}}"#,
            meta.join(", "),
            list(specs),
            list(mains),
            list(inits),
            list(conditions)
        ))
        .unwrap()
    }

    /// As `TestGetFinishedTime` and `TestGetFinishTimeFromContainers` of backoff_utils_test.go.
    #[test]
    fn the_time_of_the_end_is_that_of_upstream() {
        for (text, containers, finished) in [
            ("", None, None),
            ("created=1", None, Some(1)),
            ("main=0@5 created=1", Some(5), Some(5)),
            ("main=0@5 main=1@9 main=0@7 created=1", Some(9), Some(9)),
            ("main=0@5 main=run created=1", None, Some(1)),
            ("main=0@5 init=0@9 created=1", Some(5), Some(5)),
            ("main=0@5 sidecar=0@9 created=1", Some(9), Some(9)),
            ("main=0@5 sidecar=run created=1", None, Some(1)),
            ("init=0@9 created=1", None, Some(1)),
            ("main=run sidecar=0@9 created=1", Some(9), Some(9)),
            ("main=0@ created=1", None, Some(1)),
            ("main=run unready=4 deleted=30+20 created=1", None, Some(4)),
            ("main=run deleted=30+20 created=1", None, Some(10)),
            ("main=0@7 unready=4 deleted=30+20 created=1", Some(7), Some(7)),
        ] {
            let pod = pod(text);
            let second = |time: Option<Timestamp>| {
                time.map(|time| time.since(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()).as_secs())
            };
            assert_eq!(second(containers_finished_at(&pod)), containers, "{text}");
            assert_eq!(second(finished_at(&pod)), finished, "{text}");
        }
    }

    /// As the rules with `OnExitCodes` of `TestMatchPodFailurePolicy`.
    #[test]
    fn failed_containers_are_found_by_code_and_name() {
        let find = |text: &str, name: Option<&str>, codes: &[i32]| {
            let pod = pod(text);
            failed_container(&pod, name, |code| codes.contains(&code))
                .map(|(container, code)| (container.name.to_owned(), container.role, code))
        };
        assert_eq!(find("main=0@1 main=2@1", None, &[0, 2]), Some(("c1".into(), Role::Main, 2)));
        assert_eq!(find("init=3@1 main=2@1", None, &[2, 3]), Some(("c1".into(), Role::Main, 2)));
        assert_eq!(find("init=3@1 main=2@1", Some("c0"), &[2, 3]), Some(("c0".into(), Role::Init, 3)));
        assert_eq!(find("sidecar=3@1 main=2@1", None, &[3]), Some(("c0".into(), Role::Sidecar, 3)));
        assert_eq!(find("main=2@1", Some("c7"), &[2]), None);
        assert_eq!(find("main=run", None, &[0, 2]), None);
    }

    #[test]
    fn a_pod_in_one_word() {
        let now = Timestamp::parse("2026-01-01T00:01:00Z").unwrap();
        let check = |phase: &str, ready: Option<&str>, deleting: bool| {
            let mut pod = Pod::default();
            pod.status.phase = phase.into();
            pod.metadata.deletion_timestamp = deleting.then_some(now);
            if let Some(since) = ready {
                pod.status.conditions.push(PodStatusConditions {
                    type_: "Ready".into(),
                    status: "True".into(),
                    last_transition_time: Timestamp::parse(since),
                });
            }
            (state(&pod, 30, now), is_failed(&pod, false), is_failed(&pod, true))
        };
        let left = State::Ready(Some(Duration::from_secs(10)));
        assert_eq!(check("Running", None, false), (State::Unready, false, false));
        assert_eq!(check("Running", Some("2026-01-01T00:00:40Z"), false), (left, false, false));
        assert_eq!(check("Running", Some(""), false), (State::Ready(None), false, false));
        assert_eq!(check("Running", Some("2026-01-01T00:00:30Z"), false), (State::Available, false, false));
        assert_eq!(check("Running", Some("2026-01-01T00:00:30Z"), true), (State::Terminating, true, false));
        assert_eq!(check("Succeeded", None, true), (State::Succeeded, false, false));
        assert_eq!(check("Failed", None, false), (State::Failed, true, true));
        let target = pod("condition=DisruptionTarget");
        assert!(is_disruption_target(&target) && !is_disruption_target(&pod("unready=1")));
    }
}
