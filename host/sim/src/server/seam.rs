//! Where the server meets what is known about the shape of kinds: tables, decoding, field owners.

use serde_json::Value;

use super::Api;
use super::objects::meta;
use super::status::{ApiError, Cause};
use crate::defaults;
use crate::discovery::Resource;
use crate::names;
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
        if resource.crd.is_some() {
            let mut errors = Vec::new();
            defaults::validate_metadata(old, object, &mut errors);
            let found = errors.into_iter().map(|error| Cause {
                reason: error.reason.into(),
                message: error.message,
                field: error.path,
            });
            causes.extend(found);
        } else {
            let errors = defaults::validate(&resource.group, &resource.version, &resource.kind, old, object);
            for error in errors {
                causes.push(Cause { reason: error.reason.into(), message: error.message, field: error.path });
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
    let mut check = |field: &str, given: &str, checked: &str| {
        for detail in wrong_name(resource, checked) {
            let message = format!("Invalid value: {given:?}: {detail}");
            causes.push(Cause { reason: "FieldValueInvalid".into(), message, field: format!("metadata.{field}") });
        }
    };
    let (prefix, name) = (meta(object, "generateName"), meta(object, "name"));
    // What is appended to a prefix makes its last dash fine.
    let mut masked = prefix.to_owned();
    if prefix.chars().count() > 1 && prefix.ends_with('-') {
        masked.truncate(prefix.char_indices().nth_back(1).map_or(0, |(at, _)| at));
        masked.push('a');
    }
    if !prefix.is_empty() {
        check("generateName", prefix, &masked);
    }
    if name.is_empty() {
        let message = "Required value: name or generateName is required".into();
        causes.push(Cause { reason: "FieldValueRequired".into(), message, field: "metadata.name".into() });
    } else {
        check("name", name, name);
    }
}

/// What is wrong with a name of this kind.
fn wrong_name(resource: &Resource, name: &str) -> Vec<String> {
    // Names of these are paths in a URL, with letters that DNS does not have.
    if resource.group == "rbac.authorization.k8s.io" {
        return match name {
            "." | ".." => vec![format!("may not be '{name}'")],
            _ => ["/", "%"]
                .into_iter()
                .filter(|part| name.contains(part))
                .map(|part| format!("may not contain '{part}'"))
                .collect(),
        };
    }
    match &*resource.storage {
        "namespaces" | "services" => names::label(name),
        _ => names::subdomain(name),
    }
}
