//! Conversion between served versions of one kind.
//!
//! *Invariants*: converting to the storage version and back loses nothing that the other version can represent.
//! *Not here*: conversion webhooks; custom kinds convert by changing `apiVersion`, as strategy `None`.
//! *Source*: the conversions of `events.k8s.io/v1` and `autoscaling/v1`.

use serde_json::{Map, Value, json};

use super::Resource;

/// Event fields: core name, then the name in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

const HPA_METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const HPA_BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Converts an object of the storage version into the version of `resource`.
pub(crate) fn from_storage(resource: &Resource, object: &mut Value) {
    if !resource.is_storage_version() {
        match (&*resource.storage, resource.version.as_str()) {
            ("events", _) => {
                rename(object, |core, new| (core, new));
                // Core shows these even if empty.
                if let Some(fields) = object.as_object_mut() {
                    for name in ["reportingController", "reportingInstance"] {
                        if fields.get(name).is_some_and(|value| value == "") {
                            fields.remove(name);
                        }
                    }
                }
            }
            ("horizontalpodautoscalers.autoscaling", "v1") => hpa_to_v1(object),
            _ => {}
        }
    }
    stamp(object, &resource.api_version(), &resource.kind);
}

/// Converts an object of the version of `resource` into the storage version.
pub(crate) fn to_storage(resource: &Resource, object: &mut Value) {
    if !resource.is_storage_version() {
        match (&*resource.storage, resource.version.as_str()) {
            ("events", _) => rename(object, |core, new| (new, core)),
            ("horizontalpodautoscalers.autoscaling", "v1") => hpa_from_v1(object),
            _ => {}
        }
    }
    stamp(object, &resource.storage_api_version(), &resource.kind);
}

fn stamp(object: &mut Value, api_version: &str, kind: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    let mut first = fields.iter();
    // Lists cut these two fields off the front of the serialized object, so they must exist.
    let right = first.next() == Some((&"apiVersion".to_owned(), &json!(api_version)))
        && first.next() == Some((&"kind".to_owned(), &json!(kind)));
    if !right {
        let mut out = Map::with_capacity(fields.len() + 2);
        out.insert("apiVersion".into(), json!(api_version));
        out.insert("kind".into(), json!(kind));
        for (name, value) in std::mem::take(fields) {
            if name != "apiVersion" && name != "kind" {
                out.insert(name, value);
            }
        }
        *fields = out;
    }
}

fn rename(object: &mut Value, direction: impl Fn(&'static str, &'static str) -> (&'static str, &'static str)) {
    let Some(fields) = object.as_object_mut() else { return };
    for (core, new) in EVENT_FIELDS {
        let (from, to) = direction(core, new);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["type"] == "Utilization"
}

fn hpa_to_v1(object: &mut Value) {
    let mut annotations = Map::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(Value::Array(mut metrics)) = spec.remove("metrics") {
            if let Some(at) = metrics.iter().position(is_cpu_utilization) {
                let cpu = metrics.remove(at);
                spec.insert(
                    "targetCPUUtilizationPercentage".into(),
                    cpu["resource"]["target"]["averageUtilization"].clone(),
                );
            }
            if !metrics.is_empty() {
                annotations.insert(HPA_METRICS.into(), Value::String(Value::Array(metrics).to_string()));
            }
        }
        if let Some(behavior) = spec.remove("behavior") {
            annotations.insert(HPA_BEHAVIOR.into(), Value::String(behavior.to_string()));
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("conditions");
        if let Some(Value::Array(metrics)) = status.remove("currentMetrics")
            && let Some(cpu) =
                metrics.iter().find(|metric| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu")
            && let Some(percent) = cpu.pointer("/resource/current/averageUtilization")
        {
            status.insert("currentCPUUtilizationPercentage".into(), percent.clone());
        }
    }
    if !annotations.is_empty()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(present) = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        present.extend(annotations);
    }
}

fn hpa_from_v1(object: &mut Value) {
    let mut take = |name: &str| {
        let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)?;
        let text = annotations.remove(name)?;
        serde_json::from_str::<Value>(text.as_str()?).ok()
    };
    let (metrics, behavior) = (take(HPA_METRICS), take(HPA_BEHAVIOR));
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let mut all = match metrics {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    // As the default of version 2.
    let default = || all.is_empty().then(|| json!(80));
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").or_else(default) {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        all.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    spec.insert("metrics".into(), Value::Array(all));
    if let Some(behavior) = behavior {
        spec.insert("behavior".into(), behavior);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Registry;

    #[test]
    fn an_autoscaler_keeps_its_other_metrics_in_version_one() {
        let registry = Registry::builtin();
        let old = registry.by_plural("autoscaling/v1", "horizontalpodautoscalers").unwrap();
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        let pods = json!({"type": "Pods", "pods": {}});
        let stored = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "metrics": [cpu, pods]}});
        let mut object = stored.clone();
        from_storage(old, &mut object);
        assert_eq!(object["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 80}));
        to_storage(old, &mut object);
        assert_eq!(object["spec"], stored["spec"]);
    }
}
