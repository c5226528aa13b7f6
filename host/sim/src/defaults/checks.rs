//! Validates combinations of fields of one type.
//!
//! Source: `pkg/apis/{core,autoscaling,rbac}/validation`, apimachinery's `pkg/apis/meta/v1/validation`.

use serde_json::{Value, json};

use super::rules::{is_empty, range};
use super::validate::wrong_name;
use super::validate_pod::{environment, pod_spec};
use crate::cause::Cause;
use crate::names;
use crate::schema::nanos;

/// Resources that have names without a domain and count for containers.
const CONTAINER_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Checks one struct. `path`: that of the struct, empty for the object.
pub(super) fn fields(name: &str, value: &Value, path: &str, errors: &mut Vec<Cause>) {
    match name {
        "core.v1.PodSpec" => pod_spec(value, path, errors),
        "core.v1.EnvVar" => environment(value, path, errors),
        "core.v1.EnvFromSource" if value["configMapRef"].is_null() == value["secretRef"].is_null() => {
            // Upstream names the list.
            let list = path.rsplit_once('[').map_or(path, |(list, _)| list);
            errors.push(Cause::invalid(list, &json!(""), "must have exactly one of `configMapRef` or `secretRef`"));
        }
        "core.v1.HTTPGetAction" => {
            for header in list(&value["httpHeaders"]) {
                let name = header["name"].as_str().unwrap_or_default();
                let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
                let wrong = (name.is_empty() || !name.bytes().all(fine)).then_some("must be letters, digits or '-'");
                wrong_name(&format!("{path}.httpHeaders"), name, wrong, errors);
            }
        }
        "core.v1.SecurityContext" if value["privileged"] == true && value["allowPrivilegeEscalation"] == false => {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(Cause::invalid(path, &value["allowPrivilegeEscalation"], detail));
        }
        "core.v1.SeccompProfile" if value["type"] == "Localhost" && is_empty(&value["localhostProfile"]) => {
            errors.push(Cause::required_because(format!("{path}.localhostProfile"), "for profiles of type Localhost"));
        }
        "core.v1.EmptyDirVolumeSource" if nanos(&value["sizeLimit"]).is_some_and(|limit| limit < 0) => {
            errors.push(Cause::forbidden(format!("{path}.sizeLimit"), "must not be negative"));
        }
        "core.v1.ResourceRequirements" => resources(value, path, errors),
        "core.v1.PersistentVolumeClaimSpec" => claim(value, path, errors),
        "core.v1.Toleration" => toleration(value, path, errors),
        "core.v1.TopologySpreadConstraint" => {
            let domains = &value["minDomains"];
            range(domains, 1, i64::MAX, &format!("{path}.minDomains"), errors);
            if !domains.is_null() && value["whenUnsatisfiable"] != "DoNotSchedule" {
                let detail = "is only for constraints with whenUnsatisfiable=DoNotSchedule";
                errors.push(Cause::invalid(format!("{path}.minDomains"), domains, detail));
            }
        }
        "core.v1.NodeSelectorTerm" => node_selector_term(value, path, errors),
        "meta.v1.LabelSelectorRequirement" => requirement(value, path, &["In", "NotIn"], false, errors),
        "autoscaling.v2.MetricSpec" => metric(value, path, errors),
        "autoscaling.v2.MetricTarget" => metric_target(value, path, errors),
        "autoscaling.v2.HPAScalingRules" if nanos(&value["tolerance"]).is_some_and(|amount| amount < 0) => {
            errors.push(Cause::invalid(
                format!("{path}.tolerance"),
                &value["tolerance"],
                "must be greater than or equal to 0",
            ));
        }
        "autoscaling.v2.CrossVersionObjectReference" => {
            let version = value["apiVersion"].as_str().unwrap_or_default();
            // The object of a metric may be in the core group, like this scalable kind.
            let needs_group = path == "spec.scaleTargetRef" && value["kind"] != "ReplicationController";
            let wrong = match version.matches('/').count() {
                0 if needs_group => Some("must name an API group"),
                0 | 1 => None,
                _ => Some("must be GROUP/VERSION"),
            };
            wrong_name(&format!("{path}.apiVersion"), version, wrong, errors);
        }
        "rbac.v1.PolicyRule" if is_empty(&value["nonResourceURLs"]) => {
            for field in ["apiGroups", "resources"].iter().filter(|field| is_empty(&value[**field])) {
                errors.push(Cause::required(format!("{path}.{field}")));
            }
        }
        "rbac.v1.Subject" => subject(value, path, errors),
        _ => {}
    }
}

/// The items of a list, none when it is absent.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn subject(subject: &Value, path: &str, errors: &mut Vec<Cause>) {
    let (wanted, name) = match subject["kind"].as_str() {
        Some("ServiceAccount") => ("", subject["name"].as_str().unwrap_or_default()),
        Some("User" | "Group") => ("rbac.authorization.k8s.io", ""),
        _ => return,
    };
    if !name.is_empty() {
        wrong_name(&format!("{path}.name"), name, names::subdomain(name), errors);
    }
    if subject["apiGroup"].as_str().unwrap_or_default() != wanted {
        errors.push(Cause::unsupported(format!("{path}.apiGroup"), &subject["apiGroup"], &[wanted]));
    }
}

/// The values that the operator of a requirement takes. `one`: operators that compare numbers exist, too.
fn requirement(value: &Value, path: &str, with_values: &[&str], compares: bool, errors: &mut Vec<Cause>) {
    let (operator, values) = (value["operator"].as_str().unwrap_or_default(), list(&value["values"]));
    let field = format!("{path}.values");
    match operator {
        _ if with_values.contains(&operator) => {
            if values.is_empty() {
                errors.push(Cause::required_because(field, "must be specified when `operator` is 'In' or 'NotIn'"));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Cause::forbidden(field, detail));
            }
        }
        "Gt" | "Lt" if compares => {
            if values.len() != 1 {
                errors.push(Cause::required_because(field, "must be one value when `operator` is 'Lt' or 'Gt'"));
            }
        }
        _ => {
            let detail = "not a valid selector operator";
            errors.push(Cause::invalid(format!("{path}.operator"), &value["operator"], detail));
        }
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        wrong_name(&format!("{path}.values[{index}]"), value, names::label_value(value), errors);
    }
}

fn node_selector_term(term: &Value, path: &str, errors: &mut Vec<Cause>) {
    for (index, expression) in list(&term["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        requirement(expression, &path, &["In", "NotIn"], true, errors);
        let key = expression["key"].as_str().unwrap_or_default();
        wrong_name(&format!("{path}.key"), key, names::label_key(key), errors);
    }
    for (index, field) in list(&term["matchFields"]).iter().enumerate() {
        let path = format!("{path}.matchFields[{index}]");
        if !matches!(field["operator"].as_str(), Some("In" | "NotIn")) {
            let detail = "not a valid selector operator";
            errors.push(Cause::invalid(format!("{path}.operator"), &field["operator"], detail));
        } else if list(&field["values"]).len() != 1 {
            errors.push(Cause::required_because(format!("{path}.values"), "must be one value"));
        }
        if field["key"] != "metadata.name" {
            errors.push(Cause::invalid(format!("{path}.key"), &field["key"], "not a valid field selector key"));
        }
    }
}

fn toleration(toleration: &Value, path: &str, errors: &mut Vec<Cause>) {
    let (operator, value) = (&toleration["operator"], &toleration["value"]);
    let mut wrong = |field: &str, value: &Value, detail: &str| {
        errors.push(Cause::invalid(format!("{path}.{field}"), value, detail));
    };
    if is_empty(&toleration["key"]) && operator != "Exists" {
        wrong("operator", operator, "must be Exists when `key` is empty");
    }
    if !toleration["tolerationSeconds"].is_null() && toleration["effect"] != "NoExecute" {
        wrong("effect", &toleration["effect"], "must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.as_str() {
        Some("Exists") => {
            if !is_empty(value) {
                wrong("operator", value, "value must be empty when `operator` is 'Exists'");
            }
        }
        Some("Equal" | "") | None => {
            if let Some(detail) = names::label_value(value.as_str().unwrap_or_default()) {
                wrong("operator", value, detail);
            }
        }
        Some(_) => errors.push(Cause::unsupported(format!("{path}.operator"), operator, &["Equal", "Exists"])),
    }
}

/// The error in the name of a resource, which must be one of Kubernetes' own, or have a domain.
fn resource_name(name: &str, known: &[&str]) -> Option<&'static str> {
    let is_known = known.contains(&name) || name.starts_with("hugepages-");
    names::label_key(name)
        .or_else(|| (!is_known && !name.contains('/')).then_some("must be a standard resource type or fully qualified"))
}

/// Checks a quantity of a resource. Resources other than CPU, memory and storage are whole numbers.
pub(super) fn amount(name: &str, amount: &Value, path: &str, errors: &mut Vec<Cause>) {
    let is_whole = !matches!(name.rsplit('.').next(), Some("cpu" | "memory" | "storage" | "ephemeral-storage"));
    match nanos(amount) {
        Some(nanos) if nanos < 0 => errors.push(Cause::invalid(path, amount, "must be greater than or equal to 0")),
        Some(nanos) if is_whole && nanos % 1_000_000_000 != 0 => {
            errors.push(Cause::invalid(path, amount, "must be an integer"));
        }
        _ => {}
    }
}

fn resources(resources: &Value, path: &str, errors: &mut Vec<Cause>) {
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    let mut names = Vec::new();
    for (side, amounts) in [("limits", limits), ("requests", requests)] {
        for (name, value) in amounts.as_object().into_iter().flatten() {
            let path = format!("{path}.{side}[{name}]");
            wrong_name(&path, name, resource_name(name, &CONTAINER_RESOURCES), errors);
            amount(name, value, &path, errors);
            names.push(name.as_str());
        }
    }
    for (name, request) in requests.as_object().into_iter().flatten() {
        let limit = &limits[name.as_str()];
        // Other resources cannot be overcommitted.
        let is_native = !name.contains('/') || name.contains("kubernetes.io/");
        let overcommits = is_native && !name.starts_with("hugepages-");
        match (nanos(request), nanos(limit)) {
            (Some(_), None) if !overcommits => {
                errors.push(Cause::required_because(format!("{path}.limits"), "must be set for this resource"));
            }
            (Some(request_), Some(limit_)) if request_ > limit_ || (!overcommits && request_ != limit_) => {
                let relation = if overcommits { "less than or equal to" } else { "equal to" };
                let limit = limit.as_str().unwrap_or_default();
                let detail = format!("must be {relation} {name} limit of {limit}");
                errors.push(Cause::invalid(format!("{path}.requests"), request, &detail));
            }
            _ => {}
        }
    }
    let has = |wanted: fn(&str) -> bool| names.iter().any(|name| wanted(name));
    if has(|name| name.starts_with("hugepages-")) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.push(Cause::forbidden(path, "huge pages require cpu or memory"));
    }
}

fn claim(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let given = list(&spec["accessModes"]);
    let field = format!("{path}.accessModes");
    for mode in given.iter().filter(|mode| !modes.iter().any(|known| mode == known)) {
        errors.push(Cause::unsupported(&field, mode, &modes));
    }
    let is_alone = |mode: &Value| mode == "ReadWriteOncePod";
    if given.iter().any(is_alone) && given.iter().any(|mode| modes[..3].iter().any(|known| mode == known)) {
        errors.push(Cause::forbidden(&field, "may not use ReadWriteOncePod with other access modes"));
    }
    let storage = &spec["resources"]["requests"]["storage"];
    let field = format!("{path}.resources[storage]");
    match nanos(storage) {
        None => errors.push(Cause::required(field)),
        Some(amount) if amount <= 0 => errors.push(Cause::invalid(field, storage, "must be greater than zero")),
        Some(_) => {}
    }
}

fn metric(metric: &Value, path: &str, errors: &mut Vec<Cause>) {
    // In upstream's order: details of the first source alone are checked.
    let sources = ["object", "external", "pods", "resource", "containerResource"];
    let types = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = metric["type"].as_str().unwrap_or_default();
    if kind.is_empty() {
        errors.push(Cause::required_because(format!("{path}.type"), "must specify a metric source type"));
    }
    let wanted = sources.into_iter().find(|source| source.eq_ignore_ascii_case(kind));
    if !types.contains(&kind) {
        errors.push(Cause::unsupported(format!("{path}.type"), &kind.into(), &types));
    }
    let given: Vec<&str> = sources.into_iter().filter(|source| !metric[source].is_null()).collect();
    if let Some(wanted) = wanted.filter(|wanted| !given.contains(wanted)) {
        let detail = "must populate information for the given metric source";
        errors.push(Cause::required_because(format!("{path}.{wanted}"), detail));
    }
    for other in given.iter().filter(|source| given.len() > 1 && Some(**source) != wanted) {
        errors.push(Cause::forbidden(format!("{path}.{other}"), "must populate the given metric source only"));
    }
    let Some(source) = given.first() else { return };
    let (target, path) = (&metric[source]["target"], format!("{path}.{source}"));
    let has = |field: &str| !target[field].is_null();
    let (needed, both, second) = match *source {
        "object" => (!has("value") && !has("averageValue"), false, "averageValue"),
        "external" => (!has("value") && !has("averageValue"), has("value") && has("averageValue"), "averageValue"),
        "pods" => (!has("averageValue"), false, "averageValue"),
        _ => {
            let fields = (has("averageUtilization"), has("averageValue"));
            (fields == (false, false), fields == (true, true), "averageUtilization")
        }
    };
    if needed {
        errors.push(Cause::required_because(format!("{path}.target.{second}"), "must set a target"));
    }
    if both {
        let first = if *source == "external" { "value" } else { "averageValue" };
        errors.push(Cause::forbidden(format!("{path}.target.{first}"), "may not set two targets"));
    }
    if *source == "containerResource"
        && let Some(name) = metric[source]["name"].as_str().filter(|name| !name.is_empty())
    {
        wrong_name(&format!("{path}.name"), name, resource_name(name, &CONTAINER_RESOURCES), errors);
    }
}

fn metric_target(target: &Value, path: &str, errors: &mut Vec<Cause>) {
    let kind = &target["type"];
    if is_empty(kind) {
        errors.push(Cause::required_because(format!("{path}.type"), "must specify a metric target type"));
    }
    if !matches!(kind.as_str(), Some("Utilization" | "Value" | "AverageValue")) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(Cause::invalid(format!("{path}.type"), kind, detail));
    }
    for field in ["value", "averageValue"] {
        if nanos(&target[field]).is_some_and(|amount| amount <= 0) {
            errors.push(Cause::invalid(format!("{path}.{field}"), &target[field], "must be positive"));
        }
    }
}

/// Checks the limits of a ResourceQuota.
pub(super) fn quota(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    const KNOWN: [&str; 19] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
        "resourcequotas",
    ];
    const SCOPES: [&str; 7] = [
        "BestEffort",
        "CrossNamespacePodAffinity",
        "NotBestEffort",
        "NotTerminating",
        "PriorityClass",
        "Terminating",
        "VolumeAttributesClass",
    ];
    let spec = &object["spec"];
    for (name, value) in spec["hard"].as_object().into_iter().flatten() {
        let path = format!("spec.hard[{name}]");
        wrong_name(&path, name, resource_name(name, &KNOWN), errors);
        amount(name, value, &path, errors);
    }
    let scopes = list(&spec["scopes"]);
    let has = |scope: &str| scopes.iter().any(|given| given == scope);
    let contradict = (has("BestEffort") && has("NotBestEffort")) || (has("Terminating") && has("NotTerminating"));
    if contradict || scopes.iter().any(|given| !SCOPES.iter().any(|known| given == known)) {
        errors.push(Cause::invalid("spec.scopes", &spec["scopes"], "unknown or conflicting scopes"));
    }
    if old.is_some_and(|old| old["spec"]["scopes"] != spec["scopes"]) {
        errors.push(Cause::invalid("spec.scopes", &spec["scopes"], "field is immutable"));
    }
}

/// Checks the bounds of a LimitRange.
pub(super) fn limit_range(_old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let limits = list(&object["spec"]["limits"]);
    for (index, item) in limits.iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = item["type"].as_str().unwrap_or_default();
        if !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") && !kind.contains('/') {
            errors.push(Cause::invalid(
                format!("{path}.type"),
                &item["type"],
                "must be a standard limit type or fully qualified",
            ));
        }
        if limits[..index].iter().any(|other| other["type"] == item["type"]) {
            errors.push(Cause::duplicate(format!("{path}.type"), &item["type"]));
        }
        if kind == "Pod" {
            for field in ["default", "defaultRequest"].iter().filter(|field| item[**field].is_object()) {
                errors.push(Cause::forbidden(format!("{path}.{field}"), "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        // A field, one that may not be below it, and which of the two is named.
        const ORDER: [(&str, &str, &str); 6] = [
            ("min", "max", "min"),
            ("min", "defaultRequest", "defaultRequest"),
            ("min", "default", "default"),
            ("defaultRequest", "default", "defaultRequest"),
            ("default", "max", "default"),
            ("defaultRequest", "max", "defaultRequest"),
        ];
        for (low, high, named) in ORDER {
            for (name, least) in item[low].as_object().into_iter().flatten() {
                let most = &item[high][name.as_str()];
                if nanos(most).is_some_and(|most| nanos(least).is_some_and(|least| least > most)) {
                    let detail = format!("{low} must be less than or equal to {high}");
                    errors.push(Cause::invalid(
                        format!("{path}.{named}[{name}]"),
                        &item[named][name.as_str()],
                        &detail,
                    ));
                }
            }
        }
    }
}

/// Checks a PriorityClass.
pub(super) fn priority_class(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let is_system = matches!(name, "system-cluster-critical" | "system-node-critical");
    if name.starts_with("system-") && !is_system {
        errors.push(Cause::forbidden("metadata.name", "names that start with `system-` are reserved"));
    }
    if !is_system && object["value"].as_i64().is_some_and(|value| value > 1_000_000_000) {
        errors.push(Cause::forbidden("value", "must not be greater than 1000000000"));
    }
    for field in ["value", "preemptionPolicy"] {
        if old.is_some_and(|old| old[field] != object[field]) {
            errors.push(Cause::forbidden(field, "may not be changed in an update."));
        }
    }
}
