//! Cells of the kinds that own no Pods.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{age, human_duration, joined, labels, list, number, scalar, since, text, text_or};

fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

fn size(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
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

pub(super) fn certificate_signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |kind: &str| list(&status["conditions"]).iter().any(|condition| condition["type"] == kind);
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if text(&status["certificate"]).is_empty() { "" } else { ",Issued" };
    let duration = spec["expirationSeconds"].as_i64().map_or_else(|| "<none>".to_owned(), human_duration);
    vec![
        name(object),
        age(object, now),
        text_or(&spec["signerName"], "<none>").into(),
        text(&spec["username"]).into(),
        duration.into(),
        format!("{decision}{failed}{issued}").into(),
    ]
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

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["spec"]["holderIdentity"]).into(), age(object, now)]
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
