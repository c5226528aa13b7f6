//! Validates objects of custom kinds against the `openAPIV3Schema` of their CustomResourceDefinition, with
//! kube-apiserver's messages.
//!
//! *Flow*: [`Schema::compile`] once for each version of a definition; [`Schema::check`] for each write: the structure
//! ([`structure`], a JSON Schema), then duplicates in lists ([`lists`]), then rules in CEL ([`rules`]).
//!
//! *Not here*: defaults, pruning and unknown fields, which change the object rather than reject it.
//!
//! *Source*: `apiextensions-apiserver/pkg/registry/customresource/{strategy,validator}.go`, `kube-openapi/pkg/validation`, and
//! `apimachinery/pkg/util/validation/field` for the texts.

mod formats;
mod lists;
mod rules;
mod structure;

use serde_json::Value;

/// A problem in an object or a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason as one word, for example `FieldValueInvalid`.
    pub reason: &'static str,
    /// Path of the field, for example `spec.ports[0].name`.
    pub field: String,
    /// Message for humans, with the value.
    pub message: String,
    /// Path of the value, which `field` does not always contain.
    place: String,
}

impl Problem {
    fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        let field = field.into();
        Self { reason, place: field.clone(), field, message: message.into() }
    }

    /// For a value that only the message contains.
    fn unplaced(place: String, message: String) -> Self {
        Self { reason: INVALID, field: NO_FIELD.to_owned(), message, place }
    }

    fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(INVALID, field, format!("Invalid value: {value}: {detail}"))
    }

    /// Whether it prevents the check of rules.
    fn blocks_rules(&self) -> bool {
        matches!(self.reason, REQUIRED | NOT_SUPPORTED | TOO_LONG | TOO_MANY | TYPE_INVALID)
    }
}

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const NOT_SUPPORTED: &str = "FieldValueNotSupported";
const TOO_LONG: &str = "FieldValueTooLong";
const TOO_MANY: &str = "FieldValueTooMany";
const TYPE_INVALID: &str = "FieldValueTypeInvalid";
const DUPLICATE: &str = "FieldValueDuplicate";
const FORBIDDEN: &str = "FieldValueForbidden";

/// Placeholder for problems without a field.
const NO_FIELD: &str = "<nil>";

/// The compiled schema of one version of a definition.
#[derive(Debug)]
pub struct Schema {
    source: Value,
    structure: structure::Structure,
    rules: Option<rules::Rules>,
}

impl Schema {
    /// Compiles an `openAPIV3Schema`.
    ///
    /// # Errors
    /// The problems: a pattern, a `$ref`, a rule that does not parse. The fields are paths within the schema, for
    /// example `properties[spec].pattern`. A retry does not help.
    pub fn compile(open_api: &Value) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let structure = structure::Structure::compile(open_api).map_err(|problem| problems.push(problem)).ok();
        let rules = rules::Rules::compile(open_api).map_err(|found| problems.extend(found)).ok();
        match structure.zip(rules) {
            Some((structure, rules)) => Ok(Self { source: open_api.clone(), structure, rules }),
            None => Err(problems),
        }
    }

    /// The problems of an object; `old` is the object that it replaces. Problems of unchanged values are not reported
    /// (ratcheting, KEP-4008).
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Problem> {
        let mut problems = self.structure.check(object);
        if old.is_none_or(|old| lists::check(&self.source, old).is_empty()) {
            problems.extend(lists::check(&self.source, object));
        }
        problems.retain(|problem| !is_unchanged(&problem.place, object, old));
        let Some(rules) = &self.rules else { return problems };
        if problems.iter().any(Problem::blocks_rules) {
            let text = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            problems.push(Problem::invalid(NO_FIELD, &Value::Null, text));
        } else {
            problems.extend(rules.check(object, old));
        }
        problems
    }
}

/// Whether the value of a field is unchanged. In lists, whose items have no identity here, the whole list is compared.
fn is_unchanged(field: &str, object: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    let (mut new, mut old) = (object, old);
    let list = field.split_once('[').map_or(field, |(list, _)| list);
    for name in list.split('.').filter(|name| !name.is_empty()) {
        match (new.get(name), old.get(name)) {
            (Some(new_value), Some(old_value)) => (new, old) = (new_value, old_value),
            // A required field that was absent before is not reported, either.
            (None, None) => return new == old,
            _ => return false,
        }
    }
    new == old
}

/// The OpenAPI type of a value.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
