//! Walks an object beside its schema: unknown fields, fields of the wrong type, pruning.
//!
//! Source: strict decoding of apimachinery (`unknown field "spec.x"`), Go's JSON decoder, apiextensions' pruning.

use serde_json::Value;

use super::{Node, Scalar, Shape, TypeRef};
use crate::gojson;

/// Removes what the schema does not know and returns the paths of what was removed, for example `spec.foo`.
pub fn prune(schema: &TypeRef, object: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    prune_at(Node::Struct(schema), object, &mut String::new(), &mut removed);
    removed
}

/// The paths of fields that the schema does not know.
pub fn unknown_fields(schema: &TypeRef, object: &Value) -> Vec<String> {
    let mut copy = object.clone();
    prune(schema, &mut copy)
}

fn within(path: &mut String, part: &str, then: impl FnOnce(&mut String)) {
    let before = path.len();
    if before > 0 && !part.starts_with('[') {
        path.push('.');
    }
    path.push_str(part);
    then(path);
    path.truncate(before);
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

/// Fields whose JSON type does not fit, as `(path, found, wanted)` in the words of Go's decoder; an empty list means that the
/// object decodes.
pub fn type_errors(schema: &TypeRef, object: &Value) -> Vec<(String, &'static str, &'static str)> {
    let mut errors = Vec::new();
    types_at(Node::Struct(schema), object, &mut String::new(), &mut errors);
    errors
}

fn types_at(node: Node<'_>, value: &Value, path: &mut String, errors: &mut Vec<(String, &'static str, &'static str)>) {
    if value.is_null() {
        return;
    }
    let wanted = match (node, value) {
        (Node::Struct(_) | Node::Shape(Shape::Map { .. }), Value::Object(map)) => {
            for (name, child) in map {
                within(path, name, |path| types_at(node.child(name), child, path, errors));
            }
            return;
        }
        (Node::Shape(Shape::List { .. }), Value::Array(items)) => {
            // Go's decoder names the field, not the element.
            items.iter().for_each(|child| types_at(node.item(), child, path, errors));
            return;
        }
        (Node::Struct(_), _) => "struct",
        (Node::Shape(Shape::Map { .. }), _) => "map",
        (Node::Shape(Shape::List { .. }), _) => "slice",
        (Node::Shape(Shape::Scalar(scalar)), value) => match scalar_mismatch(*scalar, value) {
            Some(wanted) => wanted,
            None => return,
        },
        _ => return,
    };
    errors.push((path.clone(), gojson::name(value), wanted));
}

fn scalar_mismatch(scalar: Scalar, value: &Value) -> Option<&'static str> {
    let integer = value.as_i64();
    let (fits, wanted) = match scalar {
        Scalar::String | Scalar::Bytes => (value.is_string(), "string"),
        Scalar::Time => (value.as_str().is_some_and(is_time), "time"),
        Scalar::MicroTime => (value.as_str().is_some_and(is_time), "micro time"),
        Scalar::Int32 => (integer.is_some_and(|number| i32::try_from(number).is_ok()), "int32"),
        Scalar::Int64 => (integer.is_some(), "int64"),
        Scalar::Number => (value.is_number(), "float64"),
        Scalar::Bool => (value.is_boolean(), "bool"),
        Scalar::IntOrString => (integer.is_some() || value.is_string(), "intstr.IntOrString"),
        Scalar::Quantity => (value.is_number() || value.is_string(), "resource.Quantity"),
    };
    (!fits).then_some(wanted)
}

fn is_time(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{from_openapi, lookup};

    #[test]
    fn unknown_fields_are_named_by_path_and_removed() {
        let schema = lookup("apps", "v1", "Deployment").unwrap();
        let mut object = json!({"spec": {"replicas": 1, "foo": 1, "template": {"spec": {"containers": [{"name": "a", "nmae": "b"}]}}}, "bar": {}});
        let removed = prune(&schema, &mut object);
        assert_eq!(removed, ["bar", "spec.foo", "spec.template.spec.containers[0].nmae"]);
        assert_eq!(object, json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a"}]}}}}));
    }

    #[test]
    fn values_of_a_wrong_type_are_named() {
        let schema = lookup("apps", "v1", "Deployment").unwrap();
        let object = json!({"spec": {"replicas": "3", "paused": true, "template": {"spec": {"containers": {}}}}});
        assert_eq!(
            type_errors(&schema, &object),
            [
                ("spec.replicas".to_owned(), "string", "int32"),
                ("spec.template.spec.containers".to_owned(), "object", "slice"),
            ]
        );
    }

    #[test]
    fn custom_schemas_prune_except_where_unknown_fields_are_preserved() {
        let schema = from_openapi(Some(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}}})));
        let mut object =
            json!({"metadata": {"name": "x"}, "spec": {"size": 1, "no": 1, "free": {"a": 1}, "labels": {"b": "c"}}});
        assert_eq!(prune(&schema, &mut object), ["spec.no"]);
        assert_eq!(object["spec"], json!({"size": 1, "free": {"a": 1}, "labels": {"b": "c"}}));
        assert_eq!(
            type_errors(&schema, &json!({"spec": {"size": 1.5}})),
            [("spec.size".to_owned(), "number", "int64")]
        );
    }
}
