//! The structural part of a schema, as JSON Schema draft 4, which OpenAPI 3.0 extends.
//!
//! *Source*: `kube-openapi/pkg/validation/{validate,errors}`, and `apiextensions-apiserver/pkg/apiserver/validation`
//! for the conversion of errors to causes.

use std::collections::BTreeSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use crate::formats::FORMATS;
use crate::{INVALID, NOT_SUPPORTED, Problem, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID, type_name};

/// Formats with the same meaning in JSON Schema and OpenAPI.
const SHARED_FORMATS: [&str; 6] = ["date-time", "email", "hostname", "ipv4", "ipv6", "uri"];

#[derive(Debug)]
pub(crate) struct Structure(Validator);

impl Structure {
    /// # Errors
    /// The problems of the schema.
    pub(crate) fn compile(open_api: &Value) -> Result<Self, Problem> {
        let schema = json_schema(open_api);
        // Linear time, as Go's.
        let mut options = jsonschema::options()
            .with_draft(Draft::Draft4)
            .with_pattern_options(PatternOptions::regex())
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true);
        for (name, is_valid) in FORMATS {
            options = options.with_format(name, is_valid);
        }
        options.build(&schema).map(Self).map_err(|why| {
            let path = in_schema(&why.instance_path().to_string());
            Problem::new(INVALID, path, format!("Invalid value: {}: {why}", why.instance()))
        })
    }

    pub(crate) fn check(&self, object: &Value) -> Vec<Problem> {
        let mut problems = Vec::new();
        for error in self.0.iter_errors(object) {
            add(&error, object, &mut problems);
        }
        // Several keywords of an object may report the same cause.
        let mut seen = BTreeSet::new();
        problems.retain(|problem| seen.insert((problem.field.clone(), problem.message.clone())));
        problems
    }
}

/// `/properties/spec/pattern` as `properties[spec].pattern`.
fn in_schema(pointer: &str) -> String {
    let mut path = String::new();
    let mut parts = pointer.split('/').filter(|part| !part.is_empty());
    while let Some(part) = parts.next() {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(part);
        if part == "properties"
            && let Some(name) = parts.next()
        {
            path.push_str(&format!("[{name}]"));
        }
    }
    path
}

fn add(error: &ValidationError<'_>, object: &Value, problems: &mut Vec<Problem>) {
    use ValidationErrorKind as Kind;
    let value = error.instance().as_ref();
    let path = path(object, error);
    let invalid = |detail: String| Problem::invalid(path.clone(), value, &format!("{} in body {detail}", path));
    let quoted = format!("{:?}", path);
    let n_members = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    let too_many = |limit: u64| {
        let items = if limit == 1 { "item" } else { "items" };
        Problem::new(TOO_MANY, path.clone(), format!("Too many: {n_members}: must have at most {limit} {items}"))
    };
    // The value is the number.
    let too_few = |least: String| {
        Problem::invalid(path.clone(), &n_members.into(), &format!("{path} in body should have at least {least}"))
    };
    let problem = match error.kind() {
        Kind::Type { kind } => wrong_type(&path, value, kind),
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            Problem::new(REQUIRED, field, "Required value")
        }
        Kind::Enum { options } => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            // `null` represents `nullable`.
            let all = options.as_array().into_iter().flatten().filter(|value| !value.is_null());
            let all: Vec<String> = all.map(|value| format!("{:?}", text(value))).collect();
            Problem::new(
                NOT_SUPPORTED,
                path,
                format!("Unsupported value: {value}: supported values: {}", all.join(", ")),
            )
        }
        Kind::MaxLength { limit } => {
            let bytes = if *limit == 1 { "byte" } else { "bytes" };
            Problem::new(TOO_LONG, path, format!("Too long: may not be more than {limit} {bytes}"))
        }
        Kind::MaxItems { limit } | Kind::MaxProperties { limit } => too_many(*limit),
        Kind::MinLength { limit } => invalid(format!("should be at least {limit} chars long")),
        Kind::MinItems { limit } => too_few(format!("{limit} items")),
        Kind::MinProperties { limit } => too_few(format!("{limit} properties")),
        Kind::Minimum { limit } => invalid(format!("should be greater than or equal to {limit}")),
        Kind::Maximum { limit } => invalid(format!("should be less than or equal to {limit}")),
        Kind::ExclusiveMinimum { limit } => invalid(format!("should be greater than {limit}")),
        Kind::ExclusiveMaximum { limit } => invalid(format!("should be less than {limit}")),
        Kind::MultipleOf { multiple_of } => invalid(format!("should be a multiple of {multiple_of}")),
        Kind::Pattern { pattern } => invalid(format!("should match '{pattern}'")),
        Kind::UniqueItems => invalid("shouldn't contain duplicates".to_owned()),
        Kind::Format { format } => {
            let detail = format!("{} in body must be of type {format}: {value}", path);
            Problem::new(TYPE_INVALID, path, format!("Invalid value: {value}: {detail}"))
        }
        Kind::AnyOf { context } => {
            let text = format!("Invalid value: \"\": {quoted} must validate at least one schema (anyOf)");
            problems.push(Problem::unplaced(path, text));
            return best(context, object, problems);
        }
        Kind::OneOfNotValid { context } => {
            let text = format!(
                "Invalid value: \"\": {quoted} must validate one and only one schema (oneOf). Found none valid"
            );
            problems.push(Problem::unplaced(path, text));
            return best(context, object, problems);
        }
        Kind::OneOfMultipleValid { context } => {
            let n_valid = context.iter().filter(|errors| errors.is_empty()).count();
            let text = format!(
                "Invalid value: \"\": {quoted} must validate one and only one schema (oneOf). Found {n_valid} valid alternatives"
            );
            Problem::unplaced(path, text)
        }
        Kind::Not { .. } => {
            Problem::unplaced(path, format!("Invalid value: \"\": {quoted} must not validate the schema (not)"))
        }
        _ => Problem::invalid(path, value, &error.to_string()),
    };
    problems.push(problem);
}

fn wrong_type(path: &str, value: &Value, kind: &TypeKind) -> Problem {
    let wanted: Vec<String> = match kind {
        TypeKind::Single(one) => vec![one.to_string()],
        TypeKind::Multiple(several) => several.iter().map(|one| one.to_string()).filter(|one| one != "null").collect(),
    };
    let (found, wanted) = (type_name(value), wanted.join(","));
    let message = format!("Invalid value: {found:?}: {} in body must be of type {wanted}: {found:?}", path);
    Problem::new(TYPE_INVALID, path, message)
}

/// The errors of the closest alternative.
fn best(context: &[Vec<ValidationError<'static>>], object: &Value, problems: &mut Vec<Problem>) {
    let closest = context.iter().filter(|errors| !errors.is_empty()).min_by_key(|errors| errors.len());
    for error in closest.into_iter().flatten() {
        add(error, object, problems);
    }
}

/// The path of the value as `spec.ports[0].name`.
fn path(object: &Value, error: &ValidationError<'_>) -> String {
    let mut value = object;
    let mut path = String::new();
    let pointer = error.instance_path().to_string();
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        if value.is_array() {
            path.push_str(&format!("[{name}]"));
            value = name.parse::<usize>().ok().and_then(|i| value.get(i)).unwrap_or(&Value::Null);
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&name);
            value = value.get(&name).unwrap_or(&Value::Null);
        }
    }
    path
}

/// Converts the JSON Schema part of an OpenAPI schema.
fn json_schema(schema: &Value) -> Value {
    let Value::Object(given) = schema else { return schema.clone() };
    let mut made = Map::new();
    for (name, value) in given {
        let value = match name.as_str() {
            "properties" => Value::Object(
                value.as_object().into_iter().flatten().map(|(name, one)| (name.clone(), json_schema(one))).collect(),
            ),
            "items" | "additionalProperties" | "not" => json_schema(value),
            "allOf" | "anyOf" | "oneOf" => value.as_array().into_iter().flatten().map(json_schema).collect(),
            "format" if !is_checked(value) => continue,
            "format" | "pattern" | "required" | "enum" | "type" | "minimum" | "maximum" | "exclusiveMinimum"
            | "exclusiveMaximum" | "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" | "multipleOf" | "uniqueItems" | "$ref" => value.clone(),
            _ => continue,
        };
        made.insert(name.clone(), value);
    }
    if given.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        made.insert("type".to_owned(), json!(["integer", "string"]));
    }
    if given.get("nullable") == Some(&Value::Bool(true)) {
        if let Some(kind) = made.get_mut("type") {
            let mut kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
            kinds.push("null".into());
            *kind = Value::Array(kinds);
        }
        if let Some(options) = made.get_mut("enum").and_then(Value::as_array_mut) {
            options.push(Value::Null);
        }
    }
    Value::Object(made)
}

fn is_checked(format: &Value) -> bool {
    let name = format.as_str().unwrap_or_default();
    SHARED_FORMATS.contains(&name) || FORMATS.iter().any(|(known, _)| *known == name)
}
