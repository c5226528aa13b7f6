//! The status of a Pod, derived from its containers.
//!
//! Invariants: pure; a status that was written and observed again is equal, so that it is written once.
//!
//! Source: `getPhase` of kubelet's `kubelet_pods.go`, `Generate*Condition` of its `status/generate.go`.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::behaviour::Role;
use crate::containers::{Container, Cut, End, Facts, PodRun, State, role_of_init};
use crate::pod::{
    ContainerState, ContainerStatus, ObservedContainer, ObservedPod, ObservedStatus, Running, Terminated, Waiting,
    is_final,
};
use crate::time::rfc3339;

/// A condition that the node owns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    kind: &'static str,
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

/// The report of a node about a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    phase: &'static str,
    reason: Option<&'static str>,
    message: Option<&'static str>,
    conditions: Vec<Condition>,
    main: Vec<ContainerStatus>,
    init: Vec<ContainerStatus>,
}

impl Report {
    /// The status at the time of the run's last change.
    pub(crate) fn of(facts: &Facts<'_>, run: &PodRun, now: Timestamp) -> Self {
        let phase = phase(facts, run);
        let statuses = |role: fn(&ObservedContainer) -> Role, list: &[ObservedContainer], containers: &[Container]| {
            let status = |(index, (spec, container)): (usize, (&ObservedContainer, &Container))| {
                status(facts, run, role(spec), (index, spec, container), now)
            };
            list.iter().zip(containers).enumerate().map(status).collect::<Vec<_>>()
        };
        let spec = &facts.pod.spec;
        let mut main = statuses(|_| Role::Main, &spec.containers, &run.main);
        let mut init = statuses(role_of_init, &spec.init_containers, &run.init);
        if is_final(phase) {
            main.iter_mut().for_each(|status| (status.ready, status.started) = (false, false));
            init.iter_mut().for_each(|status| status.started = false);
        }
        let mut conditions = conditions(facts, run, phase, &main, &init);
        let (reason, message) = match run.cut {
            Some(Cut::Evicted) => {
                let message = "The node was low on resource: memory.";
                conditions.push(Condition {
                    kind: "DisruptionTarget",
                    holds: true,
                    reason: Some("TerminationByKubelet"),
                    message: Some(message.to_owned()),
                });
                (Some("Evicted"), Some(message))
            }
            Some(Cut::DeadlineExceeded) => {
                (Some("DeadlineExceeded"), Some("Pod was active on the node longer than the specified deadline"))
            }
            _ => (None, None),
        };
        Self { phase, reason, message, conditions, main, init }
    }

    /// Whether the Pod has this status.
    pub(crate) fn is_in(&self, status: &ObservedStatus) -> bool {
        let has = |wanted: &Condition| {
            status.conditions.iter().any(|found| {
                found.r#type == wanted.kind
                    && found.status == truth(wanted.holds)
                    && found.reason.as_deref().unwrap_or_default() == wanted.reason.unwrap_or_default()
                    && found.message.as_deref().unwrap_or_default() == wanted.message.as_deref().unwrap_or_default()
            })
        };
        status.phase == self.phase
            && status.reason.as_deref().unwrap_or_default() == self.reason.unwrap_or_default()
            && self.main == status.container_statuses
            && self.init == status.init_container_statuses
            && self.conditions.iter().all(has)
    }

    /// The status as a patch.
    pub(crate) fn patch(&self, pod: &ObservedPod, run: &PodRun, ip: Ipv4Addr, host: &str, now: Timestamp) -> Value {
        let now = rfc3339(now);
        let condition = |wanted: &Condition| {
            let same = |found: &&crate::pod::ObservedCondition| {
                found.r#type == wanted.kind && found.status == truth(wanted.holds)
            };
            let before = pod.status.conditions.iter().find(same);
            let since = before.and_then(|found| found.last_transition_time.as_deref()).unwrap_or(&now);
            json!({
                "type": wanted.kind, "status": truth(wanted.holds), "lastProbeTime": null, "lastTransitionTime": since,
                "reason": wanted.reason, "message": wanted.message,
            })
        };
        let mut status = json!({
            "phase": self.phase, "startTime": pod.status.start_time.clone().unwrap_or_else(|| rfc3339(run.started)),
            "conditions": self.conditions.iter().map(condition).collect::<Vec<_>>(),
            "hostIP": host, "hostIPs": [{"ip": host}], "podIP": ip, "podIPs": [{"ip": ip}],
            "containerStatuses": self.main,
        });
        if !self.init.is_empty() {
            status["initContainerStatuses"] = json!(self.init);
        }
        if let (Some(reason), Some(message)) = (self.reason, self.message) {
            status["reason"] = json!(reason);
            status["message"] = json!(message);
        }
        status
    }
}

fn truth(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

/// The phase of a Pod.
fn phase(facts: &Facts<'_>, run: &PodRun) -> &'static str {
    let succeeded = run.main.iter().all(|container| container.end().is_some_and(|end| end.code == 0));
    match run.cut {
        Some(Cut::Failed | Cut::Evicted | Cut::DeadlineExceeded) => return "Failed",
        Some(Cut::Completed) => return "Succeeded",
        Some(Cut::Stopped) => return if succeeded { "Succeeded" } else { "Failed" },
        None => {}
    }
    let waits = |container: &Container| matches!(container.state, State::Waiting | State::Pulling(_));
    if run.is_over(facts) {
        if succeeded { "Succeeded" } else { "Failed" }
    } else if run.main.iter().any(waits) {
        "Pending"
    } else {
        "Running"
    }
}

fn terminated(end: &End, id: String) -> Terminated {
    let never_started = end.started.is_none() && end.code != 0;
    let reason = match end.code {
        0 => "Completed",
        _ if never_started => "ContainerStatusUnknown",
        _ => "Error",
    };
    Terminated {
        exit_code: end.code,
        reason: reason.to_owned(),
        message: never_started.then(|| "The container could not be located when the pod was terminated".to_owned()),
        started_at: end.started.map(rfc3339),
        finished_at: end.finished.map(rfc3339),
        container_id: end.started.is_some().then_some(id),
    }
}

fn status(
    facts: &Facts<'_>,
    run: &PodRun,
    role: Role,
    (index, spec, container): (usize, &ObservedContainer, &Container),
    now: Timestamp,
) -> ContainerStatus {
    let pod = &facts.pod.metadata;
    let id = |n: u32| match n {
        0 => format!("sim://{}/{}", pod.uid, spec.name),
        n => format!("sim://{}/{}/{n}", pod.uid, spec.name),
    };
    let waiting = |reason: &str, message: Option<String>| ContainerState {
        waiting: Some(Waiting { reason: reason.to_owned(), message }),
        ..ContainerState::default()
    };
    let ended =
        |end: &End, n: u32| ContainerState { terminated: Some(terminated(end, id(n))), ..ContainerState::default() };
    let (started, passes) = run.probes(facts, role, index);
    let error = || {
        let image = &spec.image;
        format!("failed to pull and unpack image {image:?}: failed to resolve image: not found")
    };
    let state = match &container.state {
        State::Waiting if facts.pod.spec.init_containers.is_empty() => waiting("ContainerCreating", None),
        State::Waiting => waiting("PodInitializing", None),
        State::Pulling(since) if now < crate::containers::pull_shown_until(*since) => {
            waiting("ErrImagePull", Some(error()))
        }
        State::Pulling(_) => {
            let message = format!("Back-off pulling image {:?}: ErrImagePull: {}", spec.image, error());
            waiting("ImagePullBackOff", Some(message))
        }
        State::Running(since) => {
            ContainerState { running: Some(Running { started_at: rfc3339(*since) }), ..ContainerState::default() }
        }
        State::BackOff(_) => {
            let message = format!(
                "back-off restarting failed container={} pod={}_{}({})",
                spec.name, pod.name, pod.namespace, pod.uid
            );
            waiting("CrashLoopBackOff", Some(message))
        }
        State::Ended(end) => ended(end, container.n_restarts),
    };
    let last_id = match container.state {
        State::BackOff(_) => container.n_restarts,
        _ => container.n_restarts.saturating_sub(1),
    };
    let was_started = !matches!(container.state, State::Waiting | State::Pulling(_));
    ContainerStatus {
        name: spec.name.clone(),
        image: spec.image.clone(),
        image_id: if was_started { spec.image.clone() } else { String::new() },
        container_id: if was_started { id(container.n_restarts) } else { String::new() },
        ready: match role {
            Role::Init => container.end().is_some_and(|end| end.code == 0),
            Role::Sidecar | Role::Main => passes,
        },
        started: role != Role::Init && started,
        restart_count: container.n_restarts,
        state,
        last_state: container.last.as_ref().map(|end| ended(end, last_id)).unwrap_or_default(),
    }
}

fn conditions(
    facts: &Facts<'_>,
    run: &PodRun,
    phase: &str,
    main: &[ContainerStatus],
    init: &[ContainerStatus],
) -> Vec<Condition> {
    let pod = facts.pod;
    let condition = |kind, problem: Option<(&'static str, Option<String>)>| {
        let holds = problem.is_none();
        let (reason, message) = problem.unzip();
        Condition { kind, holds, reason, message: message.flatten() }
    };
    let names = |list: Vec<&str>| format!("[{}]", list.join(" "));

    let is_sidecar = |index: &usize| pod.spec.init_containers.get(*index).map(role_of_init) == Some(Role::Sidecar);
    let sidecars = init.iter().enumerate().filter(|(index, _)| is_sidecar(index)).map(|(_, status)| status);
    let unready: Vec<&str> =
        sidecars.chain(main).filter(|status| !status.ready).map(|status| status.name.as_str()).collect();
    let not_ready = match phase {
        "Succeeded" => Some(("PodCompleted", None)),
        "Failed" => Some(("PodFailed", None)),
        _ if unready.is_empty() => None,
        _ => Some(("ContainersNotReady", Some(format!("containers with unready status: {}", names(unready))))),
    };
    let closed: Vec<String> = pod
        .spec
        .readiness_gates
        .iter()
        .filter_map(|gate| {
            let kind = &gate.condition_type;
            match pod.status.conditions.iter().find(|found| found.r#type == *kind) {
                None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
                Some(found) if found.status == "True" => None,
                Some(found) => {
                    Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {}", found.status))
                }
            }
        })
        .collect();
    let gate = (!closed.is_empty()).then(|| ("ReadinessGatesNotReady", Some(closed.join(", "))));

    let incomplete: Vec<&str> = (0..init.len())
        .filter(|index| !run.is_done(facts, *index))
        .filter_map(|index| init.get(index))
        .map(|status| status.name.as_str())
        .collect();
    let initialized = if phase == "Succeeded" {
        Condition { kind: "Initialized", holds: true, reason: Some("PodCompleted"), message: None }
    } else if run.is_initialized(facts) && !never_started(run) {
        condition("Initialized", None)
    } else {
        let message = format!("containers with incomplete status: {}", names(incomplete));
        condition("Initialized", Some(("ContainersNotInitialized", Some(message))))
    };
    vec![
        Condition { kind: "PodReadyToStartContainers", holds: !is_final(phase), reason: None, message: None },
        initialized,
        condition("Ready", not_ready.clone().or(gate)),
        condition("ContainersReady", not_ready),
        condition("PodScheduled", None),
    ]
}

/// Whether the Pod ended before its init containers did.
fn never_started(run: &PodRun) -> bool {
    !run.init.is_empty() && run.main.iter().all(|container| container.end().is_some_and(|end| end.started.is_none()))
}
