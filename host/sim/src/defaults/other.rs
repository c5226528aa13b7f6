//! Defaults of the kinds that are unrelated to Pods.

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
        "core.v1.NodeStatus" => {
            if let Some(capacity) = map.get("capacity").cloned() {
                fill(map, "allocatable", capacity);
            }
        }
        "networking.v1.NetworkPolicySpec" => {
            let has_egress = map.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
            fill(map, "policyTypes", if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
        }
        "rbac.v1.Subject" if matches!(text(map, "kind"), "User" | "Group") => {
            fill(map, "apiGroup", "rbac.authorization.k8s.io");
        }
        "autoscaling.v2.HorizontalPodAutoscalerBehavior" => {
            let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
            if let Some(up) = inner(map, "scaleUp") {
                fill(up, "stabilizationWindowSeconds", 0);
                fill(up, "policies", json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]));
            }
            if let Some(down) = inner(map, "scaleDown") {
                fill(down, "policies", json!([percent]));
            }
        }
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
