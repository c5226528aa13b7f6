//! What every body of a write must hold: the right kind, the right namespace, known fields.

use serde_json::{Value, json};

use super::Call;
use super::objects::{meta, metadata_mut};
use super::shape::schema_of;
use super::status::{ApiError, Cause};
use crate::discovery::Resource;

/// How much of a body that is not understood is shown, in bytes.
const SUMMARY: usize = 30;

/// Refuses an object of another kind and fills in a missing type.
pub(super) fn check_type(resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    let Some(fields) = object.as_object() else {
        return Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: the body is no object",
            resource.kind, resource.version, resource.kind
        )));
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = resource.api_version();
    if resource.crd.is_some() && (api_version.is_empty() || kind.is_empty()) {
        let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
        let text = object.to_string();
        let start = text.get(..SUMMARY).map_or_else(|| text.clone(), |start| format!("{start} ..."));
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object '{missing}' is missing in '{text}' ({start})",
            resource.kind
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: converting ({}.{kind}) to ({}.{}): unknown conversion",
            resource.version,
            resource.kind,
            api_version.rsplit('/').next().unwrap_or_default(),
            internal_package(&resource.group),
            resource.kind
        )));
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
    if object.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta",
            resource.kind, resource.version, resource.kind
        )));
    }
    Ok(())
}

/// The Go package of the types that upstream's server works with.
fn internal_package(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    }
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

/// Drops fields that the kind does not have, with the strictness that the client asks for.
pub(super) fn check_fields(call: &Call, object: &mut Value, warnings: &mut Vec<String>) -> Result<(), ApiError> {
    let resource = &call.resource;
    let Some(schema) = schema_of(resource) else { return Ok(()) };
    let failed = |detail: &str| {
        ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {detail}",
            resource.kind, resource.version, resource.kind
        ))
    };
    let unknown = crate::schema::prune(&schema, object);
    if resource.crd.is_none()
        && let Some(detail) = super::seam::type_error(&schema, object)
    {
        return Err(failed(&detail));
    }
    match call.query.get("fieldValidation") {
        Some("Ignore") => Ok(()),
        Some("Strict") if !unknown.is_empty() => {
            let list = unknown.iter().map(|path| format!("unknown field {path:?}")).collect::<Vec<_>>().join(", ");
            Err(if resource.crd.is_some() {
                ApiError::bad_request(format!("strict decoding error: {list}"))
            } else {
                failed(&format!("strict decoding error: {list}"))
            })
        }
        Some("Strict" | "Warn") | None => {
            warnings.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
            Ok(())
        }
        Some(other) => {
            let cause = Cause {
                reason: "FieldValueNotSupported".into(),
                message: format!("Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""),
                field: "fieldValidation".into(),
            };
            Err(ApiError::invalid("meta.k8s.io", "CreateOptions", "", vec![cause]))
        }
    }
}
