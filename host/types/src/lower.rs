//! Converts schemas to types.
//!
//! *Invariants*: the work and the result are bounded by the length of the text: each object of a schema becomes at most one type, and
//! nesting is limited.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::TypesError;
use crate::model::{Enum, EnumId, Field, KindType, Model, Struct, StructId, Type};
use crate::names::capital;
use crate::source::{Component, Definition, Schema};

/// Deeper schemas are rejected. That of CustomResourceDefinition itself has 12 levels.
const MAX_DEPTH: usize = 60;

/// The fields of `metav1.Condition`; objects with exactly these, with or without the last, are conditions.
const CONDITION: [&str; 6] = ["type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"];

/// Origin of a type's name.
#[derive(Clone, Debug)]
enum Origin {
    /// A separate schema, with a dotted name.
    Component(String),
    /// A field of a struct, and its part: itself, its items, its values.
    Part(StructId, String),
}

/// The schema of a value.
#[derive(Debug)]
struct Lowered {
    ty: Type,
    is_nullable: bool,
    doc: String,
    default: Option<Value>,
}

struct Lower<'a> {
    components: &'a BTreeMap<String, Component>,
    model: Model,
    struct_origins: Vec<Origin>,
    enum_origins: Vec<Origin>,
    /// Types of components that have one.
    known: HashMap<String, Type>,
    /// Components that are being lowered and are not structs. A recursive one has no finite type.
    open: BTreeSet<String>,
    /// Structs of components whose fields are pending.
    pending: Vec<(StructId, String)>,
}

/// The types of these definitions.
pub(crate) fn lower(
    definitions: &[&Definition],
    components: &BTreeMap<String, Component>,
) -> Result<Model, TypesError> {
    let mut lower = Lower {
        components,
        model: Model::default(),
        struct_origins: Vec::new(),
        enum_origins: Vec::new(),
        known: HashMap::new(),
        open: BTreeSet::new(),
        pending: Vec::new(),
    };
    for definition in definitions {
        lower.kind(definition)?;
        // Not recursive, because a chain of components may be long.
        while let Some((id, name)) = lower.pending.pop() {
            let component = &components[&name];
            if let Value::Object(schema) = &component.schema {
                lower.fields(id, schema, &component.place, 1)?;
            }
        }
    }
    lower.name();
    Ok(lower.model)
}

impl<'a> Lower<'a> {
    fn kind(&mut self, definition: &Definition) -> Result<(), TypesError> {
        let (schema, origin, place) = match &definition.schema {
            Schema::Own(schema) => (schema, definition.dotted(), &definition.place),
            Schema::Component(name) => {
                self.components[name].check()?;
                (&self.components[name].schema, name.clone(), &definition.place)
            }
        };
        let empty = Map::new();
        let schema = match schema {
            Value::Null => &empty,
            Value::Object(schema) => schema,
            _ => return Err(wrong(place, "is not an object")),
        };
        // A kind may be part of another: a template.
        let root = match self.known.get(&origin) {
            Some(Type::Struct(root)) => *root,
            _ => {
                let root = self.new_struct(Origin::Component(origin.clone()), schema);
                self.known.insert(origin, Type::Struct(root));
                self.fields(root, schema, place, 0)?;
                root
            }
        };
        let found = &mut self.model.structs[root];
        found.fields.retain(|field| !["apiVersion", "kind", "metadata"].contains(&field.json.as_str()));
        found.is_open |= schema.is_empty();
        found.kind = Some(self.model.kinds.len());
        let line = format!("{}, version {}", definition.source, definition.version);
        if !self.model.sources.contains(&line) {
            self.model.sources.push(line);
        }
        self.model.kinds.push(KindType {
            group: definition.group.clone(),
            version: definition.version.clone(),
            name: definition.kind.clone(),
            root,
            is_namespaced: definition.is_namespaced,
        });
        Ok(())
    }

    fn new_struct(&mut self, origin: Origin, schema: &Map<String, Value>) -> StructId {
        self.struct_origins.push(origin);
        self.model.structs.push(Struct {
            path: Vec::new(),
            doc: text(schema, "description"),
            fields: Vec::new(),
            is_open: is_true(schema, "x-kubernetes-preserve-unknown-fields")
                || matches!(schema.get("additionalProperties"), Some(Value::Bool(true) | Value::Object(_))),
            kind: None,
        });
        self.model.structs.len() - 1
    }

    fn fields(
        &mut self,
        of: StructId,
        schema: &Map<String, Value>,
        place: &str,
        depth: usize,
    ) -> Result<(), TypesError> {
        let required: BTreeSet<&str> = match schema.get("required") {
            None | Some(Value::Null) => BTreeSet::new(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(wrong(place, "required is not a list")),
        };
        let properties = match schema.get("properties") {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err(wrong(place, "properties is not an object")),
        };
        let is_kind = depth == 0;
        for (name, property) in properties {
            let place = format!("{place}.properties.{name}");
            let lowered = if is_kind && name == "metadata" {
                // The schema of metadata is that of the API server, whatever a definition contains.
                Lowered { ty: Type::ObjectMeta, is_nullable: false, doc: String::new(), default: None }
            } else {
                self.schema(property, &Origin::Part(of, name.clone()), &place, depth + 1)?
            };
            self.model.structs[of].fields.push(Field {
                json: name.clone(),
                doc: lowered.doc,
                ty: lowered.ty,
                is_required: required.contains(name.as_str()),
                is_nullable: lowered.is_nullable,
                default: lowered.default.filter(|default| !is_empty(default, required.contains(name.as_str()))),
            });
        }
        Ok(())
    }

    fn schema(&mut self, schema: &Value, origin: &Origin, place: &str, depth: usize) -> Result<Lowered, TypesError> {
        if depth > MAX_DEPTH {
            return Err(wrong(place, &format!("the schema is nested more than {MAX_DEPTH} levels deep")));
        }
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(true) => {
                return Ok(Lowered { ty: Type::Any, is_nullable: true, doc: String::new(), default: None });
            }
            _ => return Err(wrong(place, "is not a schema: expected an object")),
        };
        let mut lowered = Lowered {
            ty: Type::Any,
            is_nullable: is_true(schema, "nullable"),
            doc: text(schema, "description"),
            default: schema.get("default").cloned(),
        };
        if let Some(reference) = schema.get("$ref") {
            let reference = reference.as_str().ok_or_else(|| wrong(place, "$ref is not a text"))?;
            lowered.ty = self.reference(reference, place, depth)?;
            return Ok(lowered);
        }
        let is_plain = !["type", "properties", "additionalProperties", "items", "x-kubernetes-int-or-string"]
            .iter()
            .any(|name| schema.contains_key(*name));
        if let Some([Value::Object(only)]) =
            schema.get("allOf").filter(|_| is_plain).and_then(Value::as_array).map(Vec::as_slice)
        {
            let inner = self.schema(&Value::Object(only.clone()), origin, &format!("{place}.allOf[0]"), depth + 1)?;
            if lowered.doc.is_empty() {
                lowered.doc = inner.doc;
            }
            lowered.ty = inner.ty;
            lowered.is_nullable |= inner.is_nullable;
            return Ok(lowered);
        }
        let (name, is_nullable) = type_name(schema, place)?;
        lowered.is_nullable |= is_nullable;
        lowered.ty = match name {
            "int-or-string" => Type::IntOrString,
            "string" => return self.string(schema, origin, lowered),
            "boolean" => Type::Bool,
            "integer" => match format(schema) {
                "int32" => Type::I32,
                "uint32" => Type::U32,
                "uint64" => Type::U64,
                _ => Type::I64,
            },
            "number" => Type::F64,
            "array" => match schema.get("items") {
                None | Some(Value::Null) => Type::List(Box::new(Type::Any)),
                Some(items) => {
                    Type::List(Box::new(self.inner(items, origin, "item", &format!("{place}.items"), depth)?))
                }
            },
            "object" => self.object(schema, origin, place, depth)?,
            _ => Type::Any,
        };
        Ok(lowered)
    }

    fn string(
        &mut self,
        schema: &Map<String, Value>,
        origin: &Origin,
        mut lowered: Lowered,
    ) -> Result<Lowered, TypesError> {
        let values = schema.get("enum").and_then(Value::as_array);
        let mut texts: Vec<String> = Vec::new();
        for value in values.into_iter().flatten() {
            match value {
                Value::String(text) if !texts.contains(text) => texts.push(text.clone()),
                Value::Null => lowered.is_nullable = true,
                _ => {}
            }
        }
        lowered.ty = if !texts.is_empty() {
            self.enum_origins.push(origin.clone());
            self.model.enums.push(Enum { path: Vec::new(), values: texts });
            Type::Enum(self.model.enums.len() - 1)
        } else {
            match format(schema) {
                "date-time" => Type::Time,
                "byte" => Type::Bytes,
                _ => Type::Text,
            }
        };
        Ok(lowered)
    }

    /// The type of items or values.
    fn inner(
        &mut self,
        schema: &Value,
        origin: &Origin,
        part: &str,
        place: &str,
        depth: usize,
    ) -> Result<Type, TypesError> {
        let origin = match origin {
            Origin::Part(of, name) => Origin::Part(*of, format!("{name}\n{part}")),
            Origin::Component(name) => Origin::Component(format!("{name}{}", capital(part))),
        };
        let Lowered { ty, is_nullable, .. } = self.schema(schema, &origin, place, depth + 1)?;
        Ok(if is_nullable && !matches!(ty, Type::Any) { Type::Nullable(Box::new(ty)) } else { ty })
    }

    fn object(
        &mut self,
        schema: &Map<String, Value>,
        origin: &Origin,
        place: &str,
        depth: usize,
    ) -> Result<Type, TypesError> {
        let has_properties = match schema.get("properties") {
            None | Some(Value::Null) => false,
            Some(Value::Object(properties)) => !properties.is_empty(),
            Some(_) => return Err(wrong(place, "properties is not an object")),
        };
        if is_true(schema, "x-kubernetes-embedded-resource") {
            return Ok(Type::Object);
        }
        if !has_properties {
            return Ok(match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => {
                    let place = format!("{place}.additionalProperties");
                    Type::Map(Box::new(self.inner(values, origin, "value", &place, depth)?))
                }
                Some(Value::Bool(_) | Value::Null) | None => Type::Object,
                Some(_) => return Err(wrong(place, "additionalProperties is neither a schema nor a boolean")),
            });
        }
        if is_condition(schema) {
            return Ok(Type::Condition);
        }
        let id = self.new_struct(origin.clone(), schema);
        self.fields(id, schema, place, depth + 1)?;
        Ok(Type::Struct(id))
    }

    fn reference(&mut self, reference: &str, place: &str, depth: usize) -> Result<Type, TypesError> {
        let name = reference
            .strip_prefix("#/components/schemas/")
            .or_else(|| reference.strip_prefix("#/definitions/"))
            .map(|name| name.replace("~1", "/").replace("~0", "~"));
        let Some((name, component)) = name.and_then(|name| Some((name.clone(), self.components.get(&name)?))) else {
            return Err(wrong(place, &format!("$ref leads to {reference:?}, which is not in the document")));
        };
        // Kubernetes types whose schemas are less specific than the types.
        match name.rsplit('.').next() {
            Some("ObjectMeta") => return Ok(Type::ObjectMeta),
            // A MicroTime needs its six digits, and a quantity is always a text when it comes from the API server.
            Some("MicroTime" | "Quantity") if name.starts_with("io.k8s.apimachinery.") => return Ok(Type::Text),
            _ => {}
        }
        if let Some(known) = self.known.get(&name) {
            return Ok(known.clone());
        }
        component.check()?;
        let Value::Object(schema) = &component.schema else {
            return Err(wrong(&component.place, "is not a schema: expected an object"));
        };
        let is_struct =
            schema.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty())
                && !schema.contains_key("$ref")
                && !is_condition(schema)
                && type_name(schema, &component.place)?.0 == "object"
                && !is_true(schema, "x-kubernetes-embedded-resource");
        if is_struct {
            let id = self.new_struct(Origin::Component(name.clone()), schema);
            self.known.insert(name.clone(), Type::Struct(id));
            self.pending.push((id, name));
            return Ok(Type::Struct(id));
        }
        if !self.open.insert(name.clone()) {
            return Ok(Type::Any);
        }
        let lowered = self.schema(&component.schema, &Origin::Component(name.clone()), &component.place, depth + 1)?;
        self.open.remove(&name);
        self.known.insert(name, lowered.ty.clone());
        Ok(lowered.ty)
    }

    /// Names all types: the shortest unique end of the dotted name; parts have the name of the whole as a prefix.
    fn name(&mut self) {
        let origins = || self.struct_origins.iter().chain(&self.enum_origins);
        let dotted: BTreeSet<&str> = origins()
            .filter_map(|origin| match origin {
                Origin::Component(name) => Some(name.as_str()),
                Origin::Part(..) => None,
            })
            .collect();
        let path = |origin: &Origin, structs: &[Struct]| match origin {
            Origin::Component(name) => vec![shortest(name, &dotted)],
            Origin::Part(of, name) => {
                let mut path = structs[*of].path.clone();
                path.extend(name.split('\n').map(str::to_owned));
                path
            }
        };
        // A struct is found before its parts.
        for (id, origin) in self.struct_origins.iter().enumerate() {
            self.model.structs[id].path = path(origin, &self.model.structs);
        }
        for (id, origin) in self.enum_origins.iter().enumerate() {
            let id: EnumId = id;
            self.model.enums[id].path = path(origin, &self.model.structs);
        }
    }
}

/// `V1Team` of `org.example.v1.Team`, if there are other names that end with `Team`, but none with `v1.Team`.
fn shortest(name: &str, all: &BTreeSet<&str>) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let n_parts = (1..=parts.len()).find(|n| {
        let end = parts[parts.len() - n..].join(".");
        all.iter().filter(|other| **other == end || other.ends_with(&format!(".{end}"))).count() < 2
    });
    let from = parts.len() - n_parts.unwrap_or(parts.len());
    parts[from..].iter().map(|part| capital(part)).collect()
}

fn wrong(place: &str, why: &str) -> TypesError {
    TypesError::Schema { place: place.to_owned(), why: why.to_owned() }
}

fn text(schema: &Map<String, Value>, name: &str) -> String {
    schema.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
}

fn format(schema: &Map<String, Value>) -> &str {
    schema.get("format").and_then(Value::as_str).unwrap_or_default()
}

fn is_true(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Whether a default is only a zero value: the OpenAPI document has one for each field that is not a pointer in Go.
fn is_empty(default: &Value, is_required: bool) -> bool {
    match default {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => is_required && (*default == false || *default == 0),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn is_condition(schema: &Map<String, Value>) -> bool {
    let Some(Value::Object(properties)) = schema.get("properties") else { return false };
    let is_text = |name: &str| properties.get(name).is_some_and(|property| property["type"] == "string");
    let is_open = is_true(schema, "x-kubernetes-preserve-unknown-fields");
    let has_time = properties
        .get(CONDITION[4])
        .is_some_and(|time| time["format"] == "date-time" || !time["$ref"].is_null() || !time["allOf"].is_null());
    !is_open
        && CONDITION[..4].iter().all(|name| is_text(name))
        && has_time
        && properties.keys().all(|name| CONDITION.contains(&name.as_str()))
}

/// The type of a value, and whether it may also be `null`; `""`: any.
fn type_name<'a>(schema: &'a Map<String, Value>, place: &str) -> Result<(&'a str, bool), TypesError> {
    let alternatives = || ["anyOf", "oneOf"].iter().filter_map(|name| schema.get(*name)?.as_array());
    let has_types = |wanted: [&str; 2]| {
        alternatives().any(|found| {
            found.len() == 2 && wanted.iter().all(|name| found.iter().any(|alternative| alternative["type"] == *name))
        })
    };
    if is_true(schema, "x-kubernetes-int-or-string") || format(schema) == "int-or-string" {
        return Ok(("int-or-string", false));
    }
    let mut is_nullable = false;
    let names: Vec<&str> = match schema.get("type") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err(wrong(place, "type is not a text")),
    };
    let known = ["string", "boolean", "integer", "number", "array", "object", "null"];
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(wrong(place, &format!("type {unknown:?} is none of {}", known.join(", "))));
    }
    let mut others = names.iter().filter(|name| {
        is_nullable |= **name == "null";
        **name != "null"
    });
    let (first, second) = (others.next().copied(), others.next().copied());
    let is_text_enum = || {
        let values = schema.get("enum").and_then(Value::as_array);
        values.is_some_and(|values| values.iter().all(|value| value.is_string() || value.is_null()))
    };
    let name = match (first, second) {
        (Some(name), None) => name,
        (Some("integer"), Some("string")) | (Some("string"), Some("integer")) => "int-or-string",
        (Some(_), Some(_)) => "",
        (None, _) if has_types(["integer", "string"]) => "int-or-string",
        (None, _)
            if schema.contains_key("properties")
                || schema.get("additionalProperties").is_some_and(Value::is_object) =>
        {
            "object"
        }
        (None, _) if schema.contains_key("items") => "array",
        (None, _) if is_text_enum() => "string",
        (None, _) => "",
    };
    Ok((name, is_nullable))
}
