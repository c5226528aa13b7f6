//! Cells of the kinds that own no Pods.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells_workloads::access_modes;
use super::format::{
    age, first_three, human_duration, joined, labels, list, number, scalar, selector_or_none, since, text, text_or,
};

fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

fn size(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

pub(super) fn created_at(object: &Value, _now: Timestamp) -> Vec<Value> {
    let created = text_or(&object["metadata"]["creationTimestamp"], "<unknown>");
    vec![name(object), created.into()]
}

pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn load_balancer(status: &Value) -> String {
    let ingress = list(&status["loadBalancer"]["ingress"]).iter();
    let addresses: BTreeSet<&str> = ingress.map(|entry| text_or(&entry["ip"], text(&entry["hostname"]))).collect();
    addresses.into_iter().filter(|address| !address.is_empty()).collect::<Vec<_>>().join(",")
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let external = joined(&spec["externalIPs"], ",");
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external,
        "LoadBalancer" => {
            let both = [load_balancer(&service["status"]), external];
            let both = both.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
            if both.is_empty() { "<pending>".to_owned() } else { both }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let ports = list(&spec["ports"]).iter().map(|port| match number(&port["nodePort"]) {
        0 => format!("{}/{}", number(&port["port"]), text(&port["protocol"])),
        node => format!("{}:{node}/{}", number(&port["port"]), text(&port["protocol"])),
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    vec![
        name(service),
        spec["type"].clone(),
        text_or(&spec["clusterIPs"][0], "<none>").into(),
        external_ip(service).into(),
        if ports.is_empty() { "<none>".into() } else { ports.into() },
        age(service, now),
        labels(&spec["selector"]).into(),
    ]
}

pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut entries = Vec::new();
    for subset in list(&object["subsets"]) {
        let addresses = list(&subset["addresses"]);
        let ports = list(&subset["ports"]);
        if ports.is_empty() {
            entries.extend(addresses.iter().map(|address| text(&address["ip"]).to_owned()));
        }
        for port in ports {
            entries.extend(addresses.iter().map(|address| match text(&address["ip"]) {
                ip if ip.contains(':') => format!("[{ip}]:{}", number(&port["port"])),
                ip => format!("{ip}:{}", number(&port["port"])),
            }));
        }
    }
    let shown = if list(&object["subsets"]).is_empty() { "<none>".to_owned() } else { first_three(&entries) };
    vec![name(object), shown.into(), age(object, now)]
}

pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let unset = |entries: Vec<String>| match first_three(&entries) {
        shown if shown.is_empty() => "<unset>".to_owned(),
        shown => shown,
    };
    let ports = list(&object["ports"]).iter().map(|port| match &port["port"] {
        Value::Null => text_or(&port["name"], "*").to_owned(),
        port => port.to_string(),
    });
    let addresses = list(&object["endpoints"]).iter().flat_map(|endpoint| list(&endpoint["addresses"]));
    let addresses = addresses.map(|address| text(address).to_owned()).collect();
    vec![
        name(object),
        object["addressType"].clone(),
        unset(ports.collect()).into(),
        unset(addresses).into(),
        age(object, now),
    ]
}

pub(super) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let rules = list(&spec["rules"]);
    // Empty hosts take no place in the list, but rules after three shown hosts are counted all the same.
    let mut hosts: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == 3;
        let host = text(&rule["host"]);
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let hosts = match hosts.join(",") {
        shown if shown.is_empty() => "*".to_owned(),
        shown if more => format!("{shown} + {} more...", rules.len() - 3),
        shown => shown,
    };
    let ports = if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        text_or(&spec["ingressClassName"], "<none>").into(),
        hosts.into(),
        load_balancer(&object["status"]).into(),
        ports.into(),
        age(object, now),
    ]
}

fn name_with_default(object: &Value, annotation: &str) -> Value {
    match text(&object["metadata"]["annotations"][annotation]) {
        "true" => format!("{} (default)", text(&object["metadata"]["name"])).into(),
        _ => name(object),
    }
}

pub(super) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = &object["spec"]["parameters"];
    let parameters = match (parameters.is_object(), text(&parameters["apiGroup"])) {
        (false, _) => "<none>".to_owned(),
        (true, "") => format!("{}/{}", text(&parameters["kind"]), text(&parameters["name"])),
        (true, group) => format!("{}.{group}/{}", text(&parameters["kind"]), text(&parameters["name"])),
    };
    vec![
        name_with_default(object, "ingressclass.kubernetes.io/is-default-class"),
        text(&object["spec"]["controller"]).into(),
        parameters.into(),
        age(object, now),
    ]
}

pub(super) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), selector_or_none(&object["spec"]["podSelector"]).into(), age(object, now)]
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let status = &node["status"];
    let info = &status["nodeInfo"];
    let ready = list(&status["conditions"]).iter().find(|condition| condition["type"] == "Ready");
    let mut state = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(&status["addresses"]).iter().find(|address| address["type"] == kind);
        found.map_or("<none>", |address| text(&address["address"])).to_owned()
    };
    let mut kernel = text_or(&info["kernelVersion"], "<unknown>").to_owned();
    if !text(&info["architecture"]).is_empty() {
        kernel = format!("{kernel} ({})", text(&info["architecture"]));
    }
    vec![
        name(node),
        state.into(),
        roles(node).into(),
        age(node, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        text_or(&info["osImage"], "<unknown>").into(),
        kernel.into(),
        text_or(&info["containerRuntimeVersion"], "<unknown>").into(),
    ]
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["status"]["phase"]).into(), age(object, now)]
}

/// Reads core/v1 names and, where they are absent, those of events.k8s.io/v1.
pub(super) fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, new: &str| {
        if event[core].is_null() { &event[new] } else { &event[core] }
    };
    let first_time = match either("firstTimestamp", "deprecatedFirstTimestamp") {
        Value::Null => &event["eventTime"],
        time => time,
    };
    let series = &event["series"];
    let (last, count) = match (either("lastTimestamp", "deprecatedLastTimestamp"), series.is_object()) {
        (_, true) => (since(&series["lastObservedTime"], now), number(&series["count"])),
        (Value::Null, false) => (since(first_time, now), number(either("count", "deprecatedCount")).max(1)),
        (last, false) => (since(last, now), number(either("count", "deprecatedCount")).max(1)),
    };
    let object = either("involvedObject", "regarding");
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("source", "deprecatedSource");
    let component = [&source["component"], &event["reportingComponent"], &event["reportingController"]];
    let component = component.into_iter().map(text).find(|text| !text.is_empty()).unwrap_or_default();
    let instance = text_or(&source["host"], text(&event["reportingInstance"]));
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        last.into(),
        event["type"].clone(),
        event["reason"].clone(),
        target.into(),
        text(&object["fieldPath"]).into(),
        source.into(),
        text(either("message", "note")).trim().into(),
        since(first_time, now).into(),
        count.into(),
        name(event),
    ]
}

pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), (size(&object["data"]) + size(&object["binaryData"])).into(), age(object, now)]
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["type"]).into(), size(&object["data"]).into(), age(object, now)]
}

pub(super) fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let mut resources: Vec<&String> =
        status["hard"].as_object().into_iter().flatten().map(|(resource, _)| resource).collect();
    resources.sort();
    let (limits, requests): (Vec<_>, Vec<_>) =
        resources.into_iter().partition(|resource| resource.starts_with("limits."));
    let column = |resources: Vec<&String>| {
        let entry = |resource: &&String| {
            let used = match scalar(&status["used"][resource.as_str()]) {
                used if used.is_empty() => "0".to_owned(),
                used => used,
            };
            format!("{resource}: {used}/{}", scalar(&status["hard"][resource.as_str()]))
        };
        Value::from(resources.iter().map(entry).collect::<Vec<_>>().join(", "))
    };
    vec![name(object), column(requests), column(limits), age(object, now)]
}

fn phase(object: &Value) -> Value {
    match &object["metadata"]["deletionTimestamp"] {
        Value::Null => text(&object["status"]["phase"]).into(),
        _ => "Terminating".into(),
    }
}

fn storage_class_name(object: &Value) -> &str {
    let legacy = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    legacy.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

pub(super) fn persistent_volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let claim = match spec["claimRef"].is_object() {
        true => format!("{}/{}", text(&spec["claimRef"]["namespace"]), text(&spec["claimRef"]["name"])),
        false => String::new(),
    };
    let capacity = match scalar(&spec["capacity"]["storage"]) {
        capacity if capacity.is_empty() => "0".to_owned(),
        capacity => capacity,
    };
    vec![
        name(object),
        capacity.into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(object),
        claim.into(),
        storage_class_name(object).into(),
        text_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        text(&object["status"]["reason"]).into(),
        age(object, now),
        text_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

pub(super) fn persistent_volume_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let bound = !text(&spec["volumeName"]).is_empty();
    let (capacity, modes) = match bound {
        true => (scalar(&status["capacity"]["storage"]), access_modes(&status["accessModes"])),
        false => (String::new(), String::new()),
    };
    vec![
        name(object),
        phase(object),
        text(&spec["volumeName"]).into(),
        if bound && capacity.is_empty() { "0".into() } else { capacity.into() },
        modes.into(),
        storage_class_name(object).into(),
        text_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        age(object, now),
        text_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

pub(super) fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |value: &Value| {
        if value.is_null() { "N/A".to_owned() } else { scalar(value) }
    };
    vec![
        name(object),
        bound(&object["spec"]["minAvailable"]).into(),
        bound(&object["spec"]["maxUnavailable"]).into(),
        number(&object["status"]["disruptionsAllowed"]).into(),
        age(object, now),
    ]
}

fn hpa_metric(spec: &Value, status: &Value) -> String {
    let (field, label) = match text(&spec["type"]) {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&spec[field]["target"], &status[field]["current"]);
    let shown = |value: &Value, otherwise: &str| match scalar(value) {
        text if text.is_empty() => otherwise.to_owned(),
        text => text,
    };
    let pair = |measure: &str| format!("{}/{}", shown(&current[measure], "<unknown>"), shown(&target[measure], "0"));
    let percent = |value: &Value, otherwise: &str| match value.as_i64() {
        Some(percent) => format!("{percent}%"),
        None => otherwise.to_owned(),
    };
    let average = !target["averageValue"].is_null();
    let text = match (label, average, field) {
        (true, true, _) | (false, _, "pods") => pair("averageValue"),
        (true, false, _) => format!(
            "{}/{}",
            percent(&current["averageUtilization"], "<unknown>"),
            percent(&target["averageUtilization"], "<auto>")
        ),
        (false, true, _) => format!("{} (avg)", pair("averageValue")),
        (false, false, _) => pair("value"),
    };
    if label { format!("{}: {text}", scalar(&spec[field]["name"])) } else { text }
}

fn hpa_metrics(object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    if !spec["targetCPUUtilizationPercentage"].is_null() {
        // autoscaling/v1 has one metric, in fields of its own.
        let current = match status["currentCPUUtilizationPercentage"].as_i64() {
            Some(current) => format!("{current}%"),
            None => "<unknown>".to_owned(),
        };
        return format!("cpu: {current}/{}%", number(&spec["targetCPUUtilizationPercentage"]));
    }
    let current = list(&status["currentMetrics"]);
    let metrics = list(&spec["metrics"]).iter().enumerate();
    let metrics: Vec<String> =
        metrics.map(|(index, spec)| hpa_metric(spec, current.get(index).unwrap_or(&Value::Null))).collect();
    match metrics.len() {
        0 => "<none>".to_owned(),
        1 | 2 => metrics.join(", "),
        n_metrics => format!("{} + {} more...", metrics[..2].join(", "), n_metrics - 2),
    }
}

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, target) = (&object["spec"], &object["spec"]["scaleTargetRef"]);
    vec![
        name(object),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        hpa_metrics(object).into(),
        spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |count| count.to_string()).into(),
        number(&spec["maxReplicas"]).into(),
        number(&object["status"]["currentReplicas"]).into(),
        age(object, now),
    ]
}

pub(super) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_with_default(object, "storageclass.kubernetes.io/is-default-class"),
        text(&object["provisioner"]).into(),
        text_or(&object["reclaimPolicy"], "Delete").into(),
        text_or(&object["volumeBindingMode"], "Immediate").into(),
        json!(object["allowVolumeExpansion"] == true),
        age(object, now),
    ]
}

pub(super) fn volume_attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text(&spec["attacher"]).into(),
        text(&spec["source"]["persistentVolumeName"]).into(),
        text(&spec["nodeName"]).into(),
        json!(object["status"]["attached"] == true),
        age(object, now),
    ]
}

pub(super) fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), list(&object["spec"]["drivers"]).len().into(), age(object, now)]
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["spec"]["holderIdentity"]).into(), age(object, now)]
}

pub(super) fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = &object["roleRef"];
    let subjects = |kind: &str| {
        let of_kind = list(&object["subjects"]).iter().filter(|subject| subject["kind"] == kind);
        let names = of_kind.map(|subject| match kind {
            "ServiceAccount" => {
                format!("{}/{}", text(&subject["namespace"]), text(&subject["name"]))
            }
            _ => text(&subject["name"]).to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |kind: &str| list(&status["conditions"]).iter().any(|condition| condition["type"] == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    vec![
        name(object),
        age(object, now),
        text_or(&spec["signerName"], "<none>").into(),
        text(&spec["username"]).into(),
        spec["expirationSeconds"].as_i64().map_or_else(|| "<none>".to_owned(), human_duration).into(),
        state.into(),
    ]
}

pub(super) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        number(&object["value"]).into(),
        json!(object["globalDefault"] == true),
        age(object, now),
        text(&object["preemptionPolicy"]).into(),
    ]
}

pub(super) fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["handler"]).into(), age(object, now)]
}

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), list(&object["webhooks"]).len().into(), age(object, now)]
}

pub(super) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = &object["spec"]["service"];
    let service = match service.is_object() {
        true => format!("{}/{}", text(&service["namespace"]), text(&service["name"])),
        false => "Local".to_owned(),
    };
    let available = list(&object["status"]["conditions"]).iter().find(|c| c["type"] == "Available");
    let available = match available.map(|c| (text(&c["status"]), text(&c["reason"]))) {
        Some(("True", _)) => "True".to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
        None => "Unknown".to_owned(),
    };
    vec![name(object), service.into(), available.into(), age(object, now)]
}
