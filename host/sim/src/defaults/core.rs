//! Defaults of Pods and their parts.

use serde_json::{Map, Value, json};

use super::{fill, inner, is_unset, text};

pub(super) fn default_type(name: &str, map: &mut Map<String, Value>) {
    let Some(name) = name.strip_prefix("core.v1.") else {
        return;
    };
    match name {
        "Namespace" => namespace(map),
        "Pod" => pod(map),
        "PodStatus" => {
            for (one, all) in [("podIP", "podIPs"), ("hostIP", "hostIPs")] {
                first_address(map, one, all);
            }
        }
        "PodSpec" => {
            service_account(map);
            if map.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
                map.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
            }
        }
        "Container" | "EphemeralContainer" => {
            let policy = pull_policy(text(map, "image"));
            fill(map, "imagePullPolicy", policy);
        }
        "LimitRangeItem" if text(map, "type") == "Container" => {
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                let given = map.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
                if given.is_empty() {
                    continue;
                }
                if let Some(to) = inner(map, to) {
                    given.into_iter().for_each(|(name, amount)| {
                        to.entry(name).or_insert(amount);
                    });
                }
            }
        }
        "Volume" if map.keys().all(|field| field == "name") => {
            map.insert("emptyDir".to_owned(), json!({}));
        }
        "ImageVolumeSource" => {
            let policy = pull_policy(text(map, "reference"));
            fill(map, "pullPolicy", policy);
        }
        _ => {}
    }
}

/// A namespace has its name as a label, even if a client removes it.
fn namespace(map: &mut Map<String, Value>) {
    let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let name = text(metadata, "name").to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = inner(metadata, "labels") {
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    }
}

/// The deprecated single address is the first of the list.
fn first_address(map: &mut Map<String, Value>, one: &str, all: &str) {
    let address = text(map, one).to_owned();
    let first = map.get(all).and_then(|list| list.pointer("/0/ip")).and_then(Value::as_str);
    if !address.is_empty() && first != Some(address.as_str()) {
        map.insert(all.to_owned(), json!([{"ip": address}]));
    }
}

/// The deprecated name of the same field is kept in step.
fn service_account(map: &mut Map<String, Value>) {
    let account =
        [text(map, "serviceAccountName"), text(map, "serviceAccount")].into_iter().find(|name| !name.is_empty());
    if let Some(account) = account.map(str::to_owned) {
        map.insert("serviceAccountName".to_owned(), json!(account));
        map.insert("serviceAccount".to_owned(), json!(account));
    }
}

/// `Always` for images without a tag or with `latest`, unless a digest pins them.
fn pull_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        None | Some(_) => {
            if image.is_empty() {
                "IfNotPresent"
            } else {
                "Always"
            }
        }
    }
}

/// Defaults of Pods only, not of templates.
fn pod(map: &mut Map<String, Value>) {
    let Some(spec) = inner(map, "spec") else {
        return;
    };
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else {
                continue;
            };
            requests_from_limits(container);
            if host_network {
                host_ports(container);
            }
        }
    }
    if is_unset(spec, "enableServiceLinks") {
        spec.insert("enableServiceLinks".to_owned(), json!(true));
    }
}

fn requests_from_limits(container: &mut Map<String, Value>) {
    let limits = container.get("resources").and_then(|resources| resources["limits"].as_object()).cloned();
    let Some(limits) = limits.filter(|limits| !limits.is_empty()) else {
        return;
    };
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(requests) = inner(resources, "requests") else {
        return;
    };
    for (resource, amount) in limits {
        requests.entry(resource).or_insert(amount);
    }
}

fn host_ports(container: &mut Map<String, Value>) {
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port["containerPort"].clone();
        if let Some(port) = port.as_object_mut() {
            fill(port, "hostPort", number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_are_always_pulled() {
        for (image, wanted) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.2", "IfNotPresent"),
            ("host:5000/nginx", "Always"),
            ("host:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), wanted, "{image}");
        }
    }
}
