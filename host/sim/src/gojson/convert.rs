//! What apimachinery's converter from untyped maps says of an object that does not fit its Go type.

use serde_json::Value;

use super::types::{QUANTITY, is_quantity, time_error};
use crate::schema::{Node, Scalar, Shape, TypeRef};

/// The converter's first error, none when the object fits. A strategic merge patch is decoded this way.
pub fn conversion_error(schema: &TypeRef, object: &Value) -> Option<String> {
    visit(Node::Struct(schema), object).err()
}

/// The kind of a value in Go's reflection.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn visit(node: Node<'_>, value: &Value) -> Result<(), String> {
    match (node, value) {
        (_, Value::Null) | (Node::Unknown | Node::Shape(Shape::Any), _) => Ok(()),
        (Node::Struct(schema), Value::Object(map)) => {
            let known = map.iter().filter_map(|(name, child)| Some((schema.fields.get(name)?, child)));
            known.into_iter().try_for_each(|(field, child)| visit(Node::of(&field.shape), child))
        }
        (Node::Shape(Shape::Map { value: shape, .. }), Value::Object(map)) => {
            map.values().try_for_each(|child| visit(Node::of(shape), child))
        }
        (Node::Shape(Shape::List { item, .. }), Value::Array(items)) => {
            items.iter().try_for_each(|child| visit(Node::of(item), child))
        }
        (Node::Struct(_), other) => Err(format!("cannot restore struct from: {}", kind(other))),
        (Node::Shape(Shape::Map { .. }), other) => Err(format!("cannot restore map from {}", kind(other))),
        (Node::Shape(Shape::List { .. }), other) => Err(format!("cannot restore slice from {}", kind(other))),
        (Node::Shape(Shape::Scalar(one)), value) => scalar(*one, value),
        (Node::Shape(Shape::Builtin(_) | Shape::Struct(_)), _) => Ok(()),
    }
}

fn scalar(scalar: Scalar, value: &Value) -> Result<(), String> {
    let unmarshal =
        |wanted: &str| Err(format!("json: cannot unmarshal {} into Go value of type {wanted}", super::name(value)));
    let simple = |wanted: &str, fits: bool| match (fits, kind(value)) {
        (true, _) => Ok(()),
        // Go converts these into one another, and the converter refuses what it has converted.
        (false, from @ "int64") if wanted == "string" => Err(format!("cannot convert {from} to string")),
        (false, from @ "float64") if wanted.starts_with("int") => Err(format!("cannot convert {from} to {wanted}")),
        (false, _) => Err(format!("unrecognized type: {wanted}")),
    };
    let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    match scalar {
        Scalar::String => simple("string", value.is_string()),
        Scalar::Int32 => simple("int32", whole),
        Scalar::Int64 => simple("int64", whole),
        Scalar::Number => simple("float64", value.is_number()),
        Scalar::Bool => simple("bool", value.is_boolean()),
        Scalar::Bytes if value.is_string() => Ok(()),
        Scalar::Bytes => Err(format!("cannot restore slice from {}", kind(value))),
        Scalar::Time => match value.as_str() {
            Some(text) => time_error(text, "2006-01-02T15:04:05Z07:00").map_or(Ok(()), Err),
            None => unmarshal("string"),
        },
        Scalar::MicroTime => match value.as_str() {
            Some(text) => time_error(text, "2006-01-02T15:04:05.000000Z07:00").map_or(Ok(()), Err),
            None => unmarshal("string"),
        },
        Scalar::IntOrString if value.is_string() || whole => Ok(()),
        Scalar::IntOrString => unmarshal("int32"),
        Scalar::Quantity if is_quantity(value) => Ok(()),
        Scalar::Quantity => Err(QUANTITY.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::lookup;

    #[test]
    fn the_converter_names_kinds_and_no_fields() {
        let schema = lookup("apps", "v1", "Deployment").unwrap();
        for (object, wanted) in [
            (json!({"spec": {"replicas": "many"}}), "unrecognized type: int32"),
            (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
            (json!({"metadata": {"labels": {"a": 1}}}), "cannot convert int64 to string"),
            (json!({"metadata": {"labels": "a"}}), "cannot restore map from string"),
            (json!({"spec": []}), "cannot restore struct from: slice"),
            (json!({"spec": {"template": {"spec": {"containers": {}}}}}), "cannot restore slice from map"),
        ] {
            assert_eq!(conversion_error(&schema, &object).as_deref(), Some(wanted));
        }
        assert_eq!(conversion_error(&schema, &json!({"spec": {"replicas": 2, "unknown": 1}})), None);
    }
}
