//! Validation of built-in kinds, with the messages that the API server gives.
//!
//! Source: `pkg/apis/{apps,batch,core}/validation`, apimachinery's `validation` packages.

use serde_json::{Map, Value};

use super::validate_pod::{pod_spec, pod_update};
use super::validate_status::status;
use crate::names;

/// One reason why an object is invalid: a cause of the server's 422 answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, for example `spec.replicas`.
    pub path: String,
    /// Upstream's reason, for example `FieldValueInvalid`.
    pub reason: &'static str,
    /// Upstream's message without the path.
    pub message: String,
}

impl FieldError {
    /// `Invalid value: "x": detail`
    pub fn invalid(path: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            path: path.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {}: {detail}", shown(value)),
        }
    }

    /// `Invalid value: text: detail`, for a value that is not shown as its fields are sorted.
    fn invalid_as(path: &str, text: &str, detail: &str) -> Self {
        Self { path: path.into(), reason: "FieldValueInvalid", message: format!("Invalid value: {text}: {detail}") }
    }

    /// `Required value: detail`
    pub fn required(path: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { path: path.into(), reason: "FieldValueRequired", message }
    }

    /// `Forbidden: detail`
    pub fn forbidden(path: impl Into<String>, detail: &str) -> Self {
        Self { path: path.into(), reason: "FieldValueForbidden", message: format!("Forbidden: {detail}") }
    }

    /// `Unsupported value: "x": supported values: "a", "b"`
    pub fn unsupported(path: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {}: supported values: {supported}", shown(value));
        Self { path: path.into(), reason: "FieldValueNotSupported", message }
    }

    /// `Duplicate value: "x"`
    pub fn duplicate(path: impl Into<String>, value: &Value) -> Self {
        Self { path: path.into(), reason: "FieldValueDuplicate", message: format!("Duplicate value: {}", shown(value)) }
    }
}

/// A value as upstream prints it in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => sorted(other).to_string(),
    }
}

/// Go marshals maps with sorted keys.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// What is wrong with `object`, whose predecessor is `old`; nothing when it may be stored. Defaults must be applied.
pub fn validate(group: &str, version: &str, kind: &str, old: Option<&Value>, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_metadata(old, object, &mut errors);
    // The update of these checks the whole object once more.
    if old.is_some() && matches!((group, kind), ("", "ConfigMap" | "Secret" | "ServiceAccount")) {
        metadata(object, &mut errors);
    }
    // These two are served by other libraries, which know no standard names.
    if !matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
        kube_finalizers(object, &mut errors);
    }
    // The checked kinds have one served version each.
    let _ = version;
    match (group, kind) {
        ("apps", "Deployment") => {
            workload(object, old, "deployment", &mut errors);
            deployment(&object["spec"], &mut errors);
        }
        ("apps", "ReplicaSet") => workload(object, old, "deployment", &mut errors),
        ("apps", "StatefulSet") => workload(object, old, "statefulset", &mut errors),
        ("apps", "DaemonSet") => workload(object, old, "daemonset", &mut errors),
        ("", "ReplicationController") => replication_controller(object, &mut errors),
        ("batch", "Job") => job(object, old, &mut errors),
        ("", "Pod") => {
            pod_spec(&object["spec"], "spec", &mut errors);
            if let Some(old) = old {
                pod_update(old, object, &mut errors);
            }
        }
        ("", "ConfigMap") => immutable_data(object, old, &["data", "binaryData"], &mut errors),
        ("", "Secret") => {
            immutable_data(object, old, &["data"], &mut errors);
            unchanged(object, old, "type", &mut errors);
        }
        ("", "Service") => service(object, &mut errors),
        ("", "Namespace") if old.is_some_and(|old| old["spec"] != object["spec"]) => {
            for (index, finalizer) in object["spec"]["finalizers"].as_array().into_iter().flatten().enumerate() {
                let path = format!("spec.finalizers[{index}]");
                all_invalid(&path, finalizer, names::label_key(finalizer.as_str().unwrap_or_default()), &mut errors);
                standard_finalizer(finalizer, &path, &mut errors);
            }
        }
        ("", "Event") if old.is_none() => event(object, &mut errors),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if old.is_some_and(|old| old["roleRef"] != object["roleRef"]) =>
        {
            errors.push(FieldError::invalid("roleRef", &object["roleRef"], "cannot change roleRef"));
        }
        _ => {}
    }
    if let Some(old) = old {
        status(group, kind, old, object, &mut errors);
    }
    errors
}

/// Checks the metadata of any object. An update is checked twice for all kinds and once more for each, of which a client sees the
/// number of causes.
pub(crate) fn validate_metadata(old: Option<&Value>, object: &Value, errors: &mut Vec<FieldError>) {
    metadata(object, errors);
    if old.is_some() {
        for _ in 0..2 {
            metadata_of_update(object, errors);
        }
    }
}

/// Finalizers of metadata that have no domain are Kubernetes' own.
fn kube_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    for (index, finalizer) in object["metadata"]["finalizers"].as_array().into_iter().flatten().enumerate() {
        standard_finalizer(finalizer, &format!("metadata.finalizers[{index}]"), errors);
    }
}

fn standard_finalizer(finalizer: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let name = finalizer.as_str().unwrap_or_default();
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, finalizer, detail));
    }
}

/// An Event lives in the namespace of what it is about.
fn event(object: &Value, errors: &mut Vec<FieldError>) {
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let fits = match (object["eventTime"].is_null(), about) {
        (true, "") => namespace == "default",
        (true, about) => about == namespace,
        (false, "") => matches!(namespace, "default" | "kube-system"),
        (false, _) => true,
    };
    if !fits {
        errors.push(FieldError::invalid(
            "involvedObject.namespace",
            &object["involvedObject"]["namespace"],
            "does not match event.namespace",
        ));
    }
}

fn metadata(object: &Value, errors: &mut Vec<FieldError>) {
    metadata_of_update(object, errors);
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    for finalizer in finalizers {
        let wrong = names::label_key(finalizer.as_str().unwrap_or_default());
        all_invalid("metadata.finalizers", finalizer, wrong, errors);
    }
    if ["orphan", "foregroundDeletion"].iter().all(|name| finalizers.iter().any(|finalizer| finalizer == name)) {
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            &metadata["finalizers"],
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// What an update checks again, which is all but the finalizers.
fn metadata_of_update(object: &Value, errors: &mut Vec<FieldError>) {
    let metadata = &object["metadata"];
    if let Some(labels) = metadata["labels"].as_object() {
        label_map(labels, "metadata.labels", errors);
    }
    for key in metadata["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        let wrong = names::label_key(&key.to_lowercase());
        all_invalid("metadata.annotations", &Value::from(key.as_str()), wrong, errors);
    }
    let mut controller: Option<&Value> = None;
    let path = "metadata.ownerReferences";
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::invalid(format!("{path}.{field}"), &Value::from(""), detail));
            }
        }
        if owner["apiVersion"] == "v1" && owner["kind"] == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_as(path, &owner_shown(owner).to_string(), detail));
        }
        if owner["controller"] == true {
            if let Some(first) = controller {
                let name = |owner: &Value| owner["name"].as_str().unwrap_or_default().to_owned();
                let kind = |owner: &Value| owner["kind"].as_str().unwrap_or_default().to_owned();
                errors.push(FieldError::invalid_as(
                    "metadata.ownerReferences",
                    &owners_shown(&metadata["ownerReferences"]),
                    &format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                        kind(first), name(first), kind(owner), name(owner)
                    ),
                ));
            }
            controller = Some(owner);
        }
    }
}

/// Owner references as Go writes them.
fn owners_shown(owners: &Value) -> String {
    Value::Array(owners.as_array().into_iter().flatten().map(owner_shown).collect()).to_string()
}

/// An owner reference in the order of the fields of Go's struct.
fn owner_shown(owner: &Value) -> Value {
    let order = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields = order.iter().filter_map(|name| Some(((*name).to_owned(), owner.get(*name)?.clone())));
    Value::Object(fields.collect())
}

/// Checks keys and values of a label map.
pub(super) fn label_map(labels: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels {
        all_invalid(path, &Value::from(key.as_str()), names::label_key(key), errors);
        all_invalid(path, value, names::label_value(value.as_str().unwrap_or_default()), errors);
    }
}

/// One error for each thing that is wrong with a value.
pub(super) fn all_invalid(path: &str, value: &Value, wrong: Vec<String>, errors: &mut Vec<FieldError>) {
    errors.extend(wrong.iter().map(|detail| FieldError::invalid(path, value, detail)));
}

/// Checks that a number is not negative.
pub(super) fn non_negative(spec: &Value, path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if spec[field].as_i64().is_some_and(|number| number < 0) {
        errors.push(FieldError::invalid(format!("{path}.{field}"), &spec[field], "must be greater than or equal to 0"));
    }
}

fn is_empty_selector(selector: &Value) -> bool {
    let empty =
        |value: &Value| value.as_object().is_none_or(Map::is_empty) && value.as_array().is_none_or(Vec::is_empty);
    empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"])
}

/// Whether a label selector selects these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let matches = |expression: &Value| {
        let value = &labels[expression["key"].as_str().unwrap_or_default()];
        let listed = expression["values"].as_array().is_some_and(|values| values.contains(value));
        match expression["operator"].as_str().unwrap_or_default() {
            "In" => !value.is_null() && listed,
            "NotIn" => value.is_null() || !listed,
            "Exists" => !value.is_null(),
            _ => value.is_null(),
        }
    };
    equal && selector["matchExpressions"].as_array().into_iter().flatten().all(matches)
}

/// What Deployments, ReplicaSets, StatefulSets and DaemonSets have in common.
fn workload(object: &Value, old: Option<&Value>, noun: &str, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        non_negative(spec, "spec", field, errors);
    }
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    } else if is_empty_selector(selector) {
        errors.push(FieldError::invalid("spec.selector", selector, &format!("empty selector is invalid for {noun}")));
    }
    // An empty selector, which is refused above, selects everything.
    template(spec, errors, |labels| !selector.is_null() && selects(selector, labels));
    if old.is_some_and(|old| old["spec"]["selector"] != *selector) {
        errors.push(FieldError::invalid("spec.selector", selector, "field is immutable"));
    }
}

/// Checks a template whose Pods run for ever.
fn template(spec: &Value, errors: &mut Vec<FieldError>, selected: impl Fn(&Value) -> bool) {
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    if !selected(labels) {
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    if let Some(labels) = labels.as_object() {
        label_map(labels, "spec.template.labels", errors);
    }
    pod_spec(&template["spec"], "spec.template.spec", errors);
    let restart = &template["spec"]["restartPolicy"];
    if matches!(restart.as_str(), Some("Never" | "OnFailure")) {
        errors.push(FieldError::unsupported("spec.template.spec.restartPolicy", restart, &["Always"]));
    }
}

/// The number in an int or a percentage.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').and_then(|text| text.parse().ok()).unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

fn int_or_percent(value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                errors.push(FieldError::invalid(path, value, "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"));
            }
        }
        other if other.as_i64().is_some_and(|number| number < 0) => {
            errors.push(FieldError::invalid(path, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

fn deployment(spec: &Value, errors: &mut Vec<FieldError>) {
    let strategy = &spec["strategy"];
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str() {
        Some("Recreate") if !rolling.is_null() => errors.push(FieldError::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        Some("Recreate") => {}
        Some("RollingUpdate") => {
            let path = "spec.strategy.rollingUpdate.maxUnavailable";
            int_or_percent(&rolling["maxUnavailable"], path, errors);
            int_or_percent(&rolling["maxSurge"], "spec.strategy.rollingUpdate.maxSurge", errors);
            if amount(&rolling["maxUnavailable"]) == 0 && amount(&rolling["maxSurge"]) == 0 {
                errors.push(FieldError::invalid(path, &rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0"));
            }
            if rolling["maxUnavailable"].is_string() && amount(&rolling["maxUnavailable"]) > 100 {
                errors.push(FieldError::invalid(path, &rolling["maxUnavailable"], "must not be greater than 100%"));
            }
        }
        _ => errors.push(FieldError::unsupported("spec.strategy", strategy, &["Recreate", "RollingUpdate"])),
    }
    let deadline = &spec["progressDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|deadline| deadline <= spec["minReadySeconds"].as_i64().unwrap_or_default()) {
        errors.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            deadline,
            "must be greater than minReadySeconds",
        ));
    }
}

fn replication_controller(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    for field in ["replicas", "minReadySeconds"] {
        non_negative(spec, "spec", field, errors);
    }
    let selector = spec["selector"].as_object();
    if selector.is_none_or(Map::is_empty) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    if spec["template"].is_null() {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    template(spec, errors, |labels| selector.into_iter().flatten().all(|(key, value)| labels[key] == *value));
}

fn job(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    for field in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        non_negative(spec, "spec", field, errors);
    }
    pod_spec(&spec["template"]["spec"], "spec.template.spec", errors);
    let restart = &spec["template"]["spec"]["restartPolicy"];
    if !matches!(restart.as_str(), Some("Never" | "OnFailure")) {
        errors.push(FieldError {
            path: "spec.template.spec.restartPolicy".to_owned(),
            reason: "FieldValueRequired",
            message: "Required value: valid values: \"OnFailure\", \"Never\"".to_owned(),
        });
    }
    for field in ["selector", "completionMode"] {
        if old.is_some_and(|old| old["spec"][field] != spec[field]) {
            errors.push(FieldError::invalid(format!("spec.{field}"), &spec[field], "field is immutable"));
        }
    }
}

fn immutable_data(object: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let detail = "field is immutable when `immutable` is set";
    if object["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", detail));
    }
    for field in fields.iter().filter(|field| old[**field] != object[**field]) {
        errors.push(FieldError::forbidden(*field, detail));
    }
}

fn unchanged(object: &Value, old: Option<&Value>, field: &str, errors: &mut Vec<FieldError>) {
    if old.is_some_and(|old| old[field] != object[field]) {
        errors.push(FieldError::invalid(field, &object[field], "field is immutable"));
    }
}

fn service(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let headless = spec["clusterIP"] == "None" || spec["type"] == "ExternalName";
    if ports.is_empty() && !headless {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        if !port["port"].as_i64().is_some_and(|port| (1..=65_535).contains(&port)) {
            errors.push(FieldError::invalid(
                format!("{path}.port"),
                &port["port"],
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
    if spec["type"] == "ExternalName" && spec["externalName"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !spec["type"].as_str().is_some_and(|kind| types.contains(&kind)) {
        errors.push(FieldError::unsupported("spec.type", &spec["type"], &types));
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

    fn errors(object: &Value, old: Option<&Value>) -> Vec<String> {
        let errors = validate("apps", "v1", "Deployment", old, object);
        errors.into_iter().map(|error| format!("{}: {}", error.path, error.message)).collect()
    }

    #[test]
    fn mistakes_are_named_as_upstream_names_them() {
        for (change, wanted) in [
            (json!({"/spec/replicas": -1}), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
            (
                json!({"/spec/template/metadata/labels": {"x": "y"}}),
                "spec.template.metadata.labels: Invalid value: {\"x\":\"y\"}: `selector` does not match template `labels`",
            ),
            (json!({"/spec/template/spec/containers": []}), "spec.template.spec.containers: Required value"),
            (
                json!({"/spec/template/spec/containers": [{"name": "c"}]}),
                "spec.template.spec.containers[0].image: Required value",
            ),
            (
                json!({"/spec/template/spec/containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
                "spec.template.spec.containers[1].name: Duplicate value: \"c\"",
            ),
            (
                json!({"/spec/strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}),
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
            ),
            (
                json!({"/spec/progressDeadlineSeconds": 5, "/spec/minReadySeconds": 5}),
                "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
            ),
        ] {
            let object = deployment_with(|object| {
                for (pointer, value) in change.as_object().unwrap() {
                    match object.pointer_mut(pointer) {
                        Some(place) => *place = value.clone(),
                        None => object["spec"][pointer.rsplit('/').next().unwrap()] = value.clone(),
                    }
                }
            });
            assert_eq!(errors(&object, None), [wanted]);
        }
        assert!(errors(&deployment_with(|_| ()), None).is_empty());
    }

    #[test]
    fn the_selector_is_immutable() {
        let old = deployment_with(|_| ());
        let new = deployment_with(|object| {
            object["spec"]["selector"]["matchLabels"] = json!({"z": "1"});
            object["spec"]["template"]["metadata"]["labels"] = json!({"z": "1"});
        });
        assert_eq!(
            errors(&new, Some(&old)),
            ["spec.selector: Invalid value: {\"matchLabels\":{\"z\":\"1\"}}: field is immutable"]
        );
    }

    #[test]
    fn two_controllers_and_bad_labels_are_refused() {
        let owner =
            |name: &str| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": name, "controller": true});
        let object = deployment_with(|object| {
            object["metadata"]["ownerReferences"] = json!([owner("a"), owner("b")]);
            object["metadata"]["labels"] = json!({"ok": "no good"});
        });
        let errors = errors(&object, None);
        assert_eq!(errors.len(), 2);
        assert!(errors[0].starts_with("metadata.labels: Invalid value: \"no good\": a valid label must be"));
        assert!(errors[1].ends_with("references for K/a and K/b"), "{}", errors[1]);
    }
}
