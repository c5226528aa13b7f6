//! Defaults of the kinds that have nothing to do with Pods.

use serde_json::{Map, Value, json};

use super::{fill, inner, is_unset, text};

pub(super) fn default_type(name: &str, map: &mut Map<String, Value>) {
    match name {
        "core.v1.ServiceSpec" => service(map),
        "core.v1.ServicePort" => {
            let target = map.get("targetPort").is_none_or(|port| *port == json!(0) || *port == json!(""));
            if target && let Some(port) = map.get("port").cloned() {
                map.insert("targetPort".to_owned(), port);
            }
        }
        "core.v1.Secret" => fill(map, "type", "Opaque"),
        "core.v1.EndpointPort" => fill(map, "protocol", "TCP"),
        "discovery.v1.EndpointPort" => {
            if !map.contains_key("name") {
                map.insert("name".to_owned(), json!(""));
            }
            fill(map, "protocol", "TCP");
        }
        "core.v1.PersistentVolumeSpec" => {
            fill(map, "persistentVolumeReclaimPolicy", "Retain");
            fill(map, "volumeMode", "Filesystem");
        }
        "core.v1.PersistentVolumeStatus" | "core.v1.PersistentVolumeClaimStatus" => fill(map, "phase", "Pending"),
        "core.v1.PersistentVolumeClaimSpec" => fill(map, "volumeMode", "Filesystem"),
        "core.v1.NamespaceStatus" => fill(map, "phase", "Active"),
        "core.v1.NodeStatus" => {
            if let Some(capacity) = map.get("capacity").cloned() {
                fill(map, "allocatable", capacity);
            }
        }
        "networking.v1.NetworkPolicyPort" => fill(map, "protocol", "TCP"),
        "networking.v1.NetworkPolicySpec" => network_policy(map),
        "networking.v1.IngressClassParametersReference" => fill(map, "scope", "Cluster"),
        "storage.v1.StorageClass" => {
            fill(map, "reclaimPolicy", "Delete");
            fill(map, "volumeBindingMode", "Immediate");
        }
        "storage.v1.CSIDriverSpec" => csi_driver(map),
        "scheduling.v1.PriorityClass" => fill(map, "preemptionPolicy", "PreemptLowerPriority"),
        "rbac.v1.RoleRef" => fill(map, "apiGroup", "rbac.authorization.k8s.io"),
        "rbac.v1.Subject" if matches!(text(map, "kind"), "User" | "Group") => {
            fill(map, "apiGroup", "rbac.authorization.k8s.io");
        }
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler(map),
        "autoscaling.v1.HorizontalPodAutoscalerSpec" => fill(map, "minReplicas", 1),
        "admissionregistration.v1.ValidatingWebhook" => webhook(map),
        "admissionregistration.v1.MutatingWebhook" => {
            webhook(map);
            fill(map, "reinvocationPolicy", "Never");
        }
        "admissionregistration.v1.RuleWithOperations" => fill(map, "scope", "*"),
        "admissionregistration.v1.ServiceReference" | "apiextensions.v1.ServiceReference" => fill(map, "port", 443),
        "apiextensions.v1.CustomResourceDefinitionSpec" => custom_resource(map),
        _ => {}
    }
}

fn service(map: &mut Map<String, Value>) {
    fill(map, "sessionAffinity", "None");
    match text(map, "sessionAffinity") {
        "None" => {
            map.shift_remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            if let Some(config) = inner(map, "sessionAffinityConfig")
                && let Some(client) = inner(config, "clientIP")
            {
                fill(client, "timeoutSeconds", 10_800);
            }
        }
        _ => {}
    }
    fill(map, "type", "ClusterIP");
    let kind = text(map, "type").to_owned();
    let has_external_ips = map.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    let external = matches!(kind.as_str(), "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && has_external_ips);
    if external {
        fill(map, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        fill(map, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" && is_unset(map, "allocateLoadBalancerNodePorts") {
        map.insert("allocateLoadBalancerNodePorts".to_owned(), json!(true));
    }
}

fn network_policy(map: &mut Map<String, Value>) {
    let mut types = vec!["Ingress"];
    if map.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty()) {
        types.push("Egress");
    }
    fill(map, "policyTypes", types);
}

fn csi_driver(map: &mut Map<String, Value>) {
    fill(map, "attachRequired", true);
    for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(map, field, false);
    }
    fill(map, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill(map, "volumeLifecycleModes", vec!["Persistent"]);
}

fn autoscaler(map: &mut Map<String, Value>) {
    fill(map, "minReplicas", 1);
    fill(
        map,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    let Some(behavior) = map.get_mut("behavior").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(up) = inner(behavior, "scaleUp") {
        fill(up, "stabilizationWindowSeconds", 0);
        fill(up, "selectPolicy", "Max");
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        fill(up, "policies", vec![pods, json!({"type": "Percent", "value": 100, "periodSeconds": 15})]);
    }
    if let Some(down) = inner(behavior, "scaleDown") {
        fill(down, "selectPolicy", "Max");
        fill(down, "policies", vec![json!({"type": "Percent", "value": 100, "periodSeconds": 15})]);
    }
}

fn webhook(map: &mut Map<String, Value>) {
    fill(map, "failurePolicy", "Fail");
    fill(map, "matchPolicy", "Equivalent");
    fill(map, "namespaceSelector", Map::new());
    fill(map, "objectSelector", Map::new());
    fill(map, "timeoutSeconds", 10);
}

fn custom_resource(map: &mut Map<String, Value>) {
    if let Some(names) = inner(map, "names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            fill(names, "singular", kind.to_lowercase());
            fill(names, "listKind", format!("{kind}List"));
        }
    }
    fill(map, "conversion", json!({"strategy": "None"}));
}
