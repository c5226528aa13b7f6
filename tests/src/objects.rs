//! Objects that tests create, and what they ask of those that they find.

use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

/// Whether the status of an object has this condition: its type, and `True`, `False` or `Unknown`.
pub fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

/// Whether the status of an object is that of its newest generation.
pub fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// A number in the status of an object; 0 if it is missing.
pub fn count(object: &Value, field: &str) -> u64 {
    object["status"][field].as_u64().unwrap_or(0)
}

/// The Node that the affinity of a Pod names, as a DaemonSet writes it.
pub fn pinned_node(pod: &Value) -> Option<&str> {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str()
}

/// Gives an object these fields, each in the place of one of the same name.
pub fn set_fields(object: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
}

/// A template of Pods with one container. Annotations are an object of texts; the simulated nodes know some
/// (`host/docs/embedded-cluster.md`).
pub fn template(app: &str, image: &str, restart_policy: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"restartPolicy": restart_policy, "containers": [{"name": "c", "image": image}]},
    })
}

/// The status of a Pod whose container has ended at this time, with this code.
pub fn ended(code: i32, at: &str) -> Value {
    let [phase, reason] = if code == 0 { ["Succeeded", "Completed"] } else { ["Failed", "Error"] };
    let terminated = json!({"exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at});
    let container = json!({
        "name": "c", "image": "image:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": terminated},
    });
    json!({"phase": phase, "containerStatuses": [container]})
}

/// A patch for the status of a CronJob: it was due last so long before `now`. If that is more than its schedule has between two times,
/// it is due.
pub fn last_due(now: Timestamp, ago: Duration) -> Value {
    let time = now - ago;
    json!({"status": {"lastScheduleTime": time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}})
}

/// A PKCS #10 request with a new key, as `spec.request` of a CertificateSigningRequest has it. `names` are DNS names and addresses.
///
/// # Errors
/// A name cannot be in a certificate.
pub fn certificate_request(common_name: &str, organization: &str, names: &[&str]) -> Result<String> {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    let pem = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    Ok(BASE64_STANDARD.encode(pem))
}
