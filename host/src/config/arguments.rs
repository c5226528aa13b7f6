//! Translates the fields of a file into command-line arguments.
//!
//! *Flow*: [`translate`] walks the tree and turns values into arguments; the parser of each flag validates them.
//! [`merge`] puts them before the given arguments, which take precedence.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use pintle_core::text::like;
use serde_json::{Map, Value};

use super::fields::{ENDPOINTS, Field, Form, NOT_IN_FILE, OF_CONTROLLERS, SETTINGS};
use super::read::{File, describe};
use crate::output;

/// A value of the file as an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    /// The field, with dots.
    pub(crate) field: String,
    /// The long name of the flag.
    pub(crate) flag: String,
    pub(crate) value: String,
}

impl Argument {
    fn text(&self) -> String {
        format!("--{}={}", self.flag, self.value)
    }
}

/// Values set by a file, for errors.
#[derive(Clone, Debug, Default)]
pub struct OfFile {
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
}

impl OfFile {
    /// Adds the related fields of the file to an error.
    pub(crate) fn explain(&self, why: anyhow::Error) -> anyhow::Error {
        match remark(&output::one_line(&why), &self.name, &self.arguments) {
            Some(remark) => anyhow::anyhow!("{}; {remark}", output::one_line(&why)),
            None => why,
        }
    }
}

/// The arguments with the effect of the file.
///
/// # Errors
/// All its errors, each with its field.
pub(crate) fn translate(file: &File, fields: &[Field], run: &Command) -> Result<Vec<Argument>, Vec<String>> {
    let run = run.clone().no_binary_name(true);
    let mut walk = Walk { folder: &file.folder, fields, run, arguments: Vec::new(), problems: Vec::new() };
    walk.map(&[], &file.fields);
    if walk.problems.is_empty() { Ok(walk.arguments) } else { Err(walk.problems) }
}

struct Walk<'a> {
    folder: &'a Path,
    fields: &'a [Field],
    run: Command,
    arguments: Vec<Argument>,
    problems: Vec<String>,
}

impl Walk<'_> {
    fn problem(&mut self, field: &str, why: &str) {
        self.problems.push(format!("{field}: {why}"));
    }

    fn map(&mut self, path: &[&str], map: &Map<String, Value>) {
        for (name, value) in map {
            let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
            let shown = path.join(".");
            let fields = self.fields;
            let of_controller = path.first() == Some(&OF_CONTROLLERS);
            if let Some(field) = fields.iter().find(|field| field.path == path) {
                // A field without a value counts as absent.
                if !value.is_null() {
                    self.field(field, value);
                }
            } else if of_controller && path.len() == 3 && name == SETTINGS {
                self.settings(path[1], &shown, value);
            } else if of_controller && path.len() == 3 && name == ENDPOINTS {
                self.endpoints(path[1], &shown, value);
            } else if of_controller && path.len() <= 2 || fields.iter().any(|field| is_within(field, &path)) {
                match value {
                    Value::Null => {}
                    Value::Object(map) => self.map(&path, map),
                    other => self.problem(&shown, &format!("must be a map of fields, not {}", describe(other))),
                }
            } else {
                let advice = self.advice(&path);
                self.problem(&shown, &format!("unknown field; {advice}"));
            }
        }
    }

    /// Suggests the nearest name, or lists the valid ones.
    fn advice(&self, path: &[&str]) -> String {
        let (name, parent) = path.split_last().unwrap_or((&"", &[]));
        // A field of this name elsewhere.
        let same =
            self.fields.iter().find(|field| field.path.last().is_some_and(|last| last.eq_ignore_ascii_case(name)));
        let flag = self.fields.iter().find(|field| field.flag() == *name);
        let mut siblings: Vec<&str> = Vec::new();
        for field in self.fields.iter().filter(|field| is_within(field, parent)) {
            let sibling = field.path[parent.len()].as_str();
            if !siblings.contains(&sibling) {
                siblings.push(sibling);
            }
        }
        if parent.len() == 2 && parent[0] == OF_CONTROLLERS {
            siblings.extend([SETTINGS, ENDPOINTS]);
        }
        let begins =
            |other: &str| other.len().min(name.len()) > 3 && (other.starts_with(name) || name.starts_with(other));
        let begun = siblings.iter().copied().find(|other| begins(other));
        let near = like(name, siblings.iter().copied());
        let without = NOT_IN_FILE.iter().find(|(flag, _)| flag == name);
        match (near.or(begun), flag.or(same)) {
            _ if without.is_some() && parent.is_empty() => {
                let why = without.map_or("", |(_, why)| why);
                format!("--{name} has none: {why}")
            }
            (Some(near), _) => format!("did you mean {near}?"),
            (None, Some(field)) => format!("did you mean {}?", field.shown()),
            (None, None) => format!("fields there are {}", siblings.join(", ")),
        }
    }

    fn field(&mut self, field: &Field, value: &Value) {
        let shown = field.shown();
        match (value, field.form()) {
            (Value::Object(map), Form::Gates) => {
                for (gate, value) in map {
                    let shown = format!("{shown}.{gate}");
                    match value.as_bool() {
                        Some(value) => self.argument(field, shown, format!("{gate}={value}")),
                        None => self.problem(&shown, &format!("must be true or false, not {}", describe(value))),
                    }
                }
            }
            (Value::Object(map), Form::Limits) => {
                let mut limits = Vec::new();
                for (limit, value) in map {
                    match value.as_u64() {
                        Some(value) => limits.push(format!("{limit}={value}")),
                        None => {
                            self.problem(
                                &format!("{shown}.{limit}"),
                                &format!("must be a whole number, not {}", describe(value)),
                            );
                        }
                    }
                }
                self.argument(field, shown, limits.join(","));
            }
            (Value::Object(map), Form::Groups) => {
                for (group, value) in map {
                    let shown = format!("{shown}.{group}");
                    let names: Option<Vec<&str>> =
                        value.as_array().and_then(|names| names.iter().map(Value::as_str).collect());
                    match names {
                        Some(names) => self.argument(field, shown, format!("{group}={}", names.join(","))),
                        None => self.problem(&shown, &format!("must be a list of text, not {}", describe(value))),
                    }
                }
            }
            (other, _) if field.is_map() => self.problem(&shown, &format!("must be a map, not {}", describe(other))),
            (Value::Array(items), _) if field.is_list() => self.list(field, items),
            (other, _) if field.is_list() => {
                self.problem(&shown, &format!("must be a list, not {}: write [{}]", describe(other), describe(other)));
            }
            (value, form) => match self.scalar(form, value) {
                Ok(text) => self.argument(field, shown, text),
                Err(why) => self.problem(&shown, &why),
            },
        }
    }

    fn list(&mut self, field: &Field, items: &[Value]) {
        let mut texts = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let shown = format!("{}[{i}]", field.shown());
            match (self.scalar(field.form(), item), field.delimiter()) {
                (Ok(text), Some(delimiter)) if text.contains(delimiter) => {
                    self.problem(&shown, &format!("{text:?} contains {delimiter:?}: write one entry for each"));
                }
                (Ok(text), Some(_)) if self.check(field, &shown, &text) => texts.push(text),
                (Ok(_), Some(_)) => {}
                (Ok(text), None) => self.argument(field, shown, text),
                (Err(why), _) => self.problem(&shown, &why),
            }
        }
        let Some(delimiter) = field.delimiter() else { return };
        // An empty list means none, even if the default is another list.
        let has_default = !field.arg.get_default_values().is_empty();
        if !texts.is_empty() || items.is_empty() && has_default {
            let (field, flag) = (field.shown(), field.flag().to_owned());
            self.arguments.push(Argument { field, flag, value: texts.join(&delimiter.to_string()) });
        }
    }

    /// A single value in the flag's text form.
    fn scalar(&self, form: Form, value: &Value) -> Result<String, String> {
        let not = |what: &str| Err(format!("must be {what}, not {}", describe(value)));
        match (form, value) {
            (Form::Boolean, Value::Bool(value)) => Ok(value.to_string()),
            (Form::Boolean, _) => not("true or false"),
            (Form::Integer, Value::Number(number)) if !number.is_f64() => Ok(number.to_string()),
            (Form::Integer, _) => not("a whole number"),
            (Form::Number, Value::Number(number)) => Ok(number.to_string()),
            (Form::Number, _) => not("a number"),
            (Form::Duration, Value::Number(number)) => {
                Err(format!("must be a duration with its unit, such as {number}s, not {number}"))
            }
            (_, Value::String(text)) => Ok(form.with_paths(text, |path| self.path(path))),
            (Form::Duration, _) => not("a duration such as 15s"),
            (_, Value::Bool(_) | Value::Number(_)) => Err(format!("must be text, not {value}: write it in quotes")),
            _ => not("text"),
        }
    }

    /// Resolves a path relative to the folder of the file.
    fn path(&self, path: &str) -> String {
        if path.is_empty() { String::new() } else { self.folder.join(path).display().to_string() }
    }

    /// Settings of a controller in the form of `--set`; the controller's manifest validates them later.
    fn settings(&mut self, controller: &str, shown: &str, value: &Value) {
        let Value::Object(settings) = value else {
            if !value.is_null() {
                self.problem(shown, &format!("must be a map, not {}", describe(value)));
            }
            return;
        };
        for (setting, value) in settings {
            let mut value = value.clone();
            // No setting is a map, so maps are files, or an error.
            let is_files = |map: &Map<String, Value>| match map.len() {
                1 => map.contains_key("file"),
                2 => map.contains_key("certificate") && map.contains_key("key"),
                _ => false,
            };
            for path in value.as_object_mut().filter(|map| is_files(map)).into_iter().flat_map(Map::values_mut) {
                if let Value::String(path) = path {
                    *path = self.path(path);
                }
            }
            let (field, flag) = (format!("{shown}.{setting}"), "set".to_owned());
            self.arguments.push(Argument { field, flag, value: format!("{controller}.{setting}={value}") });
        }
    }

    /// Endpoints of a controller in the form of `--endpoint`: the URL, or a map with files.
    fn endpoints(&mut self, controller: &str, shown: &str, value: &Value) {
        let Value::Object(endpoints) = value else {
            if !value.is_null() {
                self.problem(shown, &format!("must be a map, not {}", describe(value)));
            }
            return;
        };
        for (endpoint, value) in endpoints {
            let field = format!("{shown}.{endpoint}");
            let text = match value {
                Value::String(url) => url.clone(),
                Value::Object(fields) => {
                    let mut fields = fields.clone();
                    for file in ["tokenFile", "caFile"] {
                        if let Some(Value::String(path)) = fields.get_mut(file) {
                            *path = self.path(path);
                        }
                    }
                    Value::Object(fields).to_string()
                }
                other => {
                    self.problem(
                        &field,
                        &format!("must be a URL or a map with url, tokenFile and caFile, not {}", describe(other)),
                    );
                    continue;
                }
            };
            let flag = "endpoint".to_owned();
            self.arguments.push(Argument { field, flag, value: format!("{controller}.{endpoint}={text}") });
        }
    }

    fn argument(&mut self, field: &Field, shown: String, value: String) {
        if self.check(field, &shown, &value) {
            self.arguments.push(Argument { field: shown, flag: field.flag().to_owned(), value });
        }
    }

    /// Whether the flag accepts the value.
    fn check(&mut self, field: &Field, shown: &str, value: &str) -> bool {
        let argument = OsString::from(format!("--{}={value}", field.flag()));
        let Err(why) = self.run.try_get_matches_from_mut([argument]) else { return true };
        // A certificate requires a key, for example, which may be in another field.
        if why.kind() == ErrorKind::MissingRequiredArgument {
            return true;
        }
        self.problem(shown, &reason(&why, value));
        false
    }
}

/// Whether the field is below this path.
fn is_within(field: &Field, path: &[&str]) -> bool {
    field.path.len() > path.len() && field.path.iter().zip(path).all(|(one, other)| one == other)
}

/// Why a flag rejects a value, without the name of the flag.
fn reason(why: &clap::Error, value: &str) -> String {
    if let Some(ContextValue::Strings(valid)) =
        why.get(ContextKind::ValidValue).filter(|_| why.kind() == ErrorKind::InvalidValue)
    {
        return format!("{value:?} is not one of {}", valid.join(", "));
    }
    match std::error::Error::source(why) {
        Some(source) => format!("{value:?}: {source}"),
        None => why.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// Adds a file's arguments to the command line: those that it does not have itself, and that the command supports. The
/// others are removed from `file`.
pub(crate) fn merge(
    given: &[OsString],
    matches: &ArgMatches,
    command: &Command,
    file: &mut Vec<Argument>,
) -> Vec<OsString> {
    let is_given = |flag: &str| {
        let id = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).map(|arg| arg.get_id().as_str());
        let of_command_line = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        // Flags that set entries of a map.
        let adds = ["feature-gates", "set", "endpoint"].contains(&flag);
        let positional = flag == "plugin" && of_command_line("plugins");
        !adds && (positional || id.is_some_and(of_command_line))
    };
    let has = |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
    let (before, after) = given.split_at(given.len().min(2));
    let mut merged = before.to_vec();
    let mut positional = Vec::new();
    file.retain(|argument| !is_given(&argument.flag) && (has(&argument.flag) || argument.flag == "plugin"));
    for argument in file {
        match has(&argument.flag) {
            true => merged.push(argument.text().into()),
            // `pintle rbac` accepts components only as positional arguments.
            false => positional.push(OsString::from(&argument.value)),
        }
    }
    merged.extend(positional);
    merged.extend_from_slice(after);
    merged
}

/// A remark with the file's fields that an error about flags refers to.
pub(crate) fn remark(text: &str, file: &str, arguments: &[Argument]) -> Option<String> {
    let is_named = |flag: &str| {
        text.match_indices(&format!("--{flag}")).any(|(at, found)| {
            !text[at + found.len()..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-')
        })
    };
    let mut fields: Vec<String> = Vec::new();
    for argument in arguments.iter().filter(|argument| is_named(&argument.flag)) {
        let field = format!("--{} is {}", argument.flag, argument.field);
        // For `--set` and `--endpoint`, only the affected one.
        let is_meant =
            !matches!(&*argument.flag, "set" | "endpoint") || text.contains(&argument.value.replace('"', "\\\""));
        if is_meant && !fields.contains(&field) {
            fields.push(field);
        }
    }
    (!fields.is_empty()).then(|| format!("in {file}, {}", fields.join(" and ")))
}

/// The file in `--config`.
pub(crate) fn named(matches: &ArgMatches) -> Option<&OsStr> {
    let mut values = matches.try_get_raw("config").ok().flatten()?;
    values.next()
}
