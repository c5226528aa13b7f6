//! Failures as `Status` objects.
//!
//! *Flow*: every verb returns [`ApiError`]; the connection turns it into a response.
//! *Invariants*: code, reason and details are those of a kube-apiserver, because controllers and kubectl match on them;
//! the message has the same meaning, not always the same text.

use serde_json::{Map, Value, json};

use crate::cause::Cause;

/// Group and plural name, the form of a resource in messages: `pods`, `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// Plural name.
    pub resource: String,
}

impl std::fmt::Display for GroupResource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(out, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A failed request.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// For humans.
    pub message: String,
    /// Group, kind (a resource or a kind), name, uid: as `Status.details`.
    pub details: Box<Details>,
    /// Value of `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// The connection is closed instead of a response.
    pub drop_connection: bool,
    /// The list metadata of a 410 has a token that continues inconsistently.
    pub continue_token: Option<String>,
}

/// `Status.details`.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Group of the resource or kind.
    pub group: String,
    /// Plural name, or the kind for validation errors.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Uid of the object.
    pub uid: String,
    /// The causes.
    pub causes: Vec<Cause>,
    /// Whether `details` is written even if empty.
    pub always: bool,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            retry_after_seconds: None,
            drop_connection: false,
            continue_token: None,
        }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details.group.clone_from(&resource.group);
        self.details.kind.clone_from(&resource.resource);
        self.details.name = name.to_owned();
        self
    }

    /// The connection ends without an answer.
    pub(crate) fn dropped() -> Self {
        Self { drop_connection: true, ..Self::new(503, "ServiceUnavailable", "connection dropped by a fault script") }
    }

    pub(crate) fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    pub(crate) fn unknown_path() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details.always = true;
        error
    }

    pub(crate) fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {name:?} already exists")).about(resource, name)
    }

    pub(crate) fn generate_name_conflict(resource: &GroupResource, name: &str) -> Self {
        let mut error = Self::new(
            409,
            "AlreadyExists",
            format!(
                "{resource} {name:?} already exists, the server was not able to generate a unique name for the object"
            ),
        )
        .about(resource, name);
        error.retry_after_seconds = Some(1);
        error
    }

    pub(crate) fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {resource} {name:?}: {why}"))
            .about(resource, name)
    }

    pub(crate) fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let said: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let body = match said.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut error = Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {body}"));
        *error.details = Details {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            causes,
            ..Details::default()
        };
        error
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut error =
            Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
        error.details.always = true;
        error
    }

    pub(crate) fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    }

    /// The response of upstream's router when a client accepts no representation of a built-in kind.
    pub(crate) fn no_representation(is_watchable: bool) -> Self {
        let mut message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf".to_owned();
        if is_watchable {
            message += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        }
        let mut error = Self::new(406, "NotAcceptable", message);
        error.details.always = true;
        error
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}"),
        )
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_old(wanted: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {wanted} ({oldest})"))
    }

    pub(crate) fn too_large(wanted: u64, current: u64) -> Self {
        let mut error =
            Self::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}"));
        error.retry_after_seconds = Some(1);
        error.details.causes.push(Cause::new("ResourceVersionTooLarge", "", "Too large resource version"));
        error
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        error.details.causes.push(Cause::new("", "", message.to_string()));
        error
    }

    pub(crate) fn not_served(what: &str) -> Self {
        let mut error = Self::new(
            501,
            "NotImplemented",
            format!("the embedded cluster does not serve {what}: its pods have no containers"),
        );
        error.details.always = true;
        error
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), json!(token));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata,
            "status": "Failure", "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        let mut details = Map::new();
        for (field, value) in [
            ("name", &self.details.name),
            ("group", &self.details.group),
            ("kind", &self.details.kind),
            ("uid", &self.details.uid),
        ] {
            if !value.is_empty() {
                details.insert(field.into(), json!(value));
            }
        }
        if !self.details.causes.is_empty() {
            details.insert("causes".into(), self.details.causes.iter().map(cause).collect());
        }
        if let Some(seconds) = self.retry_after_seconds {
            details.insert("retryAfterSeconds".into(), json!(seconds));
        }
        if self.details.always || !details.is_empty() {
            status["details"] = Value::Object(details);
        }
        status["code"] = json!(self.code);
        status
    }
}

fn cause(cause: &Cause) -> Value {
    let mut out = Map::new();
    for (field, value) in [("reason", cause.reason), ("message", &cause.message), ("field", &cause.field)] {
        if !value.is_empty() {
            out.insert(field.into(), json!(value));
        }
    }
    Value::Object(out)
}

/// The `Status` object of a success, as a delete answers.
pub(crate) fn success(resource: &GroupResource, name: &str, uid: &str) -> Value {
    let mut details = Map::new();
    for (field, value) in [("name", name), ("group", &resource.group), ("kind", &resource.resource), ("uid", uid)] {
        if !value.is_empty() {
            details.insert(field.into(), json!(value));
        }
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
