//! Validates an applied configuration against the schema.
//!
//! Source: structured-merge-diff's `typed/validate.go`, for the rejected configurations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::set::PathElement;
use super::walk::element;
use crate::schema::{ListKind, Node, Scalar, Shape, type_name};

/// The first error in `config`, with its path; `None` if it is valid.
pub(super) fn error(node: Node<'_>, config: &Value) -> Option<String> {
    visit(node, config, &mut String::new()).err()
}

fn visit(node: Node<'_>, value: &Value, path: &mut String) -> Result<(), String> {
    let wanted = match (node, value) {
        (_, Value::Null) | (Node::Unknown | Node::Shape(Shape::Any), _) => return Ok(()),
        (Node::Struct(_) | Node::Shape(Shape::Map { .. }), Value::Object(map)) => {
            return map.iter().try_for_each(|(name, child)| {
                if let Node::Struct(schema) = node
                    && !schema.open
                    && !schema.fields.contains_key(name)
                {
                    return Err(format!("{path}.{name}: field not declared in schema"));
                }
                below(path, &PathElement::field(name), |path| visit(node.child(name), child, path))
            });
        }
        (Node::Shape(Shape::List { kind, .. }), Value::Array(items)) => return list(node, kind, items, path),
        (Node::Struct(_) | Node::Shape(Shape::Map { .. }), _) => "object",
        (Node::Shape(Shape::List { .. }), _) => "array",
        (Node::Shape(Shape::Scalar(one)), value) => match scalar(*one, value) {
            Some(wanted) => wanted,
            None => return Ok(()),
        },
        // `Node::of` has turned these into structs.
        (Node::Shape(Shape::Builtin(_) | Shape::Struct(_)), _) => return Ok(()),
    };
    Err(format!("{path}: expected {wanted}, found {}", type_name(value)))
}

fn below<T>(path: &mut String, step: &PathElement, then: impl FnOnce(&mut String) -> T) -> T {
    let before = path.len();
    path.push_str(&step.shown());
    let done = then(path);
    path.truncate(before);
    done
}

fn list(node: Node<'_>, kind: &ListKind, items: &[Value], path: &mut String) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = match (kind, misfit(node, kind, item)) {
            (_, Some(why)) => return Err(format!("{path}[{index}]: {why}")),
            (ListKind::Atomic, None) => PathElement::Index(index),
            (_, None) => element(node, item),
        };
        if *kind != ListKind::Atomic && !seen.insert(step.clone()) {
            return Err(format!("{path}: duplicate entries for key {}", step.shown()));
        }
        below(path, &step, |path| visit(node.item(), item, path))?;
    }
    Ok(())
}

/// Why an element is not valid in a list with keys.
fn misfit(node: Node<'_>, kind: &ListKind, item: &Value) -> Option<String> {
    match (kind, item) {
        (ListKind::Atomic, _) => None,
        (ListKind::Map(keys), Value::Object(map)) => {
            let keyed = keys.iter().any(|key| map.contains_key(key) || node.item().key_default(key).is_some());
            (!keyed).then(|| format!("an element needs one of {}", keys.join(", ")))
        }
        (ListKind::Map(_), other) => Some(format!("expected object, found {}", type_name(other))),
        (ListKind::Set, Value::Object(_) | Value::Array(_) | Value::Null) => {
            Some(format!("expected scalar, found {}", type_name(item)))
        }
        (ListKind::Set, _) => None,
    }
}

/// The expected type of a scalar; `None` if it fits.
fn scalar(scalar: Scalar, value: &Value) -> Option<&'static str> {
    let (fits, wanted) = match scalar {
        Scalar::String | Scalar::Time | Scalar::MicroTime | Scalar::Bytes => (value.is_string(), "string"),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => (value.is_number(), "number"),
        Scalar::Bool => (value.is_boolean(), "boolean"),
        Scalar::IntOrString | Scalar::Quantity => (!value.is_object() && !value.is_array(), "scalar"),
    };
    (!fits).then_some(wanted)
}
