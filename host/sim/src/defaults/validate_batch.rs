//! Validation of Jobs, CronJobs, budgets, autoscalers and revisions.
//!
//! Source: `pkg/apis/{batch,policy,autoscaling,apps}/validation`.

use serde_json::{Value, json};

use super::checks::list;
use super::cron;
use super::rules::{is_empty, range};
use super::validate::{at_most_all, int_or_percent, non_negative, pod_template, wrong_name};
use crate::cause::Cause;
use crate::names;
use crate::selector::selects;

/// Largest parallelism of an Indexed Job.
const MAX_PARALLELISM: i64 = 100_000;
/// Above this number of completions, a limit for each index requires the two limits below.
const MANY_COMPLETIONS: i64 = 100_000;
/// Largest parallelism, and most failed indexes, of a Job with that many completions.
const MAX_OF_MANY: i64 = 10_000;

/// Immutable fields of a Job.
const IMMUTABLE: [&str; 6] =
    ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

pub(super) fn job(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    job_spec(spec, "spec", errors);
    if old.is_none() {
        generated_labels(object, errors);
        let last = spec["completions"].as_i64().filter(|count| *count > 0 && spec["completionMode"] == "Indexed");
        if let Some(last) = last {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if names::label(&format!("{name}-{}", last - 1)).is_some() {
                errors.push(Cause::invalid(
                    "metadata.name",
                    &name.into(),
                    "leaves no valid host name for the last Pod",
                ));
            }
        }
    }
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.push(Cause::required("spec.selector"));
    }
    if !selects(selector, &spec["template"]["metadata"]["labels"]) {
        let labels = &spec["template"]["metadata"]["labels"];
        let detail = "`selector` does not match template `labels`";
        errors.push(Cause::invalid("spec.template.metadata.labels", labels, detail));
    }
    if let Some(old) = old {
        job_update(old, object, errors);
    }
}

fn generated_labels(object: &Value, errors: &mut Vec<Cause>) {
    let (spec, metadata) = (&object["spec"], &object["metadata"]);
    let labels = &spec["template"]["metadata"]["labels"];
    // A Job without this label was not created by this server, but restored.
    if spec["manualSelector"] == true || labels["batch.kubernetes.io/controller-uid"].is_null() {
        return;
    }
    for (label, field) in super::workloads::JOB_LABELS {
        if labels[label] != metadata[field] {
            let detail = format!("must be '{}'", metadata[field].as_str().unwrap_or_default());
            errors.push(Cause::invalid(format!("spec.template.metadata.labels[{label}]"), labels, &detail));
        }
    }
    let expected: Value =
        super::workloads::JOB_LABELS.iter().map(|(label, field)| (*label, metadata[*field].clone())).collect();
    if !selects(&spec["selector"], &expected) {
        errors.push(Cause::invalid("spec.selector", &spec["selector"], "`selector` not auto-generated"));
    }
}

fn job_spec(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    non_negative(spec, path, &numbers, errors);
    let is_indexed = match spec["completionMode"].as_str() {
        Some("Indexed") => true,
        Some("NonIndexed") | None => false,
        _ => {
            let field = format!("{path}.completionMode");
            errors.push(Cause::unsupported(field, &spec["completionMode"], &["Indexed", "NonIndexed"]));
            false
        }
    };
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let field = format!("{path}.backoffLimitPerIndex");
        errors.push(Cause::required_because(field, "when maxFailedIndexes is specified"));
    }
    if is_indexed {
        indexed(spec, path, errors);
    }
    failure_policy(spec, path, errors);
    let policy = &spec["podReplacementPolicy"];
    let known = if spec["podFailurePolicy"].is_null() { &["Failed", "TerminatingOrFailed"][..] } else { &["Failed"] };
    if !policy.is_null() && !known.iter().any(|known| policy == known) {
        errors.push(Cause::unsupported(format!("{path}.podReplacementPolicy"), policy, known));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        let field = format!("{path}.managedBy");
        let wrong = match manager.split_once('/') {
            Some((domain, rest)) if !rest.is_empty() => names::subdomain(domain),
            _ => Some("must be a domain-prefixed path (such as \"acme.io/foo\")"),
        };
        wrong_name(&field, manager, wrong, errors);
        if manager.len() > 63 {
            errors.push(Cause::too_long(field, 63));
        }
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
        if !is_indexed && !spec[field].is_null() {
            errors.push(Cause::invalid(format!("{path}.{field}"), &spec[field], "requires indexed completion mode"));
        }
    }
    let template = &spec["template"];
    pod_template(template, &format!("{path}.template"), errors);
    let restart = &template["spec"]["restartPolicy"];
    let field = format!("{path}.template.spec.restartPolicy");
    match restart.as_str() {
        Some("OnFailure") if !spec["podFailurePolicy"].is_null() => {
            errors.push(Cause::invalid(
                field,
                restart,
                "only \"Never\" is supported when podFailurePolicy is specified",
            ));
        }
        Some("Never" | "OnFailure") => {}
        Some("Always" | "") | None => {
            errors.push(Cause::required_because(field, "valid values: \"OnFailure\", \"Never\""));
        }
        Some(_) => errors.push(Cause::unsupported(field, restart, &["Never", "OnFailure"])),
    }
}

/// Requirements and limits of an Indexed Job.
fn indexed(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    let at = |field: &str| format!("{path}.{field}");
    let most = |field: &str, most: i64, detail: &str, errors: &mut Vec<Cause>| {
        if spec[field].as_i64().is_some_and(|number| number > most) {
            errors.push(Cause::invalid(at(field), &spec[field], &format!("must be less than or equal to {detail}")));
        }
    };
    most("parallelism", MAX_PARALLELISM, "100000 when completion mode is Indexed", errors);
    let Some(completions) = spec["completions"].as_i64() else {
        errors.push(Cause::required_because(at("completions"), "when completion mode is Indexed"));
        return;
    };
    most("maxFailedIndexes", completions, "completions", errors);
    if completions > MANY_COMPLETIONS && !spec["backoffLimitPerIndex"].is_null() {
        if spec["maxFailedIndexes"].is_null() {
            let detail = "must be specified when completions is above 100000";
            errors.push(Cause::required_because(at("maxFailedIndexes"), detail));
        }
        for field in ["parallelism", "maxFailedIndexes"] {
            most(field, MAX_OF_MANY, "10000 when completions are above 100000", errors);
        }
    }
    let rules = &spec["successPolicy"]["rules"];
    if !spec["successPolicy"].is_null() && list(rules).is_empty() {
        errors.push(Cause::required_because(at("successPolicy.rules"), "at least one rule must be specified"));
    }
    for (index, rule) in list(rules).iter().enumerate() {
        let path = at(&format!("successPolicy.rules[{index}]"));
        let (indexes, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
        if indexes.is_null() && count.is_null() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(Cause::required_because(&path, detail));
        }
        let mut bound = completions;
        if let Some(text) = indexes.as_str() {
            match n_indexes(text, completions) {
                Some(n) => bound = bound.min(n),
                None => {
                    errors.push(Cause::invalid(format!("{path}.succeededIndexes"), indexes, "cannot be parsed"));
                    bound = 0;
                }
            }
        }
        let field = format!("{path}.succeededCount");
        range(count, 0, i64::MAX, &field, errors);
        if count.as_i64().is_some_and(|count| count > bound) {
            errors.push(Cause::invalid(field, count, &format!("must be less than or equal to {bound}")));
        }
    }
}

/// The number of indexes in a text such as `1-3,5`; none when it is malformed, not in order, or has one that is not below `completions`.
fn n_indexes(text: &str, completions: i64) -> Option<i64> {
    let (mut total, mut next) = (0, 0);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
        let is_range = part.contains('-');
        if first < next || last >= completions || last < first || (is_range && last == first) {
            return None;
        }
        total += last - first + 1;
        next = last + 1;
    }
    Some(total)
}

fn failure_policy(spec: &Value, path: &str, errors: &mut Vec<Cause>) {
    let (path, policy) = (format!("{path}.podFailurePolicy.rules"), &spec["podFailurePolicy"]["rules"]);
    let pod = &spec["template"]["spec"];
    for (index, rule) in list(policy).iter().enumerate() {
        let path = format!("{path}[{index}]");
        let (action, known) = (&rule["action"], ["Count", "FailIndex", "FailJob", "Ignore"]);
        if is_empty(action) {
            errors.push(Cause::required(format!("{path}.action")));
        } else if !known.iter().any(|known| action == known) {
            errors.push(Cause::unsupported(format!("{path}.action"), action, &known));
        } else if action == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.push(Cause::invalid(format!("{path}.action"), action, detail));
        }
        let (codes, conditions) = (&rule["onExitCodes"], list(&rule["onPodConditions"]));
        if codes.is_null() == conditions.is_empty() {
            let which = if codes.is_null() { "one of" } else { "only one of" };
            let detail = format!("Invalid value: specifying {which} OnExitCodes and OnPodConditions is required");
            errors.push(Cause::new("FieldValueInvalid", &path, detail));
        }
        if codes.is_null() {
            continue;
        }
        let path = format!("{path}.onExitCodes");
        let name = &codes["containerName"];
        let containers = list(&pod["containers"]).iter().chain(list(&pod["initContainers"]));
        if !name.is_null() && !containers.map(|container| &container["name"]).any(|known| known == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.push(Cause::invalid(format!("{path}.containerName"), name, detail));
        }
        let (field, values) = (format!("{path}.values"), list(&codes["values"]));
        if values.is_empty() {
            errors.push(Cause::invalid(&field, &codes["values"], "at least one value is required"));
        }
        for (index, value) in values.iter().enumerate() {
            if codes["operator"] == "In" && *value == 0 {
                errors.push(Cause::invalid(format!("{field}[{index}]"), value, "must not be 0 for the In operator"));
            }
            if values[..index].contains(value) {
                errors.push(Cause::duplicate(format!("{field}[{index}]"), value));
            }
        }
        if !values.iter().map(Value::as_i64).is_sorted() {
            errors.push(Cause::invalid(field, &codes["values"], "must be ordered"));
        }
    }
}

fn job_update(old: &Value, object: &Value, errors: &mut Vec<Cause>) {
    let (before, spec) = (&old["spec"], &object["spec"]);
    let mut unchanged = |field: &str, same: bool| {
        if !same {
            errors.push(Cause::invalid(format!("spec.{field}"), &spec[field], "field is immutable"));
        }
    };
    for field in IMMUTABLE {
        unchanged(field, before[field] == spec[field]);
    }
    // A suspended Job without Pods may change its scheduling directives.
    let is_suspended = before["suspend"] == true
        && old["status"]["active"].as_i64().unwrap_or(0) == 0
        && (old["status"]["startTime"].is_null() || crate::server::has_condition(old, "Suspended"));
    let frozen =
        |spec: &Value| if is_suspended { without_directives(&spec["template"]) } else { spec["template"].clone() };
    unchanged("template", frozen(before) == frozen(spec));
    if spec["completionMode"] != "Indexed" {
        unchanged("completions", before["completions"] == spec["completions"]);
    } else if before["completions"] != spec["completions"] && spec["completions"] != spec["parallelism"] {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(Cause::invalid("spec.completions", &spec["completions"], detail));
    }
}

/// A template without its scheduling directives.
fn without_directives(template: &Value) -> Value {
    let mut template = template.clone();
    for field in ["labels", "annotations"] {
        template["metadata"][field] = Value::Null;
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        template["spec"][field] = Value::Null;
    }
    if let Some(affinity) = template["spec"].get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
    }
    if template["spec"]["affinity"] == json!({}) {
        template["spec"]["affinity"] = Value::Null;
    }
    for list in ["containers", "initContainers"] {
        for container in template["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["resources"] = Value::Null;
        }
    }
    template
}

pub(super) fn cron_job(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let schedule = &spec["schedule"];
    match schedule.as_str() {
        None | Some("") => errors.push(Cause::required("spec.schedule")),
        Some(text)
            if text.contains("TZ") && old.is_none_or(|old| !old["spec"]["schedule"].to_string().contains("TZ")) =>
        {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(Cause::invalid("spec.schedule", schedule, detail));
        }
        Some(_) => {}
    }
    if let Some(wrong) = schedule.as_str().filter(|text| !text.is_empty()).and_then(cron::schedule) {
        errors.push(Cause::invalid("spec.schedule", schedule, &wrong));
    }
    let zone = &spec["timeZone"];
    if old.is_none_or(|old| old["spec"]["timeZone"] != *zone)
        && let Some(wrong) = zone.as_str().and_then(cron::zone)
    {
        errors.push(Cause::invalid("spec.timeZone", zone, &wrong));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    if !spec["concurrencyPolicy"].as_str().is_some_and(|policy| policies.contains(&policy)) {
        errors.push(Cause::unsupported("spec.concurrencyPolicy", &spec["concurrencyPolicy"], &policies));
    }
    job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", errors);
    let selector = &spec["jobTemplate"]["spec"]["selector"];
    if !selector.is_null() {
        errors.push(Cause::invalid("spec.jobTemplate.spec.selector", selector, "`selector` will be auto-generated"));
    }
    if spec["jobTemplate"]["spec"]["manualSelector"] == true {
        let path = "spec.jobTemplate.spec.manualSelector";
        errors.push(Cause::unsupported(path, &json!(true), &["nil", "false"]));
    }
    let name = &object["metadata"]["name"];
    if old.is_none() && name.as_str().is_some_and(|name| name.len() > 52) {
        errors.push(Cause::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
}

pub(super) fn budget(_old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.push(Cause::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{field}");
        int_or_percent(&spec[field], &path, errors);
        at_most_all(&spec[field], &path, errors);
    }
}

pub(super) fn autoscaler(_old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let (min, max) = (spec["minReplicas"].as_i64().unwrap_or(1), spec["maxReplicas"].as_i64().unwrap_or(0));
    if min < 0 {
        errors.push(Cause::invalid("spec.minReplicas", &min.into(), "must be greater than or equal to 0"));
    }
    match max {
        0 => errors.push(Cause::required_because("spec.maxReplicas", "must be set and greater than 0")),
        max if max < 0 => {
            errors.push(Cause::invalid("spec.maxReplicas", &max.into(), "must be greater than or equal to 1"));
        }
        _ => {}
    }
    if min == 0 {
        let metrics = list(&spec["metrics"]);
        if !metrics.iter().any(|metric| matches!(metric["type"].as_str(), Some("Object" | "External"))) {
            let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
            errors.push(Cause::forbidden("spec.metrics", detail));
        }
    }
    if max < min {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(Cause::invalid("spec.maxReplicas", &max.into(), detail));
    }
}

pub(super) fn revision(old: Option<&Value>, object: &Value, errors: &mut Vec<Cause>) {
    non_negative(object, "", &["revision"], errors);
    if old.is_none() && !object["data"].is_object() {
        errors.push(Cause::required_because("data", "must be a JSON object"));
    }
    if old.is_some_and(|old| old["data"] != object["data"]) {
        errors.push(Cause::invalid("data", &object["data"], "field is immutable"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::{apply_defaults, validate, workloads};

    fn job_with(change: impl FnOnce(&mut Value)) -> Value {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}}});
        change(&mut job);
        apply_defaults("batch", "v1", "Job", &mut job);
        workloads::generate_selector(&mut job);
        job
    }

    fn errors(kind: (&str, &str), old: Option<&Value>, object: &Value) -> Vec<String> {
        let version = if kind.0 == "autoscaling" { "v2" } else { "v1" };
        let errors = validate(kind.0, version, kind.1, old, object);
        errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    #[test]
    fn a_job_selects_its_own_pods_by_uid() {
        let job = job_with(|_| ());
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
        let labels = json!({"job-name": "j", "batch.kubernetes.io/job-name": "j", "controller-uid": "u",
            "batch.kubernetes.io/controller-uid": "u"});
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(errors(("batch", "Job"), None, &job), [] as [&str; 0]);
        let foreign = job_with(|job| job["spec"]["template"]["metadata"]["labels"] = json!({"job-name": "other"}));
        assert!(errors(("batch", "Job"), None, &foreign)[0].ends_with("must be 'j'"));
        let manual = job_with(|job| {
            job["spec"]["manualSelector"] = true.into();
            job["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
            job["spec"]["template"]["metadata"]["labels"] = json!({"a": "b"});
        });
        assert_eq!(manual["spec"]["selector"], json!({"matchLabels": {"a": "b"}}));
        assert_eq!(errors(("batch", "Job"), None, &manual), [] as [&str; 0]);
    }

    #[test]
    fn fields_of_a_job_are_immutable_unless_it_is_suspended() {
        let job = job_with(|_| ());
        let indexed = |n: i64| {
            job_with(|job| {
                job["spec"] = json!({"completionMode": "Indexed", "completions": n,
            "parallelism": n, "template": job["spec"]["template"]})
            })
        };
        let suspended = job_with(|job| job["spec"]["suspend"] = true.into());
        let changed = |object: &Value, path: &str, value: Value| {
            let mut object = object.clone();
            *object.pointer_mut(path).unwrap() = value;
            object
        };
        let image = "/spec/template/spec/containers/0/image";
        let labels = "/spec/template/metadata/labels/job-name";
        for (old, new, wanted) in [
            (&job, changed(&job, "/spec/parallelism", json!(4)), None),
            (&job, changed(&job, "/spec/suspend", json!(true)), None),
            (&job, changed(&job, "/spec/completions", json!(4)), Some("spec.completions")),
            (&job, changed(&job, image, json!("j")), Some("spec.template")),
            (&job, changed(&job, "/spec/completionMode", json!("Indexed")), Some("spec.completionMode")),
            (&indexed(2), indexed(3), None),
            (&indexed(2), changed(&indexed(2), "/spec/completions", json!(3)), Some("spec.completions")),
            (&suspended, changed(&suspended, labels, json!("x")), None),
            (&suspended, changed(&suspended, image, json!("j")), Some("spec.template")),
        ] {
            let errors = errors(("batch", "Job"), Some(old), &new);
            assert_eq!(errors.first().and_then(|error| error.split(": ").next()), wanted, "{errors:?}");
        }
    }

    #[test]
    fn numbers_that_contradict_one_another_are_named() {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        for (kind, spec, wanted) in [
            (("policy", "PodDisruptionBudget"), json!({"minAvailable": 1}), None),
            (("policy", "PodDisruptionBudget"), json!({"minAvailable": 1, "maxUnavailable": 1}), Some("spec")),
            (("policy", "PodDisruptionBudget"), json!({"maxUnavailable": "101%"}), Some("spec.maxUnavailable")),
            (("autoscaling", "HorizontalPodAutoscaler"), json!({"maxReplicas": 1, "scaleTargetRef": target}), None),
            (("autoscaling", "HorizontalPodAutoscaler"), json!({"scaleTargetRef": target}), Some("spec.maxReplicas")),
            (
                ("autoscaling", "HorizontalPodAutoscaler"),
                json!({"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": target}),
                Some("spec.maxReplicas"),
            ),
            (
                ("autoscaling", "HorizontalPodAutoscaler"),
                json!({"minReplicas": 0, "maxReplicas": 2, "scaleTargetRef": target}),
                Some("spec.metrics"),
            ),
            (("batch", "Job"), json!({"completionMode": "Indexed"}), Some("spec.completions")),
            (("batch", "Job"), json!({"backoffLimitPerIndex": 1}), Some("spec.backoffLimitPerIndex")),
            (("batch", "CronJob"), json!({"schedule": "TZ=UTC * * * * *"}), Some("spec.schedule")),
        ] {
            let object = json!({"metadata": {"name": "x"}, "spec": spec});
            let errors = errors(kind, None, &object);
            assert_eq!(errors.first().and_then(|error| error.split(": ").next()), wanted, "{errors:?}");
        }
        let revision = json!({"metadata": {"name": "x"}, "revision": -1, "data": {}});
        let wanted = "revision: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!(errors(("apps", "ControllerRevision"), None, &revision), [wanted]);
    }
}
