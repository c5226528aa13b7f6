//! Which keys a change touches, on a cache of a few objects.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::borrow::Cow;
use std::sync::Arc;

use pintle_core::contract::manifest::Manifest;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::object::version::Uid;
use pintle_core::object::{Meta, Object};
use pintle_core::policy::rules::{Delta, RuleCache, Rules};
use pintle_core::ports::api::Detail;
use serde_json::{Value, json};

/// Objects by kind.
struct Cache(Vec<(Kind, Arc<Object>)>);

impl RuleCache for Cache {
    fn watched(&self, group: &str, name: &str) -> Option<&Kind> {
        self.0.iter().map(|(kind, _)| kind).find(|kind| *kind.group == *group && *kind.name == *name)
    }

    fn namespaced(&self, kind: &Kind) -> bool {
        *kind.name != *"Node"
    }

    fn object(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>> {
        self.0.iter().find(|(own, object)| own == kind && object.meta.key == *key).map(|(_, object)| object.clone())
    }

    fn keys_in(&self, _: &Kind, _: Option<&str>) -> Vec<ObjectKey> {
        Vec::new()
    }

    fn selecting(&self, _: &Kind, _: &Meta) -> Vec<ObjectKey> {
        Vec::new()
    }

    fn by_uid(&self, uid: &Uid) -> Option<(&Kind, &Arc<Object>)> {
        self.0.iter().find(|(_, object)| object.meta.uid == *uid).map(|(kind, object)| (kind, object))
    }

    fn dependents(&self, _: &Uid) -> Vec<(Kind, ObjectKey)> {
        Vec::new()
    }

    fn text<'o>(&self, _: &Kind, _: &'o Object) -> Option<Cow<'o, str>> {
        None
    }
}

fn object(kind: &str, metadata: Value) -> (Kind, Arc<Object>) {
    let kind: Kind = kind.parse().unwrap();
    let plan = IngestPlan::new(kind.clone(), Needs::default());
    assert_eq!(plan.detail(), Detail::Metadata);
    let object = Ingester::default().ingest(&plan, &json!({"metadata": metadata}).to_string()).unwrap();
    (kind, Arc::new(object))
}

/// Whether a Pod `default/p` that refers to an owner in this way is found to dangle.
fn dangles(api_version: &str, kind: &str, name: &str, uid: &str) -> bool {
    let manifest = json!({
        "name": "gc", "version": "1", "contract": "0.1", "queues": [{"name": "gc"}],
        "watches": [{"every": {}, "enqueue": [{"to": "self", "dangling": true}]}],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let rules = Rules::new(&manifest.watches[0], &manifest).unwrap();
    let cache = Cache(vec![
        object("apps/v1/ReplicaSet", json!({"name": "a", "namespace": "default", "uid": "here"})),
        object("apps/v1/ReplicaSet", json!({"name": "a", "namespace": "other", "uid": "elsewhere"})),
        object("v1/Node", json!({"name": "n", "uid": "node"})),
    ]);
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
    let (kind, pod) =
        object("v1/Pod", json!({"name": "p", "namespace": "default", "uid": "p", "ownerReferences": [owner]}));
    let delta = Delta { kind, old: None, new: Some(pod), initial: false };
    !rules.keys(&delta, &cache).is_empty()
}

#[test]
fn an_owner_dangles_unless_the_cache_holds_just_what_the_reference_says() {
    assert!(!dangles("apps/v1", "ReplicaSet", "a", "here"));
    assert!(!dangles("apps/v1beta1", "ReplicaSet", "a", "here"), "another version of the same object");
    assert!(!dangles("v1", "Node", "n", "node"), "a cluster-scoped owner");
    assert!(dangles("apps/v1", "ReplicaSet", "a", "gone"));
    assert!(dangles("apps/v1", "ReplicaSet", "a", "elsewhere"), "an owner in another namespace");
    assert!(dangles("apps/v1", "ReplicaSet", "b", "here"), "a wrong name");
    assert!(dangles("apps/v1", "Deployment", "a", "here"), "a wrong kind");
    assert!(dangles("v1", "ReplicaSet", "a", "here"), "a wrong group");
}
