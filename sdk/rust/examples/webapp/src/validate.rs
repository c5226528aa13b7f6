//! Validation beyond the schema of the custom resource: an invalid WebApp reports all its problems together.

use crate::types::{Autoscaling, DisruptionBudget, WebApp};

/// The problems, in the order of the spec; empty if there are none.
pub fn problems(app: &WebApp) -> Vec<String> {
    let mut problems = Vec::new();
    let spec = &app.spec;
    let name = &app.metadata.name;
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(format!("metadata.name: not a name for a Service: {name}"));
    }
    if spec.image().is_empty() {
        problems.push("spec.image: is required".to_owned());
    }
    if spec.replicas() < 0 {
        problems.push("spec.replicas: must not be negative".to_owned());
    }
    if spec.port() < 1 || spec.port() > 65535 {
        problems.push("spec.port: must be between 1 and 65535".to_owned());
    }
    if !spec.host().is_empty() && !is_dns_name(spec.host()) {
        problems.push(format!("spec.host: not a DNS name: {}", spec.host()));
    }
    for key in spec.config().keys() {
        if !is_config_key(key) {
            problems.push(format!("spec.config: not a key: {key}"));
        }
    }
    if let Some(autoscaling) = &spec.autoscaling {
        problems.extend(problems_of_autoscaling(autoscaling));
    }
    if let Some(budget) = &spec.disruption_budget {
        problems.extend(problems_of_budget(budget));
    }
    problems
}

fn problems_of_autoscaling(autoscaling: &Autoscaling) -> Vec<String> {
    let mut problems = Vec::new();
    let (min, max) = (autoscaling.min_replicas(), autoscaling.max_replicas());
    if min < 1 {
        problems.push("spec.autoscaling.minReplicas: must be at least 1".to_owned());
    }
    if max < 1 {
        problems.push("spec.autoscaling.maxReplicas: must be at least 1".to_owned());
    }
    if min >= 1 && max >= 1 && min > max {
        problems.push(format!("spec.autoscaling: minReplicas {min} is more than maxReplicas {max}"));
    }
    if autoscaling.cpu_percent() < 1 {
        problems.push("spec.autoscaling.cpuPercent: must be at least 1".to_owned());
    }
    problems
}

fn problems_of_budget(budget: &DisruptionBudget) -> Vec<String> {
    let mut problems = Vec::new();
    if budget.min_available.is_some() == budget.max_unavailable.is_some() {
        problems.push("spec.disruptionBudget: needs either minAvailable or maxUnavailable".to_owned());
    }
    if budget.min_available.is_some_and(|number| number < 0) {
        problems.push("spec.disruptionBudget.minAvailable: must not be negative".to_owned());
    }
    if budget.max_unavailable.is_some_and(|number| number < 0) {
        problems.push("spec.disruptionBudget.maxUnavailable: must not be negative".to_owned());
    }
    problems
}

/// 1 to 63 lower-case letters, digits and `-`, with neither end a `-`.
fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Labels separated by dots, at most 253 bytes.
fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A key of a ConfigMap: 1 to 253 letters, digits, `-`, `_` and `.`.
fn is_config_key(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
}
