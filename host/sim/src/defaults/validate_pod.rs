//! Validation of Pods and Pod templates.

use std::collections::HashSet;

use serde_json::Value;

use super::validate::{non_negative, wrong_name};
use crate::cause::Cause;

/// Checks a Pod's or a template's spec.
pub(super) fn pod_spec(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    let containers = spec["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        errors.push(Cause::required(format!("{path}.containers")));
    }
    let mut names = HashSet::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            container_spec(container, &format!("{path}.{list}[{index}]"), &mut names, errors);
        }
    }
    let volumes: HashSet<&str> =
        spec["volumes"].as_array().into_iter().flatten().filter_map(|volume| volume["name"].as_str()).collect();
    for (index, container) in containers.iter().enumerate() {
        for (mount, entry) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
            if !entry["name"].as_str().is_some_and(|name| volumes.contains(name)) {
                let path = format!("{path}.containers[{index}].volumeMounts[{mount}].name");
                let message = format!("Not found: {:?}", entry["name"].as_str().unwrap_or_default());
                errors.push(Cause::new("FieldValueNotFound", path, message));
            }
        }
    }
    non_negative(spec, path, &["terminationGracePeriodSeconds"], errors);
    let policies = ["Always", "OnFailure", "Never"];
    if !spec["restartPolicy"].as_str().is_some_and(|policy| policies.contains(&policy)) {
        errors.push(Cause::unsupported(format!("{path}.restartPolicy"), &spec["restartPolicy"], &policies));
    }
}

fn container_spec<'a>(container: &'a Value, path: &str, names: &mut HashSet<&'a str>, errors: &mut Vec<Cause>) {
    match container["name"].as_str() {
        None | Some("") => errors.push(Cause::required(format!("{path}.name"))),
        Some(name) => {
            let field = format!("{path}.name");
            wrong_name(&field, name, crate::names::label(name), errors);
            if !names.insert(name) {
                errors.push(Cause::new("FieldValueDuplicate", field, format!("Duplicate value: {name:?}")));
            }
        }
    }
    if container["image"].as_str().unwrap_or_default().is_empty() {
        errors.push(Cause::required(format!("{path}.image")));
    }
    for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        if !port["containerPort"].as_i64().is_some_and(|port| (1..=65_535).contains(&port)) {
            let path = format!("{path}.ports[{index}].containerPort");
            errors.push(Cause::invalid(path, &port["containerPort"], "must be between 1 and 65535, inclusive"));
        }
    }
}

/// Checks that an update of a Pod touches only what may change.
pub(super) fn pod_update(old: &Value, new: &Value, errors: &mut Vec<Cause>) {
    let freeze = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        if let Some(spec) = spec.as_object_mut() {
            for field in
                ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName", "schedulingGates"]
            {
                spec.shift_remove(field);
            }
        }
        spec
    };
    let unbound_before = old["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let moved = !unbound_before && old["spec"]["nodeName"] != new["spec"]["nodeName"];
    if freeze(old) != freeze(new) || moved {
        errors.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
        ));
    }
}
