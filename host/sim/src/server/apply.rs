//! Server-side apply, and the owners of fields that other writes keep.
//!
//! *Not here*: how ownership is computed (`crate::apply`).

use serde_json::{Value, json};

use super::check::{check_fields, check_scope, check_type};
use super::objects::{meta, metadata_mut};
use super::reply::Reply;
use super::shape::schema_of;
use super::status::{ApiError, Cause};
use super::write::Ownership;
use super::{Api, Call};
use crate::apply::{self, ApplyError};
use crate::clock::rfc3339;
use crate::store::WriteVerb;

impl Api {
    /// Server-side apply.
    pub(super) fn apply(&self, call: &Call) -> Result<Reply, ApiError> {
        let resource = &call.resource;
        let mut warnings = Vec::new();
        let Some(manager) = call.query.get("fieldManager") else {
            let cause = Cause {
                reason: "FieldValueRequired".into(),
                message: "Required value: is required for apply patch".into(),
                field: "fieldManager".into(),
            };
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        };
        let mut config: Value = serde_norway::from_slice(&call.body)
            .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
        if config.get("kind").is_none() || config.get("apiVersion").is_none() {
            return Err(ApiError::bad_request(missing_type(&config)));
        }
        check_type(resource, &mut config)?;
        check_scope(call, &mut config)?;
        match meta(&config, "name") {
            "" => {
                metadata_mut(&mut config).insert("name".into(), json!(call.name()));
            }
            name if name != call.name() => {
                return Err(ApiError::bad_request(format!(
                    "the name of the object ({name}) does not match the name on the URL ({})",
                    call.name()
                )));
            }
            _ => {}
        }
        check_fields(call, &mut config, &mut warnings)?;
        let force = call.query.flag("force");
        let now = rfc3339(self.clock.now());
        let applied = |live: Option<&Value>| {
            apply::apply(schema_of(resource), live, &config, manager, force, call.subresource(), &now)
                .map_err(apply_error)
        };
        let written =
            match self.update_owned(call, WriteVerb::Patch, Ownership::Applied, |current| applied(Some(current))) {
                Err(error) if error.code == 404 && call.subresource().is_none() => {
                    let uid = meta(&config, "uid");
                    if !uid.is_empty() {
                        let why = format!(
                            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                        );
                        return Err(ApiError::conflict(&resource.group_resource(), call.name(), &why));
                    }
                    let mut new = applied(None)?;
                    metadata_mut(&mut new).remove("resourceVersion");
                    self.create_owned(call, new, &mut warnings, WriteVerb::Patch, Ownership::Applied)?
                }
                other => other?,
            };
        self.reply_written(call, &written, warnings)
    }
}

/// What upstream says of a configuration that does not name its kind.
fn missing_type(config: &Value) -> String {
    let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or("");
    let (group, version) = match text("apiVersion") {
        version if !version.contains('/') => ("", version),
        full => full.split_once('/').unwrap_or_default(),
    };
    format!("invalid object type: {group}/{version}, Kind={}", text("kind"))
}

fn apply_error(error: ApplyError) -> ApiError {
    match error {
        ApplyError::BadRequest(message) => ApiError::bad_request(message),
        ApplyError::Conflict { message, causes } => {
            let mut error = ApiError::new(409, "Conflict", message);
            error.details.causes = causes
                .into_iter()
                .map(|(field, message)| Cause { reason: "FieldManagerConflict".into(), message, field })
                .collect();
            error
        }
    }
}

/// Keeps `managedFields` of a write that is no apply.
pub(super) fn track(call: &Call, old: Option<&Value>, new: &mut Value, now: &str) {
    apply::track_update(schema_of(&call.resource), old, new, call.field_manager(), call.subresource(), now);
}

/// Whether the owners of fields are the same, whenever they became so.
pub(super) fn same_owners(old: Option<&Value>, new: Option<&Value>) -> bool {
    let entries = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut old, mut new) = (entries(old), entries(new));
    for entry in old.iter_mut().chain(&mut new) {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    old == new
}
