//! Validation of Pods and Pod templates.
//!
//! Source: `pkg/apis/core/validation`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::checks::list;
use super::rules::{descending, is_empty, range};
use super::validate::wrong_name;
use crate::cause::Cause;
use crate::names;

/// The sources of a volume, in upstream's order: a second one is an error.
const VOLUME_SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "storageos",
    "portworxVolume",
    "scaleIO",
    "projected",
    "photonPersistentDisk",
    "csi",
    "ephemeral",
    "image",
];

/// The fields of a Pod that its containers and files can refer to.
const POD_FIELDS: [&str; 13] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Checks a Pod's or a template's spec, beyond single fields.
pub(super) fn pod_spec(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    volumes(&spec["volumes"], &format!("{path}.volumes"), errors);
    if list(&spec["containers"]).is_empty() {
        errors.push(Cause::required(format!("{path}.containers")));
    }
    let mut names = HashSet::new();
    let mut host_ports = HashSet::new();
    for kind in ["containers", "initContainers"] {
        for (index, container) in list(&spec[kind]).iter().enumerate() {
            let path = format!("{path}.{kind}[{index}]");
            let name = &container["name"];
            if !is_empty(name) && !names.insert(name) {
                errors.push(Cause::duplicate(format!("{path}.name"), name));
            }
            // Init containers run one after the other.
            if kind == "initContainers" {
                host_ports.clear();
            }
            ports(spec, &container["ports"], &format!("{path}.ports"), &mut host_ports, errors);
            mounts(spec, container, &format!("{path}.volumeMounts"), errors);
            for policy in list(&container["resizePolicy"]) {
                let (path, known) = (format!("{path}.resizePolicy"), ["NotRequired", "RestartContainer"]);
                if !known.iter().any(|known| policy["restartPolicy"] == *known) {
                    errors.push(Cause::unsupported(path, &policy["restartPolicy"], &known));
                }
            }
            container_policy(container, &path, errors);
            hooks(spec, container, kind, &path, errors);
        }
    }
    for (index, gate) in list(&spec["schedulingGates"]).iter().enumerate() {
        let (path, name) = (format!("{path}.schedulingGates[{index}]"), &gate["name"]);
        let text = name.as_str().unwrap_or_default();
        wrong_name(&path, text, names::label_key(text), errors);
        if list(&spec["schedulingGates"])[..index].contains(gate) {
            errors.push(Cause::duplicate(path, name));
        }
    }
    dns(spec, path, errors);
    for (index, limit) in list(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let later = &list(&spec["topologySpreadConstraints"])[index + 1..];
        let same =
            |other: &Value| ["topologyKey", "whenUnsatisfiable"].iter().all(|field| other[*field] == limit[*field]);
        if later.iter().any(same) {
            let path = format!("{path}.topologySpreadConstraints[{index}].{{topologyKey, whenUnsatisfiable}}");
            errors.push(Cause::duplicate(path, &limit["topologyKey"]));
        }
    }
    for (index, sysctl) in list(&spec["securityContext"]["sysctls"]).iter().enumerate() {
        let earlier = &list(&spec["securityContext"]["sysctls"])[..index];
        if earlier.iter().any(|other| other["name"] == sysctl["name"]) {
            errors.push(Cause::duplicate(format!("{path}.securityContext.sysctls[{index}].name"), &sysctl["name"]));
        }
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "`shareProcessNamespace` and `hostPID` cannot both be enabled";
        errors.push(Cause::invalid(format!("{path}.shareProcessNamespace"), &json!(true), detail));
    }
    if !spec["os"].is_null() && !matches!(spec["os"]["name"].as_str(), Some("linux" | "windows")) {
        errors.push(Cause::unsupported(format!("{path}.os"), &spec["os"]["name"], &["linux", "windows"]));
    }
}

/// Checks fields that a new Pod, and a template, must not have.
pub(super) fn new_pod(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    if !list(&spec["ephemeralContainers"]).is_empty() {
        errors.push(Cause::forbidden(format!("{path}.ephemeralContainers"), "cannot be set on create"));
    }
}

/// Checks fields of Pods that templates do not have.
pub(super) fn pod_only(old: Option<&Value>, spec: &Value, errors: &mut Vec<Cause>) {
    for kind in ["containers", "initContainers"] {
        for (index, container) in list(&spec[kind]).iter().enumerate() {
            let image = container["image"].as_str().unwrap_or_default();
            let wrong = (image.trim() != image).then_some("must not have leading or trailing whitespace");
            wrong_name(&format!("spec.{kind}[{index}].image"), image, wrong, errors);
        }
    }
    if old.is_none() && !is_empty(&spec["nodeName"]) && !list(&spec["schedulingGates"]).is_empty() {
        errors.push(Cause::forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"));
    }
}

fn volumes(volumes: &Value, path: &str, errors: &mut Vec<Cause>) {
    for (index, volume) in list(volumes).iter().enumerate() {
        let path = format!("{path}[{index}]");
        if list(volumes)[..index].iter().any(|other| other["name"] == volume["name"]) {
            errors.push(Cause::duplicate(format!("{path}.name"), &volume["name"]));
        }
        for source in VOLUME_SOURCES.iter().filter(|source| !volume[**source].is_null()).skip(1) {
            errors.push(Cause::forbidden(format!("{path}.{source}"), "may not specify more than 1 volume type"));
        }
        files(&volume["downwardAPI"], &format!("{path}.downwardAPI"), errors);
        for (n, source) in list(&volume["projected"]["sources"]).iter().enumerate() {
            let given = source.as_object().into_iter().flatten().filter(|(_, source)| !source.is_null()).count();
            if given > 1 {
                let detail = "may not specify more than 1 volume type per source";
                errors.push(Cause::forbidden(format!("{path}.projected.sources[{n}]"), detail));
            }
            let token = &source["serviceAccountToken"];
            if !token.is_null() && is_empty(&token["path"]) {
                // Upstream's path is that of the volume.
                errors.push(Cause::required(format!("{path}.projected.path")));
            }
            files(&source["downwardAPI"], &format!("{path}.projected.sources[{n}].downwardAPI"), errors);
        }
    }
}

/// Files of the downward API. Upstream's paths have no index.
fn files(source: &Value, path: &str, errors: &mut Vec<Cause>) {
    for file in list(&source["items"]) {
        match file["path"].as_str() {
            None | Some("") => errors.push(Cause::required(format!("{path}.path"))),
            Some(name) => {
                let reserved = name.starts_with("..").then_some("must not start with '..'");
                wrong_name(&format!("{path}.path"), name, descending(name).or(reserved), errors);
            }
        }
        let field = &file["fieldRef"];
        if field.is_null() && file["resourceFieldRef"].is_null() {
            errors.push(Cause::required_because(path, "one of fieldRef and resourceFieldRef is required"));
        } else if !field.is_null() {
            let known =
                ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
            pod_field(field, &format!("{path}.fieldRef"), &known, errors);
        }
    }
}

/// Checks a reference to a field of the Pod, which must be one of `known`, or one label or annotation.
fn pod_field(reference: &Value, path: &str, known: &[&str], errors: &mut Vec<Cause>) {
    let (path, value) = (format!("{path}.fieldPath"), &reference["fieldPath"]);
    let field = value.as_str().unwrap_or_default();
    let (base, key) = field.split_once("['").unwrap_or((field, ""));
    if field.is_empty() {
        errors.push(Cause::required(path));
    } else if !POD_FIELDS.contains(&base) {
        errors.push(Cause::invalid(path, value, "is no field of a Pod that can be referred to"));
    } else if key.is_empty() && !known.contains(&base) {
        errors.push(Cause::unsupported(path, value, known));
    } else if let Some(key) = key.strip_suffix("']") {
        wrong_name(&path, key, names::label_key(&key.to_lowercase()), errors);
    }
}

/// Checks the value source of a container's variable.
pub(super) fn environment(variable: &Value, path: &str, errors: &mut Vec<Cause>) {
    let Some(source) = variable["valueFrom"].as_object() else { return };
    let path = format!("{path}.valueFrom");
    let given = source.values().filter(|source| !source.is_null()).count();
    if !is_empty(&variable["value"]) {
        errors.push(Cause::invalid(&path, &json!(""), "may not be specified when `value` is not empty"));
    } else if given != 1 {
        errors.push(Cause::invalid(&path, &json!(""), "must specify one source"));
    }
    if let Some(field) = source.get("fieldRef") {
        let known: Vec<&str> = POD_FIELDS
            .into_iter()
            .filter(|field| {
                !matches!(
                    *field,
                    "metadata.annotations" | "metadata.labels" | "spec.restartPolicy" | "spec.schedulerName"
                )
            })
            .collect();
        pod_field(field, &format!("{path}.fieldRef"), &known, errors);
    }
    if let Some(reference) = source.get("resourceFieldRef") {
        let known = [
            "limits.cpu",
            "limits.ephemeral-storage",
            "limits.memory",
            "requests.cpu",
            "requests.ephemeral-storage",
            "requests.memory",
        ];
        let (path, resource) = (format!("{path}.resourceFieldRef.resource"), &reference["resource"]);
        let name = resource.as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(Cause::required(path));
        } else if !known.contains(&name) && !name.contains(".hugepages-") {
            errors.push(Cause::unsupported(path, resource, &known));
        }
    }
}

fn ports<'a>(
    spec: &'a Value,
    ports: &'a Value,
    path: &str,
    host_ports: &mut HashSet<(&'a str, &'a str, i64)>,
    errors: &mut Vec<Cause>,
) {
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    for (index, port) in list(ports).iter().enumerate() {
        let name = &port["name"];
        if !is_empty(name) && list(ports)[..index].iter().any(|other| other["name"] == *name) {
            errors.push(Cause::duplicate(format!("{path}[{index}].name"), name));
        }
        let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) else { continue };
        let path = format!("{path}[{index}].hostPort");
        if !host_ports.insert((text(&port["protocol"]), text(&port["hostIP"]), number)) {
            let shown = format!("{}/{}/{number}", text(&port["protocol"]), text(&port["hostIP"]));
            errors.push(Cause::duplicate(&path, &shown.into()));
        }
        if spec["hostNetwork"] == true && port["hostPort"] != port["containerPort"] {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            errors.push(Cause::invalid(path, &port["hostPort"], detail));
        }
    }
}

fn mounts(spec: &Value, container: &Value, path: &str, errors: &mut Vec<Cause>) {
    for (index, mount) in list(&container["volumeMounts"]).iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        if !list(&spec["volumes"]).iter().any(|volume| volume["name"] == mount["name"]) {
            errors.push(Cause::not_found(at("name"), &mount["name"]));
        }
        let (place, earlier) = (&mount["mountPath"], &list(&container["volumeMounts"])[..index]);
        if !is_empty(place) && earlier.iter().any(|other| other["mountPath"] == *place) {
            errors.push(Cause::invalid(at("mountPath"), place, "must be unique"));
        }
        // Upstream's paths have no index here.
        let sub = mount["subPath"].as_str().unwrap_or_default();
        wrong_name(&format!("{path}.subPath"), sub, descending(sub), errors);
        let expression = &mount["subPathExpr"];
        if !sub.is_empty() && !is_empty(expression) {
            errors.push(Cause::invalid(
                at("subPathExpr"),
                expression,
                "subPathExpr and subPath are mutually exclusive",
            ));
        }
        let known = ["Bidirectional", "HostToContainer", "None"];
        let propagation = &mount["mountPropagation"];
        if !is_empty(propagation) && !known.iter().any(|known| propagation == known) {
            errors.push(Cause::unsupported(format!("{path}.mountPropagation"), propagation, &known));
        }
    }
}

fn container_policy(container: &Value, path: &str, errors: &mut Vec<Cause>) {
    let (policy, path, known) =
        (&container["restartPolicy"], format!("{path}.restartPolicy"), ["Always", "Never", "OnFailure"]);
    if policy.is_null() {
        if !list(&container["restartPolicyRules"]).is_empty() {
            errors.push(Cause::required_because(path, "must be set when restart rules are used"));
        }
    } else if !known.iter().any(|known| policy == known) {
        errors.push(Cause::unsupported(path, policy, &known));
    }
}

/// Checks the hooks and probes of a container.
fn hooks(spec: &Value, container: &Value, kind: &str, path: &str, errors: &mut Vec<Cause>) {
    const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let handler = |value: &Value, path: &str, errors: &mut Vec<Cause>| {
        let mut given = HANDLERS.iter().filter(|handler| !value[**handler].is_null());
        if given.next().is_none() {
            errors.push(Cause::required_because(path, "must specify a handler type"));
        }
        errors.extend(
            given.map(|other| Cause::forbidden(format!("{path}.{other}"), "may not specify more than 1 handler type")),
        );
    };
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
    if kind == "initContainers" && container["restartPolicy"] != "Always" {
        for field in std::iter::once("lifecycle").chain(probes).filter(|field| !container[*field].is_null()) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(Cause::forbidden(format!("{path}.{field}"), detail));
        }
        return;
    }
    for (hook, value) in container["lifecycle"].as_object().into_iter().flatten().filter(|(_, hook)| hook.is_object()) {
        let path = format!("{path}.lifecycle.{hook}");
        handler(value, &path, errors);
        let (seconds, grace) = (&value["sleep"]["seconds"], spec["terminationGracePeriodSeconds"].as_i64());
        if grace.is_some_and(|grace| seconds.as_i64().is_some_and(|seconds| !(0..=grace).contains(&seconds)))
            && HANDLERS[..4].iter().all(|handler| value[*handler].is_null())
        {
            let detail = "must be non-negative and less than terminationGracePeriodSeconds";
            errors.push(Cause::invalid(format!("{path}.sleep"), seconds, detail));
        }
    }
    for field in probes {
        let (probe, path) = (&container[field], format!("{path}.{field}"));
        if probe.is_null() {
            continue;
        }
        handler(probe, &path, errors);
        let (grace, field_path) =
            (&probe["terminationGracePeriodSeconds"], format!("{path}.terminationGracePeriodSeconds"));
        if field == "readinessProbe" && !grace.is_null() {
            errors.push(Cause::invalid(field_path, grace, "must not be set for readinessProbes"));
        } else {
            range(grace, 1, i64::MAX, &field_path, errors);
        }
        if field != "readinessProbe" && probe["successThreshold"] != 1 {
            errors.push(Cause::invalid(format!("{path}.successThreshold"), &probe["successThreshold"], "must be 1"));
        }
    }
}

fn dns(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    let (config, path) = (&spec["dnsConfig"], format!("{path}.dnsConfig"));
    let servers = list(&config["nameservers"]);
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        let field = if config.is_null() { path.clone() } else { format!("{path}.nameservers") };
        errors.push(Cause::required_because(field, "must have a server when `dnsPolicy` is None"));
    }
    if servers.len() > 3 {
        let detail = "must not have more than 3 nameservers";
        errors.push(Cause::invalid(format!("{path}.nameservers"), &config["nameservers"], detail));
    }
    for (index, server) in servers.iter().enumerate() {
        if server.as_str().is_none_or(|server| server.parse::<std::net::IpAddr>().is_err()) {
            errors.push(Cause::invalid(format!("{path}.nameservers[{index}]"), server, "must be a valid IP address"));
        }
    }
    for (index, domain) in list(&config["searches"]).iter().enumerate() {
        let text = domain.as_str().unwrap_or_default();
        // A lone dot is the root, and names of services may have underscores.
        let name = text.strip_suffix('.').unwrap_or(text).replace('_', "-");
        if text != "." {
            wrong_name(&format!("{path}.searches[{index}]"), text, names::subdomain(name.trim_matches('-')), errors);
        }
    }
    for (index, _) in list(&config["options"]).iter().enumerate().filter(|(_, option)| is_empty(&option["name"])) {
        errors.push(Cause::required(format!("{path}.options[{index}]")));
    }
}

/// Checks that an update of a Pod changes only mutable fields.
pub(super) fn pod_update(old: &Value, new: &Value, errors: &mut Vec<Cause>) {
    let freeze = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        if let Some(spec) = spec.as_object_mut() {
            for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
                spec.shift_remove(field);
            }
        }
        spec
    };
    if freeze(old) != freeze(new) {
        errors.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n",
        ));
    }
}
