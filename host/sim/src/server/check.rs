//! What every body of a write must hold: the right kind, the right namespace, known fields of the right type.

use serde_json::{Value, json};

use super::Call;
use super::objects::{meta, metadata_mut};
use super::reply::unrecognized;
use super::shape::schema_of;
use super::status::{ApiError, Cause};
use crate::discovery::Resource;
use crate::gojson;

/// Where an object that does not decode came from, which decides how it is refused.
#[derive(Clone, Copy)]
pub(super) enum Sent<'a> {
    /// It is the body of the request.
    Body,
    /// A JSON or merge patch made it.
    Patched,
    /// This strategic merge patch made it.
    Strategic(&'a Value),
}

impl Sent<'_> {
    /// The refusal of an object for what its decoder says.
    fn refuse(self, resource: &Resource, object: &Value, detail: &str) -> ApiError {
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let shown = match self {
            Sent::Body => {
                let kind = text("kind").unwrap_or(&resource.kind);
                let version = text("apiVersion").map_or(resource.version.as_str(), |api_version| {
                    api_version.rsplit('/').next().unwrap_or_default()
                });
                return ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {}: {detail}",
                    resource.kind
                ));
            }
            Sent::Patched => object.to_string(),
            Sent::Strategic(patch) => gojson::go_value(patch),
        };
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {shown:?}: {detail}"),
            field: "patch".into(),
        };
        ApiError::invalid("", "", "", vec![cause])
    }
}

/// Refuses an object of another kind, or one whose fields are of another type, and fills in a missing type.
pub(super) fn check_type(resource: &Resource, object: &mut Value, sent: Sent<'_>) -> Result<(), ApiError> {
    let Some(fields) = object.as_object() else {
        return Err(sent.refuse(resource, object, "the body is no object"));
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = resource.api_version();
    if resource.crd.is_some() && (api_version.is_empty() || kind.is_empty()) {
        let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
        let body = object.to_string();
        let detail = format!("Object '{missing}' is missing in '{body}'");
        return Err(match sent {
            Sent::Body => unrecognized(&resource.kind, &detail, body.as_bytes()),
            _ => sent.refuse(resource, object, &detail),
        });
    }
    if !kind.is_empty() && kind != resource.kind {
        let detail = format!(
            "converting ({}.{kind}) to ({}.{}): unknown conversion",
            if api_version.is_empty() { &resource.version } else { api_version.rsplit('/').next().unwrap_or_default() },
            internal_package(&resource.group),
            resource.kind
        );
        return Err(sent.refuse(resource, object, &detail));
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
        && let Some(detail) = type_error(&schema, object, sent)
    {
        return Err(sent.refuse(resource, object, &detail));
    }
    if object.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return Err(sent.refuse(resource, object, "metadata must be an object"));
    }
    Ok(())
}

/// What the decoder says of the first field of another type: Go's JSON decoder, or, for what a strategic merge patch made,
/// the converter from untyped maps.
fn type_error(schema: &crate::schema::TypeRef, object: &Value, sent: Sent<'_>) -> Option<String> {
    match sent {
        Sent::Body | Sent::Patched => gojson::type_error(schema, object),
        Sent::Strategic(_) => gojson::conversion_error(schema, object),
    }
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

/// Refuses an object of another name than that of the path.
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

/// Drops fields that the kind does not have, with the strictness that the client asks for.
pub(super) fn check_fields(
    call: &Call,
    object: &mut Value,
    warnings: &mut Vec<String>,
    sent: Sent<'_>,
) -> Result<(), ApiError> {
    let resource = &call.resource;
    let Some(schema) = schema_of(resource) else { return Ok(()) };
    let strictness = call.query.get("fieldValidation").unwrap_or("Warn");
    if strictness == "Strict" {
        let mut unknown = crate::schema::unknown_fields(&schema, object);
        if matches!(sent, Sent::Strategic(_)) {
            unknown.sort();
        }
        if !unknown.is_empty() {
            let list = unknown.iter().map(|path| format!("unknown field {path:?}")).collect::<Vec<_>>().join(", ");
            let detail = format!("strict decoding error: {list}");
            return Err(sent.refuse(resource, object, &detail));
        }
        return Ok(());
    }
    let unknown = crate::schema::prune(&schema, object);
    if strictness != "Ignore" {
        warnings.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
    }
    Ok(())
}

/// Drops owner references that say the same as one before, which upstream takes for a mistake of the client.
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
