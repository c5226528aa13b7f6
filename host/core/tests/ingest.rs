//! Ingests objects, compared with a model on trees of values.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;

use pintle_core::object::Object;
use pintle_core::object::field::{FieldMask, FieldPath};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::object::project::{MAX_TEXTS, Projector};
use pintle_core::object::selector::SelectorForm;
use pintle_core::object::texts::{Projection, Reader};
use pintle_core::object::version::{ResourceVersion, Uid};
use pintle_core::ports::api::Detail;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn mask(paths: &[&str]) -> FieldMask {
    FieldMask::new(paths.iter().map(|path| path.parse::<FieldPath>().unwrap()))
}

fn fields(paths: &[&str]) -> Projection {
    Projection::Fields(mask(paths))
}

fn plan(projections: impl IntoIterator<Item = Projection>) -> IngestPlan {
    let needs = Needs { projections: projections.into_iter().collect(), ..Needs::default() };
    IngestPlan::new(Kind::new("apps", "v1", "Thing"), needs)
}

fn ingest(plan: &IngestPlan, object: &Value) -> Object {
    Ingester::default().ingest(plan, &object.to_string()).unwrap()
}

/// The text that a reader of this projection gets.
fn read(object: &Object, projection: &Projection) -> Option<Arc<str>> {
    let reader = Reader::new(projection.clone());
    reader.read(reader.source(&object.text_set)?, &object.texts)
}

fn text(object: &Object, projection: &Projection) -> Value {
    serde_json::from_str(&read(object, projection).unwrap()).unwrap()
}

fn thing() -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {
            "name": "a", "namespace": "ns", "uid": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "resourceVersion": "42",
            "labels": {"app": "web"}, "annotations": {"x/y": "1", "z": "2"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u1", "controller": true},
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u2"},
            ],
        },
        "spec": {"nodeName": "n1", "volumes": [{"claim": "c1"}, {"claim": "c2"}, {"claim": "c1"}, 5], "n": 1.50},
        "status": {"phase": "Running"},
    })
}

#[test]
fn metadata_is_extracted() {
    let object = ingest(&plan([]), &thing());
    let meta = &object.meta;
    assert_eq!(meta.key, ObjectKey::new("ns", "a"));
    assert_eq!(meta.uid.to_string(), "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
    assert_eq!(meta.resource_version, ResourceVersion::Number(42));
    assert_eq!(meta.label("app"), Some("web"));
    assert!(meta.terminating);
    assert_eq!(meta.owners.len(), 2);
    let controller = meta.controller().unwrap();
    assert_eq!((controller.kind.to_string(), &controller.uid), ("apps/v1/ReplicaSet".into(), &Uid::parse("u1")));
}

#[test]
fn every_text_has_its_kind_and_identity_and_none_has_managed_fields() {
    let projections = [
        fields(&[]),
        fields(&["spec.nodeName", "metadata.annotations['x/y']", "kind"]),
        fields(&["metadata", "spec.volumes.claim"]),
        fields(&["metadata.managedFields", "spec.missing", "status.phase.deeper"]),
        Projection::Whole,
    ];
    let alone = |i: usize| text(&ingest(&plan([projections[i].clone()]), &thing()), &projections[i]);
    let object = ingest(&plan(projections.clone()), &thing());
    assert_eq!(object.texts.len(), MAX_TEXTS);
    let identity = json!({
        "name": "a", "namespace": "ns", "uid": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "resourceVersion": "42",
    });
    let with = |fields: Value| {
        let mut whole = json!({"apiVersion": "apps/v1", "kind": "Thing", "metadata": identity});
        for (key, value) in fields.as_object().unwrap() {
            match whole.get_mut(key).and_then(Value::as_object_mut) {
                Some(object) => object.extend(value.as_object().unwrap().clone()),
                None => whole[key] = value.clone(),
            }
        }
        whole
    };
    let mut metadata = thing()["metadata"].clone();
    metadata.as_object_mut().unwrap().remove("managedFields");
    for (i, projection) in projections.iter().enumerate() {
        assert_eq!(text(&object, projection), alone(i));
    }
    assert_eq!(alone(0), with(json!({})));
    assert_eq!(alone(1), with(json!({"spec": {"nodeName": "n1"}, "metadata": {"annotations": {"x/y": "1"}}})));
    let volumes = json!([{"claim": "c1"}, {"claim": "c2"}, {"claim": "c1"}]);
    assert_eq!(alone(2), with(json!({"metadata": metadata, "spec": {"volumes": volumes}})));
    assert_eq!(alone(3), with(json!({"spec": {}, "status": {}})));
    let whole = with(json!({"metadata": metadata, "spec": thing()["spec"], "status": thing()["status"]}));
    assert_eq!(alone(4), whole);
    assert!(read(&object, &fields(&["spec.other"])).is_none(), "what nobody declared is not there");
    let whole = read(&object, &Projection::Whole).unwrap();
    assert!(whole.contains("\"n\":1.5"), "numbers are copied as they are written");
}

#[test]
fn index_values_and_selectors_are_extracted() {
    let claims = fields(&["spec.volumes.claim"]);
    let path = |path: &str| path.parse::<FieldPath>().unwrap();
    let indexes =
        ["spec.volumes.claim", "spec.nodeName", "spec.none", "metadata.name", "metadata.labels.app", "spec.n"]
            .map(path);
    let selectors = [
        (path("spec.selector"), SelectorForm::Map),
        (path("spec.bad"), SelectorForm::LabelSelector),
        (path("spec.none"), SelectorForm::Map),
    ];
    let needs = Needs {
        projections: [claims.clone()].into(),
        indexes: indexes.clone().into(),
        selectors: selectors.clone().into(),
    };
    let plan = IngestPlan::new(Kind::new("", "v1", "Service"), needs);
    let mut service = thing();
    service["spec"]["selector"] = json!({"app": "web"});
    service["spec"]["bad"] = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    let object = ingest(&plan, &service);
    let values = indexes.map(|path| {
        let slot = plan.index(&path).unwrap();
        object
            .index_values
            .iter()
            .filter(|(of, _)| *of == slot)
            .map(|(_, value)| &**value)
            .collect::<Vec<_>>()
            .join(" ")
    });
    assert_eq!(values, ["c1 c2", "n1", "", "a", "web", "1.5"]);
    let selector = |i: usize| object.selectors[plan.selector(&selectors[i]).unwrap()].as_ref();
    assert!(selector(0).unwrap().matches(|key| (key == "app").then_some("web")));
    assert!(selector(1).is_none() && selector(2).is_none());
    let volumes = json!({"volumes": [{"claim": "c1"}, {"claim": "c2"}, {"claim": "c1"}]});
    assert_eq!(text(&object, &claims)["spec"], volumes);
}

#[test]
fn metadata_alone_is_enough_when_nobody_looks_further() {
    assert_eq!(plan([]).detail(), Detail::Metadata);
    assert_eq!(plan([fields(&["metadata.ownerReferences", "kind"])]).detail(), Detail::Metadata);
    assert_eq!(plan([fields(&["metadata"]), fields(&["spec.x"])]).detail(), Detail::Full);
    assert_eq!(plan([Projection::Whole]).detail(), Detail::Full);
    let needs = Needs { indexes: ["spec.nodeName".parse().unwrap()].into(), ..Needs::default() };
    assert_eq!(IngestPlan::new(Kind::new("", "v1", "Pod"), needs).detail(), Detail::Full);
}

#[test]
fn an_object_that_does_not_parse_is_an_error_and_the_next_one_is_not() {
    let plan = plan([Projection::Whole]);
    let mut ingester = Ingester::default();
    for bad in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"metadata":5}"#,
        r#"{"metadata":{}}"#,
        r#"{"metadata":{"name":""}}"#,
        r#"{"metadata":{"name":7}}"#,
        r#"{"metadata":{"name":"a","labels":{"a":1}}}"#,
        r#"{"metadata":{"name":"a","ownerReferences":{}}}"#,
        r#"{"metadata":{"name":"a"},"spec":}"#,
        r#"{"metadata":{"name":"a"}} x"#,
    ] {
        assert!(ingester.ingest(&plan, bad).is_err(), "{bad}");
    }
    let good = ingester.ingest(&plan, r#"{"metadata":{"name":"a","labels":null,"ownerReferences":null}}"#).unwrap();
    assert_eq!(
        text(&good, &Projection::Whole)["metadata"],
        json!({"name": "a", "labels": null, "ownerReferences": null})
    );
}

#[test]
fn any_number_of_projections_shares_four_texts() {
    let projections: Vec<_> = (0..150).map(|i| fields(&[&format!("spec.f{i}")])).collect();
    let spec: Map<String, Value> = (0..150).map(|i| (format!("f{i}"), json!(i))).collect();
    let object = ingest(&plan(projections.clone()), &json!({"metadata": {"name": "a"}, "spec": spec}));
    assert_eq!(object.texts.len(), MAX_TEXTS);
    for (i, projection) in projections.iter().enumerate() {
        assert_eq!(text(&object, projection)["spec"], json!({format!("f{i}"): i}));
    }
}

#[test]
fn texts_that_stand_in_many_objects_are_shared() {
    let plan = plan([]);
    let mut ingester = Ingester::default();
    let json =
        |name: &str| json!({"metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}}}).to_string();
    let a = ingester.ingest(&plan, &json("a")).unwrap();
    let b = ingester.ingest(&plan, &json("b")).unwrap();
    assert!(Arc::ptr_eq(&a.meta.key.namespace, &b.meta.key.namespace));
    assert!(Arc::ptr_eq(&a.meta.labels[0].1, &b.meta.labels[0].1));
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c\"\\\\\n é]{0,4}".prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-c]".prop_map(String::from), 1 => Just("a/b.c".to_owned()), 1 => Just("q\"\n".to_owned())]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    let fields = || prop::collection::btree_map(name(), value(), 0..4);
    (fields(), fields(), any::<bool>(), any::<bool>()).prop_map(|(top, meta, managed, other_kind)| {
        let mut metadata: Map<String, Value> = meta.into_iter().collect();
        metadata.insert("name".into(), json!("the-name"));
        metadata.insert("resourceVersion".into(), json!("7"));
        if managed {
            metadata.insert("managedFields".into(), json!([{"a": 1}]));
        }
        let mut object: Map<String, Value> = top.into_iter().collect();
        if other_kind {
            object.insert("kind".into(), json!("Other"));
        }
        object.insert("metadata".into(), metadata.into());
        Value::Object(object)
    })
}

/// A path of any field, including those that every text has.
fn path() -> impl Strategy<Value = Vec<String>> {
    let own = prop::sample::select(vec!["name", "resourceVersion", "managedFields"]).prop_map(String::from);
    let below = |first: BoxedStrategy<String>| (first, prop::collection::vec(name(), 0..3));
    let rest = prop_oneof![
        1 => Just(vec![]),
        3 => below(name().boxed()).prop_map(|(first, rest)| [vec![first], rest].concat()),
        2 => below(own.boxed()).prop_map(|(first, rest)| [vec![first], rest].concat()),
    ];
    let first = prop_oneof![3 => name(), 3 => Just("metadata".to_owned()), 1 => Just("kind".to_owned())];
    (first, rest).prop_map(|(first, rest)| [vec![first], rest].concat())
}

/// The parts of `value` that the paths name.
fn model(value: &Value, paths: &[&[String]]) -> Option<Value> {
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, value) in map {
                let below: Vec<&[String]> =
                    paths.iter().filter(|path| path[0] == *key).map(|path| &path[1..]).collect();
                if let Some(part) = (!below.is_empty()).then(|| model(value, &below)).flatten() {
                    out.insert(key.clone(), part);
                }
            }
            Some(Value::Object(out))
        }
        Value::Array(list) => Some(list.iter().filter_map(|element| model(element, paths)).collect()),
        _ => None,
    }
}

fn model_text(object: &Value, paths: Option<&[Vec<String>]>) -> Value {
    let mut stripped = object.clone();
    stripped.as_object_mut().unwrap().remove("kind");
    stripped["metadata"].as_object_mut().unwrap().remove("managedFields");
    let mut out = match paths {
        None => stripped,
        Some(paths) => {
            let always = [
                vec!["metadata".to_owned(), "name".to_owned()],
                vec!["metadata".to_owned(), "resourceVersion".to_owned()],
            ];
            let paths: Vec<&[String]> = paths.iter().chain(&always).map(Vec::as_slice).collect();
            model(&stripped, &paths).unwrap()
        }
    };
    out["apiVersion"] = json!("apps/v1");
    out["kind"] = json!("Thing");
    out
}

proptest! {
    /// With any number of plugins sharing the texts, each one reads the same as if it were alone, byte for byte.
    #[test]
    fn texts_are_what_the_model_says(
        object in object(),
        masks in prop::collection::vec(prop::option::weighted(0.85, prop::collection::vec(path(), 0..5)), 0..12),
        pretty in any::<bool>(),
    ) {
        let projections: Vec<Projection> = masks.iter().map(|paths| match paths {
            None => Projection::Whole,
            Some(paths) => Projection::Fields(FieldMask::new(paths.iter().map(|path| {
                FieldPath::of(&path.iter().map(String::as_str).collect::<Vec<_>>())
            }))),
        }).collect();
        let json = if pretty { serde_json::to_string_pretty(&object).unwrap() } else { object.to_string() };
        let ingest = |plan: &IngestPlan| Ingester::default().ingest(plan, &json).unwrap();
        let together = ingest(&plan(projections.clone()));
        let n_different = projections.iter().collect::<BTreeSet<_>>().len();
        prop_assert_eq!(together.texts.len(), n_different.min(MAX_TEXTS));
        for (projection, paths) in projections.iter().zip(&masks) {
            prop_assert_eq!(text(&together, projection), model_text(&object, paths.as_deref()), "{:?}", projection);
            let alone = ingest(&plan([projection.clone()]));
            prop_assert_eq!(read(&together, projection), read(&alone, projection));
        }
    }

    #[test]
    fn nonsense_never_panics(text in "[{}\\[\\]\",:a-z0-9 \\\\]{0,60}") {
        let plan = plan([Projection::Whole, fields(&["a.b"])]);
        let _ = Ingester::default().ingest(&plan, &text);
        let _ = Projector::new(&mask(&["a.b"])).project(&text);
        let _ = text.parse::<FieldPath>();
        let _ = pintle_core::object::selector::Selector::parse(&text);
    }
}
