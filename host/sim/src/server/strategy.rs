//! Changes of each kind before an object is stored, beyond defaults: status at creation, the mutable part of an
//! endpoint, generations.
//!
//! *Source*: the `PrepareForCreate` and `PrepareForUpdate` of upstream's registry strategies.

use serde_json::{Map, Value, json};

use super::objects::{carry_over, generation, metadata_mut};
use crate::discovery::Resource;

/// The status of a new object; `None` when clients may set it at creation.
fn initial_status(resource: &Resource) -> Option<Value> {
    Some(match &*resource.storage {
        "nodes" | "events" => return None,
        "pods" => json!({"phase": "Pending"}),
        "namespaces" => json!({"phase": "Active"}),
        "persistentvolumes" | "persistentvolumeclaims" => json!({"phase": "Pending"}),
        "services" | "ingresses.networking.k8s.io" => json!({"loadBalancer": {}}),
        "replicasets.apps" | "replicationcontrollers" => json!({"replicas": 0}),
        "statefulsets.apps" => json!({"replicas": 0, "availableReplicas": 0}),
        "daemonsets.apps" => {
            json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0})
        }
        "poddisruptionbudgets.policy" => {
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
        }
        "horizontalpodautoscalers.autoscaling" => json!({"desiredReplicas": 0, "currentMetrics": null}),
        _ if resource.subresource("status").is_some() => json!({}),
        _ => return None,
    })
}

/// Prepares a new object of the request's version.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    let metadata = metadata_mut(object);
    if resource.counts_generations {
        metadata.insert("generation".into(), json!(1));
    }
    let Some(fields) = object.as_object_mut() else { return };
    if let Some(mut status) = initial_status(resource) {
        if resource.crd.is_some() {
            fields.remove("status");
        } else {
            if &*resource.storage == "pods" {
                status["qosClass"] = json!(qos_class(fields.get("spec").unwrap_or(&Value::Null)));
            }
            fields.insert("status".into(), status);
        }
    }
    if &*resource.storage == "secrets" {
        merge_string_data(fields);
    }
}

/// Fields that upstream's conversion adds to an empty object of the kind: counts that are never absent inside the
/// server.
pub(crate) fn complete_empty(resource: &Resource, object: &mut Value) {
    match &*resource.storage {
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" => object["spec"]["replicas"] = json!(0),
        "daemonsets.apps" => {
            object["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = json!("0");
        }
        _ => {}
    }
}

/// Fields that the server adds to a new object and that no manager owns.
pub(crate) fn finish_create(resource: &Resource, object: &mut Value) {
    match &*resource.storage {
        "jobs.batch" => return crate::defaults::generate_selector(object),
        "namespaces" => {}
        _ => return,
    }
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push(json!("kubernetes"));
    }
    if !object["spec"].is_object() {
        object["spec"] = json!({});
    }
    object["spec"]["finalizers"] = json!(finalizers);
}

/// Moves `stringData` of a Secret into `data`.
fn merge_string_data(fields: &mut Map<String, Value>) {
    use base64::Engine as _;
    if let Some(Value::Object(plain)) = fields.remove("stringData") {
        let data = fields.entry("data").or_insert_with(|| json!({}));
        for (name, value) in plain {
            data[name.as_str()] = json!(base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or("")));
        }
    }
}

/// Prepares the successor of `old`: restores the fields that this endpoint must not change, and counts generations.
pub(crate) fn prepare_update(resource: &Resource, subresource: Option<&str>, old: &Value, new: &mut Value) {
    let empty = Map::new();
    let before = old.as_object().unwrap_or(&empty);
    let Some(fields) = new.as_object_mut() else { return };
    match subresource {
        Some("status") => {
            let names: Vec<String> = fields.keys().chain(before.keys()).cloned().collect();
            for name in
                names.iter().filter(|name| !matches!(name.as_str(), "status" | "metadata" | "apiVersion" | "kind"))
            {
                carry_over(fields, Some(before), name);
            }
            let old_metadata = before.get("metadata").and_then(Value::as_object);
            let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else { return };
            if resource.crd.is_some() {
                // Only the status of a custom object can be written here; the remaining metadata is bookkeeping.
                let kept: Vec<String> =
                    metadata.keys().chain(old_metadata.into_iter().flat_map(Map::keys)).cloned().collect();
                for name in kept.iter().filter(|name| *name != "managedFields") {
                    carry_over(metadata, old_metadata, name);
                }
            } else if matches!(&*resource.storage, "deployments.apps" | "daemonsets.apps" | "statefulsets.apps") {
                carry_over(metadata, old_metadata, "labels");
            }
            if &*resource.storage == "pods" {
                for name in ["ownerReferences", "finalizers"] {
                    carry_over(metadata, old_metadata, name);
                }
            }
        }
        // The finalizers endpoint changes nothing else in a Namespace.
        Some("finalize") => {
            let finalizers = fields.get("spec").and_then(|spec| spec.get("finalizers")).cloned();
            carry_over(fields, Some(before), "spec");
            carry_over(fields, Some(before), "status");
            let spec = fields.entry("spec").or_insert_with(|| json!({}));
            match finalizers {
                Some(finalizers) if finalizers.as_array().is_some_and(|list| !list.is_empty()) => {
                    spec["finalizers"] = finalizers
                }
                _ => {
                    if let Some(spec) = spec.as_object_mut() {
                        spec.remove("finalizers");
                    }
                }
            }
        }
        Some("approval") => carry_over(fields, Some(before), "spec"),
        Some("binding" | "eviction") => return,
        Some(_) => carry_over(fields, Some(before), "status"),
        None => {
            if resource.subresource("status").is_some() {
                carry_over(fields, Some(before), "status");
            }
            match &*resource.storage {
                "namespaces" | "certificatesigningrequests.certificates.k8s.io" => {
                    carry_over(fields, Some(before), "spec");
                }
                "daemonsets.apps" => count_template(before, fields),
                "services" => drop_type_dependent_fields(before, fields),
                "secrets" => merge_string_data(fields),
                _ => {}
            }
        }
    }
    count_generation(resource, subresource, old, new);
}

/// Counts the changes of a DaemonSet's template in its annotation.
fn count_template(before: &Map<String, Value>, fields: &mut Map<String, Value>) {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let template = |fields: &Map<String, Value>| fields.get("spec").map(|spec| spec["template"].clone());
    let count = before["metadata"]["annotations"][COUNT].as_str().and_then(|text| text.parse().ok()).unwrap_or(0_i64);
    let count = count + i64::from(template(before) != template(fields));
    if let Some(metadata) = fields.get_mut("metadata") {
        metadata["annotations"][COUNT] = json!(count.to_string());
    }
}

/// Removes the fields of a Service that its new type does not have, unless the request changes them.
#[doc(alias = "dropTypeDependentFields")]
fn drop_type_dependent_fields(before: &Map<String, Value>, fields: &mut Map<String, Value>) {
    let (Some(old), Some(new)) = (before.get("spec"), fields.get_mut("spec")) else { return };
    let kind = |spec: &Value| spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
    let (has_balancer, has_ports) = (kind(new) == "LoadBalancer", kind(new) == "NodePort");
    let is_exposed = has_balancer || has_ports || new["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    let node_ports = |spec: &Value| {
        let ports = spec["ports"].as_array().into_iter().flatten();
        ports.map(|port| port["nodePort"].clone()).collect::<Vec<_>>()
    };
    let has_same_ports = node_ports(old) == node_ports(new);
    let dropped = [
        ("allocateLoadBalancerNodePorts", has_balancer),
        ("loadBalancerClass", has_balancer),
        ("externalTrafficPolicy", is_exposed),
    ];
    for (name, _) in dropped.into_iter().filter(|(_, stays)| !stays) {
        if old[name] == new[name]
            && let Some(new) = new.as_object_mut()
        {
            new.remove(name);
        }
    }
    if !has_balancer && !has_ports && has_same_ports {
        let ports = new["ports"].as_array_mut().into_iter().flatten();
        ports.filter_map(Value::as_object_mut).for_each(|port| _ = port.remove("nodePort"));
    }
}

fn count_generation(resource: &Resource, subresource: Option<&str>, old: &Value, new: &mut Value) {
    let before = generation(old);
    let metadata = metadata_mut(new);
    if before > 0 {
        metadata.insert("generation".into(), json!(before));
    } else {
        metadata.remove("generation");
    }
    if !resource.counts_generations || subresource == Some("status") {
        return;
    }
    let has_status = resource.subresource("status").is_some();
    let ignored = |name: &str| matches!(name, "metadata" | "apiVersion" | "kind") || (name == "status" && has_status);
    let differs = |left: &Value, right: &Value| {
        left.as_object().into_iter().flatten().any(|(name, value)| !ignored(name) && right.get(name) != Some(value))
    };
    // As upstream's `deploymentStrategy`, for annotations that the controller copies.
    let is_annotated =
        &*resource.storage == "deployments.apps" && old["metadata"]["annotations"] != new["metadata"]["annotations"];
    if is_annotated || differs(old, new) || differs(new, old) {
        metadata_mut(new).insert("generation".into(), json!(before + 1));
    }
}

/// The quality-of-service class from a Pod's resources.
fn qos_class(spec: &Value) -> &'static str {
    let containers: Vec<&Value> =
        ["containers", "initContainers"].iter().filter_map(|list| spec[*list].as_array()).flatten().collect();
    let amount = |container: &Value, side: &str, name: &str| {
        container["resources"][side][name]
            .as_str()
            .map(str::to_owned)
            .or_else(|| container["resources"][side][name].as_i64().map(|n| n.to_string()))
    };
    let mut any = false;
    let mut guaranteed = true;
    for container in containers {
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount(container, "limits", name), amount(container, "requests", name));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_of_service_follows_requests_and_limits() {
        let pod = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(qos_class(&pod(json!({}))), "BestEffort");
        assert_eq!(qos_class(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(qos_class(&pod(json!({"limits": {"cpu": "1", "memory": "1Gi"}}))), "Guaranteed");
    }
}
