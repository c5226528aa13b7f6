//! Server-side apply, and field ownership of other writes.
//!
//! *Not here*: how ownership is computed (`crate::apply`).

use serde_json::Value;

use super::check::{Sent, check_name, check_scope, check_type};
use super::objects::{meta, metadata_mut};
use super::reply::Reply;
use super::shape::schema_of;
use super::status::ApiError;
use super::write::{COMMIT_ATTEMPTS, Ownership};
use super::{Api, Call, options};
use crate::apply::{self, ApplyError};
use crate::cause::Cause;
use crate::clock::rfc3339;
use crate::store::WriteVerb;

impl Api {
    /// Server-side apply.
    pub(super) fn apply(&self, call: &Call) -> Result<Reply, ApiError> {
        let resource = &call.resource;
        let mut warnings = Vec::new();
        let manager = call.query.get("fieldManager").unwrap_or("");
        let mut causes = Vec::new();
        if manager.is_empty() {
            causes.push(Cause::required_because("fieldManager", "is required for apply patch"));
        }
        options::check_with(&call.query, "PatchOptions", causes)?;
        let config: Value = serde_norway::from_slice(&call.body)
            .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
        let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or("");
        if text("apiVersion") != resource.api_version() || text("kind") != resource.kind {
            return Err(ApiError::bad_request(format!(
                "the configuration must be of kind {} in {}",
                resource.kind,
                resource.api_version()
            )));
        }
        let force = call.query.flag("force");
        let now = rfc3339(self.clock.now());
        let applied = |live: Option<&Value>| {
            let mut new = apply::apply(schema_of(resource), live, &config, manager, force, call.subresource(), &now)
                .map_err(apply_error)?;
            check_type(resource, &mut new, Sent::Body)?;
            check_scope(call, &mut new)?;
            check_name(call, &new)?;
            Ok(new)
        };
        for _ in 0..COMMIT_ATTEMPTS {
            let update = |live: &Value| applied(Some(live));
            let absent = match self.update_owned(call, WriteVerb::Patch, Ownership::Applied, update) {
                Err(error) if error.code == 404 && call.subresource().is_none() => applied(None),
                other => return self.reply_written(call, &other?, warnings),
            };
            let uid = meta(&config, "uid");
            if !uid.is_empty() {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(ApiError::conflict(&resource.group_resource(), call.name(), &why));
            }
            let mut new = absent?;
            metadata_mut(&mut new).remove("resourceVersion");
            match self.create_owned(call, new, &mut warnings, WriteVerb::Patch, Ownership::Applied) {
                // As upstream, it is applied to the object that another client has created since.
                Err(error) if error.reason == "AlreadyExists" => {}
                other => return self.reply_written(call, &other?, warnings),
            }
        }
        Err(ApiError::modified(&resource.group_resource(), call.name()))
    }
}

fn apply_error(error: ApplyError) -> ApiError {
    match error {
        ApplyError::BadRequest(message) => ApiError::bad_request(message),
        ApplyError::Misfit(message) => ApiError::new(500, "", message),
        ApplyError::Conflict { message, causes } => {
            let mut error = ApiError::new(409, "Conflict", message);
            error.details.causes =
                causes.into_iter().map(|(field, message)| Cause::new("FieldManagerConflict", field, message)).collect();
            error
        }
    }
}
