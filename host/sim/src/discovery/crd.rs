//! CustomResourceDefinitions as served resources.
//!
//! *Flow*: a definition in the store becomes one [`Resource`] per served version; structural defaults fill in objects on write and on read.
//! *Not here*: the conditions of a definition and the deletion of its objects (`server::crds`).

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::{Resource, Subresource};
use crate::schema::{self, TypeRef};

/// The data of a custom kind beyond its [`Resource`].
#[derive(Debug)]
pub struct CrdVersion {
    /// Name of the definition.
    pub crd_name: String,
    /// JSON paths of selectable fields, with a leading dot.
    pub selectable_fields: Vec<String>,
    /// The structure for patches and apply.
    pub schema: TypeRef,
    /// `openAPIV3Schema` in the definition.
    pub open_api: Option<Value>,
    /// The compiled schema, built for the first object: definitions are read again whenever one of them changes.
    checks: OnceLock<Option<pintle_crd::Schema>>,
    /// `openAPIV3Schema` of the storage version.
    pub stored_open_api: Option<Value>,
    /// `additionalPrinterColumns`.
    pub columns: Option<Value>,
    /// `subresources.scale`.
    pub scale: Option<ScalePaths>,
    /// A deprecation warning for every request.
    pub warning: Option<String>,
}

impl CrdVersion {
    /// The schema for validation; none if the version has none. It was compiled once when it was written.
    pub(crate) fn checks(&self) -> Option<&pintle_crd::Schema> {
        let compile = || pintle_crd::Schema::compile(self.open_api.as_ref()?).ok();
        self.checks.get_or_init(compile).as_ref()
    }
}

/// Paths of a custom object's scale.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// JSON pointer to the desired replicas.
    pub spec_replicas: String,
    /// JSON pointer to the current replicas.
    pub status_replicas: String,
    /// JSON pointer to a selector in text form.
    pub label_selector: Option<String>,
}

/// The names of a definition, with defaults for missing ones.
pub(crate) fn completed_names(spec: &Value) -> Value {
    let mut names = spec.get("names").cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = names.as_object_mut() {
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
        let empty =
            |fields: &Map<String, Value>, name: &str| fields.get(name).and_then(Value::as_str).unwrap_or("").is_empty();
        if empty(fields, "singular") {
            fields.insert("singular".into(), json!(kind.to_lowercase()));
        }
        if empty(fields, "listKind") {
            fields.insert("listKind".into(), json!(format!("{kind}List")));
        }
    }
    names
}

/// The served versions of a definition, the preferred one first.
pub(crate) fn resources(crd: &Value) -> Vec<Arc<Resource>> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(&text).collect::<Vec<_>>();
    let names = completed_names(spec);
    let group = text(&spec["group"]);
    let plural = text(&names["plural"]);
    let mut versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let storage_version = versions
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| text(&version["name"]))
        .unwrap_or_default();
    let stored_open_api = versions
        .iter()
        .find(|version| version["storage"] == true)
        .and_then(|version| version.pointer("/schema/openAPIV3Schema"))
        .cloned();
    versions.retain(|version| version["served"] == true);
    versions.sort_by_key(|version| priority(version["name"].as_str().unwrap_or("")));
    versions
        .into_iter()
        .map(|version| {
            let name = text(&version["name"]);
            let mut subresources = Vec::new();
            let subs = &version["subresources"];
            if subs.get("status").is_some_and(|status| !status.is_null()) {
                subresources.push(subresource("status", &group, &name, &text(&names["kind"])));
            }
            let scale = subs.get("scale").filter(|scale| !scale.is_null()).map(|scale| ScalePaths {
                spec_replicas: pointer(scale["specReplicasPath"].as_str().unwrap_or(".spec.replicas")),
                status_replicas: pointer(scale["statusReplicasPath"].as_str().unwrap_or(".status.replicas")),
                label_selector: scale["labelSelectorPath"].as_str().map(pointer),
            });
            if scale.is_some() {
                subresources.push(subresource("scale", "autoscaling", "v1", "Scale"));
            }
            let open_api = version.pointer("/schema/openAPIV3Schema").cloned();
            let warning = (version["deprecated"] == true).then(|| {
                version["deprecationWarning"]
                    .as_str()
                    .map_or_else(|| format!("{group}/{name} {} is deprecated", text(&names["kind"])), str::to_owned)
            });
            Arc::new(Resource {
                group: group.clone(),
                version: name,
                plural: plural.clone(),
                singular: text(&names["singular"]),
                kind: text(&names["kind"]),
                list_kind: text(&names["listKind"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
                short_names: texts(&names["shortNames"]),
                categories: texts(&names["categories"]),
                conditional_update: true,
                counts_generations: true,
                subresources,
                storage: format!("{plural}.{group}").into(),
                storage_version_hash: storage_version_hash(&group, &storage_version, &text(&names["kind"])),
                storage_version: (group.clone(), storage_version.clone()),
                crd: Some(Arc::new(CrdVersion {
                    crd_name: text(&crd["metadata"]["name"]),
                    selectable_fields: version["selectableFields"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|field| text(&field["jsonPath"]))
                        .collect(),
                    schema: schema::from_openapi(open_api.as_ref()),
                    checks: OnceLock::new(),
                    open_api,
                    stored_open_api: stored_open_api.clone(),
                    columns: version.get("additionalPrinterColumns").cloned(),
                    scale,
                    warning,
                })),
                ..Resource::default()
            })
        })
        .collect()
}

/// The hash with which clients detect a change of the storage version.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

fn subresource(name: &str, group: &str, version: &str, kind: &str) -> Subresource {
    Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: vec!["get", "patch", "update"],
    }
}

/// A simple JSON path (`.spec.replicas`) as a JSON pointer.
fn pointer(path: &str) -> String {
    path.split('.').filter(|step| !step.is_empty()).fold(String::new(), |pointer, step| pointer + "/" + step)
}

/// Sorts versions as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name.
fn priority(version: &str) -> (u8, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>, String) {
    let other = (3, std::cmp::Reverse(0), std::cmp::Reverse(0), version.to_owned());
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else { return other };
    let (class, minor) = match &rest[digits..] {
        "" => (0, Ok(0)),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (1, minor.parse()),
            (None, Some(minor)) => (2, minor.parse()),
            (None, None) => return other,
        },
    };
    match minor {
        Ok(minor) => (class, std::cmp::Reverse(major), std::cmp::Reverse(minor), String::new()),
        Err(_) => other,
    }
}

/// Fills in the defaults of an `openAPIV3Schema`.
pub(crate) fn apply_structural_defaults(schema: &Value, object: &mut Value) {
    match object {
        Value::Object(fields) => {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                for (name, property) in properties {
                    let missing = fields
                        .get(name)
                        .is_none_or(|value| value.is_null() && property.get("nullable") != Some(&json!(true)));
                    if missing && let Some(default) = property.get("default") {
                        fields.insert(name.clone(), default.clone());
                    }
                    if let Some(value) = fields.get_mut(name) {
                        apply_structural_defaults(property, value);
                    }
                }
            }
            if let Some(every) = schema.get("additionalProperties").filter(|every| every.is_object()) {
                for value in fields.values_mut() {
                    apply_structural_defaults(every, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(every) = schema.get("items") {
                for item in items {
                    apply_structural_defaults(every, item);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_stability_then_number() {
        let mut versions = vec!["v1alpha1", "foo", "v1", "v2beta1", "v2", "v10", "v1beta2", "v1beta11"];
        versions.sort_by_key(|version| priority(version));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta11", "v1beta2", "v1alpha1", "foo"]);
    }
}
