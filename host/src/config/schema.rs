//! The JSON Schema of the file, for editors.

use clap::Arg;
use serde_json::{Map, Value, json};

use super::fields::{self, ENDPOINTS, Field, Form, OF_CONTROLLERS, SETTINGS};
use super::read::{API_VERSION, KIND};
use crate::builtins::Catalogue;
use crate::cli::Cli;

/// The schema of a file for this binary.
pub fn schema() -> Value {
    let command = <Cli as clap::CommandFactory>::command();
    let run = command.find_subcommand("run").cloned().unwrap_or_default();
    of(&fields::all(&run, Catalogue::carried()))
}

pub(super) fn of(fields: &[Field]) -> Value {
    let mut properties = Map::from_iter([
        ("apiVersion".to_owned(), json!({"const": API_VERSION})),
        ("kind".to_owned(), json!({"const": KIND})),
    ]);
    for field in fields {
        insert(&mut properties, &field.path, property(field));
    }
    let settings = json!({
        "type": "object", "description": "Values of settings, {file: PATH} where the setting may be a file or is a key, or {certificate: PATH, key: PATH} of an authority.",
        "additionalProperties": {"type": ["string", "number", "boolean", "array", "object"]},
    });
    let files = ["tokenFile", "caFile"].map(|file| (file.to_owned(), json!({"type": "string"})));
    let fields: Map<String, Value> = [("url".to_owned(), json!({"type": "string"}))].into_iter().chain(files).collect();
    let endpoints = json!({
        "type": "object", "description": "Addresses of endpoints: a URL, or a map with a file of a token and one of authorities.",
        "additionalProperties": {"anyOf": [
            {"type": "string"},
            {"type": "object", "required": ["url"], "additionalProperties": false, "properties": fields},
        ]},
    });
    let others = properties.entry(OF_CONTROLLERS).or_insert_with(|| map(Map::new()));
    for of_controller in others["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        of_controller["properties"][SETTINGS] = settings.clone();
        of_controller["properties"][ENDPOINTS] = endpoints.clone();
    }
    others["additionalProperties"] = json!({
        "type": ["object", "null"], "additionalProperties": false, "properties": {SETTINGS: settings, ENDPOINTS: endpoints},
    });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": KIND,
        "description": "Configuration of a host, for `pintle run --config`.",
        "type": "object",
        "additionalProperties": false,
        "required": ["apiVersion", "kind"],
        "properties": properties,
    })
}

fn map(properties: Map<String, Value>) -> Value {
    json!({"type": ["object", "null"], "additionalProperties": false, "properties": properties})
}

fn insert(properties: &mut Map<String, Value>, path: &[String], schema: Value) {
    match path {
        [] => {}
        [name] => {
            properties.insert(name.clone(), schema);
        }
        [name, rest @ ..] => {
            let inner = properties.entry(name.clone()).or_insert_with(|| map(Map::new()));
            if let Value::Object(inner) = &mut inner["properties"] {
                insert(inner, rest, schema);
            }
        }
    }
}

fn property(field: &Field) -> Value {
    let arg = &field.arg;
    let one = json!({"type": match field.form() {
        Form::Boolean => "boolean",
        Form::Integer => "integer",
        Form::Number => "number",
        _ => "string",
    }});
    let mut schema = match field.form() {
        Form::Gates => json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
        Form::Limits => json!({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}),
        Form::Groups => {
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}})
        }
        _ if field.is_list() => json!({"type": "array", "items": one}),
        _ => one,
    };
    let valid = possible(arg);
    if !valid.is_empty() && field.form() == Form::Text {
        schema["enum"] = json!(valid);
    }
    schema["description"] = json!(about(arg));
    schema
}

/// The valid values, if they are restricted.
pub(super) fn possible(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// The description of a flag, in one line.
pub(super) fn about(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}
