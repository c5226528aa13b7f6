//! The keys that a change maps to, on a cache of a few objects.

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

/// Objects by kind, and the number of lookups.
#[derive(Default)]
struct Cache {
    objects: Vec<(Kind, Arc<Object>)>,
    /// Entries of the index `i`, ordered.
    index: BTreeSet<(String, ObjectKey)>,
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

    /// Here, objects select those that have their name as a label.
    fn selecting(&self, kind: &Kind, selected: &Meta) -> Vec<ObjectKey> {
        count(&self.n_lists);
        let selects = |object: &Object| selected.label(&object.meta.key.name).is_some();
        let found = self.objects.iter().filter(|(of, object)| of == kind && selects(object));
        found.map(|(_, object)| object.meta.key.clone()).collect()
    }

    fn indexed(&self, kind: &Kind, index: &str, values: &[String], namespace: Option<&str>) -> Vec<ObjectKey> {
        count(&self.n_lists);
        assert_eq!(index, "i");
        let namespace = namespace.filter(|_| self.namespaced(kind));
        let is_in = |key: &ObjectKey| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        let found = values.iter().flat_map(|value| self.index.iter().filter(move |(of, _)| of == value));
        found.map(|(_, key)| key.clone()).filter(is_in).collect()
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

/// Whether a Pod `default/p` with this owner reference is dangling.
fn dangles(api_version: &str, kind: &str, name: &str, uid: &str) -> bool {
    let manifest = json!({
        "name": "gc", "version": "1", "contract": "0.2", "queues": [{"name": "gc"}],
        "watches": [{"every": {}, "enqueue": [{"to": "self", "dangling": true}]}],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let rules = Rules::new(&manifest.watches[0], &manifest).unwrap();
    let cache = cache(vec![
        object("apps/v1/ReplicaSet", json!({"name": "a", "namespace": "default", "uid": "here"})),
        object("apps/v1/ReplicaSet", json!({"name": "a", "namespace": "other", "uid": "elsewhere"})),
        object("v1/Node", json!({"name": "n", "uid": "node"})),
        object("v1/Node", json!({"name": "m", "uid": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"})),
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
    assert!(!dangles("v1", "Node", "m", "going"), "an owner that is being deleted");
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
        "name": "test", "version": "1", "contract": "0.2", "queues": [{"name": "q"}, {"name": "other"}],
        "watches": [{"kind": "v1/Pod", "fields": ["spec"], "enqueue": enqueue}, {"kind": "v1/Node"}, {"kind": "apps/v1/ReplicaSet"}],
    });
    // These rules read fields that Pods do not have.
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    Rules::new(&manifest.watches[0], &manifest).unwrap()
}

fn nodes_and_sets() -> Cache {
    let set = |name| object("apps/v1/ReplicaSet", json!({"name": name, "namespace": "ns", "uid": name}));
    let objects = vec![set("a"), set("b"), object("v1/Node", json!({"name": "n", "uid": "n"}))];
    let entry = |value: &str, namespace, name| (value.to_owned(), ObjectKey::new(namespace, name));
    let index = [entry("p", "ns", "a"), entry("n", "ns", "b"), entry("n", "ns", "a"), entry("m", "other", "c")];
    Cache { index: index.into(), ..cache(objects) }
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

/// Keys of a change, in order.
fn shown(enqueue: Value, change: &Delta) -> String {
    let found = rules(&[enqueue]).keys(change, &nodes_and_sets());
    found.iter().map(|enqueued| format!("{}:{}", enqueued.key.queue, enqueued.key)).collect::<Vec<_>>().join(", ")
}

fn gone(old: Arc<Object>) -> Delta {
    Delta { kind: "v1/Pod".parse().unwrap(), old: Some(old), new: None, initial: false }
}

#[test]
fn an_index_is_asked_for_the_name_or_for_the_old_and_new_values_of_a_field() {
    let by_name = json!({"to": "indexed", "kind": "apps/v1/ReplicaSet", "index": "i"});
    let of_field = |field: &str| {
        let mut rule = by_name.clone();
        rule["field"] = json!(field);
        rule
    };
    let spec = |a: Value| pod(&[], &json!({"a": a}));
    assert_eq!(shown(by_name.clone(), &update(spec(json!("n")), spec(json!("m")))), "q:apps/v1/ReplicaSet ns/a");
    assert_eq!(
        shown(by_name.clone(), &gone(spec(json!("n")))),
        "q:apps/v1/ReplicaSet ns/a",
        "the name of what is gone"
    );
    let both = "q:apps/v1/ReplicaSet ns/a, q:apps/v1/ReplicaSet ns/b";
    for (old, new, expected) in [
        (json!("n"), json!("n"), both),
        (json!("n"), json!(null), both),
        (json!("x"), json!(["m", "n", "p"]), both),
        (json!("p"), json!("x"), "q:apps/v1/ReplicaSet ns/a"),
        (json!("m"), json!("x"), ""),
        (json!(""), json!({"n": "n"}), ""),
    ] {
        assert_eq!(shown(of_field("spec.a"), &update(spec(old.clone()), spec(new.clone()))), expected, "{old} {new}");
    }
    let mut cluster_scoped = of_field("spec.a");
    cluster_scoped["kind"] = json!("v1/Node");
    let change = update(spec(json!("m")), spec(json!("x")));
    assert_eq!(shown(cluster_scoped, &change), "q:v1/Node other/c", "a kind without namespaces is asked in all");
}

#[test]
fn values_are_looked_up_once_however_often_and_in_whatever_order_they_come() {
    let rules = rules(&[json!({"to": "indexed", "kind": "apps/v1/ReplicaSet", "index": "i", "field": "spec.a"})]);
    let cache = nodes_and_sets();
    let state = |values: &[&str]| pod(&[], &json!({"a": values.repeat(10_000)}));
    assert_eq!(rules.keys(&update(state(&["n", "m"]), state(&["m", "n"])), &cache).len(), 2);
    assert_eq!(cache.n_lists.get(), 1, "both states have the same values");
}

#[test]
fn a_name_and_its_namespace_may_be_two_fields() {
    let rule =
        |kind: &str| json!({"to": "field", "kind": kind, "field": "spec.ref.name", "namespaceField": "spec.ref.space"});
    let change = |old: Value, new: Value| update(pod(&[], &json!({"ref": old})), pod(&[], &json!({"ref": new})));
    let named = |kind: &str, of: Value| shown(rule(kind), &change(of.clone(), of));
    let set = "apps/v1/ReplicaSet";
    assert_eq!(named(set, json!({"name": "a", "space": "x"})), "q:apps/v1/ReplicaSet x/a");
    assert_eq!(named(set, json!({"name": "a"})), "q:apps/v1/ReplicaSet ns/a", "beside the Pod");
    assert_eq!(named("v1/Node", json!({"name": "a", "space": "x"})), "q:v1/Node a");
    let moved = change(json!({"name": "a", "space": "x"}), json!({"name": "a", "space": "y"}));
    assert_eq!(shown(rule(set), &moved), "q:apps/v1/ReplicaSet x/a, q:apps/v1/ReplicaSet y/a");
    let list = json!([{"name": "a", "space": "x"}, {"name": "b"}, {"space": "y"}]);
    assert_eq!(named(set, list), "q:apps/v1/ReplicaSet ns/b, q:apps/v1/ReplicaSet x/a");
    // Invalid object names are ignored.
    for (name, space) in [("../a", "x"), ("a/b", "x"), ("", "x"), ("..", "x"), ("a", ""), ("a", "../x"), ("a", "x/y")] {
        assert_eq!(named(set, json!({"name": name, "space": space})), "", "{name:?} {space:?}");
    }
    let long = |n: usize| named(set, json!({"name": "n".repeat(n), "space": "x"}));
    assert_ne!(long(1_023), "");
    assert_eq!(long(1_024), "");
}

#[test]
fn a_change_can_lead_to_the_tick_key_of_a_queue() {
    let change = update(pod(&[], &json!({})), pod(&[], &json!({})));
    assert_eq!(shown(json!({"to": "tick"}), &change), "q:pintle/v1/Tick q");
    assert_eq!(shown(json!({"to": "tick", "queue": "other"}), &change), "other:pintle/v1/Tick other");
    let delayed = rules(&[json!({"to": "tick", "delayMs": 500})]).keys(&change, &nodes_and_sets());
    assert_eq!(delayed[0].delay, Some(Duration::from_millis(500)));
}

fn rule() -> impl Strategy<Value = Value> {
    let to = prop_oneof![
        Just(json!({"to": "self"})),
        Just(json!({"to": "namespace"})),
        Just(json!({"to": "namespaceKeys", "kind": "apps/v1/ReplicaSet"})),
        Just(json!({"to": "selecting", "kind": "apps/v1/ReplicaSet"})),
        Just(json!({"to": "field", "kind": "v1/Node", "field": "spec.a"})),
        Just(json!({"to": "label", "kind": "v1/Node", "field": "a"})),
        Just(json!({"to": "indexed", "kind": "apps/v1/ReplicaSet", "index": "i"})),
        Just(json!({"to": "indexed", "kind": "apps/v1/ReplicaSet", "index": "i", "field": "spec.a"})),
        Just(json!({"to": "field", "kind": "apps/v1/ReplicaSet", "field": "spec.a", "namespaceField": "spec.b"})),
        Just(json!({"to": "tick"})),
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
    /// Rules share intermediate results, but each leads to the same keys as if it were alone, and with one state as
    /// with two.
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
            // Each state as if it were added or deleted alone.
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
