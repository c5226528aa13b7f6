//! The page about the manifest, generated from its JSON Schema.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{cell, prose};

const HEAD: &str = "# The manifest

A plugin's metadata and requests: `manifest.yaml` next to its source, embedded in the component as JSON (custom section `pintle:manifest`).
`pintle schema` prints the JSON Schema, which `pintle new` writes to `.pintle/schemas` for editors. Unknown fields are an error. A field without *required* may be left out.

This page is generated from the types of the host: `cargo xtask generate pages`.
";

/// Writing to a String does not fail, so results are dropped here.
pub(super) fn page(schema: &Value) -> String {
    let mut page = HEAD.to_owned();
    object(&mut page, "Manifest", schema);
    let empty = Map::new();
    let definitions = schema["definitions"].as_object().unwrap_or(&empty);
    for (name, definition) in in_order_of_use(schema, definitions) {
        if definition.get("properties").is_some() {
            object(&mut page, name, definition);
        } else {
            words(&mut page, name, definition);
        }
    }
    page
}

/// Definitions in the order of their first use.
fn in_order_of_use<'s>(schema: &'s Value, definitions: &'s Map<String, Value>) -> Vec<(&'s str, &'s Value)> {
    let mut found: Vec<(&str, &Value)> = Vec::new();
    let mut at = 0;
    let look = |within: &'s Value, found: &mut Vec<(&'s str, &'s Value)>| {
        let mut names = Vec::new();
        references(within, &mut names);
        for name in names {
            if let Some((name, definition)) = definitions.get_key_value(name)
                && found.iter().all(|(known, _)| known != name)
            {
                found.push((name, definition));
            }
        }
    };
    look(&schema["properties"], &mut found);
    while at < found.len() {
        look(found[at].1, &mut found);
        at += 1;
    }
    found
}

fn references<'s>(value: &'s Value, into: &mut Vec<&'s str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().filter(|_| name == "$ref") {
                    Some(reference) => into.push(reference.trim_start_matches("#/definitions/")),
                    None => references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

fn object(page: &mut String, name: &str, schema: &Value) {
    head(page, name, schema);
    let empty = Map::new();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let _ = writeln!(page, "\n| field | type | |\n| --- | --- | --- |");
    for (field, of_field) in schema["properties"].as_object().unwrap_or(&empty) {
        let must = if required.contains(&field.as_str()) { "*Required.* " } else { "" };
        let about = cell(of_field["description"].as_str().unwrap_or_default());
        let _ = writeln!(page, "| `{field}` | {} | {must}{about} |", type_of(of_field));
    }
}

fn words(page: &mut String, name: &str, schema: &Value) {
    head(page, name, schema);
    let named = schema["oneOf"].as_array().into_iter().flatten();
    let named = named.filter_map(|one| {
        let about = cell(one["description"].as_str().unwrap_or_default());
        match (&one["const"], &one["enum"]) {
            (Value::String(word), _) => Some(vec![(word.clone(), about)]),
            (_, Value::Array(words)) => {
                Some(words.iter().filter_map(|word| Some((word.as_str()?.to_owned(), String::new()))).collect())
            }
            _ => None,
        }
    });
    let plain = schema["enum"].as_array().into_iter().flatten();
    let plain = plain.filter_map(|word| Some((word.as_str()?.to_owned(), String::new())));
    let all: Vec<(String, String)> = named.flatten().chain(plain).collect();
    if !all.is_empty() {
        page.push('\n');
    }
    for (word, about) in all {
        let about = if about.is_empty() { about } else { format!(": {about}") };
        let _ = writeln!(page, "- `{word}`{about}");
    }
}

fn head(page: &mut String, name: &str, schema: &Value) {
    let _ = writeln!(page, "\n## {name}\n\n{}", prose(schema["description"].as_str().unwrap_or_default()));
}

/// The type in terms of an author: `list of [Watch](#watch)`.
fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/definitions/");
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for all in ["anyOf", "allOf", "oneOf"] {
        let some = schema[all].as_array().into_iter().flatten().find(|one| one["type"] != "null");
        if let Some(one) = some {
            return type_of(one);
        }
    }
    let word = match &schema["type"] {
        Value::String(word) => word.as_str(),
        // `T or null`, for optional values.
        Value::Array(words) => words.iter().filter_map(Value::as_str).find(|word| *word != "null").unwrap_or_default(),
        _ => return "any".to_owned(),
    };
    match word {
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" => match &schema["additionalProperties"] {
            Value::Object(_) => format!("map to {}", type_of(&schema["additionalProperties"])),
            _ => "object".to_owned(),
        },
        word => word.to_owned(),
    }
}
