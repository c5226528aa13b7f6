//! Cells of CronJobs, budgets, autoscalers, revisions and storage.

use jiff::Timestamp;
use serde_json::Value;

use super::cells_workloads::{containers, int, name};
use super::format::{age, list, number, or_none, scalar, since, text, text_or};
use crate::selector;

/// Metrics of an autoscaler that one line shows.
const N_METRICS: usize = 2;

pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = containers(&spec["jobTemplate"]["spec"]["template"]);
    let suspend = spec["suspend"].as_bool().map_or("<unset>", |suspend| if suspend { "True" } else { "False" });
    let last = &status["lastScheduleTime"];
    vec![
        name(object),
        spec["schedule"].clone(),
        text_or(&spec["timeZone"], "<none>").into(),
        suspend.into(),
        list(&status["active"]).len().into(),
        if last.is_null() { "<none>".into() } else { since(last, now).into() },
        age(object, now),
        names,
        images,
        or_none(selector::text(&spec["jobTemplate"]["spec"]["selector"])).into(),
    ]
}

pub(super) fn budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |field: &str| match &object["spec"][field] {
        Value::Null => Value::from("N/A"),
        value => scalar(value).into(),
    };
    let allowed = int(&object["status"]["disruptionsAllowed"]);
    vec![name(object), bound("minAvailable"), bound("maxUnavailable"), allowed, age(object, now)]
}

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let metrics = list(&spec["metrics"]);
    let statuses = list(&status["currentMetrics"]);
    let shown: Vec<String> =
        metrics.iter().enumerate().take(N_METRICS).map(|(n, metric)| metric_text(metric, statuses.get(n))).collect();
    let mut shown = or_none(shown.join(", "));
    if metrics.len() > N_METRICS {
        shown.push_str(&format!(" + {} more...", metrics.len() - N_METRICS));
    }
    vec![
        name(object),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        shown.into(),
        spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |replicas| replicas.to_string()).into(),
        int(&spec["maxReplicas"]),
        int(&status["currentReplicas"]),
        age(object, now),
    ]
}

/// A metric as `current/target`.
fn metric_text(metric: &Value, status: Option<&Value>) -> String {
    let (field, is_resource) = match text(&metric["type"]) {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = &metric[field]["target"];
    let current = |value: &str, suffix: &str| match status.map(|status| &status[field]["current"][value]) {
        None | Some(Value::Null) => "<unknown>".to_owned(),
        Some(value) => format!("{}{suffix}", scalar(value)),
    };
    let prefix = if is_resource { format!("{}: ", text(&metric[field]["name"])) } else { String::new() };
    let average = &target["averageValue"];
    if !average.is_null() {
        let suffix = if matches!(field, "external" | "object") { " (avg)" } else { "" };
        return format!("{prefix}{}/{}{suffix}", current("averageValue", ""), scalar(average));
    }
    if !is_resource {
        return format!("{}/{}", current("value", ""), scalar(&target["value"]));
    }
    let wanted = target["averageUtilization"].as_i64().map_or("<auto>".to_owned(), |percent| format!("{percent}%"));
    format!("{prefix}{}/{wanted}", current("averageUtilization", "%"))
}

pub(super) fn revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = list(&object["metadata"]["ownerReferences"]).iter().find(|owner| owner["controller"] == true);
    let owner = owner.map(|owner| {
        let group = text(&owner["apiVersion"]).rsplit_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
        format!("{}{group}/{}", text(&owner["kind"]).to_lowercase(), text(&owner["name"]))
    });
    vec![name(object), or_none(owner.unwrap_or_default()).into(), number(&object["revision"]).into(), age(object, now)]
}

/// Access modes in one word each.
fn modes(value: &Value) -> String {
    let short = |mode: &Value| match text(mode) {
        "ReadWriteOnce" => "RWO".to_owned(),
        "ReadOnlyMany" => "ROX".to_owned(),
        "ReadWriteMany" => "RWX".to_owned(),
        "ReadWriteOncePod" => "RWOP".to_owned(),
        mode => mode.to_owned(),
    };
    list(value).iter().map(short).collect::<Vec<_>>().join(",")
}

fn phase(object: &Value) -> Value {
    match object["metadata"]["deletionTimestamp"].is_null() {
        true => object["status"]["phase"].clone(),
        false => "Terminating".into(),
    }
}

pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let is_bound = !text(&spec["volumeName"]).is_empty();
    let of_volume = |text: String| if is_bound { text } else { String::new() };
    vec![
        name(object),
        phase(object),
        text(&spec["volumeName"]).into(),
        of_volume(text_or(&status["capacity"]["storage"], "0").to_owned()).into(),
        of_volume(modes(&status["accessModes"])).into(),
        text(&spec["storageClassName"]).into(),
        text_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        age(object, now),
        text_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

pub(super) fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let claim = &spec["claimRef"];
    let claim =
        if claim.is_null() { String::new() } else { format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])) };
    vec![
        name(object),
        text_or(&spec["capacity"]["storage"], "0").into(),
        modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(object),
        claim.into(),
        text(&spec["storageClassName"]).into(),
        text_or(&spec["volumeAttributesClassName"], "<unset>").into(),
        text(&status["reason"]).into(),
        age(object, now),
        text_or(&spec["volumeMode"], "<unset>").into(),
    ]
}

pub(super) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let annotations = &object["metadata"]["annotations"];
    let is_default = annotations["storageclass.kubernetes.io/is-default-class"] == "true";
    let suffix = if is_default { " (default)" } else { "" };
    vec![
        format!("{}{suffix}", text(&object["metadata"]["name"])).into(),
        object["provisioner"].clone(),
        text_or(&object["reclaimPolicy"], "Delete").into(),
        text_or(&object["volumeBindingMode"], "Immediate").into(),
        object["allowVolumeExpansion"].as_bool().unwrap_or(false).into(),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_show_current_and_target() {
        let resource = |target: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let object = |target: Value| json!({"type": "External", "external": {"target": target}});
        for (metric, current, wanted) in [
            (resource(json!({"averageUtilization": 80})), json!({"averageUtilization": 45}), "cpu: 45%/80%"),
            (resource(json!({"averageUtilization": 80})), Value::Null, "cpu: <unknown>/80%"),
            (resource(json!({"averageValue": "1"})), json!({"averageValue": "500m"}), "cpu: 500m/1"),
            (object(json!({"value": "30"})), json!({"value": "90"}), "90/30"),
            (object(json!({"averageValue": "30"})), json!({"averageValue": "9"}), "9/30 (avg)"),
        ] {
            let field = if metric["type"] == "Resource" { "resource" } else { "external" };
            let status = json!({field: {"current": current}});
            assert_eq!(metric_text(&metric, Some(&status)), wanted);
        }
    }

    #[test]
    fn an_autoscaler_shows_two_metrics() {
        let metric = json!({"type": "Pods", "pods": {"target": {"averageValue": "1"}}});
        let object = json!({"metadata": {"name": "h"}, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "minReplicas": 1, "maxReplicas": 5, "metrics": [metric, metric, metric]}, "status": {"currentReplicas": 2}});
        let cells = autoscaler(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[2], "<unknown>/1, <unknown>/1 + 1 more...");
        assert_eq!(cells[..2], [json!("h"), json!("Deployment/d")]);
    }
}
