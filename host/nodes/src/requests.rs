//! The requests that the nodes send, as data.

use std::net::Ipv4Addr;

use http::Method;
use serde_json::{Value, json};

use crate::pod::ObservedPod;

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

/// Reports a status, as a patch of it.
pub(crate) fn status(pod: &ObservedPod, status: &Value) -> Write {
    Write {
        uid: pod.metadata.uid.clone(),
        step: Step::Report,
        method: Method::PATCH,
        path: format!("{}/status", path(pod)),
        content_type: "application/strategic-merge-patch+json",
        body: json!({"metadata": {"uid": pod.metadata.uid}, "status": status}),
    }
}

/// The address of a node, derived from the number in its name.
pub(crate) fn host_ip(node: &str) -> String {
    let digits = node.len() - node.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let number: u32 = node[node.len() - digits..].parse().unwrap_or_default();
    Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 1)) + number % 0xf_fff0).to_string()
}
