//! The options of writes, checked before anything is done.
//!
//! *Source*: `ValidateCreateOptions` and its like in apimachinery's `meta/v1/validation`.

use serde_json::json;

use super::query::Query;
use super::status::{ApiError, Cause};

/// Longest name of a field manager, in bytes.
const MAX_MANAGER: usize = 128;

/// A cause for one option.
pub(super) fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.into(), message, field: field.into() }
}

/// What an option that may not be given here is told.
pub(super) fn forbidden(field: &str, detail: &str) -> Cause {
    cause("FieldValueForbidden", field, format!("Forbidden: {detail}"))
}

/// What a dry run of another kind than `All` is told.
pub(super) fn dry_run<'a>(given: impl Iterator<Item = &'a str>) -> Option<Cause> {
    let given: Vec<&str> = given.collect();
    let known = given.iter().all(|value| *value == "All");
    (!known).then(|| {
        let message = format!("Unsupported value: {}: supported values: \"All\"", json!(given));
        cause("FieldValueNotSupported", "dryRun", message)
    })
}

/// Refuses options of a create, update or patch that make no sense; `kind` is `CreateOptions` or its like.
pub(super) fn check(query: &Query, kind: &str) -> Result<(), ApiError> {
    check_with(query, kind, Vec::new())
}

/// As [`check`], after what the kind of write has found itself.
pub(super) fn check_with(query: &Query, kind: &str, mut causes: Vec<Cause>) -> Result<(), ApiError> {
    let manager = query.get("fieldManager").unwrap_or("");
    if manager.len() > MAX_MANAGER {
        let message = format!("Too long: may not be more than {MAX_MANAGER} bytes");
        causes.push(cause("FieldValueTooLong", "fieldManager", message));
    }
    for (at, letter) in manager.char_indices().filter(|(_, letter)| letter.is_control()) {
        let message =
            format!("Invalid value: {manager:?}: invalid character U+{:04X} (at position {at})", u32::from(letter));
        causes.push(cause("FieldValueInvalid", "fieldManager", message));
    }
    causes.extend(dry_run(query.all("dryRun")));
    if let Some(other) = query.get("fieldValidation").filter(|value| !matches!(*value, "Ignore" | "Warn" | "Strict")) {
        let message = format!("Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
        causes.push(cause("FieldValueNotSupported", "fieldValidation", message));
    }
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", causes)) }
}
