//! Which keys a change touches, on a cache of a few objects.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pintle_core::contract::manifest::Manifest;
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::object::texts::Projection;
use pintle_core::object::version::Uid;
use pintle_core::object::{Meta, Object};
use pintle_core::policy::rules::{Delta, RuleCache, Rules};
use pintle_core::ports::api::Detail;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Objects by kind, and how often they were asked for.
#[derive(Default)]
struct Cache {
    objects: Vec<(Kind, Arc<Object>)>,
    n_texts: Cell<usize>,
    n_lists: Cell<usize>,
}

fn count(calls: &Cell<usize>) {
    calls.set(calls.get() + 1);
}

impl RuleCache for Cache {
    fn watched(&self, group: &str, name: &str) -> Option<&Kind> {
        self.objects.iter().map(|(kind, _)| kind).find(|kind| *kind.group == *group && *kind.name == *name)
    }

    fn namespaced(&self, kind: &Kind) -> bool {
        *kind.name != *"Node"
    }

    fn object(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects
            .iter()
            .find(|(own, object)| own == kind && object.meta.key == *key)
            .map(|(_, object)| object.clone())
    }

    fn keys_in(&self, kind: &Kind, _: Option<&str>) -> Vec<ObjectKey> {
        count(&self.n_lists);
        self.objects.iter().filter(|(of, _)| of == kind).map(|(_, object)| object.meta.key.clone()).collect()
    }

    /// Here an object selects those that have its name as a label.
    fn selecting(&self, kind: &Kind, selected: &Meta) -> Vec<ObjectKey> {
        count(&self.n_lists);
        let selects = |object: &Object| selected.label(&object.meta.key.name).is_some();
        let found = self.objects.iter().filter(|(of, object)| of == kind && selects(object));
        found.map(|(_, object)| object.meta.key.clone()).collect()
    }

    fn by_uid(&self, uid: &Uid) -> Option<(&Kind, &Arc<Object>)> {
        self.objects.iter().find(|(_, object)| object.meta.uid == *uid).map(|(kind, object)| (kind, object))
    }

    fn dependents(&self, _: &Uid) -> Vec<(Kind, ObjectKey)> {
        Vec::new()
    }

    fn text<'o>(&self, _: &Kind, object: &'o Object) -> Option<Cow<'o, str>> {
        count(&self.n_texts);
        object.texts.first().map(|text| Cow::Borrowed(&**text))
    }
}

fn cache(objects: Vec<(Kind, Arc<Object>)>) -> Cache {
    Cache { objects, ..Cache::default() }
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
    let cache = cache(vec![
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

/// A whole Pod `ns/p`.
fn pod(labels: &[&str], spec: &Value) -> Arc<Object> {
    let needs = Needs { projections: BTreeSet::from([Projection::Whole]), ..Needs::default() };
    let plan = IngestPlan::new("v1/Pod".parse().unwrap(), needs);
    let labels: BTreeMap<&str, &str> = labels.iter().map(|label| (*label, "")).collect();
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": labels}, "spec": spec});
    Arc::new(Ingester::default().ingest(&plan, &pod.to_string()).unwrap())
}

fn rules(enqueue: &[Value]) -> Rules {
    let manifest = json!({
        "name": "test", "version": "1", "contract": "0.1", "queues": [{"name": "q"}, {"name": "other"}],
        "watches": [{"kind": "v1/Pod", "fields": ["spec"], "enqueue": enqueue}, {"kind": "v1/Node"}, {"kind": "apps/v1/ReplicaSet"}],
    });
    // These rules look at fields that Pods do not have.
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    Rules::new(&manifest.watches[0], &manifest).unwrap()
}

fn nodes_and_sets() -> Cache {
    let set = |name| object("apps/v1/ReplicaSet", json!({"name": name, "namespace": "ns", "uid": name}));
    cache(vec![set("a"), set("b"), object("v1/Node", json!({"name": "n", "uid": "n"}))])
}

fn update(old: Arc<Object>, new: Arc<Object>) -> Delta {
    Delta { kind: "v1/Pod".parse().unwrap(), old: Some(old), new: Some(new), initial: false }
}

#[test]
fn what_many_rules_ask_of_a_change_is_found_out_once() {
    let rule = |i: usize| {
        let changed = [format!("spec.f{i}"), "spec.nodeName".into()];
        json!({"to": "namespaceKeys", "kind": "apps/v1/ReplicaSet", "changed": changed, "present": "spec.nodeName"})
    };
    let rules = rules(&(0..64).map(rule).collect::<Vec<_>>());
    let cache = nodes_and_sets();
    let change = update(pod(&[], &json!({"nodeName": "n"})), pod(&[], &json!({"nodeName": "m"})));
    assert_eq!(rules.keys(&change, &cache).len(), 2);
    assert_eq!((cache.n_texts.get(), cache.n_lists.get()), (2, 1), "both states, and one list of keys");
}

#[test]
fn states_that_select_alike_are_asked_about_once() {
    let rules = rules(&[json!({"to": "selecting", "kind": "apps/v1/ReplicaSet"})]);
    let cache = nodes_and_sets();
    let keys = |old: &[&str], new: &[&str]| {
        let before = cache.n_lists.get();
        let found = rules.keys(&update(pod(old, &json!({})), pod(new, &json!({}))), &cache);
        let names: Vec<_> = found.iter().map(|enqueued| enqueued.key.object.name.to_string()).collect();
        (names.join(" "), cache.n_lists.get() - before)
    };
    assert_eq!(keys(&["a"], &["a"]), ("a".into(), 1));
    assert_eq!(keys(&["a"], &["b"]), ("a b".into(), 2));
    assert_eq!(keys(&["a", "b"], &[]), ("a b".into(), 2));
}

fn rule() -> impl Strategy<Value = Value> {
    let to = prop_oneof![
        Just(json!({"to": "self"})),
        Just(json!({"to": "namespace"})),
        Just(json!({"to": "namespaceKeys", "kind": "apps/v1/ReplicaSet"})),
        Just(json!({"to": "selecting", "kind": "apps/v1/ReplicaSet"})),
        Just(json!({"to": "field", "kind": "v1/Node", "field": "spec.a"})),
        Just(json!({"to": "label", "kind": "v1/Node", "field": "a"})),
    ];
    let fields =
        prop::collection::vec(prop_oneof![Just("spec.a"), Just("spec.b"), Just("spec.c.d"), Just("spec.c")], 0..3);
    let present = prop::option::of(prop_oneof![Just("spec.a"), Just("spec.c.d")]);
    (to, fields, present, prop::option::of(1..3u32), any::<bool>()).prop_map(
        |(mut rule, changed, present, delay, other)| {
            rule["changed"] = json!(changed);
            if let Some(present) = present {
                rule["present"] = json!(present);
            }
            if let Some(delay) = delay {
                rule["delayMs"] = json!(delay);
            }
            if other {
                rule["queue"] = json!("other");
            }
            rule
        },
    )
}

fn state() -> impl Strategy<Value = Arc<Object>> {
    let value = || prop::option::of(prop_oneof![Just(json!("n")), Just(json!("m"))]);
    let spec = (value(), value(), value()).prop_map(|(a, b, d)| json!({"a": a, "b": b, "c": {"d": d}}));
    let labels = prop::sample::subsequence(vec!["a", "b"], 0..=2);
    (labels, spec).prop_map(|(labels, spec)| pod(&labels, &spec))
}

/// Keys with their delays.
fn keys(rules: &Rules, delta: &Delta) -> BTreeMap<Key, Option<Duration>> {
    rules.keys(delta, &nodes_and_sets()).into_iter().map(|enqueued| (enqueued.key, enqueued.delay)).collect()
}

proptest! {
    /// Rules share what they find out, but each leads to the same keys as if it were alone, and with one state as with two.
    #[test]
    fn rules_lead_to_the_same_keys_together_as_alone(
        all in prop::collection::vec(rule(), 1..6), old in state(), new in state(),
    ) {
        let change = update(old.clone(), new.clone());
        let mut expected: BTreeMap<Key, Option<Duration>> = BTreeMap::new();
        for rule in &all {
            let fields: Vec<&str> = rule["changed"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
            let differs = |path: &&str| {
                let pointer = format!("/{}", path.replace('.', "/"));
                let value = |state: &Object| serde_json::from_str::<Value>(&state.texts[0]).unwrap().pointer(&pointer).cloned();
                value(&old) != value(&new)
            };
            if !fields.is_empty() && !fields.iter().any(differs) {
                continue;
            }
            // Each state as if it came or went alone.
            let mut of_one = rule.clone();
            of_one["changed"] = json!([]);
            let alone = rules(&[of_one]);
            let kind = change.kind.clone();
            let gone = Delta { kind: kind.clone(), old: Some(old.clone()), new: None, initial: false };
            let come = Delta { kind, old: None, new: Some(new.clone()), initial: false };
            for (key, delay) in keys(&alone, &gone).into_iter().chain(keys(&alone, &come)) {
                expected.entry(key).and_modify(|known| *known = (*known).min(delay)).or_insert(delay);
            }
        }
        prop_assert_eq!(keys(&rules(&all), &change), expected);
    }
}
