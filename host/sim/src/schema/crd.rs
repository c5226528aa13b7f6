//! Builds a schema from a CustomResourceDefinition's `openAPIV3Schema`.
//!
//! Source: apiextensions' structural schemas. `metadata` is always the built-in ObjectMeta, whatever the document
//! contains.

use std::sync::Arc;

use serde_json::Value;

use super::{Field, ListKind, PatchStrategy, Scalar, Shape, TypeRef, TypeSchema, builtin};

/// The schema of a custom kind; without a document every field is kept and untyped.
pub fn from_openapi(document: Option<&Value>) -> TypeRef {
    let mut schema = match document {
        Some(document) => structure(document),
        None => TypeSchema { open: true, ..TypeSchema::default() },
    };
    add_object_fields(&mut schema);
    Arc::new(schema)
}

/// `apiVersion`, `kind` and `metadata` belong to every object.
fn add_object_fields(schema: &mut TypeSchema) {
    for name in ["apiVersion", "kind"] {
        schema.fields.insert(name.to_owned(), plain(Shape::Scalar(Scalar::String)));
    }
    let meta = builtin().by_name.get("meta.v1.ObjectMeta");
    let shape = meta.map_or(Shape::Any, |index| Shape::Builtin(*index));
    schema.fields.insert("metadata".to_owned(), plain(shape));
}

fn plain(shape: Shape) -> Field {
    Field { shape, required: false, patch: PatchStrategy::default(), default: None, always: false, pointer: true }
}

fn flag(document: &Value, name: &str) -> bool {
    document.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn structure(document: &Value) -> TypeSchema {
    let required: Vec<&str> = document["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut schema = TypeSchema {
        atomic: document["x-kubernetes-map-type"] == "atomic",
        open: flag(document, "x-kubernetes-preserve-unknown-fields"),
        ..TypeSchema::default()
    };
    for (name, property) in document["properties"].as_object().into_iter().flatten() {
        let mut field = plain(shape(property));
        field.required = required.contains(&name.as_str());
        field.default = property.get("default").cloned();
        schema.fields.insert(name.clone(), field);
    }
    if flag(document, "x-kubernetes-embedded-resource") {
        add_object_fields(&mut schema);
    }
    schema
}

fn shape(document: &Value) -> Shape {
    if flag(document, "x-kubernetes-int-or-string") {
        return Shape::Scalar(Scalar::IntOrString);
    }
    let format = document["format"].as_str().unwrap_or_default();
    match document["type"].as_str() {
        Some("object") => object(document),
        Some("array") => {
            let keys = document["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            let kind = match document["x-kubernetes-list-type"].as_str() {
                Some("map") => ListKind::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect()),
                Some("set") => ListKind::Set,
                _ => ListKind::Atomic,
            };
            Shape::List { item: Box::new(document.get("items").map_or(Shape::Any, shape)), kind }
        }
        Some("string") => Shape::Scalar(match format {
            "date-time" => Scalar::Time,
            "byte" => Scalar::Bytes,
            _ => Scalar::String,
        }),
        Some("integer") => Shape::Scalar(if format == "int32" { Scalar::Int32 } else { Scalar::Int64 }),
        Some("number") => Shape::Scalar(Scalar::Number),
        Some("boolean") => Shape::Scalar(Scalar::Bool),
        _ => Shape::Any,
    }
}

fn object(document: &Value) -> Shape {
    let atomic = document["x-kubernetes-map-type"] == "atomic";
    if document["properties"].is_object() || flag(document, "x-kubernetes-embedded-resource") {
        return Shape::Struct(Arc::new(structure(document)));
    }
    match document.get("additionalProperties") {
        Some(Value::Object(_)) => Shape::Map { value: Box::new(shape(&document["additionalProperties"])), atomic },
        Some(Value::Bool(true)) => Shape::Map { value: Box::new(Shape::Any), atomic },
        _ if flag(document, "x-kubernetes-preserve-unknown-fields") => Shape::Any,
        _ => Shape::Struct(Arc::new(structure(document))),
    }
}
