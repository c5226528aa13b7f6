//! Validation of built-in kinds, as far as controllers depend on it.
//!
//! Source: `pkg/apis/{apps,batch,core}/validation`, apimachinery's `validation` packages.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::checks::{self, list};
use super::rules::{self, is_empty};
use super::validate_batch as batch;
use super::validate_pod::{new_pod, pod_only, pod_update};
use super::validate_status::status;
use crate::cause::Cause;
use crate::names;
use crate::schema;
use crate::selector::selects;

/// Longest annotations of an object: the bytes of all keys and values.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Longest data of a ConfigMap or Secret in bytes.
const MAX_DATA: usize = 1 << 20;

/// Checks an object, whose predecessor comes first: none for a new one.
type Check = fn(Option<&Value>, &Value, &mut Vec<Cause>);

/// Checks in addition to the metadata, by group and kind. Each of these kinds has one served version.
const CHECKS: &[(&str, &str, Check)] = &[
    ("apps", "Deployment", deployment),
    ("apps", "ReplicaSet", workload),
    ("apps", "StatefulSet", stateful_set),
    ("apps", "DaemonSet", daemon_set),
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
    ("", "PersistentVolumeClaim", claim),
    ("", "ResourceQuota", checks::quota),
    ("", "LimitRange", checks::limit_range),
    ("scheduling.k8s.io", "PriorityClass", checks::priority_class),
    ("rbac.authorization.k8s.io", "Role", role),
    ("", "Event", event),
    ("rbac.authorization.k8s.io", "RoleBinding", role_binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", role_binding),
];

/// The errors in `object`, whose predecessor is `old`; none if it may be stored. Defaults must be applied.
pub fn validate(group: &str, version: &str, kind: &str, old: Option<&Value>, object: &Value) -> Vec<Cause> {
    let mut errors = Vec::new();
    validate_metadata(object, &mut errors);
    // These two are served by other libraries, without standard names.
    if !matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
        finalizers(object, "metadata", &mut errors);
    }
    // Unchanged content is not validated again on update.
    if old.is_none_or(|old| !same_content(old, object)) {
        if let Some((_, _, check)) = CHECKS.iter().find(|check| (check.0, check.1) == (group, kind)) {
            check(old, object, &mut errors);
        }
        if let Some(schema) = schema::lookup(group, version, kind) {
            rules::check(&schema, &as_checked(kind, old, object), &mut errors);
        }
    }
    if let Some(old) = old {
        status(group, kind, old, object, &mut errors);
    }
    errors
}

/// Whether two objects differ in metadata and status at most.
fn same_content(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value, other: &Value| {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status"))
            .all(|(name, value)| other[name] == *value)
    };
    rest(old, new) && rest(new, old)
}

/// The object as validated. The Pods of a StatefulSet have volumes for its claims, and generated names.
fn as_checked<'a>(kind: &str, old: Option<&Value>, object: &'a Value) -> Cow<'a, Value> {
    if kind != "StatefulSet" {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    let claims: Vec<Value> = list(&object["spec"]["volumeClaimTemplates"])
        .iter()
        .map(|claim| json!({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}))
        .collect();
    if let Some(pod) = object["spec"]["template"]["spec"].as_object_mut() {
        pod.shift_remove("hostname");
        pod.shift_remove("subdomain");
        if !claims.is_empty() {
            let own = pod.shift_remove("volumes");
            let own = own.as_ref().map_or(&[][..], list).iter();
            let own = own.filter(|volume| claims.iter().all(|claim| claim["name"] != volume["name"])).cloned();
            let volumes: Vec<Value> = claims.iter().cloned().chain(own).collect();
            pod.insert("volumes".to_owned(), volumes.into());
        }
    }
    // They are immutable, so that existing ones stay unchanged.
    if old.is_some()
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.shift_remove("volumeClaimTemplates");
    }
    Cow::Owned(object)
}

/// Checks the metadata of any object.
pub(crate) fn validate_metadata(object: &Value, errors: &mut Vec<Cause>) {
    let metadata = &object["metadata"];
    label_map(&metadata["labels"], "metadata.labels", errors);
    annotations(&metadata["annotations"], "metadata.annotations", errors);
    if metadata["generation"].as_i64().is_some_and(|generation| generation < 0) {
        errors.push(Cause::invalid(
            "metadata.generation",
            &metadata["generation"],
            "must be greater than or equal to 0",
        ));
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

fn annotations(annotations: &Value, path: &str, errors: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        wrong_name(path, key, names::label_key(&key.to_lowercase()), errors);
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_ANNOTATIONS {
        errors.push(Cause::too_long(path, MAX_ANNOTATIONS));
    }
}

fn owners(owners: &Value, errors: &mut Vec<Cause>) {
    let path = "metadata.ownerReferences";
    for (index, owner) in owners.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                errors.push(Cause::required_because(format!("{path}.{field}"), "must not be empty"));
            }
        }
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        let is_wrong = version.matches('/').count() > 1 || version.ends_with('/');
        let wrong = is_wrong.then_some("must be <group>/<version> or <version>");
        wrong_name(&format!("{path}.apiVersion"), version, wrong, errors);
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
    if old.is_some() {
        return finalizers(object, "spec", errors);
    }
    for finalizer in list(&object["spec"]["finalizers"]) {
        let name = finalizer.as_str().unwrap_or_default();
        let wrong = names::label_key(name);
        let unknown =
            (name != "kubernetes" && !name.contains('/')).then_some("must be a standard finalizer or fully qualified");
        wrong_name("spec.finalizers", name, wrong.or(unknown), errors);
    }
}

fn role(_old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    for (index, rule) in
        list(&object["rules"]).iter().enumerate().filter(|(_, rule)| !is_empty(&rule["nonResourceURLs"]))
    {
        let detail = "namespaced rules cannot apply to non-resource URLs";
        errors.push(Cause::invalid(format!("rules[{index}].nonResourceURLs"), &rule["nonResourceURLs"], detail));
    }
}

/// A claim is immutable, except that a bound one may request more storage.
fn claim(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let Some(old) = old else { return };
    let is_bound = old["status"]["phase"] == "Bound";
    let frozen = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        // A default class may be set later, and so may the volume.
        for field in ["storageClassName", "volumeName"].iter().filter(|field| is_empty(&old["spec"][**field])) {
            spec[*field] = Value::Null;
        }
        spec["volumeAttributesClassName"] = Value::Null;
        if is_bound {
            spec["resources"]["requests"]["storage"] = Value::Null;
        }
        spec
    };
    if frozen(old) != frozen(object) {
        errors.push(Cause::forbidden(
            "spec",
            "is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let size = |claim: &Value| schema::nanos(&claim["spec"]["resources"]["requests"]["storage"]);
    if is_bound && size(object) < size(old) {
        errors.push(Cause::forbidden("spec.resources.requests.storage", "field can not be less than previous value"));
    }
}

/// Checks keys and size of data. `maps`: the fields, and whether they are base64.
fn data(object: &Value, maps: &[(&str, bool)], path: &str, errors: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (field, is_base64) in maps {
        for (key, value) in object[*field].as_object().into_iter().flatten() {
            wrong_name(&format!("{field}[{key}]"), key, names::data_key(key), errors);
            let text = value.as_str().unwrap_or_default();
            bytes += if *is_base64 { text.trim_end_matches('=').len() * 3 / 4 } else { text.len() };
        }
    }
    if bytes > MAX_DATA {
        errors.push(Cause::too_long(path, MAX_DATA));
    }
}

fn role_binding(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    unchanged(old, object, "roleRef", errors);
}

fn config_map(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    immutable_data(old, object, &["data", "binaryData"], errors);
    for key in object["binaryData"].as_object().into_iter().flatten().map(|(key, _)| key) {
        let twice = (!object["data"][key.as_str()].is_null()).then_some("duplicate of key present in binaryData");
        wrong_name(&format!("data[{key}]"), key, twice, errors);
    }
    // Upstream has no field here.
    data(object, &[("data", false), ("binaryData", true)], "[]", errors);
}

fn secret(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    immutable_data(old, object, &["data"], errors);
    unchanged(old, object, "type", errors);
    data(object, &[("data", true)], "data", errors);
    let kind = object["type"].as_str().and_then(|kind| kind.strip_prefix("kubernetes.io/")).unwrap_or_default();
    let missing = |key: &&&str| object["data"][**key].is_null();
    let keys: &[&str] = match kind {
        "dockerconfigjson" => &[".dockerconfigjson"],
        "dockercfg" => &[".dockercfg"],
        "ssh-auth" => &["ssh-privatekey"],
        "tls" => &["tls.crt", "tls.key"],
        // One of the two is enough.
        "basic-auth" if ["username", "password"].iter().filter(missing).count() == 2 => &["username", "password"],
        "service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if is_empty(&object["metadata"]["annotations"][ACCOUNT]) {
                errors.push(Cause::required(format!("metadata.annotations[{ACCOUNT}]")));
            }
            &[]
        }
        _ => &[],
    };
    errors.extend(keys.iter().filter(missing).map(|key| Cause::required(format!("data[{key}]"))));
    if let "dockerconfigjson" | "dockercfg" = kind
        && let Some(text) = object["data"][format!(".{kind}")].as_str()
    {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        let wrong = serde_json::from_slice::<Value>(&bytes).is_err().then_some("must be JSON");
        wrong_name(&format!("data[.{kind}]"), "<secret contents redacted>", wrong, errors);
    }
}

fn pod(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    pod_only(old, &object["spec"], errors);
    match old {
        Some(old) => pod_update(old, object, errors),
        None => new_pod(&object["spec"], "spec", errors),
    }
}

/// An Event must be in the namespace of its object.
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

/// Common checks of Deployments, ReplicaSets, StatefulSets and DaemonSets.
fn workload(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    selecting(old, object, true, errors);
    let numbers = ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
    non_negative(&object["spec"], "spec", &numbers, errors);
}

/// Checks selector and template. `needed`: a selector that is absent or does not parse is named, too.
fn selecting(old: Option<&Value>, object: &Value, needed: bool, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let selector = &spec["selector"];
    let is_malformed = crate::selector::is_malformed(selector);
    if selector.is_null() {
        if needed {
            errors.push(Cause::required("spec.selector"));
        }
    } else if crate::selector::text(selector).is_empty() {
        errors.push(Cause::invalid("spec.selector", selector, "empty selector is invalid"));
    } else if is_malformed && needed {
        errors.push(Cause::invalid("spec.selector", selector, "invalid label selector"));
    }
    template(spec, errors, |labels| is_malformed || selects(selector, labels));
    if old.is_some_and(|old| old["spec"]["selector"] != *selector) {
        errors.push(Cause::invalid("spec.selector", selector, "field is immutable"));
    }
}

fn daemon_set(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    selecting(old, object, false, errors);
    let spec = &object["spec"];
    non_negative(spec, "spec", &["minReadySeconds", "revisionHistoryLimit"], errors);
    let strategy = &spec["updateStrategy"];
    let (rolling, path) = (&strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate");
    match strategy["type"].as_str() {
        Some("OnDelete") => {}
        Some("RollingUpdate") => {
            for field in ["maxUnavailable", "maxSurge"] {
                let path = format!("{path}.{field}");
                int_or_percent(&rolling[field], &path, errors);
                at_most_all(&rolling[field], &path, errors);
            }
            match (amount(&rolling["maxUnavailable"]) != 0, amount(&rolling["maxSurge"]) != 0) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(Cause::invalid(format!("{path}.maxSurge"), &rolling["maxSurge"], detail));
                }
                (false, false) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(Cause::required_because(format!("{path}.maxUnavailable"), detail));
                }
                _ => {}
            }
        }
        _ => errors.push(Cause::unsupported("spec.updateStrategy", strategy, &["OnDelete", "RollingUpdate"])),
    }
}

fn stateful_set(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    selecting(old, object, true, errors);
    non_negative(spec, "spec", &["replicas", "minReadySeconds"], errors);
    let mut one_of = |field: &str, value: &Value, whole: &Value, known: [&str; 2]| {
        if !known.iter().any(|known| value == known) {
            let detail = format!("must be '{}' or '{}'", known[0], known[1]);
            errors.push(Cause::invalid(format!("spec.{field}"), whole, &detail));
        }
    };
    let (policy, strategy) = (&spec["podManagementPolicy"], &spec["updateStrategy"]);
    one_of("podManagementPolicy", policy, policy, ["OrderedReady", "Parallel"]);
    one_of("updateStrategy", &strategy["type"], strategy, ["RollingUpdate", "OnDelete"]);
    if strategy["type"] == "OnDelete" && !strategy["rollingUpdate"].is_null() {
        let detail = "only allowed for updateStrategy 'RollingUpdate'";
        errors.push(Cause::invalid("spec.updateStrategy.rollingUpdate", &strategy["rollingUpdate"], detail));
    }
    if old.is_none()
        && let Some(service) = spec["serviceName"].as_str().filter(|name| !name.is_empty())
    {
        wrong_name("spec.serviceName", service, names::label(service), errors);
    }
    let unavailable = &strategy["rollingUpdate"]["maxUnavailable"];
    let path = "spec.updateStrategy.rollingUpdate.maxUnavailable";
    int_or_percent(unavailable, path, errors);
    at_most_all(unavailable, path, errors);
    if !unavailable.is_null() && amount(unavailable) == 0 {
        errors.push(Cause::invalid(path, unavailable, "cannot be 0"));
    }
    for field in ["volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
        if old.is_some_and(|old| old["spec"][field] != spec[field]) {
            errors.push(Cause::invalid(format!("spec.{field}"), &spec[field], "field is immutable"));
        }
    }
}

/// Checks a template whose Pods run indefinitely.
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
    pod_template(template, "spec.template", errors);
    let restart = &template["spec"]["restartPolicy"];
    if !is_empty(restart) && restart != "Always" {
        errors.push(Cause::unsupported("spec.template.spec.restartPolicy", restart, &["Always"]));
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        errors.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", "is not supported here"));
    }
}

/// Checks metadata of a template, and that it has nothing that only comes later.
pub(super) fn pod_template(template: &Value, path: &str, errors: &mut Vec<Cause>) {
    label_map(&template["metadata"]["labels"], &format!("{path}.labels"), errors);
    annotations(&template["metadata"]["annotations"], &format!("{path}.annotations"), errors);
    new_pod(&template["spec"], &format!("{path}.spec"), errors);
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

fn service(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let ports = list(&spec["ports"]);
    let (kind, is_external) = (&spec["type"], spec["type"] == "ExternalName");
    if ports.is_empty() && spec["clusterIP"] != "None" && !is_external {
        errors.push(Cause::required("spec.ports"));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let same = |field: &str| ports[..index].iter().any(|other| other[field] == port[field]);
        if ports.len() > 1 && is_empty(&port["name"]) {
            errors.push(Cause::required(format!("{path}.name")));
        } else if !is_empty(&port["name"]) && same("name") {
            errors.push(Cause::duplicate(format!("{path}.name"), &port["name"]));
        }
        if ports[..index].iter().any(|other| other["port"] == port["port"] && other["protocol"] == port["protocol"]) {
            errors.push(Cause::duplicate(&path, port));
        }
        if kind == "ClusterIP" && port["nodePort"].as_i64().is_some_and(|port| port != 0) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(Cause::forbidden(format!("{path}.nodePort"), detail));
        }
    }
    if is_external {
        let name = spec["externalName"].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(Cause::required("spec.externalName"));
        } else {
            wrong_name("spec.externalName", name, names::subdomain(name.trim_end_matches('.')), errors);
        }
        if !is_empty(&spec["clusterIP"]) {
            errors.push(Cause::forbidden("spec.clusterIPs", "may not be set for ExternalName services"));
        }
    } else if let Some(old) = old.filter(|old| old["spec"]["type"] != "ExternalName")
        && old["spec"]["clusterIP"] != spec["clusterIP"]
    {
        errors.push(Cause::invalid("spec.clusterIPs[0]", &spec["clusterIP"], "may not change once set"));
    }
    if let Some(address) = spec["clusterIP"].as_str().filter(|address| !matches!(*address, "" | "None") && !is_external)
    {
        let wrong = address.parse::<std::net::IpAddr>().is_err().then_some("must be a valid IP address");
        wrong_name("spec.clusterIPs[0]", address, wrong, errors);
    }
    for (index, address) in list(&spec["externalIPs"]).iter().enumerate() {
        let parsed = address.as_str().and_then(|address| address.parse::<std::net::IpAddr>().ok());
        let wrong = match parsed {
            None => Some("must be a valid IP address"),
            Some(address) if address.is_loopback() || address.is_unspecified() => Some("may not be a special address"),
            Some(_) => None,
        };
        wrong_name(&format!("spec.externalIPs[{index}]"), address.as_str().unwrap_or_default(), wrong, errors);
    }
    let balances = kind == "LoadBalancer";
    let ranges = list(&spec["loadBalancerSourceRanges"]);
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default().trim();
        let parts = range.split_once('/').and_then(|(address, bits)| {
            let address = address.parse::<std::net::IpAddr>().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            bits.parse::<u8>().ok().filter(|bits| *bits <= most)
        });
        let wrong = parts.is_none().then_some("must be a valid CIDR value");
        wrong_name(&format!("spec.LoadBalancerSourceRanges[{index}]"), range, wrong, errors);
    }
    let only_balancing = [
        ("LoadBalancerSourceRanges", ranges.is_empty()),
        ("allocateLoadBalancerNodePorts", spec["allocateLoadBalancerNodePorts"].is_null()),
        ("loadBalancerClass", is_empty(&spec["loadBalancerClass"])),
    ];
    for (field, _) in only_balancing.iter().filter(|(_, is_absent)| !balances && !is_absent) {
        errors.push(Cause::forbidden(format!("spec.{field}"), "may only be used when `type` is 'LoadBalancer'"));
    }
    let policy = &spec["externalTrafficPolicy"];
    let is_exposed = balances || kind == "NodePort" || !list(&spec["externalIPs"]).is_empty();
    if !is_empty(policy) && !is_exposed {
        let detail = "may only be set for externally-accessible services";
        errors.push(Cause::invalid("spec.externalTrafficPolicy", policy, detail));
    }
    let check = &spec["healthCheckNodePort"];
    if check.as_i64().is_some_and(|port| port != 0) && !(balances && policy == "Local") {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(Cause::invalid("spec.healthCheckNodePort", check, detail));
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
        let errors = validate("apps", "v1", "Deployment", None, object);
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
