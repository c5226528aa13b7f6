//! Checks every body of a write: the right kind, the right namespace, known fields of the right type.

use serde_json::{Value, json};

use super::Call;
use super::objects::{meta, metadata_mut};
use super::shape::schema_of;
use super::status::ApiError;
use crate::cause::Cause;
use crate::discovery::Resource;
use crate::schema::{type_error, type_name};

/// Origin of an object that does not decode, which determines the error.
#[derive(Clone, Copy)]
pub(super) enum Sent {
    /// It is the body of the request: 400.
    Body,
    /// The result of a patch: 422.
    Patched,
}

impl Sent {
    /// The error for an object.
    fn refuse(self, resource: &Resource, detail: &str) -> ApiError {
        match self {
            Sent::Body => {
                let (kind, version) = (&resource.kind, &resource.version);
                ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {detail}"))
            }
            Sent::Patched => {
                let message = format!("Invalid value: {detail}");
                ApiError::invalid("", "", "", vec![Cause::new("FieldValueInvalid", "patch", message)])
            }
        }
    }
}

/// Rejects an object of another kind, or with fields of another type, and fills in a missing type.
pub(super) fn check_type(resource: &Resource, object: &mut Value, sent: Sent) -> Result<(), ApiError> {
    let expected = resource.api_version();
    let refuse = |detail: String| Err(sent.refuse(resource, &detail));
    if !object.is_object() {
        return refuse(format!("expected object, found {}", type_name(object)));
    }
    let mut found = [String::new(), String::new()];
    for (found, field) in found.iter_mut().zip(["apiVersion", "kind"]) {
        match &object[field] {
            Value::String(text) => found.clone_from(text),
            Value::Null => {}
            other => return refuse(format!("{field}: expected string, found {}", type_name(other))),
        }
        if found.is_empty() && resource.crd.is_some() {
            return refuse(format!("{field} is missing"));
        }
    }
    let [api_version, kind] = found;
    if !kind.is_empty() && kind != resource.kind {
        return refuse(format!("its kind is {kind}"));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if api_version.is_empty() || kind.is_empty() {
        object["apiVersion"] = json!(expected);
        object["kind"] = json!(resource.kind);
    }
    if resource.crd.is_none()
        && let Some(schema) = schema_of(resource)
        && let Some(detail) = type_error(&schema, object)
    {
        return refuse(detail);
    }
    if !matches!(&object["metadata"], Value::Object(_) | Value::Null) {
        return refuse("metadata must be an object".to_owned());
    }
    Ok(())
}

/// Puts the namespace of the path into the object.
pub(super) fn check_scope(call: &Call, object: &mut Value) -> Result<(), ApiError> {
    let given = meta(object, "namespace");
    match call.namespace() {
        Some(namespace) if given.is_empty() => {
            metadata_mut(object).insert("namespace".into(), json!(namespace));
            Ok(())
        }
        Some(namespace) if given == namespace => Ok(()),
        None if given.is_empty() => Ok(()),
        _ => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Rejects an object with another name than that of the path.
pub(super) fn check_name(call: &Call, object: &Value) -> Result<(), ApiError> {
    let (found, wanted) = (meta(object, "name"), call.name());
    if found == wanted {
        return Ok(());
    }
    Err(ApiError::bad_request(if found.is_empty() {
        format!("the name of the object ({wanted} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({found}) does not match the name on the URL ({wanted})")
    }))
}

/// Drops unknown fields, with the strictness that the client requests.
pub(super) fn check_fields(
    call: &Call,
    object: &mut Value,
    warnings: &mut Vec<String>,
    sent: Sent,
) -> Result<(), ApiError> {
    let resource = &call.resource;
    let Some(schema) = schema_of(resource) else { return Ok(()) };
    let strictness = call.query.get("fieldValidation").unwrap_or("Warn");
    if strictness == "Strict" {
        let unknown = crate::schema::unknown_fields(&schema, object);
        if !unknown.is_empty() {
            let list = unknown.iter().map(|path| format!("unknown field {path:?}")).collect::<Vec<_>>().join(", ");
            let detail = format!("strict decoding error: {list}");
            return Err(sent.refuse(resource, &detail));
        }
        return Ok(());
    }
    let unknown = crate::schema::prune(&schema, object);
    if strictness != "Ignore" {
        warnings.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
    }
    Ok(())
}

/// Drops duplicate owner references, which upstream considers a client bug.
pub(super) fn drop_duplicate_owners(object: &mut Value, warnings: &mut Vec<String>) {
    let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") else { return };
    let mut kept: Vec<Value> = Vec::new();
    let mut duplicates: Vec<String> = Vec::new();
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            duplicates.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if !duplicates.is_empty() {
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        ));
    }
}
