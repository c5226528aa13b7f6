//! Schemas of kinds, from the table of built-in types or from a CustomResourceDefinition.

use serde_json::{Map, Value, json};

use super::Served;
use crate::schema::{self, Field, ListKind, Scalar, Shape, TypeSchema};

/// The type in which `managedFields` keep field sets.
const FIELDS_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";

/// The schemas of one document, by name.
#[derive(Default)]
pub(super) struct Schemas(Map<String, Value>);

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Upstream's name of a built-in type.
fn full_name(short: &str) -> String {
    let prefix = match short.split('.').next() {
        Some("meta") => "io.k8s.apimachinery.pkg.apis",
        Some("apiextensions") => "io.k8s.apiextensions-apiserver.pkg.apis",
        Some("apiregistration") => "io.k8s.kube-aggregator.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{prefix}.{short}")
}

impl Schemas {
    pub(super) fn finish(self) -> Map<String, Value> {
        self.0
    }

    /// Adds a kind with all referenced types, and returns a reference to it.
    pub(super) fn add_kind(&mut self, kind: &Served) -> Value {
        let name = match (&kind.custom, schema::lookup(&kind.group, &kind.version, &kind.kind)) {
            (None, Some(schema)) => self.add_type(&schema),
            (custom, _) => self.add_custom(kind, custom.as_ref().and_then(Option::as_ref)),
        };
        if let Some(schema) = self.0.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([kind.gvk()]);
        }
        reference(&name)
    }

    fn add_type(&mut self, schema: &TypeSchema) -> String {
        let name = full_name(&schema.name);
        if self.0.contains_key(&name) {
            return name;
        }
        // Added before its fields, for recursive types.
        self.0.insert(name.clone(), Value::Null);
        let mut document = json!({"type": "object"});
        let mut properties: Map<String, Value> =
            schema.fields.iter().map(|(name, field)| (name.clone(), self.field(field))).collect();
        if let Some(fields) = properties.get_mut("fieldsV1") {
            // The only field of any content with a named type.
            self.0.insert(FIELDS_V1.to_owned(), json!({"type": "object"}));
            *fields = reference(FIELDS_V1);
        }
        if !properties.is_empty() {
            document["properties"] = Value::Object(properties);
        }
        let required: Vec<&String> =
            schema.fields.iter().filter(|(_, field)| field.required).map(|(name, _)| name).collect();
        if !required.is_empty() {
            document["required"] = json!(required);
        }
        if schema.atomic {
            document["x-kubernetes-map-type"] = json!("atomic");
        }
        self.0.insert(name.clone(), document);
        name
    }

    fn field(&mut self, field: &Field) -> Value {
        let mut document = self.shape(&field.shape);
        let mut extra = Map::new();
        let patch = &field.patch;
        let strategies = [(patch.merge, "merge"), (patch.retain_keys, "retainKeys"), (patch.replace, "replace")];
        let strategies: Vec<&str> = strategies.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        if !strategies.is_empty() {
            extra.insert("x-kubernetes-patch-strategy".to_owned(), strategies.join(",").into());
        }
        if let Some(key) = &patch.merge_key {
            extra.insert("x-kubernetes-patch-merge-key".to_owned(), key.as_str().into());
        }
        if let Some(default) = &field.default {
            extra.insert("default".to_owned(), default.clone());
        }
        if !extra.is_empty() && document.get("$ref").is_some() {
            // A reference has no siblings.
            document = json!({"allOf": [document]});
        }
        if let Some(document) = document.as_object_mut() {
            document.extend(extra);
        }
        document
    }

    fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Scalar(scalar) => self.scalar(*scalar),
            Shape::Any => json!({"type": "object"}),
            Shape::Builtin(index) => {
                let name = self.add_type(&schema::builtin().types[*index]);
                reference(&name)
            }
            Shape::Struct(schema) => {
                let properties: Map<String, Value> =
                    schema.fields.iter().map(|(name, field)| (name.clone(), self.field(field))).collect();
                json!({"type": "object", "properties": properties})
            }
            Shape::Map { value, atomic } => {
                let mut document = json!({"type": "object", "additionalProperties": self.shape(value)});
                if *atomic {
                    document["x-kubernetes-map-type"] = json!("atomic");
                }
                document
            }
            Shape::List { item, kind } => {
                let mut document = json!({"type": "array", "items": self.shape(item)});
                let list_type = match kind {
                    ListKind::Atomic => "atomic",
                    ListKind::Set => "set",
                    ListKind::Map(keys) => {
                        document["x-kubernetes-list-map-keys"] = json!(keys);
                        "map"
                    }
                };
                document["x-kubernetes-list-type"] = json!(list_type);
                document
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Value {
        let shared = |name: &str, document: Value| Some((name.to_owned(), document));
        let named = match scalar {
            Scalar::Time => shared(&full_name("meta.v1.Time"), json!({"type": "string", "format": "date-time"})),
            Scalar::MicroTime => {
                shared(&full_name("meta.v1.MicroTime"), json!({"type": "string", "format": "date-time"}))
            }
            Scalar::IntOrString => shared(
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            ),
            Scalar::Quantity => shared(
                "io.k8s.apimachinery.pkg.api.resource.Quantity",
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            _ => None,
        };
        if let Some((name, document)) = named {
            let document_reference = reference(&name);
            self.0.entry(name).or_insert(document);
            return document_reference;
        }
        match scalar {
            Scalar::Bytes => json!({"type": "string", "format": "byte"}),
            Scalar::Int32 => json!({"type": "integer", "format": "int32"}),
            Scalar::Int64 => json!({"type": "integer", "format": "int64"}),
            Scalar::Number => json!({"type": "number", "format": "double"}),
            Scalar::Bool => json!({"type": "boolean"}),
            _ => json!({"type": "string"}),
        }
    }

    /// A custom kind keeps its own document, with the fields that every object has.
    fn add_custom(&mut self, kind: &Served, document: Option<&Value>) -> String {
        let group = kind.group.rsplit('.').collect::<Vec<_>>().join(".");
        let name = format!("{group}.{}.{}", kind.version, kind.kind);
        let meta = match schema::named("meta.v1.ObjectMeta") {
            Some(schema) => self.add_type(&schema),
            None => return name,
        };
        let mut document = document.cloned().unwrap_or_else(|| json!({"x-kubernetes-preserve-unknown-fields": true}));
        if !document.is_object() {
            document = json!({});
        }
        document["type"] = json!("object");
        if !document["properties"].is_object() {
            document["properties"] = json!({});
        }
        document["properties"]["apiVersion"] = json!({"type": "string"});
        document["properties"]["kind"] = json!({"type": "string"});
        document["properties"]["metadata"] = json!({"allOf": [reference(&meta)]});
        self.0.insert(name.clone(), document);
        name
    }
}
