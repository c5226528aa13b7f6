//! The effective configuration of a process, as flags and in the format of the file.

use std::collections::BTreeMap;

use clap::{ArgMatches, Command};
use serde_json::{Map, Number, Value, json};

use super::fields::{self, ENDPOINTS, Field, Form, OF_CONTROLLERS, SETTINGS};
use super::read::{API_VERSION, KIND};
use crate::builtins::Catalogue;

/// Placeholder for values that may be secret, as upstream.
const CLASSIFIED: &str = "CLASSIFIED";

/// The effective configuration of a process, from the command line, the file, the environment and the defaults.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    flags: BTreeMap<String, String>,
    /// Without the settings of controllers.
    config: Map<String, Value>,
    /// Controller, setting and value.
    settings: Vec<(String, String, Value)>,
    /// Controller, endpoint and its address with its files, which are not secret.
    endpoints: Vec<(String, String, Value)>,
}

impl Effective {
    /// The configuration of a parsed command line.
    pub(crate) fn of(command: &Command, matches: &ArgMatches) -> Self {
        let Some((name, matches)) = matches.subcommand() else { return Self::default() };
        let Some(command) = command.find_subcommand(name) else { return Self::default() };
        Self::of_subcommand(command, matches, Catalogue::carried())
    }

    pub(super) fn of_subcommand(command: &Command, matches: &ArgMatches, catalogue: &Catalogue) -> Self {
        let fields = fields::all(command, catalogue);
        let mut config = Map::new();
        for field in fields.iter().filter(|field| is_shown(command, field)) {
            if let Some(value) = value(field, matches) {
                insert(&mut config, &field.path, value);
            }
        }
        let defaults = fields.iter().filter_map(|field| Some((field.flag(), field.default.as_ref()?))).collect();
        Self {
            flags: flags(command, matches, &defaults),
            config,
            settings: named(matches, "settings"),
            endpoints: named(matches, "endpoints"),
        }
    }

    /// The values of all flags, defaults included.
    pub(crate) fn flags(&self) -> &BTreeMap<String, String> {
        &self.flags
    }

    /// The configuration in the format of the file, with every field that has a value. Settings of controllers may be
    /// secret, and are withheld unless `open`.
    pub fn file(&self, open: bool) -> Value {
        let mut file =
            Map::from_iter([("apiVersion".to_owned(), json!(API_VERSION)), ("kind".to_owned(), json!(KIND))]);
        file.extend(self.config.clone());
        for (controller, setting, value) in &self.settings {
            let path = [OF_CONTROLLERS, controller, SETTINGS, setting].map(str::to_owned);
            insert(&mut file, &path, if open { value.clone() } else { json!(CLASSIFIED) });
        }
        for (controller, endpoint, value) in &self.endpoints {
            let path = [OF_CONTROLLERS, controller, ENDPOINTS, endpoint].map(str::to_owned);
            insert(&mut file, &path, value.clone());
        }
        Value::Object(file)
    }
}

/// `pintle dev` has other flags with these names.
fn is_shown(command: &Command, field: &Field) -> bool {
    command.get_name() == "run" || !matches!(field.flag(), "kubeconfig" | "serve")
}

fn insert(map: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [name] => {
            map.insert(name.clone(), value);
        }
        [name, rest @ ..] => {
            if let Value::Object(inner) = map.entry(name.clone()).or_insert_with(|| json!({})) {
                insert(inner, rest, value);
            }
        }
    }
}

/// The raw values of an argument, defaults included.
fn raw(matches: &ArgMatches, id: &str) -> Vec<String> {
    let values = matches.try_get_raw(id).ok().flatten();
    values.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
}

fn value(field: &Field, matches: &ArgMatches) -> Option<Value> {
    let mut texts = Vec::new();
    if field.flag() == "plugin" {
        texts = raw(matches, "plugins");
    }
    // For `pintle dev`, folders under development are not components.
    if field.flag() != "plugin" || field.form() == Form::Component {
        texts.extend(raw(matches, field.arg.get_id().as_str()));
    }
    let form = field.form();
    let absolute =
        |path: &str| std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string());
    let scalar = |text: &str| -> Value {
        match form {
            Form::Boolean => json!(text == "true"),
            Form::Integer | Form::Number => text.parse::<Number>().map_or_else(|_| json!(text), Value::Number),
            _ if text.is_empty() => json!(text),
            form => json!(form.with_paths(text, absolute)),
        }
    };
    if form == Form::Groups {
        let groups = texts.iter().filter_map(|text| text.split_once('='));
        let map: Map<String, Value> =
            groups.map(|(name, names)| (name.to_owned(), names.split(',').map(str::trim).collect())).collect();
        return (!map.is_empty()).then_some(Value::Object(map));
    }
    if field.is_map() {
        let entries = texts.iter().flat_map(|text| text.split(',')).filter_map(|entry| entry.split_once('='));
        let map: Map<String, Value> =
            entries.map(|(name, value)| (name.trim().to_owned(), entry(form, value.trim()))).collect();
        return (!map.is_empty()).then_some(Value::Object(map));
    }
    texts.retain(|text| !text.is_empty());
    if field.is_list() {
        return (!texts.is_empty()).then(|| texts.iter().map(|text| scalar(text)).collect());
    }
    texts.first().map(|text| scalar(text)).or_else(|| field.default.clone())
}

fn entry(form: Form, value: &str) -> Value {
    match form {
        // As Go's `strconv.ParseBool`.
        Form::Gates => json!(value.starts_with(['1', 't', 'T'])),
        _ => value.parse::<Number>().map_or_else(|_| json!(value), Value::Number),
    }
}

/// The valid values of `--set` or `--endpoint`.
fn named(matches: &ArgMatches, id: &str) -> Vec<(String, String, Value)> {
    let settings = raw(matches, id).into_iter().filter_map(|text| {
        let (path, value) = text.split_once('=')?;
        let (controller, setting) = path.split_once('.')?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        Some((controller.to_owned(), setting.to_owned(), value))
    });
    settings.collect()
}

fn flags(command: &Command, matches: &ArgMatches, defaults: &BTreeMap<&str, &Value>) -> BTreeMap<String, String> {
    let value = |name: &str, id: &str| -> String {
        let given = matches.try_get_raw(id).ok().flatten();
        let given =
            given.map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(","));
        match (given, defaults.get(name)) {
            (Some(given), _) if name == "set" && !given.is_empty() => CLASSIFIED.to_owned(),
            (Some(given), _) => given,
            (None, Some(Value::String(text))) => text.clone(),
            (None, default) => default.map_or_else(String::new, ToString::to_string),
        }
    };
    let named = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg.get_id())));
    let named = named.filter(|(name, _)| *name != "help");
    named.map(|(name, id)| (name.to_owned(), value(name, id.as_str()))).collect()
}
