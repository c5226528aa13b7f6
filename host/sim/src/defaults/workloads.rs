//! Defaults of the kinds that own Pods.

use serde_json::{Map, Value, json};

use super::{fill, inner, is_unset, text};

/// Labels that tie a Job's Pods to it, and the fields of its metadata that they contain.
pub(super) const JOB_LABELS: [(&str, &str); 4] = [
    ("job-name", "name"),
    ("batch.kubernetes.io/job-name", "name"),
    ("controller-uid", "uid"),
    ("batch.kubernetes.io/controller-uid", "uid"),
];

/// Sets the selector and Pod labels of a new Job, unless they are set manually.
pub(crate) fn generate_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let own = job["metadata"].clone();
    let Some(spec) = job.as_object_mut().and_then(|job| inner(job, "spec")) else { return };
    let labels = inner(spec, "template").and_then(|template| inner(template, "metadata"));
    if let Some(labels) = labels.and_then(|metadata| inner(metadata, "labels")) {
        for (label, field) in JOB_LABELS {
            labels.entry(label).or_insert_with(|| own[field].clone());
        }
    }
    let selector = inner(spec, "selector").and_then(|selector| inner(selector, "matchLabels"));
    if let Some(selector) = selector {
        selector.entry(JOB_LABELS[3].0).or_insert_with(|| own["uid"].clone());
    }
}

pub(super) fn default_type(name: &str, map: &mut Map<String, Value>) {
    match name {
        "apps.v1.DeploymentStrategy" | "apps.v1.DaemonSetUpdateStrategy" if text(map, "type") == "RollingUpdate" => {
            fill(map, "rollingUpdate", Map::new());
        }
        "apps.v1.DaemonSet" => {
            // A former field that is an annotation since apps/v1.
            if let Some(metadata) = inner(map, "metadata")
                && let Some(annotations) = inner(metadata, "annotations")
            {
                fill(annotations, "deprecated.daemonset.template.generation", "1");
            }
        }
        "apps.v1.StatefulSetUpdateStrategy" if is_unset(map, "type") => {
            fill(map, "type", "RollingUpdate");
            fill(map, "rollingUpdate", Map::new());
        }
        "apps.v1.StatefulSetSpec" => {
            // Claims inside a StatefulSet are stored with their type.
            for claim in map.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(claim) = claim.as_object_mut() {
                    fill(claim, "apiVersion", "v1");
                    fill(claim, "kind", "PersistentVolumeClaim");
                }
            }
        }
        "core.v1.ReplicationController" => labels_from_template(map, true),
        // The Job template of a CronJob is defaulted when its Job is created.
        "batch.v1.Job" => {
            labels_from_template(map, false);
            if let Some(spec) = inner(map, "spec") {
                job(spec);
            }
        }
        _ => {}
    }
}

/// Labels, and a selector for ReplicationControllers, default to those of the template.
fn labels_from_template(map: &mut Map<String, Value>, with_selector: bool) {
    let labels = map.get("spec").map(|spec| spec["template"]["metadata"]["labels"].clone()).unwrap_or_default();
    if labels.as_object().is_none_or(Map::is_empty) {
        return;
    }
    let is_empty = |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(Map::is_empty);
    if with_selector
        && let Some(spec) = inner(map, "spec")
        && is_empty(spec.get("selector"))
    {
        spec.insert("selector".to_owned(), labels.clone());
    }
    if let Some(metadata) = inner(map, "metadata")
        && is_empty(metadata.get("labels"))
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn job(spec: &mut Map<String, Value>) {
    if is_unset(spec, "completions") && is_unset(spec, "parallelism") {
        spec.insert("completions".to_owned(), json!(1));
    }
    fill(spec, "parallelism", 1);
    let limit = if is_unset(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement = if is_unset(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
}
