//! Walks an object along its schema: unknown fields, wrong types, pruning.
//!
//! Source: strict decoding of apimachinery (`unknown field "spec.x"`), apiextensions' pruning.

use base64::Engine as _;
use pintle_crd::type_name;
use serde_json::Value;

use super::{Node, Scalar, Shape, TypeRef, quantity};

/// Removes the fields that are not in the schema and returns their paths, for example `spec.foo`.
pub fn prune(schema: &TypeRef, object: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    prune_at(Node::Struct(schema), object, &mut String::new(), &mut removed);
    removed
}

/// The paths of fields that are not in the schema.
pub fn unknown_fields(schema: &TypeRef, object: &Value) -> Vec<String> {
    let mut copy = object.clone();
    prune(schema, &mut copy)
}

fn within<T>(path: &mut String, part: &str, then: impl FnOnce(&mut String) -> T) -> T {
    let before = path.len();
    if before > 0 && !part.starts_with('[') {
        path.push('.');
    }
    path.push_str(part);
    let done = then(path);
    path.truncate(before);
    done
}

fn prune_at(node: Node<'_>, value: &mut Value, path: &mut String, removed: &mut Vec<String>) {
    match (node, value) {
        (Node::Struct(schema), Value::Object(map)) => {
            if !schema.open {
                map.retain(|name, _| {
                    let keep = schema.fields.contains_key(name);
                    if !keep {
                        within(path, name, |path| removed.push(path.clone()));
                    }
                    keep
                });
            }
            for (name, child) in map.iter_mut() {
                within(path, name, |path| prune_at(node.child(name), child, path, removed));
            }
        }
        (Node::Shape(Shape::Map { value: shape, .. }), Value::Object(map)) => {
            for (name, child) in map.iter_mut() {
                within(path, name, |path| prune_at(Node::of(shape), child, path, removed));
            }
        }
        (Node::Shape(Shape::List { item, .. }), Value::Array(items)) => {
            for (index, child) in items.iter_mut().enumerate() {
                within(path, &format!("[{index}]"), |path| prune_at(Node::of(item), child, path, removed));
            }
        }
        _ => {}
    }
}

/// The first field with an invalid type, as `spec.replicas: expected int32, found string`; `None` if the object
/// decodes.
pub fn type_error(schema: &TypeRef, object: &Value) -> Option<String> {
    types_at(Node::Struct(schema), object, &mut String::new()).err()
}

fn types_at(node: Node<'_>, value: &Value, path: &mut String) -> Result<(), String> {
    let wanted = match (node, value) {
        (_, Value::Null) => return Ok(()),
        (Node::Struct(_) | Node::Shape(Shape::Map { .. }), Value::Object(map)) => {
            return map
                .iter()
                .try_for_each(|(name, child)| within(path, name, |path| types_at(node.child(name), child, path)));
        }
        (Node::Shape(Shape::List { .. }), Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            return items.try_for_each(|(index, child)| {
                within(path, &format!("[{index}]"), |path| types_at(node.item(), child, path))
            });
        }
        (Node::Struct(_) | Node::Shape(Shape::Map { .. }), _) => "object",
        (Node::Shape(Shape::List { .. }), _) => "array",
        (Node::Shape(Shape::Scalar(scalar)), value) => match scalar_mismatch(*scalar, value) {
            Some(wanted) => wanted,
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let place = if path.is_empty() { "the object" } else { path.as_str() };
    Err(format!("{place}: expected {wanted}, found {}", type_name(value)))
}

fn scalar_mismatch(scalar: Scalar, value: &Value) -> Option<&'static str> {
    let is_int32 = value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
    let is_time = || value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok());
    let has_micros = || {
        let fraction = value.as_str().and_then(|text| text.split_once('.')).map_or("", |(_, fraction)| fraction);
        fraction.find(|letter: char| !letter.is_ascii_digit()) == Some(6)
    };
    let is_base64 =
        || value.as_str().is_some_and(|text| base64::engine::general_purpose::STANDARD.decode(text).is_ok());
    let (fits, wanted) = match scalar {
        Scalar::String => (value.is_string(), "string"),
        Scalar::Bytes => (is_base64(), "base64 string"),
        Scalar::Time => (is_time(), "RFC 3339 time"),
        Scalar::MicroTime => (is_time() && has_micros(), "RFC 3339 time with six decimals"),
        Scalar::Int32 => (is_int32, "int32"),
        Scalar::Int64 => (value.as_i64().is_some(), "int64"),
        Scalar::Number => (value.is_number(), "number"),
        Scalar::Bool => (value.is_boolean(), "boolean"),
        Scalar::IntOrString => (is_int32 || value.is_string(), "int32 or string"),
        Scalar::Quantity => (quantity::canonical(value).is_some(), "quantity such as 500m or 1Gi"),
    };
    (!fits).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::lookup;

    #[test]
    fn the_first_value_of_a_wrong_type_is_named() {
        for (object, wanted) in [
            (json!({"spec": {"replicas": "3", "paused": 1}}), "spec.replicas: expected int32, found string"),
            (json!({"spec": {"replicas": 1.5}}), "spec.replicas: expected int32, found number"),
            (json!({"spec": []}), "spec: expected object, found array"),
            (json!({"metadata": {"labels": {"a": 1}}}), "metadata.labels.a: expected string, found integer"),
            (
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                "spec.template.spec.containers: expected array, found object",
            ),
            (
                json!({"metadata": {"creationTimestamp": "yesterday"}}),
                "metadata.creationTimestamp: expected RFC 3339 time, found string",
            ),
            (
                json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}),
                "spec.strategy.rollingUpdate.maxSurge: expected int32 or string, found boolean",
            ),
        ] {
            let schema = lookup("apps", "v1", "Deployment").unwrap();
            assert_eq!(type_error(&schema, &object).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn quantities_are_numbers_with_a_suffix() {
        let schema = lookup("", "v1", "Pod").unwrap();
        let error = |cpu: Value| {
            type_error(&schema, &json!({"spec": {"containers": [{"resources": {"limits": {"cpu": cpu}}}]}}))
        };
        for fine in [json!("100m"), json!(2), json!("1.5Gi"), json!("1e3"), json!(0.5), json!("-1"), Value::Null] {
            assert_eq!(error(fine), None);
        }
        for wrong in [json!("x"), json!(""), json!("1Zi"), json!(true), json!("1.2.3")] {
            assert!(error(wrong).is_some_and(|why| why.starts_with("spec.containers[0].resources.limits.cpu: ")));
        }
    }
}
