//! The requests of the nodes, as data.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::client::{Request, STRATEGIC};
use crate::pod::ObservedPod;

/// One request about a Pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// UID of the Pod.
    pub uid: String,
    /// The step that it performs.
    pub step: Step,
    /// The request.
    pub request: Request,
}

/// A step in a Pod's simulated life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Bind the Pod to a node.
    Bind,
    /// Report the status of the Pod and its containers.
    Report,
    /// Confirm that the Pod has stopped.
    Delete,
}

fn path(pod: &ObservedPod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.metadata.namespace, pod.metadata.name)
}

pub(crate) fn bind(pod: &ObservedPod, node: &str) -> Write {
    let meta = &pod.metadata;
    let body = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    write(pod, Step::Bind, Request::post(format!("{}/binding", path(pod)), body))
}

pub(crate) fn delete(pod: &ObservedPod) -> Write {
    let body = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": pod.metadata.uid},
    });
    write(pod, Step::Delete, Request::delete(path(pod), body))
}

/// Reports a status, as a patch of it.
pub(crate) fn status(pod: &ObservedPod, status: &Value) -> Write {
    let body = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    write(pod, Step::Report, Request::patch(format!("{}/status", path(pod)), STRATEGIC, body))
}

fn write(pod: &ObservedPod, step: Step, request: Request) -> Write {
    Write { uid: pod.metadata.uid.clone(), step, request }
}

/// The address of a node, derived from the number in its name.
pub(crate) fn host_ip(node: &str) -> String {
    let digits = node.len() - node.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let number: u32 = node[node.len() - digits..].parse().unwrap_or_default();
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 1)) + number % 0xf_fff0).to_string()
}
