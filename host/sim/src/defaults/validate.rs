//! Validation of built-in kinds, as far as controllers depend on it.
//!
//! Source: `pkg/apis/{apps,batch,core}/validation`, apimachinery's `validation` packages.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::validate_batch as batch;
use super::validate_pod::{pod_spec, pod_update};
use super::validate_status::status;
use crate::cause::Cause;
use crate::names;
use crate::selector::selects;

/// Checks an object, whose predecessor comes first: none for a new one.
type Check = fn(Option<&Value>, &Value, &mut Vec<Cause>);

/// What is checked beside the metadata, by group and kind. Each of these kinds has one served version.
const CHECKS: &[(&str, &str, Check)] = &[
    ("apps", "Deployment", deployment),
    ("apps", "ReplicaSet", workload),
    ("apps", "StatefulSet", stateful_set),
    ("apps", "DaemonSet", workload),
    ("", "ReplicationController", replication_controller),
    ("apps", "ControllerRevision", batch::revision),
    ("batch", "Job", batch::job),
    ("batch", "CronJob", batch::cron_job),
    ("policy", "PodDisruptionBudget", batch::budget),
    ("autoscaling", "HorizontalPodAutoscaler", batch::autoscaler),
    ("", "Pod", pod),
    ("", "ConfigMap", config_map),
    ("", "Secret", secret),
    ("", "Service", service),
    ("", "Namespace", namespace),
    ("", "Event", event),
    ("rbac.authorization.k8s.io", "RoleBinding", role_binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", role_binding),
];

/// What is wrong with `object`, whose predecessor is `old`; nothing when it may be stored. Defaults must be applied.
pub fn validate(group: &str, kind: &str, old: Option<&Value>, object: &Value) -> Vec<Cause> {
    let mut errors = Vec::new();
    validate_metadata(object, &mut errors);
    // These two are served by other libraries, which know no standard names.
    if !matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
        finalizers(object, "metadata", &mut errors);
    }
    if let Some((_, _, check)) = CHECKS.iter().find(|check| (check.0, check.1) == (group, kind)) {
        check(old, object, &mut errors);
    }
    if let Some(old) = old {
        status(group, kind, old, object, &mut errors);
    }
    errors
}

/// Checks the metadata of any object.
pub(crate) fn validate_metadata(object: &Value, errors: &mut Vec<Cause>) {
    let metadata = &object["metadata"];
    label_map(&metadata["labels"], "metadata.labels", errors);
    for key in metadata["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        wrong_name("metadata.annotations", key, names::label_key(&key.to_lowercase()), errors);
    }
    let finalizers = &metadata["finalizers"];
    let listed = finalizers.as_array().map_or(&[][..], Vec::as_slice);
    for finalizer in listed.iter().filter_map(Value::as_str) {
        wrong_name("metadata.finalizers", finalizer, names::label_key(finalizer), errors);
    }
    if ["orphan", "foregroundDeletion"].iter().all(|name| listed.iter().any(|finalizer| finalizer == name)) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Cause::invalid("metadata.finalizers", finalizers, detail));
    }
    owners(&metadata["ownerReferences"], errors);
}

fn owners(owners: &Value, errors: &mut Vec<Cause>) {
    let path = "metadata.ownerReferences";
    for owner in owners.as_array().into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                errors.push(Cause::invalid(format!("{path}.{field}"), &"".into(), "must not be empty"));
            }
        }
        if owner["apiVersion"] == "v1" && owner["kind"] == "Event" {
            errors.push(Cause::invalid(path, owner, "an Event cannot be an owner"));
        }
    }
    let controllers = owners.as_array().into_iter().flatten().filter(|owner| owner["controller"] == true);
    if controllers.count() > 1 {
        errors.push(Cause::invalid(path, owners, "Only one reference can have Controller set to true"));
    }
}

/// Finalizers of metadata or spec that have no domain are Kubernetes' own.
fn finalizers(object: &Value, part: &str, errors: &mut Vec<Cause>) {
    for (index, finalizer) in object[part]["finalizers"].as_array().into_iter().flatten().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Cause::invalid(format!("{part}.finalizers[{index}]"), finalizer, detail));
        }
    }
}

fn namespace(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    if old.is_some_and(|old| old["spec"] != object["spec"]) {
        finalizers(object, "spec", errors);
    }
}

fn role_binding(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    unchanged(old, object, "roleRef", errors);
}

fn config_map(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    immutable_data(old, object, &["data", "binaryData"], errors);
}

fn secret(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    immutable_data(old, object, &["data"], errors);
    unchanged(old, object, "type", errors);
}

fn pod(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    pod_spec(&object["spec"], "spec", errors);
    if let Some(old) = old {
        pod_update(old, object, errors);
    }
}

/// An Event lives in the namespace of what it is about.
fn event(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let about = &object["involvedObject"]["namespace"];
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let fits = match (object["eventTime"].is_null(), about.as_str().unwrap_or_default()) {
        (true, "") => namespace == "default",
        (true, about) => about == namespace,
        (false, "") => matches!(namespace, "default" | "kube-system"),
        (false, _) => true,
    };
    if old.is_none() && !fits {
        errors.push(Cause::invalid("involvedObject.namespace", about, "does not match event.namespace"));
    }
}

/// Checks keys and values of a label map.
pub(super) fn label_map(labels: &Value, path: &str, errors: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        wrong_name(path, key, names::label_key(key), errors);
        wrong_name(path, value, names::label_value(value), errors);
    }
}

/// An error when something is wrong with a name.
pub(super) fn wrong_name(path: &str, name: &str, wrong: Option<&str>, errors: &mut Vec<Cause>) {
    errors.extend(wrong.map(|detail| Cause::invalid(path, &name.into(), detail)));
}

/// Checks that numbers are not negative. `path`: that of `spec`, empty for an object itself.
pub(super) fn non_negative(spec: &Value, path: &str, fields: &[&str], errors: &mut Vec<Cause>) {
    for field in fields.iter().filter(|field| spec[**field].as_i64().is_some_and(|number| number < 0)) {
        let path = if path.is_empty() { (*field).to_owned() } else { format!("{path}.{field}") };
        errors.push(Cause::invalid(path, &spec[*field], "must be greater than or equal to 0"));
    }
}

/// What Deployments, ReplicaSets, StatefulSets and DaemonSets have in common.
fn workload(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let numbers = ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
    non_negative(spec, "spec", &numbers, errors);
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.push(Cause::required("spec.selector"));
    } else if crate::selector::text(selector).is_empty() {
        errors.push(Cause::invalid("spec.selector", selector, "empty selector is invalid"));
    }
    template(spec, errors, |labels| selects(selector, labels));
    if old.is_some_and(|old| old["spec"]["selector"] != *selector) {
        errors.push(Cause::invalid("spec.selector", selector, "field is immutable"));
    }
}

fn stateful_set(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    workload(old, object, errors);
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let frozen = |object: &Value| {
        let mut spec = object["spec"].clone();
        MUTABLE.iter().for_each(|field| spec[*field] = Value::Null);
        spec
    };
    if old.is_some_and(|old| frozen(old) != frozen(object)) {
        let (last, rest) = ("minReadySeconds", MUTABLE[..6].join("', '"));
        let detail = format!("updates to statefulset spec for fields other than '{rest}' and '{last}' are forbidden");
        errors.push(Cause::forbidden("spec", &detail));
    }
}

/// Checks a template whose Pods run for ever.
fn template(spec: &Value, errors: &mut Vec<Cause>, selected: impl Fn(&Value) -> bool) {
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    if !selected(labels) {
        errors.push(Cause::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    label_map(labels, "spec.template.labels", errors);
    pod_spec(&with_claims(spec), "spec.template.spec", errors);
    let restart = &template["spec"]["restartPolicy"];
    if matches!(restart.as_str(), Some("Never" | "OnFailure")) {
        errors.push(Cause::unsupported("spec.template.spec.restartPolicy", restart, &["Always"]));
    }
}

/// The spec of the template's Pods, with the volumes that a StatefulSet adds for its claim templates.
fn with_claims(spec: &Value) -> Cow<'_, Value> {
    let mut pod = Cow::Borrowed(&spec["template"]["spec"]);
    if let Some(claims) = spec["volumeClaimTemplates"].as_array().filter(|claims| !claims.is_empty())
        && let Some(pod) = pod.to_mut().as_object_mut()
        && let Some(volumes) = pod.entry("volumes").or_insert_with(|| json!([])).as_array_mut()
    {
        volumes.extend(claims.iter().map(|claim| json!({"name": claim["metadata"]["name"]})));
    }
    pod
}

/// The number in an int or a percentage.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').and_then(|text| text.parse().ok()).unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

pub(super) fn int_or_percent(value: &Value, path: &str, errors: &mut Vec<Cause>) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                errors.push(Cause::invalid(path, value, "must be a number or a percentage such as 25%"));
            }
        }
        other if other.as_i64().is_some_and(|number| number < 0) => {
            errors.push(Cause::invalid(path, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

/// Checks that a percentage does not exceed 100%.
pub(super) fn at_most_all(value: &Value, path: &str, errors: &mut Vec<Cause>) {
    if value.is_string() && amount(value) > 100 {
        errors.push(Cause::invalid(path, value, "must not be greater than 100%"));
    }
}

fn deployment(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    workload(old, object, errors);
    let spec = &object["spec"];
    let strategy = &spec["strategy"];
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str() {
        Some("Recreate") if !rolling.is_null() => errors.push(Cause::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        Some("Recreate") => {}
        Some("RollingUpdate") => {
            let path = "spec.strategy.rollingUpdate.maxUnavailable";
            int_or_percent(&rolling["maxUnavailable"], path, errors);
            int_or_percent(&rolling["maxSurge"], "spec.strategy.rollingUpdate.maxSurge", errors);
            if amount(&rolling["maxUnavailable"]) == 0 && amount(&rolling["maxSurge"]) == 0 {
                errors.push(Cause::invalid(path, &rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0"));
            }
            at_most_all(&rolling["maxUnavailable"], path, errors);
        }
        _ => errors.push(Cause::unsupported("spec.strategy", strategy, &["Recreate", "RollingUpdate"])),
    }
    let deadline = &spec["progressDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|deadline| deadline <= spec["minReadySeconds"].as_i64().unwrap_or_default()) {
        errors.push(Cause::invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"));
    }
}

fn replication_controller(_old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    non_negative(spec, "spec", &["replicas", "minReadySeconds"], errors);
    let selector = spec["selector"].as_object();
    if selector.is_none_or(Map::is_empty) {
        errors.push(Cause::required("spec.selector"));
    }
    if spec["template"].is_null() {
        errors.push(Cause::required("spec.template"));
        return;
    }
    template(spec, errors, |labels| selector.into_iter().flatten().all(|(key, value)| labels[key] == *value));
}

fn immutable_data(old: Option<&Value>, object: &Value, fields: &[&str], errors: &mut Vec<Cause>) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let detail = "field is immutable when `immutable` is set";
    if object["immutable"] != true {
        errors.push(Cause::forbidden("immutable", detail));
    }
    for field in fields.iter().filter(|field| old[**field] != object[**field]) {
        errors.push(Cause::forbidden(*field, detail));
    }
}

fn unchanged(old: Option<&Value>, object: &Value, field: &str, errors: &mut Vec<Cause>) {
    if old.is_some_and(|old| old[field] != object[field]) {
        errors.push(Cause::invalid(field, &object[field], "field is immutable"));
    }
}

fn service(_old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let headless = spec["clusterIP"] == "None" || spec["type"] == "ExternalName";
    if ports.is_empty() && !headless {
        errors.push(Cause::required("spec.ports"));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(Cause::required(format!("{path}.name")));
        }
        if !port["port"].as_i64().is_some_and(|port| (1..=65_535).contains(&port)) {
            errors.push(Cause::invalid(
                format!("{path}.port"),
                &port["port"],
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
    if spec["type"] == "ExternalName" && spec["externalName"].as_str().unwrap_or_default().is_empty() {
        errors.push(Cause::required("spec.externalName"));
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !spec["type"].as_str().is_some_and(|kind| types.contains(&kind)) {
        errors.push(Cause::unsupported("spec.type", &spec["type"], &types));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::defaults::apply_defaults;

    fn deployment_with(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        change(&mut object);
        apply_defaults("apps", "v1", "Deployment", &mut object);
        object
    }

    fn errors(object: &Value) -> Vec<String> {
        let errors = validate("apps", "Deployment", None, object);
        errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    #[test]
    fn counts_and_seconds_that_contradict_one_another_are_named() {
        for (field, value, wanted) in [
            (
                "strategy",
                json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
            ),
            (
                "progressDeadlineSeconds",
                json!(0),
                "spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds",
            ),
        ] {
            assert_eq!(errors(&deployment_with(|object| object["spec"][field] = value)), [wanted]);
        }
        assert!(errors(&deployment_with(|_| ())).is_empty());
    }
}
