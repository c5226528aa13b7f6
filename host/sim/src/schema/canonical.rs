//! Converts an object of a built-in kind into the form in which the API server stores and returns it.
//!
//! The server decodes into Go structs and encodes them again. So zero values of plain fields are removed, embedded
//! structs appear as `{}`, unset times in conditions as `null`, and quantities in canonical form.

use serde_json::{Map, Value, json};

use super::{Field, Node, Scalar, Shape, TypeRef, TypeSchema, quantity};

/// Rewrites `object` as decoding and encoding would.
pub fn canonicalize(schema: &TypeRef, object: &mut Value) {
    if let Value::Object(map) = object {
        canonicalize_struct(schema, map);
    }
}

fn canonicalize_struct(schema: &TypeSchema, map: &mut Map<String, Value>) {
    map.retain(|name, value| match schema.fields.get(name) {
        Some(field) => keep(field, value),
        None => true,
    });
    for (name, field) in schema.fields.iter().filter(|(_, field)| field.always) {
        if !map.contains_key(name) {
            let mut zero = zero(&field.shape);
            visit(Node::of(&field.shape), &mut zero);
            map.insert(name.clone(), zero);
        }
    }
}

/// Canonicalizes a field's value; false to remove the field.
fn keep(field: &Field, value: &mut Value) -> bool {
    visit(Node::of(&field.shape), value);
    if value.is_null() {
        // An unset time is shown, and so is a list that is never omitted.
        return match field.shape {
            Shape::Scalar(Scalar::Time | Scalar::MicroTime) => field.always,
            Shape::List { .. } => field.pointer,
            _ => false,
        };
    }
    if field.always || field.pointer {
        return true;
    }
    match (&field.shape, value) {
        (Shape::List { .. }, Value::Array(items)) => !items.is_empty(),
        (Shape::Map { .. }, Value::Object(map)) => !map.is_empty(),
        (Shape::Scalar(Scalar::Bytes), Value::String(text)) => !text.is_empty(),
        (Shape::Scalar(_), Value::String(text)) => !text.is_empty(),
        (Shape::Scalar(_), Value::Number(number)) => number.as_f64() != Some(0.0),
        (Shape::Scalar(_), Value::Bool(flag)) => *flag,
        _ => true,
    }
}

fn visit(node: Node<'_>, value: &mut Value) {
    match (node, value) {
        (Node::Struct(schema), Value::Object(map)) => canonicalize_struct(schema, map),
        (Node::Shape(Shape::Map { value: shape, .. }), Value::Object(map)) => {
            map.values_mut().for_each(|value| visit(Node::of(shape), value));
        }
        (Node::Shape(Shape::List { item, .. }), Value::Array(items)) => {
            items.iter_mut().for_each(|value| visit(Node::of(item), value));
        }
        (Node::Shape(Shape::Scalar(Scalar::Quantity)), value) => {
            if let Some(text) = quantity::canonical(value) {
                *value = Value::String(text);
            }
        }
        (Node::Shape(Shape::Scalar(Scalar::Time)), Value::String(text)) => {
            if let Ok(time) = text.parse::<jiff::Timestamp>() {
                *text = format!("{time:.0}");
            }
        }
        (Node::Shape(Shape::Scalar(Scalar::MicroTime)), Value::String(text)) => {
            if let Ok(time) = text.parse::<jiff::Timestamp>() {
                *text = format!("{time:.6}");
            }
        }
        _ => {}
    }
}

/// Writes the quantities of `old` as in `new` where they are equal, so that the two compare as upstream compares them.
/// Metadata and status are left alone.
pub fn reword(schema: &TypeRef, old: &mut Value, new: &Value) {
    for (name, old) in old.as_object_mut().into_iter().flatten() {
        if !matches!(name.as_str(), "metadata" | "status") {
            reword_at(Node::Struct(schema).child(name), old, &new[name.as_str()]);
        }
    }
}

fn reword_at(node: Node<'_>, old: &mut Value, new: &Value) {
    match (node, old, new) {
        (Node::Shape(Shape::Scalar(Scalar::Quantity)), old, new)
            if quantity::nanos(new).is_some_and(|amount| quantity::nanos(old) == Some(amount)) =>
        {
            old.clone_from(new);
        }
        (node, Value::Object(old), Value::Object(new)) => {
            for (name, old) in old.iter_mut() {
                if let Some(new) = new.get(name) {
                    reword_at(node.child(name), old, new);
                }
            }
        }
        (node, Value::Array(old), Value::Array(new)) => {
            old.iter_mut().zip(new).for_each(|(old, new)| reword_at(node.item(), old, new));
        }
        _ => {}
    }
}

/// Adds missing required lists and structs as `null`, as Go encodes an empty object.
pub fn show_required(schema: &TypeSchema, object: &mut Value) {
    let Value::Object(map) = object else { return };
    for (name, field) in &schema.fields {
        if let Some(child) = map.get_mut(name) {
            if let Node::Struct(inner) = Node::of(&field.shape) {
                show_required(inner, child);
            }
        } else if field.required && !matches!(field.shape, Shape::Scalar(_)) {
            map.insert(name.clone(), Value::Null);
        }
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Bytes => json!(""),
            Scalar::Time | Scalar::MicroTime => Value::Null,
            Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString => json!(0),
            Scalar::Bool => json!(false),
            Scalar::Quantity => json!("0"),
        },
        Shape::List { .. } => json!([]),
        Shape::Any => Value::Null,
        Shape::Builtin(_) | Shape::Struct(_) | Shape::Map { .. } => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::lookup;

    #[test]
    fn zero_values_go_and_embedded_structs_appear() {
        let mut object = json!({"metadata": {"name": "a", "labels": {}, "annotations": null}, "spec": {
            "replicas": 0, "paused": false, "minReadySeconds": 0, "selector": {"matchLabels": {}},
            "template": {"spec": {"containers": [{"name": "c", "image": "", "env": [], "securityContext": {}, "resources": {"limits": {"cpu": 0.5}}}]}}},
            "status": {"conditions": [{"type": "Available"}]}});
        canonicalize(&lookup("apps", "v1", "Deployment").unwrap(), &mut object);
        assert_eq!(
            object,
            json!({"metadata": {"name": "a"}, "spec": {
                "replicas": 0, "selector": {},
                "template": {"spec": {"containers": [{"name": "c", "securityContext": {}, "resources": {"limits": {"cpu": "500m"}}}]}, "metadata": {}},
                "strategy": {}},
                "status": {"conditions": [{"type": "Available", "lastTransitionTime": null, "lastUpdateTime": null, "status": ""}]}})
        );
    }
}
