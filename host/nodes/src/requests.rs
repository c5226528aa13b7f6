//! The requests that the nodes send, as data.

use std::net::Ipv4Addr;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::pod::{ObservedContainer, ObservedPod};
use crate::time::rfc3339;

/// One request about a Pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// UID of the Pod.
    pub uid: String,
    /// The step that it performs.
    pub step: Step,
    /// HTTP method.
    pub method: Method,
    /// Path below the server's root.
    pub path: String,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: Value,
}

/// A step in a Pod's simulated life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Bind the Pod to a node.
    Bind,
    /// Report that the containers run, ready or not.
    Run {
        /// Report that the containers are ready.
        ready: bool,
    },
    /// Report that the containers ended.
    Finish {
        /// With exit code 0.
        succeeded: bool,
    },
    /// Confirm that the Pod has stopped.
    Delete,
}

fn path(pod: &ObservedPod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.metadata.namespace, pod.metadata.name)
}

pub(crate) fn bind(pod: &ObservedPod, node: &str) -> Write {
    let meta = &pod.metadata;
    Write {
        uid: meta.uid.clone(),
        step: Step::Bind,
        method: Method::POST,
        path: format!("{}/binding", path(pod)),
        content_type: "application/json",
        body: json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }),
    }
}

pub(crate) fn delete(pod: &ObservedPod) -> Write {
    Write {
        uid: pod.metadata.uid.clone(),
        step: Step::Delete,
        method: Method::DELETE,
        path: path(pod),
        content_type: "application/json",
        body: json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod.metadata.uid},
        }),
    }
}

/// Values in a status that are not in the Pod itself.
pub(crate) struct Report<'a> {
    pub(crate) step: Step,
    pub(crate) ip: Ipv4Addr,
    pub(crate) node: &'a str,
    pub(crate) started: &'a str,
    pub(crate) now: Timestamp,
}

pub(crate) fn status(pod: &ObservedPod, report: &Report<'_>) -> Write {
    let now = rfc3339(report.now);
    let (phase, ready, ended) = match report.step {
        Step::Finish { succeeded: true } => ("Succeeded", false, Some(0)),
        Step::Finish { succeeded: false } => ("Failed", false, Some(1)),
        Step::Run { ready } => ("Running", ready, None),
        Step::Bind | Step::Delete => ("Pending", false, None),
    };
    let gated = pod.spec.readiness_gates.iter().any(|gate| !pod.is_true(&gate.condition_type));
    let unready = match report.step {
        Step::Finish { succeeded: true } => "PodCompleted",
        Step::Finish { succeeded: false } => "PodFailed",
        _ => "ContainersNotReady",
    };
    let names: Vec<&str> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
    let reason = |open: bool, held: bool| match (open, held) {
        (true, _) => None,
        (false, true) => {
            Some(("ReadinessGatesNotReady", "the status of pod readiness gates is not \"True\"".to_owned()))
        }
        (false, false) if ended == Some(0) => Some((unready, String::new())),
        (false, false) => Some((unready, format!("containers with unready status: [{}]", names.join(" ")))),
    };
    let condition = |kind: &str, open: bool, why: Option<(&str, String)>| {
        let status = if open { "True" } else { "False" };
        let before = pod.status.conditions.iter().find(|found| found.r#type == kind && found.status == status);
        let since = before.and_then(|found| found.last_transition_time.as_deref()).unwrap_or(&now);
        let (reason, message) = why.unwrap_or_default();
        json!({
            "type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since,
            "reason": (!reason.is_empty()).then_some(reason), "message": (!message.is_empty()).then_some(message),
        })
    };
    let state = match (ended, report.step) {
        (Some(code), _) => json!({"running": null, "waiting": null, "terminated": {
            "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": report.started, "finishedAt": now, "containerID": container_id(pod, "")}}),
        (None, _) => json!({"running": {"startedAt": report.started}}),
    };
    let containers = pod.spec.containers.iter().map(|container| {
        json!({
            "name": container.name, "image": container.image, "imageID": container.image,
            "containerID": container_id(pod, &container.name), "ready": ready, "started": ended.is_none(),
            "restartCount": 0, "state": state, "lastState": {},
        })
    });
    let init = |container: &ObservedContainer| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": report.started,
            "finishedAt": report.started, "containerID": container_id(pod, &container.name)}});
        json!({
            "name": container.name, "image": container.image, "imageID": container.image,
            "containerID": container_id(pod, &container.name), "ready": !sidecar || ready, "restartCount": 0,
            "started": sidecar && ended.is_none(), "state": if sidecar { state.clone() } else { done }, "lastState": {},
        })
    };
    let host = host_ip(report.node);
    let mut status = json!({
        "phase": phase, "startTime": report.started,
        "conditions": [
            condition("PodReadyToStartContainers", ended.is_none(), None),
            condition("Initialized", true, if ended == Some(0) { Some(("PodCompleted", String::new())) } else { None }),
            condition("Ready", ready && !gated, reason(ready && !gated, ready && gated)),
            condition("ContainersReady", ready, reason(ready, false)),
            condition("PodScheduled", true, None),
        ],
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": report.ip, "podIPs": [{"ip": report.ip}],
        "containerStatuses": containers.collect::<Vec<_>>(),
    });
    if !pod.spec.init_containers.is_empty() {
        status["initContainerStatuses"] = pod.spec.init_containers.iter().map(init).collect();
    }
    Write {
        uid: pod.metadata.uid.clone(),
        step: report.step,
        method: Method::PATCH,
        path: format!("{}/status", path(pod)),
        content_type: "application/strategic-merge-patch+json",
        body: json!({"metadata": {"uid": pod.metadata.uid}, "status": status}),
    }
}

fn container_id(pod: &ObservedPod, container: &str) -> String {
    format!("sim://{}/{container}", pod.metadata.uid)
}

/// The address of a node, derived from the number in its name.
pub(crate) fn host_ip(node: &str) -> String {
    let digits = node.len() - node.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let number: u32 = node[node.len() - digits..].parse().unwrap_or_default();
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 1)) + number % 0xf_fff0).to_string()
}
