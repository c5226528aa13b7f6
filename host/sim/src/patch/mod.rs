//! The three patch formats whose result depends only on the object and the patch.
//!
//! Flow: the server passes the stored object and the request's body; the result is the patched object, not yet
//! defaulted, validated or stored.
//!
//! Not here: server-side apply (`apply`).
//!
//! Source: RFC 6902, RFC 7386, apimachinery's `strategicpatch`.

mod strategic;

use serde_json::Value;

use crate::schema::{Node, TypeRef, type_name};

/// The reason why a patch was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is not a patch of this format: 400 BadRequest.
    #[error("{0}")]
    Malformed(String),
    /// A test in the patch failed, or the patch contradicts itself: 409 Conflict.
    #[error("{0}")]
    Conflict(String),
    /// The patch cannot be applied to this object: 422 Invalid.
    #[error("{0}")]
    Invalid(String),
}

/// Applies a JSON patch (RFC 6902).
///
/// # Errors
/// `Malformed` when the body is not a list of operations, `Invalid` when an operation does not fit the object.
pub fn json_patch(current: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let operations: json_patch::Patch = serde_json::from_slice(patch)
        .map_err(|error| PatchError::Malformed(format!("error decoding patch: {error}")))?;
    if operations.0.len() > MAX_JSON_PATCH_OPERATIONS {
        return Err(PatchError::Malformed(format!(
            "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {}",
            operations.0.len()
        )));
    }
    let mut object = current.clone();
    for operation in operations.0 {
        let operation = replace_adds(&object, operation);
        json_patch::patch(&mut object, &[operation]).map_err(|error| PatchError::Invalid(error.to_string()))?;
    }
    Ok(object)
}

/// Unlike RFC 6902, upstream's library lets a replace create a missing field.
fn replace_adds(object: &Value, operation: json_patch::PatchOperation) -> json_patch::PatchOperation {
    match operation {
        json_patch::PatchOperation::Replace(replace)
            if replace.path.resolve(object).is_err()
                && replace.path.parent().is_some_and(|parent| parent.resolve(object).is_ok_and(Value::is_object)) =>
        {
            json_patch::PatchOperation::Add(json_patch::AddOperation { path: replace.path, value: replace.value })
        }
        other => other,
    }
}

/// Most operations in one JSON patch.
const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Applies a JSON merge patch (RFC 7386).
///
/// # Errors
/// `Malformed` when the body is not an object.
pub fn merge_patch(current: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch = object_body(patch)?;
    let mut object = current.clone();
    json_patch::merge(&mut object, &patch);
    Ok(object)
}

/// The strategic merge patch in a body.
///
/// # Errors
/// `Malformed` when the body is not an object.
pub fn strategic_body(patch: &[u8]) -> Result<Value, PatchError> {
    object_body(patch)
}

/// Applies a strategic merge patch. Without a schema lists are replaced, as fields without a patch strategy are.
///
/// # Errors
/// `Malformed` when a directive is wrong, `Invalid` when list elements lack their merge key.
pub fn strategic_merge(schema: Option<TypeRef>, current: &Value, patch: Value) -> Result<Value, PatchError> {
    strategic::merge(Node::root(schema.as_ref()), current, patch)
}

fn object_body(patch: &[u8]) -> Result<Value, PatchError> {
    let malformed = |error: String| PatchError::Malformed(format!("error decoding patch: {error}"));
    match serde_json::from_slice(patch).map_err(|error| malformed(error.to_string()))? {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        patch @ Value::Object(_) => Ok(patch),
        other => Err(malformed(format!("expected object, found {}", type_name(&other)))),
    }
}
