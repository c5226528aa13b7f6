//! The discovery documents: `/api`, `/apis`, resource lists and the aggregated form.
//!
//! *Source*: `k8s.io/api/apidiscovery/v2` for the aggregated form.

use serde_json::{Map, Value, json};

use super::{Registry, Resource, api_version};

/// `/api`
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry.groups().iter().map(|(name, versions)| group_fields(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`
pub(crate) fn group(registry: &Registry, wanted: &str) -> Option<Value> {
    let groups = registry.groups();
    let (name, versions) = groups.iter().find(|(name, _)| *name == wanted)?;
    let mut fields = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Some(out), Value::Object(rest)) = (fields.as_object_mut(), group_fields(name, versions)) {
        out.extend(rest);
    }
    Some(fields)
}

fn group_fields(name: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({"groupVersion": api_version(name, version), "version": version});
    json!({
        "name": name,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

/// `/api/v1`, `/apis/{group}/{version}`
pub(crate) fn resources(registry: &Registry, wanted: &str) -> Option<Value> {
    if !registry.has_version(wanted) {
        return None;
    }
    let mut out = Vec::new();
    for resource in registry.resources().iter().filter(|resource| resource.api_version() == wanted) {
        let mut fields = Map::new();
        fields.insert("name".into(), json!(resource.plural));
        fields.insert("singularName".into(), json!(resource.singular));
        fields.insert("namespaced".into(), json!(resource.namespaced));
        fields.insert("kind".into(), json!(resource.kind));
        fields.insert("verbs".into(), json!(resource.verbs));
        insert_list(&mut fields, "shortNames", &resource.short_names);
        insert_list(&mut fields, "categories", &resource.categories);
        if !resource.storage_version_hash.is_empty() {
            fields.insert("storageVersionHash".into(), json!(resource.storage_version_hash));
        }
        out.push(Value::Object(fields));
        for sub in &resource.subresources {
            let mut fields = Map::new();
            fields.insert("name".into(), json!(format!("{}/{}", resource.plural, sub.name)));
            fields.insert("singularName".into(), json!(""));
            fields.insert("namespaced".into(), json!(resource.namespaced));
            if sub.group != resource.group || sub.version != resource.version {
                fields.insert("group".into(), json!(sub.group));
                fields.insert("version".into(), json!(sub.version));
            }
            fields.insert("kind".into(), json!(sub.kind));
            fields.insert("verbs".into(), json!(sub.verbs));
            out.push(Value::Object(fields));
        }
    }
    let mut list = json!({"kind": "APIResourceList", "groupVersion": wanted, "resources": out});
    // The list of the core group is older than this field.
    if wanted != "v1" {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

fn insert_list(fields: &mut Map<String, Value>, name: &str, list: &[String]) {
    if !list.is_empty() {
        fields.insert(name.to_owned(), json!(list));
    }
}

/// The aggregated form of `/api` (`core`) or `/apis`.
pub(crate) fn aggregated(registry: &Registry, core: bool, format: &str) -> Value {
    let groups = if core { vec![("", vec!["v1"])] } else { registry.groups() };
    let items: Vec<Value> = groups
        .iter()
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = registry
                        .resources()
                        .iter()
                        .filter(|resource| resource.group == *name && resource.version == *version)
                        .map(|resource| aggregated_resource(resource))
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{format}"), "metadata": {}, "items": items})
}

/// The response kind of a resource. As upstream, a built-in one omits its own group and version.
fn response_kind(resource: &Resource, group: &str, version: &str, kind: &str) -> Value {
    let own = group == resource.group && version == resource.version;
    if own && resource.crd.is_none() {
        return json!({"group": "", "version": "", "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut fields = Map::new();
    fields.insert("resource".into(), json!(resource.plural));
    fields.insert("responseKind".into(), response_kind(resource, &resource.group, &resource.version, &resource.kind));
    fields.insert("scope".into(), json!(if resource.namespaced { "Namespaced" } else { "Cluster" }));
    fields.insert("singularResource".into(), json!(resource.singular));
    fields.insert("verbs".into(), json!(resource.verbs));
    insert_list(&mut fields, "shortNames", &resource.short_names);
    insert_list(&mut fields, "categories", &resource.categories);
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(resource, &sub.group, &sub.version, &sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        fields.insert("subresources".into(), json!(subresources));
    }
    Value::Object(fields)
}
