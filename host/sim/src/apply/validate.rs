//! Whether an applied configuration fits the schema, in the words of structured-merge-diff.
//!
//! Source: `typed/validate.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::set::PathElement;
use super::walk::element;
use crate::gojson::{go_syntax, go_value};
use crate::schema::{ListKind, Node, Scalar, Shape};

/// What is wrong with `config`; none when it fits.
pub(super) fn error(node: Node<'_>, config: &Value) -> Option<String> {
    let mut errors = Vec::new();
    visit(node, config, &mut String::new(), &mut errors);
    match errors.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn add(errors: &mut Vec<String>, path: &str, message: &str) {
    errors.push(if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") });
}

fn visit(node: Node<'_>, value: &Value, path: &mut String, errors: &mut Vec<String>) {
    match (node, value) {
        (_, Value::Null) | (Node::Unknown | Node::Shape(Shape::Any), _) => {}
        (Node::Struct(schema), Value::Object(map)) => {
            for (name, child) in map {
                if !schema.open && !schema.fields.contains_key(name) {
                    add(errors, &format!("{path}.{name}"), "field not declared in schema");
                    // Upstream looks no further in this struct.
                    return;
                }
                below(path, &PathElement::field(name), |path| visit(node.child(name), child, path, errors));
            }
        }
        (Node::Shape(Shape::Map { value: shape, .. }), Value::Object(map)) => {
            for (name, child) in map {
                below(path, &PathElement::field(name), |path| visit(Node::of(shape), child, path, errors));
            }
        }
        (Node::Shape(Shape::List { kind, .. }), Value::Array(items)) => list(node, kind, items, path, errors),
        (Node::Struct(_) | Node::Shape(Shape::Map { .. }), other) => {
            add(errors, path, &format!("expected map, got &{{{}}}", go_value(other)));
        }
        (Node::Shape(Shape::List { .. }), other) => {
            add(errors, path, &format!("expected list, got &{{{}}}", go_value(other)));
        }
        (Node::Shape(Shape::Scalar(one)), value) => {
            if let Some(message) = scalar(*one, value) {
                add(errors, path, &message);
            }
        }
        // `Node::of` has turned these into structs.
        (Node::Shape(Shape::Builtin(_) | Shape::Struct(_)), _) => {}
    }
}

fn below(path: &mut String, step: &PathElement, then: impl FnOnce(&mut String)) {
    let before = path.len();
    path.push_str(&step.shown());
    then(path);
    path.truncate(before);
}

fn list(node: Node<'_>, kind: &ListKind, items: &[Value], path: &mut String, errors: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = match (kind, item) {
            (ListKind::Atomic, _) => PathElement::Index(index),
            _ => match misfit(node, kind, item) {
                Some(why) => {
                    add(errors, path, &format!("element {index}: {why}"));
                    return;
                }
                None => element(node, item),
            },
        };
        if *kind != ListKind::Atomic && !seen.insert(step.clone()) {
            add(errors, path, &format!("duplicate entries for key {}", step.shown()));
        }
        below(path, &step, |path| visit(node.item(), item, path, errors));
    }
}

/// Why an element has no place in a list whose elements are told apart.
fn misfit(node: Node<'_>, kind: &ListKind, item: &Value) -> Option<String> {
    match (kind, item) {
        (ListKind::Map(_), Value::Null) => Some("associative list with keys may not have a null element".to_owned()),
        (ListKind::Map(keys), Value::Object(map)) => {
            let keyed = keys.iter().any(|key| map.contains_key(key) || node.item().key_default(key).is_some());
            (!keyed).then(|| {
                let keys = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ");
                format!(
                    "associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default values for any key fields)"
                )
            })
        }
        (ListKind::Map(_), _) => Some("associative list with keys may not have non-map elements".to_owned()),
        (_, Value::Object(_)) => Some("associative list without keys has an element that's a map type".to_owned()),
        (_, Value::Array(_)) => Some("not supported: associative list with lists as elements".to_owned()),
        (_, Value::Null) => Some("associative list without keys has an element that's an explicit null".to_owned()),
        _ => None,
    }
}

fn scalar(scalar: Scalar, value: &Value) -> Option<String> {
    let is_scalar = !value.is_object() && !value.is_array();
    match scalar {
        Scalar::String | Scalar::Time | Scalar::MicroTime | Scalar::Bytes => (!value.is_string())
            .then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => {
            (!value.is_number()).then(|| format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Scalar::Bool => (!value.is_boolean()).then(|| format!("expected boolean, got &{{{}}}", go_value(value))),
        Scalar::IntOrString | Scalar::Quantity => {
            (!is_scalar).then(|| format!("expected any scalar, got &{{{}}}", go_value(value)))
        }
    }
}

/// Go's type of an untyped value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
