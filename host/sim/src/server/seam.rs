//! Connects the server to the schemas of kinds: tables, decoding, field ownership.

use serde_json::Value;

use super::Api;
use super::objects::meta;
use super::status::ApiError;
use crate::cause::Cause;
use crate::defaults;
use crate::discovery::Resource;
use crate::names;
use crate::table::{self, IncludeObject};

impl Api {
    /// Table rows.
    pub(crate) fn table(&self, resource: &Resource, objects: &[&Value], include: Option<&str>) -> Value {
        let columns = resource.crd.as_ref().and_then(|crd| crd.columns.as_ref());
        table::table(
            &resource.group,
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
        if let Some(crd) = &resource.crd {
            causes.extend(crd.checks().into_iter().flat_map(|schema| schema.check(object, old)).map(Cause::from));
            defaults::validate_metadata(object, &mut causes);
        } else {
            causes.extend(defaults::validate(&resource.group, &resource.version, &resource.kind, old, object));
        }
        if causes.is_empty() {
            Ok(())
        } else {
            Err(ApiError::invalid(&resource.group, &resource.kind, meta(object, "name"), causes))
        }
    }
}

fn check_name(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let (prefix, name) = (meta(object, "generateName"), meta(object, "name"));
    if !prefix.is_empty() {
        // The suffix that is appended to a prefix makes its last dash valid.
        let masked = prefix.strip_suffix('-').filter(|start| !start.is_empty());
        let masked = masked.map_or(prefix.to_owned(), |start| format!("{start}a"));
        let wrong = wrong_name(resource, object, &masked);
        causes.extend(wrong.map(|why| Cause::invalid("metadata.generateName", &prefix.into(), why)));
    }
    if name.is_empty() {
        causes.push(Cause::required_because("metadata.name", "name or generateName is required"));
    } else {
        causes.extend(wrong_name(resource, object, name).map(|why| Cause::invalid("metadata.name", &name.into(), why)));
    }
}

/// The error in a name of an object of this kind.
fn wrong_name(resource: &Resource, object: &Value, name: &str) -> Option<&'static str> {
    // These names are path segments in a URL, with characters that DNS does not allow.
    if resource.group == "rbac.authorization.k8s.io" {
        return names::path_segment(name);
    }
    match &*resource.storage {
        "namespaces" | "services" | "statefulsets.apps" => names::label(name),
        "ipaddresses.networking.k8s.io" => names::address(name),
        "certificatesigningrequests.certificates.k8s.io" => names::path_segment(name),
        "clustertrustbundles.certificates.k8s.io" => {
            names::trust_bundle(name, object["spec"]["signerName"].as_str().unwrap_or_default())
        }
        _ => names::subdomain(name),
    }
}
