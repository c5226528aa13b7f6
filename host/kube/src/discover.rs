//! Discovery from the aggregated document that API servers serve since 1.30.
//!
//! *Source*: KEP-3352. The `preferred` version of a group is its first.

use kube::core::discovery::v2::{ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList};
use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiError, ApiResource, Discovery, at_most};

use crate::connect::Connection;
use crate::error;

/// Maximum size of the document; some thousand kinds fit.
const MAX_BYTES: usize = 64 << 20;

pub(crate) async fn discover(connection: &Connection) -> Result<Discovery, ApiError> {
    let core = document(connection, "/api").await?;
    let groups = document(connection, "/apis").await?;
    Ok(read(&core, &groups))
}

async fn document(connection: &Connection, path: &str) -> Result<APIGroupDiscoveryList, ApiError> {
    let body = connection.get_bytes(path, ACCEPT_AGGREGATED_DISCOVERY_V2, &at_most(MAX_BYTES)).await?;
    serde_json::from_slice(&body).map_err(|why| error::malformed("discovery document", why))
}

fn read(core: &APIGroupDiscoveryList, groups: &APIGroupDiscoveryList) -> Discovery {
    let mut found = Discovery::default();
    for group in core.items.iter().chain(&groups.items) {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        read_group(name, group, &mut found);
    }
    found
}

fn read_group(group: &str, document: &APIGroupDiscovery, found: &mut Discovery) {
    for (place, entry) in document.versions.iter().enumerate() {
        let version = entry.version.as_deref().unwrap_or_default();
        if entry.freshness.as_deref() == Some("Stale") {
            found.failed.push(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
        }
        for resource in &entry.resources {
            let Some(plural) = resource.resource.clone() else { continue };
            let kind = resource.response_kind.as_ref().and_then(|kind| kind.kind.as_deref()).unwrap_or_default();
            if kind.is_empty() {
                continue;
            }
            found.resources.push(ApiResource {
                kind: Kind::new(group, version, kind),
                plural,
                namespaced: resource.scope.as_deref() == Some("Namespaced"),
                verbs: resource.verbs.clone(),
                subresources: resource.subresources.iter().filter_map(|sub| sub.subresource.clone()).collect(),
                preferred: place == 0,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_is_preferred_and_stale_groups_are_named() {
        let document = serde_json::json!({"items": [{"metadata": {"name": "example.com"}, "versions": [
            {"version": "v2", "resources": [{"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced",
                "verbs": ["list", "watch"], "subresources": [{"subresource": "status"}]}]},
            {"version": "v1", "freshness": "Stale", "resources": [{"resource": "widgets", "responseKind": {"kind": "Widget"},
                "scope": "Namespaced", "verbs": ["list"]}]},
        ]}]});
        let found = read(&serde_json::from_str(r#"{"items":[]}"#).unwrap(), &serde_json::from_value(document).unwrap());
        let short: Vec<_> = found.resources.iter().map(|r| (r.kind.to_string(), r.preferred, r.namespaced)).collect();
        assert_eq!(
            short,
            [("example.com/v2/Widget".into(), true, true), ("example.com/v1/Widget".into(), false, true)]
        );
        assert_eq!(found.resources[0].subresources, ["status"]);
        assert_eq!(found.failed, ["example.com/v1"]);
    }
}
