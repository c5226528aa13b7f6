//! Duplicates in lists of the types `set` and `map`.
//!
//! *Source*: `apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::{DUPLICATE, Problem};

/// The duplicates in an object.
pub(crate) fn check(schema: &Value, object: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(schema, object, String::new(), &mut problems);
    problems
}

fn walk(schema: &Value, value: &Value, path: String, problems: &mut Vec<Problem>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let inner = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                if inner.is_object() {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    walk(inner, field, path, problems);
                }
            }
        }
        Value::Array(items) => {
            let keys = match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => Some(None),
                Some("map") => Some(Some(schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default())),
                _ => None,
            };
            let mut seen = HashSet::new();
            for (i, item) in items.iter().enumerate() {
                let path = format!("{path}[{i}]");
                if let Some(keys) = &keys {
                    let identity =
                        keys.as_ref().map_or_else(|| item.clone(), |keys| key_of(item, keys, &schema["items"]));
                    // Equal values have equal texts, because object members are sorted here.
                    if !seen.insert(identity.to_string()) {
                        problems.push(Problem::new(DUPLICATE, path.clone(), format!("Duplicate value: {identity}")));
                    }
                }
                walk(&schema["items"], item, path, problems);
            }
        }
        _ => {}
    }
}

/// The key values of an item, which may be defaults.
fn key_of(item: &Value, keys: &[Value], schema: &Value) -> Value {
    let mut identity = Map::new();
    for key in keys.iter().filter_map(Value::as_str) {
        let default = &schema["properties"][key]["default"];
        let value = item.get(key).or((!default.is_null()).then_some(default));
        if let Some(value) = value {
            identity.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(identity)
}
