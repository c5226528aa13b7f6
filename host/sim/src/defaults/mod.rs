//! Defaulting and validation of built-in kinds, as far as controllers and kubectl depend on it.
//!
//! Flow: the server calls [`apply_defaults`] on an object from a client, after pruning, and [`validate()`] before it is
//! stored. Defaults belong to types, so a walk along the schema applies to Pod templates wherever they are. Constant
//! ones are in the schema's table; those here depend on other fields.
//!
//! Invariants: defaulting twice changes nothing; custom kinds are left alone (their defaults are in their schema).
//!
//! Not here: fields set by the server (uid, status at creation, generation), admission plugins, object names.
//!
//! Source: `pkg/apis/*/v1/defaults.go`, `pkg/apis/*/validation`.

mod checks;
mod core;
mod cron;
mod other;
mod rules;
mod validate;
mod validate_batch;
mod validate_pod;
mod validate_status;
mod workloads;

use serde_json::{Map, Value};

use crate::schema::{self, Node, Shape, TypeSchema};

pub use validate::validate;
pub(crate) use validate::validate_metadata;
pub(crate) use workloads::generate_selector;

/// Converts an object into the stored form of the real server: canonical, with defaults.
pub fn apply_defaults(group: &str, version: &str, kind: &str, object: &mut Value) {
    let Some(schema) = schema::lookup(group, version, kind) else {
        return;
    };
    schema::canonicalize(&schema, object);
    visit(Node::Struct(&schema), object);
}

fn visit(node: Node<'_>, value: &mut Value) {
    match (node, value) {
        (Node::Struct(schema), Value::Object(map)) => {
            default_struct(schema, map);
            for (name, child) in map.iter_mut() {
                if child.is_object() || child.is_array() {
                    visit(node.child(name), child);
                }
            }
        }
        (Node::Shape(Shape::Map { value: shape, .. }), Value::Object(map)) => {
            map.values_mut().for_each(|child| visit(Node::of(shape), child));
        }
        (Node::Shape(Shape::List { item, .. }), Value::Array(items)) => {
            items.iter_mut().for_each(|child| visit(Node::of(item), child));
        }
        _ => {}
    }
}

fn default_struct(schema: &TypeSchema, map: &mut Map<String, Value>) {
    for (name, field) in &schema.fields {
        if let Some(default) = &field.default {
            fill(map, name, default.clone());
        }
    }
    core::default_type(&schema.name, map);
    workloads::default_type(&schema.name, map);
    other::default_type(&schema.name, map);
}

/// Whether a field is absent or has a value that counts as absent.
fn is_unset(map: &Map<String, Value>, name: &str) -> bool {
    match map.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

/// Sets a field that is absent, null or an empty text.
fn fill(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if is_unset(map, name) {
        map.insert(name.to_owned(), value.into());
    }
}

/// The struct in a field, made when absent.
fn inner<'a>(map: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    fill(map, name, Map::new());
    map.get_mut(name).and_then(Value::as_object_mut)
}

/// The text in a field, empty when absent.
fn text<'a>(map: &'a Map<String, Value>, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_jobs_and_replication_controllers_get_their_defaults() {
        let mut service = json!({"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
        apply_defaults("", "v1", "Service", &mut service);
        assert_eq!(
            service["spec"],
            json!({"selector": {"a": "b"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster"})
        );
        let mut job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": []}}}});
        apply_defaults("batch", "v1", "Job", &mut job);
        assert_eq!(job["spec"]["backoffLimit"], 6);
        assert_eq!(job["spec"]["completionMode"], "NonIndexed");
        assert_eq!(job["spec"]["podReplacementPolicy"], "TerminatingOrFailed");
        assert_eq!(job["spec"]["suspend"], false);
        let mut controller = json!({"metadata": {"name": "r"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}}});
        apply_defaults("", "v1", "ReplicationController", &mut controller);
        assert_eq!(controller["spec"]["selector"], json!({"a": "b"}));
        assert_eq!(controller["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(controller["spec"]["replicas"], 1);
    }
}
