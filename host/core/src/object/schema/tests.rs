//! Paths against the schemas of built-in and custom kinds.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn kind(text: &str) -> Kind {
    text.parse().unwrap()
}

fn check(schema: &KindSchema, path: &str) -> String {
    match schema.check(&path.parse().unwrap()) {
        Ok(known) => format!("{known:?}"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn paths_of_built_in_kinds_are_checked_and_the_nearest_names_are_listed() {
    for (of, path, expected) in [
        ("v1/Namespace", "metadata.labels", "Field"),
        ("v1/Namespace", "metadata.labels['example.com/x']", "Field"),
        ("v1/Namespace", "metadata.ownerReferences.uid", "Field"),
        ("v1/Namespace", "metadata.managedFields.fieldsV1.any.thing", "Open"),
        ("v1/Namespace", "apiVersion", "Field"),
        ("v1/Pod", "spec.containers.ports.containerPort", "Field"),
        ("v1/Pod", "spec.volumes.persistentVolumeClaim.claimName", "Field"),
        ("apps/v1/Deployment", "spec.strategy.rollingUpdate.maxSurge", "Field"),
        ("apps/v1/ReplicaSet", "spec.selector.matchLabels.app", "Field"),
        ("v1/ConfigMap", "data.anything", "Field"),
        (
            "v1/Namespace",
            "metadata.labls",
            "metadata.labls: v1/Namespace has no such field; did you mean metadata.labels?",
        ),
        (
            "v1/Pod",
            "spec.containers.imge",
            "spec.containers.imge: v1/Pod has no such field; did you mean spec.containers.image?",
        ),
        ("v1/Pod", "Spec.nodeName", "Spec.nodeName: v1/Pod has no such field; did you mean spec.nodeName?"),
        (
            "v1/Pod",
            "spec.nodeName.x",
            "spec.nodeName.x: v1/Pod has no such field: spec.nodeName is of type string and has no fields",
        ),
        (
            "v1/ConfigMap",
            "data.a.b",
            "data.a.b: v1/ConfigMap has no such field: data.a is of type string and has no fields",
        ),
        (
            "v1/Namespace",
            "replicas",
            "replicas: v1/Namespace has no such field; fields there are apiVersion, kind, metadata, spec, status",
        ),
    ] {
        let schema = KindSchema::of_kubernetes(&kind(of)).unwrap();
        assert_eq!(check(&schema, path), expected, "{of} {path}");
    }
    for unknown in ["example.org/v1/Team", "apps/v9/Deployment", "v1/Deployment"] {
        assert_eq!(KindSchema::of_kubernetes(&kind(unknown)), None, "{unknown}");
    }
}

/// As written by authors in a CustomResourceDefinition.
fn team() -> Value {
    json!({
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "properties": {
                    "members": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                    "size": {"type": "integer"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "quota": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
                    "rooms": {"type": "object", "additionalProperties": {"type": "object", "properties": {"floor": {"type": "integer"}}}},
                    "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "string"}}},
                    "bare": {"type": "object"},
                    "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                },
            },
        },
    })
}

#[test]
fn paths_of_custom_kinds_are_checked_and_what_a_schema_leaves_open_is_not() {
    let team_kind = kind("example.org/v1/Team");
    let schema = KindSchema::of_definition(&team_kind, &team());
    for (path, expected) in [
        ("spec.members.name", "Field"),
        ("spec.port", "Field"),
        ("spec.quota.cpu", "Field"),
        ("spec.rooms.kitchen.floor", "Field"),
        ("spec.anything.below", "Open"),
        ("spec.more.known", "Field"),
        ("spec.more.other.x", "Open"),
        ("spec.bare.x", "Open"),
        ("spec.template.metadata.name", "Field"),
        ("spec.template.spec.a", "Field"),
        // A definition hardly describes metadata, which every object has.
        ("metadata.labels.x", "Field"),
        ("metadata.labls", "metadata.labls: example.org/v1/Team has no such field; did you mean metadata.labels?"),
        ("spec.membrs", "spec.membrs: example.org/v1/Team has no such field; did you mean spec.members?"),
        ("status", "status: example.org/v1/Team has no such field; fields there are apiVersion, kind, metadata, spec"),
        (
            "spec.quota.cpu.x",
            "spec.quota.cpu.x: example.org/v1/Team has no such field: spec.quota.cpu is of type int-or-string and has no fields",
        ),
        (
            "spec.rooms.kitchen.flor",
            "spec.rooms.kitchen.flor: example.org/v1/Team has no such field; did you mean spec.rooms.kitchen.floor?",
        ),
    ] {
        assert_eq!(check(&schema, path), expected, "{path}");
    }
    let none = KindSchema::of_definition(&team_kind, &Value::Null);
    assert_eq!((check(&none, "spec.x"), check(&none, "metadata.name")), ("Open".into(), "Field".into()));
    assert_eq!(
        check(&none, "metadata.nam"),
        "metadata.nam: example.org/v1/Team has no such field; did you mean metadata.name?"
    );
}

#[test]
fn a_definition_has_a_schema_for_each_version_and_other_objects_have_none() {
    let version = |name: &str, schema: Value| json!({"name": name, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "kind": "CustomResourceDefinition",
        "spec": {"group": "example.org", "names": {"kind": "Team"}, "versions": [version("v1", team()), version("v2", Value::Null)]},
    });
    let schemas = KindSchema::of_object(&definition);
    assert_eq!(schemas[0].1, KindSchema::of_definition(&kind("example.org/v1/Team"), &team()));
    assert_eq!((schemas.len(), schemas[1].0.to_string()), (2, "example.org/v2/Team".into()));
    assert!(KindSchema::of_object(&json!({"kind": "ConfigMap", "spec": definition["spec"]})).is_empty());
}

#[test]
fn a_kind_of_an_openapi_document_is_followed_through_references() {
    let mut schema = team();
    schema["x-kubernetes-group-version-kind"] = json!([{"group": "example.org", "version": "v1", "kind": "Team"}]);
    schema["properties"]["spec"]["properties"]["tree"] = json!({"allOf": [{"$ref": "#/components/schemas/Tree"}]});
    let tree = json!({"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}}});
    let list = json!({"type": "object", "properties": {"items": {}}, "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "TeamList"}]});
    let document = json!({"components": {"schemas": {"Team": schema, "TeamList": list, "Tree": tree}}});
    let schema = KindSchema::of_openapi(&kind("example.org/v1/Team"), &document).unwrap();
    assert_eq!(check(&schema, "spec.tree.left.left"), "Field");
    assert!(check(&schema, "spec.tree.left.right").starts_with("spec.tree.left.right: "));
    assert_eq!(KindSchema::of_openapi(&kind("example.org/v2/Team"), &document), None);
    assert_eq!(KindSchema::of_openapi(&kind("example.org/v1/Team"), &json!("nonsense")), None);
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(json!({"type": "string"})), Just(json!({})), Just(json!(null)), Just(json!({"type": 7}))];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let fields = prop::collection::btree_map("[a-c]", inner.clone(), 0..3);
        prop_oneof![
            (fields, any::<bool>()).prop_map(|(fields, open)| {
                json!({"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": open})
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|value| json!({"type": "object", "additionalProperties": value})),
        ]
    })
}

proptest! {
    /// A path of a value with the shape of the schema is never rejected, and no schema makes the check panic.
    #[test]
    fn a_path_that_an_object_has_is_never_rejected(document in documents(), picks in prop::collection::vec(0..3_usize, 1..6)) {
        let schema = KindSchema::of_definition(&kind("example.org/v1/Team"), &document);
        // Follow the schema down, as a valid object would.
        let (mut at, mut names) = (document, Vec::new());
        for pick in picks {
            while at["type"] == "array" {
                at = at["items"].clone();
            }
            let fields: Vec<String> = at["properties"].as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
            if let Some(name) = fields.get(pick) {
                names.push(name.clone());
                at = at["properties"][name].clone();
            } else if at["additionalProperties"].is_object() {
                names.push("key".into());
                at = at["additionalProperties"].clone();
            } else {
                break;
            }
        }
        if !names.is_empty() {
            let path = FieldPath::of(&names.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert!(schema.check(&path).is_ok(), "{}", path);
        }
    }
}
