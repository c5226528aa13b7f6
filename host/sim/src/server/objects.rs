//! Small reads and changes of an object's metadata.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::clock::rfc3339;

/// The metadata of an object, created when missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.get("metadata").is_some_and(Value::is_object) {
        if !object.is_object() {
            *object = json!({});
        }
        object["metadata"] = json!({});
    }
    match &mut object["metadata"] {
        Value::Object(fields) => fields,
        _ => unreachable!("made an object just above"),
    }
}

/// A text field of the metadata, empty when absent.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// A raw field of the metadata.
pub(crate) fn meta_value<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata").and_then(|metadata| metadata.get(field)).filter(|value| !value.is_null())
}

/// The finalizers in the metadata.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let list = meta_value(object, "finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

/// Whether the object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    meta_value(object, "deletionTimestamp").is_some()
}

/// `deletionGracePeriodSeconds`.
pub(crate) fn deletion_grace(object: &Value) -> Option<i64> {
    meta_value(object, "deletionGracePeriodSeconds").and_then(Value::as_i64)
}

pub(crate) fn generation(object: &Value) -> i64 {
    meta_value(object, "generation").and_then(Value::as_i64).unwrap_or(0)
}

/// Marks an object as being deleted that needs no graceful termination.
pub(crate) fn mark_as_deleting(object: &mut Value, now: Timestamp) {
    let deleting = is_deleting(object);
    let generation = generation(object);
    let metadata = metadata_mut(object);
    if !deleting {
        if generation > 0 {
            metadata.insert("generation".into(), json!(generation + 1));
        }
        metadata.insert("deletionTimestamp".into(), json!(rfc3339(now)));
    }
    metadata.insert("deletionGracePeriodSeconds".into(), json!(0));
}

/// Replaces a field by the one of `from`, or removes it.
pub(crate) fn carry_over(fields: &mut Map<String, Value>, from: Option<&Map<String, Value>>, name: &str) {
    match from.and_then(|from| from.get(name)) {
        Some(value) => {
            fields.insert(name.to_owned(), value.clone());
        }
        None => {
            fields.remove(name);
        }
    }
}

/// Whether the status has a true condition of this type.
pub(crate) fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Adds a condition to the status, or replaces the one of its type if it differs.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(list) = conditions.as_array_mut() {
        match list.iter_mut().find(|present| present["type"] == condition["type"]) {
            Some(present) if present["status"] == condition["status"] && present["reason"] == condition["reason"] => {}
            Some(present) => *present = condition,
            None => list.push(condition),
        }
    }
}
