//! Lists of several clients are replaced only by plugins that read them, and denials request no more than necessary.

use pintle_core::contract::outcome::PatchType;
use serde_json::Value;

use super::rights::{create_of, owned, patch_of, reference, refusal_of, update_of};
use super::*;

const FINALIZERS: &str = "metadata.finalizers";
const OWNERS: &str = "metadata.ownerReferences";
const CONDITIONS: &str = "status.conditions";

fn reading(fields: &[&str], more: Option<Value>) -> Fixture {
    let write = |subresources: &[&str]| json!({"verbs": ["update", "patch"], "kinds": ["v1/Pod"], "subresources": subresources});
    let asked = [write(&[]), write(&["status"])].into_iter().chain(more).collect();
    let mut fixture = owned(asked);
    fixture.manifest = manifest(|manifest| manifest["watches"][0]["fields"] = fields.into());
    fixture
}

/// The list that a write replaces although it was not read.
async fn lost(fixture: &Fixture, mutation: Mutation) -> Option<String> {
    let why = refusal_of(fixture, mutation).await?;
    let (_, list) = why.split_once(" replaces `").unwrap_or_else(|| panic!("{why}"));
    Some(list.split('`').next().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_not_read_is_not_replaced() {
    let merge = |body: Value| patch_of("mine", None, PatchType::Merge, &body);
    let operations = |operations: Value| patch_of("mine", None, PatchType::Json, &operations);
    let at = |op: &str, path: &str| json!({"op": op, "path": path, "from": "/spec/a", "value": "a"});
    let own = json!({"metadata": {"name": "mine", "namespace": "ns", "resourceVersion": "5"}});
    let rows = [
        (merge(json!({"metadata": {"finalizers": ["a/b"]}})), Some(FINALIZERS)),
        (merge(json!({"metadata": {"finalizers": null}})), Some(FINALIZERS)),
        (merge(json!({"metadata": {"ownerReferences": []}})), Some(OWNERS)),
        (merge(json!({"status": {"conditions": []}})), Some(CONDITIONS)),
        (merge(json!({"status": null})), Some(CONDITIONS)),
        (patch_of("mine", Some("status"), PatchType::Merge, &json!({"status": {"conditions": []}})), Some(CONDITIONS)),
        (merge(json!({"metadata": {"labels": {}}, "status": {"phase": "Running"}, "spec": {"finalizers": []}})), None),
        (update_of(&own, None), Some(FINALIZERS)),
        (update_of(&own, Some("status")), Some(CONDITIONS)),
        (operations(json!([at("add", "/metadata/finalizers")])), Some(FINALIZERS)),
        (operations(json!([at("replace", "/metadata/ownerReferences")])), Some(OWNERS)),
        (operations(json!([at("remove", "/metadata")])), Some(FINALIZERS)),
        (operations(json!([at("copy", "/status/conditions")])), Some(CONDITIONS)),
        (operations(json!([{"op": "move", "path": "/spec/a", "from": "/status/conditions/0"}])), Some(CONDITIONS)),
        (operations(json!([at("remove", "/metadata/finalizers/0")])), Some(FINALIZERS)),
        (operations(json!([at("replace", "/metadata/finalizers/0")])), Some(FINALIZERS)),
        (operations(json!([at("add", "/metadata/finalizers/-"), at("add", "/status/conditions/0")])), None),
        (operations(json!([at("test", "/metadata/finalizers/0"), at("remove", "/metadata/finalizers/0")])), None),
        (operations(json!([at("test", "/metadata/finalizers"), at("replace", "/metadata/finalizers")])), None),
        (operations(json!([at("test", "/metadata/finalizers"), at("remove", "/metadata/finalizers/1")])), None),
        (
            operations(json!([at("test", "/metadata/finalizers/0"), at("remove", "/metadata/finalizers")])),
            Some(FINALIZERS),
        ),
        (operations(json!([at("replace", "/metadata/labels"), at("replace", "/spec"), at("add", "/x")])), None),
        // The API server merges the entries.
        (patch_of("mine", None, PatchType::StrategicMerge, &json!({"metadata": {"finalizers": ["a/b"]}})), None),
        (
            patch_of(
                "mine",
                None,
                PatchType::Apply { field_manager: String::new(), force: true },
                &json!({"metadata": {"finalizers": ["a/b"]}}),
            ),
            None,
        ),
    ];
    let blind = reading(&["spec"], Some(json!({"verbs": ["create"], "kinds": ["v1/Pod"]})));
    for (mutation, list) in rows {
        let shown = format!("{mutation:?}");
        assert_eq!(lost(&blind, mutation.clone()).await.as_deref(), list, "{shown}");
        let Some(list) = list else { continue };
        // The lists lost by updates and by whole metadata.
        let fields = ["metadata", list].map(|path| if path.starts_with("metadata") { "metadata" } else { path });
        assert_eq!(lost(&reading(&fields, None), mutation.clone()).await, None, "{shown}");
        let live = json!({"verbs": ["get"], "kinds": ["v1/Pod"]});
        assert_eq!(lost(&reading(&["spec"], Some(live)), mutation.clone()).await, None, "{shown}");
        let mut whole = reading(&[], None);
        whole.manifest = manifest(|manifest| manifest["watches"][0]["whole"] = true.into());
        assert_eq!(lost(&whole, mutation).await, None, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_says_which_field_to_read() {
    let fixture = reading(&["spec"], None);
    let patch = patch_of("mine", None, PatchType::Merge, &json!({"metadata": {"finalizers": ["a/b"]}}));
    assert_eq!(
        refusal_of(&fixture, patch).await.unwrap(),
        "patch v1/Pod ns/mine replaces `metadata.finalizers`, which others write, too, and the manifest of plugin widgets does not read \
         it: entries that it has not seen would be lost; add `metadata.finalizers` to `fields` of the watch of v1/Pod"
    );
}

#[tokio::test(start_paused = true)]
async fn a_denial_proposes_the_narrowest_grant_that_works() {
    let mine = json!({"metadata": {"ownerReferences": [reference("key")]}});
    let apply = || PatchType::Apply { field_manager: String::new(), force: true };
    let create = json!({"metadata": {"generateName": "a-", "ownerReferences": [reference("key")]}});
    let rows = [
        (patch_of("new", None, apply(), &mine), &["create", "patch"][..], "", "controlled"),
        (patch_of("mine", None, apply(), &mine), &["patch"], "", "controlled"),
        (delete("mine"), &["delete"], "", "controlled"),
        (create_of(&create), &["create"], "", "controlled"),
        (patch_of("key", Some("status"), PatchType::Merge, &json!({"status": {}})), &["patch"], "status", "key"),
        (patch_of("key", None, PatchType::Merge, &json!({})), &["patch"], "", "key"),
        // These have no relation to the key.
        (delete("orphan"), &["delete"], "", "any"),
        (patch_of("new", None, apply(), &json!({})), &["create", "patch"], "", "any"),
    ];
    for (mutation, verbs, subresource, of) in rows {
        let shown = format!("{mutation:?}");
        let subresources: Vec<&str> = [subresource].into_iter().filter(|name| !name.is_empty()).collect();
        let list = if subresource.is_empty() { String::new() } else { format!(", subresources: [{subresource}]") };
        let owner = if of == "any" { String::new() } else { format!(", of: {of}") };
        let line = format!("add `- {{verbs: [{}], kinds: [v1/Pod]{list}{owner}}}` to", verbs.join(", "));
        let why = refusal_of(&owned(json!([])), mutation.clone()).await.unwrap();
        assert!(why.contains(&line), "no {line} for {shown}: {why}");
        // The suggested grant works.
        let grant = json!({"verbs": verbs, "kinds": ["v1/Pod"], "subresources": subresources, "of": of});
        assert_eq!(refusal_of(&owned(json!([grant])), mutation).await, None, "{shown}");
    }
}
