//! Objects that tests create, and what they ask of those that they find.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Whether the status of an object has this condition: its type, and `True`, `False` or `Unknown`.
pub fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

/// A template of Pods with one container. Annotations are an object of texts; the simulated nodes know some
/// (`host/docs/embedded-cluster.md`).
pub fn template(app: &str, image: &str, restart_policy: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"restartPolicy": restart_policy, "containers": [{"name": "c", "image": image}]},
    })
}

/// A patch for the status of a CronJob: it was due last so long ago. If that is more than its schedule has between two times, it is due.
pub fn last_due(ago: Duration) -> Value {
    let time = Timestamp::now() - ago;
    json!({"status": {"lastScheduleTime": time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}})
}
