//! OpenAPI documents: the index at `/openapi/v3` and one document per group and version.
//!
//! They contain the parts that kubectl needs: the fields of a kind (`explain`, merge keys for `apply`) and server-side
//! field validation (`fieldValidation`). Descriptions, status codes and most parameters are left out.
//!
//! Invariant: every `$ref` of a document resolves to a schema in it.
//!
//! Source: kube-openapi's builder, for names and extensions.

mod types;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use pintle_core::kubernetes;
use types::Schemas;

/// One kind in one version, as the server serves it.
#[derive(Debug, Clone)]
pub struct Served {
    /// API group, empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural name in paths.
    pub plural: String,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Names of subresources, for example `status`.
    pub subresources: Vec<String>,
    /// `None` for built-in kinds; for custom kinds the version's `openAPIV3Schema`, which may be absent.
    pub custom: Option<Option<Value>>,
}

impl Served {
    /// `api/v1` or `apis/apps/v1`.
    fn group_path(&self) -> String {
        match self.group.as_str() {
            "" => format!("api/{}", self.version),
            group => format!("apis/{group}/{}", self.version),
        }
    }

    fn gvk(&self) -> Value {
        json!({"group": self.group, "kind": self.kind, "version": self.version})
    }
}

/// The index of the version 3 documents.
pub fn v3_index(served: &[Served]) -> Value {
    let mut groups: BTreeMap<String, Vec<&Served>> = BTreeMap::new();
    for kind in served {
        groups.entry(kind.group_path()).or_default().push(kind);
    }
    let paths = groups.into_iter().map(|(path, kinds)| {
        let url = format!("/openapi/v3/{path}?hash={}", hash(&kinds));
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<Map<_, _>>()})
}

/// Clients cache documents by this hash, so it changes with any part of the document.
fn hash(kinds: &[&Served]) -> String {
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    for kind in kinds {
        digest.update(format!("{kind:?}"));
    }
    digest.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The version 3 document of a group and version, named as in the index (`apis/apps/v1`).
pub fn v3_group(path: &str, served: &[Served]) -> Option<Bytes> {
    let kinds: Vec<&Served> = served.iter().filter(|kind| kind.group_path() == path).collect();
    if kinds.is_empty() {
        return None;
    }
    let (paths, schemas) = build(&kinds);
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", kubernetes::VERSION)},
        "paths": paths,
        "components": {"schemas": schemas},
    });
    Some(document.to_string().into())
}

fn build(kinds: &[&Served]) -> (Map<String, Value>, Map<String, Value>) {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for kind in kinds {
        let reference = schemas.add_kind(kind);
        for (path, is_item) in kind_paths(kind) {
            paths.insert(path, operations(kind, &reference, is_item));
        }
    }
    (paths, schemas.finish())
}

/// Paths of a kind; true for those of a single object.
fn kind_paths(kind: &Served) -> Vec<(String, bool)> {
    let base = format!("/{}", kind.group_path());
    let collection = match kind.namespaced {
        true => format!("{base}/namespaces/{{namespace}}/{}", kind.plural),
        false => format!("{base}/{}", kind.plural),
    };
    let mut paths = vec![(collection.clone(), false), (format!("{collection}/{{name}}"), true)];
    let subresources = kind.subresources.iter().filter(|name| *name == "status");
    paths.extend(subresources.map(|name| (format!("{collection}/{{name}}/{name}"), true)));
    if kind.namespaced {
        paths.push((format!("{base}/{}", kind.plural), false));
    }
    paths
}

fn operations(kind: &Served, reference: &Value, is_item: bool) -> Value {
    let parameter = |name: &str, place: &str| json!({"name": name, "in": place, "schema": {"type": "string"}, "required": place == "path"});
    let response = json!({"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}});
    let operation = |action: &str| {
        let mut operation = json!({
            "responses": response,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind.gvk(),
        });
        if action != "get" && action != "list" {
            let mut query = ["dryRun", "fieldManager", "fieldValidation"].map(|name| parameter(name, "query")).to_vec();
            query.extend((action == "patch").then(|| parameter("force", "query")));
            operation["parameters"] = Value::Array(query);
        }
        operation
    };
    let mut path = match is_item {
        true => {
            json!({"get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete")})
        }
        false => json!({"get": operation("list"), "post": operation("post")}),
    };
    let mut parameters = Vec::new();
    if is_item {
        parameters.push(parameter("name", "path"));
    }
    if kind.namespaced {
        parameters.push(parameter("namespace", "path"));
    }
    path["parameters"] = Value::Array(parameters);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> Vec<Served> {
        let kind = |group: &str, kind: &str, plural: &str| Served {
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
            subresources: vec!["status".to_owned()],
            custom: None,
        };
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How big."}}}}});
        let mut widget = kind("example.com", "Widget", "widgets");
        widget.custom = Some(Some(schema));
        vec![kind("", "Pod", "pods"), kind("apps", "Deployment", "deployments"), widget]
    }

    /// Every reference in a document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (name, child) in map {
                    match child {
                        Value::String(target) if name == "$ref" => found.push(target.clone()),
                        child => references(child, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let served = served();
        let mut documents: Vec<Value> = Vec::new();
        for path in ["api/v1", "apis/apps/v1", "apis/example.com/v1"] {
            documents.push(serde_json::from_slice(&v3_group(path, &served).unwrap()).unwrap());
        }
        for document in documents {
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for target in found {
                assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
            }
        }
        assert!(v3_group("apis/other/v1", &served).is_none());
    }

    #[test]
    fn the_index_changes_with_a_custom_schema() {
        let mut served = served();
        let before = v3_index(&served);
        assert!(
            before["paths"]["apis/apps/v1"]["serverRelativeURL"]
                .as_str()
                .unwrap()
                .starts_with("/openapi/v3/apis/apps/v1?hash=")
        );
        served[2].custom = Some(None);
        let after = v3_index(&served);
        assert_eq!(before["paths"]["api/v1"], after["paths"]["api/v1"]);
        assert_ne!(before["paths"]["apis/example.com/v1"], after["paths"]["apis/example.com/v1"]);
    }

    #[test]
    fn documents_tell_fields_merge_keys_and_field_validation() {
        let served = served();
        let document: Value = serde_json::from_slice(&v3_group("apis/apps/v1", &served).unwrap()).unwrap();
        let schemas = &document["components"]["schemas"];
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(
            schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
            json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
        );
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["parameters"][2]["name"], "fieldValidation");
        let custom: Value = serde_json::from_slice(&v3_group("apis/example.com/v1", &served).unwrap()).unwrap();
        let widget = &custom["components"]["schemas"]["com.example.v1.Widget"];
        assert_eq!(widget["properties"]["spec"]["properties"]["size"]["description"], "How big.");
        assert_eq!(
            widget["properties"]["metadata"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        );
    }
}
