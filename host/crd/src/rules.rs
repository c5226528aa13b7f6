//! `x-kubernetes-validations`: CEL rules.
//!
//! The library has no cost budget; the cost of a rule is not limited.
//!
//! *Source*: `apiextensions-apiserver/pkg/apiserver/schema/cel`.

use std::fmt;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};
use serde_json::Value;

use crate::{DUPLICATE, FORBIDDEN, INVALID, NO_FIELD, Problem, REQUIRED, is_unchanged};

/// The rules of a schema.
pub(crate) struct Rules {
    compiled: CompiledSchema,
    validator: Validator,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}

impl Rules {
    /// `None` if the schema has no rules.
    ///
    /// # Errors
    /// The rules that do not parse.
    pub(crate) fn compile(open_api: &Value) -> Result<Option<Self>, Vec<Problem>> {
        if !has_rules(open_api) {
            return Ok(None);
        }
        let compiled = compile_schema(open_api);
        let mut problems = Vec::new();
        wrong(&compiled, String::new(), &mut problems);
        if problems.is_empty() { Ok(Some(Self { compiled, validator: Validator::new() })) } else { Err(problems) }
    }

    /// The violated rules.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Problem> {
        let Err(errors) = self.validator.validate_compiled(&self.compiled, object, old) else { return Vec::new() };
        let errors = errors.into_vec().into_iter();
        // A rule that refers to the old object applies to the change.
        let is_new =
            |error: &ValidationError| error.rule.contains("oldSelf") || !is_unchanged(&error.field_path, object, old);
        errors.filter(is_new).map(|error| problem(error, object)).collect()
    }
}

fn problem(error: ValidationError, object: &Value) -> Problem {
    let ValidationError { rule, message, field_path, reason, kind, .. } = error;
    let detail = match kind {
        ErrorKind::ValidationFailure => message.trim().to_owned(),
        _ => format!("{} evaluating rule: {rule}", message.trim()),
    };
    let value = match at(object, &field_path) {
        // The message omits objects and lists.
        None | Some(Value::Object(_) | Value::Array(_)) => String::new(),
        Some(value) => format!(" {value}:"),
    };
    let (reason, message) = match reason.as_deref() {
        Some(FORBIDDEN) => (FORBIDDEN, format!("Forbidden: {detail}")),
        Some(REQUIRED) => (REQUIRED, format!("Required value: {detail}")),
        Some(DUPLICATE) => (DUPLICATE, format!("Duplicate value:{value}").trim_end_matches(':').to_owned()),
        _ => (INVALID, format!("Invalid value:{value} {detail}")),
    };
    // The root has no name.
    let field = if field_path.is_empty() { NO_FIELD.to_owned() } else { field_path };
    Problem::new(reason, field, message)
}

/// The value at a path such as `spec.ports[0].name`.
fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let mut value = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, indexes) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
        value = value.get(name)?;
        for index in indexes.split('[').filter(|index| !index.is_empty()) {
            value = value.get(index.trim_end_matches(']').parse::<usize>().ok()?)?;
        }
    }
    Some(value)
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

fn wrong(schema: &CompiledSchema, path: String, problems: &mut Vec<Problem>) {
    let errors = schema.compilation_errors();
    problems.extend(errors.into_iter().map(|error| {
        let field = if path.is_empty() { String::new() } else { format!("{path}.") };
        let text = error.to_string();
        Problem::new(
            INVALID,
            format!("{field}x-kubernetes-validations"),
            format!("Invalid value: compilation failed: {text}"),
        )
    }));
    let below = |part: String| if path.is_empty() { part } else { format!("{path}.{part}") };
    let mut names: Vec<&String> = schema.properties.keys().collect();
    names.sort();
    for name in names {
        if let Some(property) = schema.properties.get(name) {
            wrong(property, below(format!("properties[{name}]")), problems);
        }
    }
    if let Some(items) = &schema.items {
        wrong(items, below("items".to_owned()), problems);
    }
    if let Some(values) = &schema.additional_properties {
        wrong(values, below("additionalProperties".to_owned()), problems);
    }
}
