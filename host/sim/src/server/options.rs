//! Options of writes, validated before anything else.
//!
//! *Source*: `ValidateCreateOptions` and related functions in apimachinery's `meta/v1/validation`.

use serde_json::json;

use super::query::Query;
use super::status::ApiError;
use crate::cause::Cause;

/// Longest name of a field manager, in bytes.
const MAX_MANAGER: usize = 128;

/// The cause for a dry run of another kind than `All`.
pub(super) fn dry_run<'a>(given: impl Iterator<Item = &'a str>) -> Option<Cause> {
    let given: Vec<&str> = given.collect();
    let known = given.iter().all(|value| *value == "All");
    (!known).then(|| Cause::unsupported("dryRun", &json!(given), &["All"]))
}

/// Rejects invalid options of a create, update or patch; `kind` is `CreateOptions` or similar.
pub(super) fn check(query: &Query, kind: &str) -> Result<(), ApiError> {
    check_with(query, kind, Vec::new())
}

/// As [`check`], in addition to the causes from the kind of write.
pub(super) fn check_with(query: &Query, kind: &str, mut causes: Vec<Cause>) -> Result<(), ApiError> {
    let manager = query.get("fieldManager").unwrap_or("");
    if manager.len() > MAX_MANAGER {
        let message = format!("Too long: may not be more than {MAX_MANAGER} bytes");
        causes.push(Cause::new("FieldValueTooLong", "fieldManager", message));
    }
    if manager.chars().any(char::is_control) {
        causes.push(Cause::invalid("fieldManager", &manager.into(), "must be printable"));
    }
    causes.extend(dry_run(query.all("dryRun")));
    let known = ["", "Ignore", "Strict", "Warn"];
    if let Some(other) = query.get("fieldValidation").filter(|value| !known.contains(value)) {
        causes.push(Cause::unsupported("fieldValidation", &other.into(), &known));
    }
    refuse(kind, causes)
}

/// 422 about options of this kind when there is a cause.
pub(super) fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", kind, "", causes)) }
}
