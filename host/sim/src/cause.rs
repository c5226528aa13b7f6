//! Details of an invalid request: a cause in the details of a `Status`.

use serde_json::Value;

/// One cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueRequired`, `FieldManagerConflict`, ...; empty when there is none.
    pub reason: &'static str,
    /// For humans.
    pub message: String,
    /// Path of the field, for example `spec.replicas`; empty when there is none.
    pub field: String,
}

impl Cause {
    /// A cause with its own message.
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: field.into() }
    }

    /// `Invalid value: "x": detail`
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {detail}"))
    }

    /// `Required value`
    pub fn required(field: impl Into<String>) -> Self {
        Self::new("FieldValueRequired", field, "Required value")
    }

    /// `Required value: detail`
    pub fn required_because(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, format!("Required value: {detail}"))
    }

    /// `Not found: "x"`
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueNotFound", field, format!("Not found: {value}"))
    }

    /// `Duplicate value: "x"`
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    /// `Too long: may not be more than 5 bytes`
    pub fn too_long(field: impl Into<String>, most: usize) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {most} bytes"))
    }

    /// `Forbidden: detail`
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    /// `Unsupported value: "x": supported values: "a", "b"`
    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
        Self::new("FieldValueNotSupported", field, format!("Unsupported value: {value}: supported values: {supported}"))
    }
}

impl From<pintle_crd::Problem> for Cause {
    fn from(problem: pintle_crd::Problem) -> Self {
        Self::new(problem.reason, problem.field, problem.message)
    }
}
