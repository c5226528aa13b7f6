//! Validation of statuses written by controllers.
//!
//! Source: `Validate*Status` in `pkg/apis/{apps,core}/validation`.

use serde_json::Value;

use super::validate::non_negative;
use crate::cause::Cause;

/// The counts of a status.
struct Counts {
    /// All counts.
    all: &'static [&'static str],
    /// Counts bounded by `replicas`.
    bounded: &'static [&'static str],
    /// Whether no more replicas can be available than are ready.
    ready_bounds_available: bool,
    /// Whether the collision count may only increase.
    collisions: bool,
}

const REPLICA_SET: Counts = Counts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    bounded: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready_bounds_available: true,
    collisions: false,
};

const DEPLOYMENT: Counts = Counts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    bounded: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready_bounds_available: true,
    collisions: true,
};

const STATEFUL_SET: Counts = Counts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    bounded: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ready_bounds_available: true,
    collisions: true,
};

const DAEMON_SET: Counts = Counts {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    bounded: &[],
    ready_bounds_available: false,
    collisions: true,
};

/// Checks the status of an object whose predecessor is `old`.
pub(super) fn status(group: &str, kind: &str, old: &Value, object: &Value, errors: &mut Vec<Cause>) {
    match (group, kind) {
        ("apps", "ReplicaSet") | ("", "ReplicationController") => counts(&REPLICA_SET, old, object, errors),
        ("apps", "Deployment") => counts(&DEPLOYMENT, old, object, errors),
        ("apps", "StatefulSet") => counts(&STATEFUL_SET, old, object, errors),
        ("apps", "DaemonSet") => counts(&DAEMON_SET, old, object, errors),
        ("", "Namespace") => namespace(object, errors),
        _ => {}
    }
}

/// The phase must match the deletion.
fn namespace(object: &Value, errors: &mut Vec<Cause>) {
    let (wanted, when) = match object["metadata"]["deletionTimestamp"].is_null() {
        true => ("Active", "empty"),
        false => ("Terminating", "not empty"),
    };
    let phase = &object["status"]["phase"];
    if phase != wanted {
        let detail = format!("may only be '{wanted}' if `deletionTimestamp` is {when}");
        errors.push(Cause::invalid("status.Phase", phase, &detail));
    }
}

fn counts(counts: &Counts, old: &Value, object: &Value, errors: &mut Vec<Cause>) {
    let status = &object["status"];
    let number = |name: &str| status[name].as_i64().unwrap_or(0);
    non_negative(status, "status", counts.all, errors);
    for name in counts.bounded {
        if number(name) > number("replicas") {
            errors.push(Cause::invalid(
                format!("status.{name}"),
                &number(name).into(),
                "cannot be greater than status.replicas",
            ));
        }
    }
    if counts.ready_bounds_available && number("availableReplicas") > number("readyReplicas") {
        let value = number("availableReplicas").into();
        errors.push(Cause::invalid("status.availableReplicas", &value, "cannot be greater than readyReplicas"));
    }
    let before = old["status"]["collisionCount"].as_i64();
    if counts.collisions && before.is_some_and(|before| number("collisionCount") < before) {
        let value = number("collisionCount").into();
        errors.push(Cause::invalid("status.collisionCount", &value, "cannot be decremented"));
    }
}
