//! Cells of Pods and of the kinds that own them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{age, human_duration, labels, list, number, or_none, seconds_between, since, text, text_or};
use crate::selector;

pub(super) fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

pub(super) fn containers(template: &Value) -> (Value, Value) {
    let containers = list(&template["spec"]["containers"]);
    let column = |field: &str| containers.iter().map(|container| text(&container[field])).collect::<Vec<_>>().join(",");
    (column("name").into(), column("image").into())
}

pub(super) fn int(value: &Value) -> Value {
    number(value).into()
}

/// Marks finished Pods, which `kubectl get` can leave out.
pub(super) fn pod_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// Result of the loop over containers.
struct PodSummary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: String,
}

impl PodSummary {
    fn restarted(&mut self, status: &Value) {
        self.restarts += number(&status["restartCount"]);
        let finished = text(&status["lastState"]["terminated"]["finishedAt"]);
        // Timestamps of one format and zone order as text.
        if finished > self.last_restart.as_str() {
            self.last_restart = finished.to_owned();
        }
    }
}

fn terminated_reason(terminated: &Value) -> String {
    match (text(&terminated["reason"]), number(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Processes the init containers; true when one of them is not done.
fn init_containers(pod: &Value, summary: &mut PodSummary, sidecar: &mut PodSummary) -> bool {
    let declared = list(&pod["spec"]["initContainers"]);
    let restartable = |name: &Value| {
        declared.iter().any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
    };
    summary.total += declared.iter().filter(|container| container["restartPolicy"] == "Always").count();
    for (index, status) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        summary.restarted(status);
        let is_sidecar = restartable(&status["name"]);
        if is_sidecar {
            sidecar.restarted(status);
        }
        let terminated = &status["state"]["terminated"];
        let waiting = text(&status["state"]["waiting"]["reason"]);
        if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
            continue;
        }
        if is_sidecar && status["started"] == true {
            summary.ready += usize::from(status["ready"] == true);
            continue;
        }
        summary.reason = if terminated.is_object() {
            format!("Init:{}", terminated_reason(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", declared.len())
        };
        return true;
    }
    false
}

fn main_containers(pod: &Value, summary: &mut PodSummary) {
    let mut running = false;
    let mut error = None;
    for status in list(&pod["status"]["containerStatuses"]).iter().rev() {
        summary.restarted(status);
        let state = &status["state"];
        if !text(&state["waiting"]["reason"]).is_empty() {
            summary.reason = text(&state["waiting"]["reason"]).to_owned();
        } else if state["terminated"].is_object() {
            summary.reason = terminated_reason(&state["terminated"]);
            if number(&state["terminated"]["exitCode"]) != 0 {
                error = Some(summary.reason.clone());
            }
        } else if status["ready"] == true && state["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason != "Completed" {
        return;
    }
    let ready = list(&pod["status"]["conditions"]).iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    summary.reason = match error {
        _ if running && ready => "Running".to_owned(),
        Some(error) => error,
        None if running => "NotReady".to_owned(),
        None => return,
    };
}

fn summarize(pod: &Value) -> PodSummary {
    let status = &pod["status"];
    let conditions = list(&status["conditions"]);
    let mut reason = text_or(&status["reason"], text(&status["phase"]));
    if conditions.iter().any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
        reason = "SchedulingGated";
    }
    let empty = || PodSummary { reason: String::new(), ready: 0, total: 0, restarts: 0, last_restart: String::new() };
    let mut summary =
        PodSummary { reason: reason.to_owned(), total: list(&pod["spec"]["containers"]).len(), ..empty() };
    let mut sidecar = empty();
    let initializing = init_containers(pod, &mut summary, &mut sidecar);
    let initialized = conditions.iter().any(|c| c["type"] == "Initialized" && c["status"] == "True");
    if !initializing || initialized {
        summary.restarts = sidecar.restarts;
        summary.last_restart = sidecar.last_restart;
        main_containers(pod, &mut summary);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarize(pod);
    let restarts = match (summary.restarts, summary.last_restart.as_str()) {
        (0, _) | (_, "") => summary.restarts.to_string(),
        (restarts, last) => format!("{restarts} ({} ago)", since(&json!(last), now)),
    };
    let conditions = list(&pod["status"]["conditions"]);
    let gates = list(&pod["spec"]["readinessGates"]);
    let open = gates
        .iter()
        .filter(|gate| conditions.iter().any(|c| c["type"] == gate["conditionType"] && c["status"] == "True"));
    let gates = if gates.is_empty() { "<none>".to_owned() } else { format!("{}/{}", open.count(), gates.len()) };
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, now),
        text_or(&pod["status"]["podIPs"][0]["ip"], "<none>").into(),
        text_or(&pod["spec"]["nodeName"], "<none>").into(),
        text_or(&pod["status"]["nominatedNodeName"], "<none>").into(),
        gates.into(),
    ]
}

fn replicas(object: &Value, selector: String, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(&object["spec"]["template"]);
    vec![
        name(object),
        int(&object["spec"]["replicas"]),
        int(&object["status"]["replicas"]),
        int(&object["status"]["readyReplicas"]),
        age(object, now),
        names,
        images,
        selector.into(),
    ]
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, or_none(selector::text(&object["spec"]["selector"])), now)
}

pub(super) fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, labels(&object["spec"]["selector"]), now)
}

fn ready_of_desired(object: &Value) -> Value {
    format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"])).into()
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(&object["spec"]["template"]);
    vec![
        name(object),
        ready_of_desired(object),
        int(&object["status"]["updatedReplicas"]),
        int(&object["status"]["availableReplicas"]),
        age(object, now),
        names,
        images,
        selector::text(&object["spec"]["selector"]).into(),
    ]
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(&object["spec"]["template"]);
    vec![name(object), ready_of_desired(object), age(object, now), names, images]
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(&object["spec"]["template"]);
    let status = &object["status"];
    vec![
        name(object),
        int(&status["desiredNumberScheduled"]),
        int(&status["currentNumberScheduled"]),
        int(&status["numberReady"]),
        int(&status["updatedNumberScheduled"]),
        int(&status["numberAvailable"]),
        labels(&object["spec"]["template"]["spec"]["nodeSelector"]).into(),
        age(object, now),
        names,
        images,
        or_none(selector::text(&object["spec"]["selector"])).into(),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let has =
        |kind: &str| list(&job["status"]["conditions"]).iter().any(|c| c["type"] == kind && c["status"] == "True");
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !job["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let duration = match (status["startTime"].is_null(), status["completionTime"].is_null()) {
        (true, _) => String::new(),
        (false, true) => since(&status["startTime"], now),
        (false, false) => {
            seconds_between(&status["startTime"], &status["completionTime"]).map(human_duration).unwrap_or_default()
        }
    };
    let (names, images) = containers(&spec["template"]);
    vec![
        name(job),
        job_status(job).into(),
        completions.into(),
        duration.into(),
        age(job, now),
        names,
        images,
        or_none(selector::text(&spec["selector"])).into(),
    ]
}
