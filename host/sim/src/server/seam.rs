//! Where the server meets what is known about the shape of kinds: tables, decoding, field owners.

use serde_json::Value;

use super::Api;
use super::objects::meta;
use super::status::{ApiError, Cause};
use crate::defaults;
use crate::discovery::Resource;
use crate::schema::{self, TypeRef};
use crate::table::{self, IncludeObject};

impl Api {
    /// Rows for people.
    pub(crate) fn table(&self, resource: &Resource, objects: &[&Value], include: Option<&str>) -> Value {
        let columns = resource.crd.as_ref().and_then(|crd| crd.columns.as_ref());
        table::table(
            &resource.group,
            &resource.version,
            &resource.kind,
            objects,
            columns,
            IncludeObject::parse(include).unwrap_or_default(),
            self.clock.now(),
        )
    }
}

/// The first field that does not decode, in the words of Go's decoder.
pub(crate) fn type_error(schema: &TypeRef, object: &Value) -> Option<String> {
    let (path, found, wanted) = schema::type_errors(schema, object).into_iter().next()?;
    Some(format!("json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"))
}

impl Api {
    /// Checks an object of the request's version; `old` is its predecessor.
    pub(crate) fn validate(&self, resource: &Resource, old: Option<&Value>, object: &Value) -> Result<(), ApiError> {
        let mut causes = Vec::new();
        if old.is_none() {
            check_name(resource, object, &mut causes);
        }
        if resource.plural == "customresourcedefinitions" {
            causes.extend(super::crds::causes(object));
        }
        if let Some(open_api) = resource.crd.as_ref().and_then(|crd| crd.open_api.as_ref()) {
            causes.extend(crate::discovery::validate::causes(open_api, object));
        }
        if resource.crd.is_none() {
            let errors = defaults::validate(&resource.group, &resource.version, &resource.kind, old, object);
            for error in errors {
                // Names are checked above, with the wording of their kind.
                if !causes.iter().any(|cause: &Cause| cause.field == error.path) {
                    causes.push(Cause { reason: error.reason.into(), message: error.message, field: error.path });
                }
            }
        }
        if causes.is_empty() {
            Ok(())
        } else {
            Err(ApiError::invalid(&resource.group, &resource.kind, meta(object, "name"), causes))
        }
    }
}

fn check_name(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let name = meta(object, "name");
    let required = || Cause {
        reason: "FieldValueRequired".into(),
        message: "Required value: name or generateName is required".into(),
        field: "metadata.name".into(),
    };
    if name.is_empty() {
        causes.push(required());
        return;
    }
    let invalid =
        |message: String| Cause { reason: "FieldValueInvalid".into(), message, field: "metadata.name".into() };
    // Names of these are paths in a URL, with letters that DNS does not have.
    if resource.group == "rbac.authorization.k8s.io" {
        if name == "." || name == ".." || name.contains(['/', '%']) {
            causes.push(invalid(format!("Invalid value: {name:?}: may not contain '/' or '%'")));
        }
        return;
    }
    let edge =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let label = |part: &str| {
        edge(part.chars().next())
            && edge(part.chars().last())
            && part.chars().all(|letter| edge(Some(letter)) || letter == '-')
    };
    if &*resource.storage == "namespaces" && name.contains('.') && name.split('.').all(label) {
        causes.push(invalid(format!("Invalid value: {name:?}: must not contain dots")));
        return;
    }
    let is_label = matches!(&*resource.storage, "namespaces" | "services");
    if is_label && (!label(name) || name.len() > 63) {
        causes.push(invalid(format!(
            "Invalid value: {name:?}: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        )));
    } else if name.len() > 253 || !name.split('.').all(label) {
        causes.push(invalid(format!(
            "Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )));
    }
}
