//! Converts JSON Schema to the structural schema of a CustomResourceDefinition.
//!
//! JSON Schema generators write references, constants, `null` as a type and annotations, which a definition does not
//! have. Equivalents are translated; anything else is an error with its path.
//!
//! *Source*: `apiextensions-apiserver/pkg/apiserver/schema/{structural,complete,validation}.go`, and KEP-1847 (structural schemas).

use serde_json::{Map, Value, json};

/// Depth at which a schema counts as recursive.
const MAX_DEPTH: usize = 64;

/// Keywords that are valid in a definition.
const KEPT: [&str; 15] = [
    "description",
    "format",
    "default",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
    "minimum",
    "maximum",
    "nullable",
    "not",
];

/// Keywords without effect on objects.
const ANNOTATIONS: [&str; 12] = [
    "title",
    "$id",
    "$schema",
    "$defs",
    "definitions",
    "$comment",
    "$anchor",
    "examples",
    "example",
    "readOnly",
    "writeOnly",
    "deprecated",
];

/// Translates the schemas of all versions of a definition.
///
/// # Errors
/// Parts that a definition cannot express, with their paths.
pub(super) fn definition(mut definition: Value) -> Result<Value, String> {
    let versions = definition["spec"]["versions"].as_array_mut().into_iter().flatten();
    for (i, version) in versions.enumerate() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            let place = format!("spec.versions[{i}].schema.openAPIV3Schema");
            let root = schema.clone();
            *schema = Translation { root: &root }.schema(&root, &place, 0)?;
        }
    }
    Ok(definition)
}

struct Translation<'a> {
    /// Base of references, unless a subschema has its own definitions.
    root: &'a Value,
}

impl Translation<'_> {
    fn schema(&self, schema: &Value, place: &str, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("{place}: the type contains itself; a definition cannot describe that"));
        }
        // pydantic and schemars put definitions next to the schema that uses them.
        if depth > 0 && (schema.get("$defs").is_some() || schema.get("definitions").is_some()) {
            let mut inner = schema.clone();
            let translation = Translation { root: schema };
            let defs = ["$defs", "definitions"].map(|name| inner.as_object_mut().and_then(|all| all.remove(name)));
            drop(defs);
            return translation.schema(&inner, place, depth + 1);
        }
        match schema {
            Value::Bool(true) => return Ok(json!({"x-kubernetes-preserve-unknown-fields": true})),
            Value::Object(_) => {}
            other => return Err(format!("{place}: {other} is not a schema that a definition can have")),
        }
        let schema = self.merged(schema, place, depth)?;
        // The remaining choice may be a single schema.
        let schema = self.merged(&Value::Object(without_null(schema, place)?), place, depth)?;
        let schema = without_null(schema, place)?;
        self.keywords(&schema, place, depth)
    }

    /// The schema with resolved references and single-schema lists.
    fn merged(&self, schema: &Value, place: &str, depth: usize) -> Result<Map<String, Value>, String> {
        let mut members = schema.as_object().cloned().unwrap_or_default();
        for _ in 0..=MAX_DEPTH {
            let inner = if let Some(reference) = members.remove("$ref") {
                self.resolve(&reference, place)?
            } else {
                let single = ["allOf", "anyOf", "oneOf"].into_iter().find(|name| {
                    members.get(*name).and_then(Value::as_array).is_some_and(|schemas| schemas.len() == 1)
                });
                match single.and_then(|name| members.remove(name)) {
                    Some(schemas) => schemas[0].clone(),
                    None => return Ok(members),
                }
            };
            // Keywords next to a reference are more specific.
            let mut merged = inner.as_object().cloned().unwrap_or_default();
            merged.extend(members);
            members = merged;
        }
        Err(format!("{place}: the type contains itself (depth {depth}); a definition cannot describe that"))
    }

    fn resolve(&self, reference: &Value, place: &str) -> Result<Value, String> {
        let text = reference.as_str().unwrap_or_default();
        let found = text.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        found.cloned().ok_or_else(|| format!("{place}: there is no schema {text}"))
    }

    fn keywords(&self, schema: &Map<String, Value>, place: &str, depth: usize) -> Result<Value, String> {
        let mut out = Map::new();
        for (name, value) in schema {
            match name.as_str() {
                name if KEPT.contains(&name) || name.starts_with("x-kubernetes-") => {
                    out.insert(name.to_owned(), value.clone());
                }
                "type"
                | "items"
                | "properties"
                | "additionalProperties"
                | "patternProperties"
                | "anyOf"
                | "oneOf"
                | "allOf"
                | "enum"
                | "const" => {}
                "required" => {
                    if value.as_array().is_some_and(|names| !names.is_empty()) {
                        out.insert(name.clone(), value.clone());
                    }
                }
                "exclusiveMinimum" | "exclusiveMaximum" => exclusive(name, value, &mut out),
                "uniqueItems" if value == false => {}
                "uniqueItems" => {
                    return Err(format!(
                        "{place}: a definition cannot have uniqueItems; use \"x-kubernetes-list-type\": \"set\""
                    ));
                }
                name if ANNOTATIONS.contains(&name) || name.starts_with('~') => {}
                _ => return Err(format!("{place}: a definition cannot have the keyword {name}")),
            }
        }
        self.choices(schema, &mut out, place)?;
        enumeration(schema, &mut out, place)?;
        self.structure(schema, &mut out, place, depth)?;
        let is_typed = out.contains_key("type")
            || out.get("x-kubernetes-int-or-string").is_some_and(|is| is == true)
            || out.get("x-kubernetes-preserve-unknown-fields").is_some_and(|is| is == true);
        if !is_typed {
            let says_nothing = out.keys().all(|name| matches!(name.as_str(), "description" | "nullable" | "default"));
            if !says_nothing {
                return Err(format!("{place}: a definition needs a type here"));
            }
            out.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
        }
        Ok(Value::Object(out))
    }

    /// `anyOf` and similar: constants become an enumeration, integer-or-string its own type; restrictions stay.
    fn choices(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>, place: &str) -> Result<(), String> {
        for name in ["anyOf", "oneOf", "allOf"] {
            let Some(schemas) = schema.get(name).and_then(Value::as_array) else { continue };
            let constants: Option<Vec<&Value>> =
                schemas.iter().map(constants).collect::<Option<Vec<_>>>().map(|all| all.concat());
            let mut types: Vec<&str> = schemas.iter().filter_map(|schema| schema["type"].as_str()).collect();
            types.sort_unstable();
            if let (Some(constants), true) = (constants, name != "allOf") {
                out.insert("enum".to_owned(), constants.into_iter().cloned().collect());
            } else if types == ["integer", "string"] && schemas.len() == 2 {
                out.insert("x-kubernetes-int-or-string".to_owned(), Value::Bool(true));
            } else if schemas.iter().all(only_restricts) {
                out.insert(name.to_owned(), Value::Array(schemas.clone()));
            } else {
                return Err(format!(
                    "{place}: a definition needs one type here, and {name} has several; use one object with optional fields"
                ));
            }
        }
        Ok(())
    }

    /// The type, and its content.
    fn structure(
        &self,
        schema: &Map<String, Value>,
        out: &mut Map<String, Value>,
        place: &str,
        depth: usize,
    ) -> Result<(), String> {
        if out.get("x-kubernetes-int-or-string").is_some_and(|is| is == true) {
            return Ok(());
        }
        if let Some(kind) = schema.get("type") {
            out.insert("type".to_owned(), kind.clone());
        }
        if let Some(items) = schema.get("items") {
            if !items.is_object() {
                return Err(format!("{place}: a list in a definition has items of one type"));
            }
            out.insert("items".to_owned(), self.schema(items, &format!("{place}.items"), depth + 1)?);
        } else if schema.get("type").is_some_and(|kind| kind == "array") {
            return Err(format!("{place}: a list in a definition needs the type of its items"));
        }
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let mut all = Map::new();
            for (name, property) in properties {
                let place = format!("{place}.properties.{name}");
                all.insert(name.clone(), self.schema(property, &place, depth + 1)?);
            }
            if !all.is_empty() {
                out.insert("properties".to_owned(), Value::Object(all));
            }
        }
        self.additional(schema, out, place, depth)
    }

    /// Members with unknown names.
    fn additional(
        &self,
        schema: &Map<String, Value>,
        out: &mut Map<String, Value>,
        place: &str,
        depth: usize,
    ) -> Result<(), String> {
        // The API server drops unknown fields in any case.
        let mut others = schema.get("additionalProperties").filter(|others| **others != false);
        if let Some(patterns) = schema.get("patternProperties").and_then(Value::as_object) {
            let any = |pattern: &String| ["", ".*", "^.*$", "^(.*)$"].contains(&pattern.as_str());
            if patterns.len() != 1 || !patterns.keys().all(any) {
                return Err(format!("{place}: names of fields cannot have patterns in a definition"));
            }
            others = patterns.values().next();
        }
        match others {
            None => Ok(()),
            Some(_) if out.contains_key("properties") => {
                Err(format!("{place}: a definition has either named fields or a map here, and not both"))
            }
            Some(Value::Bool(_)) => {
                out.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
                Ok(())
            }
            Some(others) => {
                let others = self.schema(others, &format!("{place}.additionalProperties"), depth + 1)?;
                out.insert("additionalProperties".to_owned(), others);
                Ok(())
            }
        }
    }
}

/// An exclusive bound: a number in JSON Schema, a flag of the bound in OpenAPI 3.0.
fn exclusive(name: &str, value: &Value, out: &mut Map<String, Value>) {
    if value.is_number() {
        out.insert(name.replace("exclusiveM", "m"), value.clone());
        out.insert(name.to_owned(), Value::Bool(true));
    } else {
        out.insert(name.to_owned(), value.clone());
    }
}

/// The values that a schema allows, if it lists them.
fn constants(schema: &Value) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(values)) => Some(values.iter().collect()),
        (None, None) => None,
    }
}

/// Whether a schema has no types, only restrictions.
fn only_restricts(schema: &Value) -> bool {
    let typed = ["type", "$ref", "items", "additionalProperties", "description", "default", "nullable"];
    let Some(members) = schema.as_object() else { return false };
    let in_properties = members.get("properties").and_then(Value::as_object);
    !typed.iter().any(|name| members.contains_key(*name))
        && in_properties.is_none_or(|properties| properties.values().all(only_restricts))
}

/// The enumeration, and its type.
fn enumeration(schema: &Map<String, Value>, out: &mut Map<String, Value>, place: &str) -> Result<(), String> {
    if let Some(value) = schema.get("const") {
        out.insert("enum".to_owned(), json!([value]));
    } else if let Some(values) = schema.get("enum") {
        out.insert("enum".to_owned(), values.clone());
    }
    let Some(values) = out.get("enum").and_then(Value::as_array) else { return Ok(()) };
    if schema.contains_key("type") {
        return Ok(());
    }
    let types: std::collections::BTreeSet<&str> = values.iter().map(pintle_crd::type_name).collect();
    match types.iter().collect::<Vec<_>>().as_slice() {
        [one] => {
            let one = Value::from(**one);
            out.insert("type".to_owned(), one);
            Ok(())
        }
        _ => Err(format!("{place}: the values of an enumeration have one type in a definition")),
    }
}

/// Converts `null` as a type, a value or a choice to `nullable`.
fn without_null(mut schema: Map<String, Value>, place: &str) -> Result<Map<String, Value>, String> {
    let mut nullable = false;
    if let Some(types) = schema.get("type").and_then(Value::as_array).cloned() {
        let others: Vec<&Value> = types.iter().filter(|kind| **kind != "null").collect();
        nullable |= others.len() < types.len();
        let kind = match others.as_slice() {
            [one] => (*one).clone(),
            [a, b] if [a, b].iter().all(|kind| ["integer", "string"].contains(&kind.as_str().unwrap_or_default())) => {
                schema.insert("x-kubernetes-int-or-string".to_owned(), Value::Bool(true));
                Value::Null
            }
            _ => return Err(format!("{place}: a definition needs one type here, and there are {types:?}")),
        };
        if kind.is_null() {
            schema.remove("type")
        } else {
            schema.insert("type".to_owned(), kind)
        };
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        let before = values.len();
        values.retain(|value| !value.is_null());
        nullable |= values.len() < before;
    }
    for name in ["anyOf", "oneOf"] {
        let Some(schemas) = schema.get_mut(name).and_then(Value::as_array_mut) else { continue };
        let before = schemas.len();
        schemas.retain(|schema| schema["type"] != "null" && schema.get("const") != Some(&Value::Null));
        nullable |= schemas.len() < before;
    }
    if nullable {
        schema.insert("nullable".to_owned(), Value::Bool(true));
    }
    Ok(schema)
}
