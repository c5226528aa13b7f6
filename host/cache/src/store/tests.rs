//! The store compared with a naive model: a list that is searched.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_core::object::Object;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::object::texts::Projection;
use pintle_core::object::version::Uid;
use proptest::prelude::*;
use serde_json::json;

use super::Store;

#[derive(Clone, Debug)]
enum Change {
    Insert { namespace: u8, name: u8, uid: u8, owners: Vec<(u8, bool)>, nodes: Vec<u8> },
    Remove { namespace: u8, name: u8 },
    Snapshot,
}

fn change() -> impl Strategy<Value = Change> {
    let owners = prop::collection::vec((0..4u8, any::<bool>()), 0..3);
    let nodes = prop::collection::vec(0..4u8, 0..3);
    prop_oneof![
        6 => (0..3u8, 0..8u8, 0..3u8, owners, nodes).prop_map(|(namespace, name, uid, owners, nodes)| {
            Change::Insert { namespace, name, uid, owners, nodes }
        }),
        3 => (0..3u8, 0..8u8).prop_map(|(namespace, name)| Change::Remove { namespace, name }),
        1 => Just(Change::Snapshot),
    ]
}

fn plan() -> Arc<IngestPlan> {
    let indexes = [pintle_core::object::field::FieldPath::of(&["spec", "node"])].into();
    let needs = Needs { projections: [Projection::Whole].into(), indexes, ..Needs::default() };
    Arc::new(IngestPlan::new(Kind::new("", "v1", "Pod"), needs))
}

fn names<'o>(objects: impl Iterator<Item = &'o Arc<Object>>) -> Vec<String> {
    objects.map(|object| format!("{} {}", object.meta.key, object.meta.uid)).collect()
}

fn expected(model: &BTreeMap<ObjectKey, Arc<Object>>, fits: impl Fn(&Object) -> bool) -> Vec<String> {
    names(model.values().filter(|object| fits(object)))
}

fn agree(store: &Store, model: &BTreeMap<ObjectKey, Arc<Object>>) {
    assert_eq!(store.len(), model.len());
    assert_eq!(names(store.iter()), expected(model, |_| true));
    assert_eq!(names(store.orphans()), expected(model, |object| object.meta.controller().is_none()));
    let is_first = |object: &Object| {
        let mut same = model.keys().filter(|key| key.namespace == object.meta.key.namespace);
        same.next() == Some(&object.meta.key)
    };
    assert_eq!(names(store.first_of_each_namespace()), expected(model, is_first));
    let text_bytes: usize = model.values().map(|object| object.texts[0].len()).sum();
    assert_eq!(store.text_bytes(), text_bytes as u64);
    for object in model.values() {
        let ObjectKey { namespace, name } = &object.meta.key;
        assert!(store.get(namespace, name).is_some_and(|found| Arc::ptr_eq(found, object)));
        assert!(store.by_uid(&object.meta.uid).is_some_and(|found| Arc::ptr_eq(found, object)));
    }
    for i in 0..4 {
        let (namespace, value) = (format!("ns{i}"), format!("node{i}"));
        let owner = Uid::parse(&format!("owner{i}"));
        let in_namespace = |object: &Object| *object.meta.key.namespace == *namespace;
        assert_eq!(names(store.in_namespace(&namespace)), expected(model, in_namespace));
        assert_eq!(
            names(store.orphans_in(&namespace)),
            expected(model, |object| in_namespace(object) && object.meta.controller().is_none())
        );
        let owned = |object: &Object| object.meta.owners.iter().any(|reference| reference.uid == owner);
        assert_eq!(names(store.owned_by(&owner)), expected(model, owned));
        let indexed = |object: &Object| object.index_values.iter().any(|(_, ours)| **ours == *value);
        assert_eq!(names(store.indexed(0, &value)), expected(model, indexed));
        assert!(store.indexed(1, &value).next().is_none());
        for j in 0..4 {
            let namespace = format!("ns{j}");
            let both = |object: &Object| indexed(object) && *object.meta.key.namespace == *namespace;
            assert_eq!(names(store.indexed_in(0, &value, &namespace)), expected(model, both));
        }
    }
}

/// A plugin may index a list that a user fills, in an informer that serves all plugins.
#[test]
fn a_changed_object_with_very_many_values_and_owners_leaves_the_indexes_of_those_that_are_gone() {
    const N: usize = 30_000;
    let plan = plan();
    let mut ingester = Ingester::default();
    let mut store = Store::new(plan.clone(), 1);
    let mut object = |from: usize| {
        let owner = |i: usize| json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": format!("owner{i}")});
        let (owners, nodes) = ((from..from + N).map(owner), (from..from + N).map(|i| format!("node{i}")));
        let metadata = json!({"name": "o", "uid": "u", "ownerReferences": owners.collect::<Vec<_>>()});
        let json = json!({"metadata": metadata, "spec": {"node": nodes.collect::<Vec<_>>()}});
        Arc::new(ingester.ingest(&plan, &json.to_string()).unwrap())
    };
    let (old, new) = (object(0), object(1));
    store.insert(old);
    store.insert(new);
    let n_found = |i: usize| {
        (store.indexed(0, &format!("node{i}")).count(), store.owned_by(&Uid::parse(&format!("owner{i}"))).count())
    };
    assert_eq!([0, 1, N].map(n_found), [(0, 0), (1, 1), (1, 1)]);
}

proptest! {
    #[test]
    fn every_index_agrees_with_a_naive_model(changes in prop::collection::vec(change(), 0..80)) {
        let plan = plan();
        let mut ingester = Ingester::default();
        let mut store = Store::new(plan.clone(), 1);
        let mut model = BTreeMap::new();
        let mut snapshots = Vec::new();
        for change in changes {
            match change {
                Change::Insert { namespace, name, uid, owners, nodes } => {
                    let owners: Vec<_> = owners.iter().map(|(owner, controller)| json!({
                        "apiVersion": "v1", "kind": "Owner", "name": "o", "uid": format!("owner{owner}"), "controller": controller,
                    })).collect();
                    let nodes: Vec<_> = nodes.iter().map(|node| format!("node{node}")).collect();
                    let (namespace, name) = (format!("ns{namespace}"), format!("o{name}"));
                    let json = json!({
                        "metadata": {
                            "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}-{uid}"),
                            "ownerReferences": owners,
                        },
                        "spec": {"node": nodes},
                    });
                    let object = Arc::new(ingester.ingest(&plan, &json.to_string()).unwrap());
                    let old = store.insert(object.clone());
                    let model_old = model.insert(object.meta.key.clone(), object);
                    prop_assert_eq!(old.map(|old| Arc::as_ptr(&old)), model_old.map(|old| Arc::as_ptr(&old)));
                }
                Change::Remove { namespace, name } => {
                    let key = ObjectKey::new(&format!("ns{namespace}"), &format!("o{name}"));
                    let (old, model_old) = (store.remove(&key), model.remove(&key));
                    prop_assert_eq!(old.map(|old| Arc::as_ptr(&old)), model_old.map(|old| Arc::as_ptr(&old)));
                }
                Change::Snapshot => snapshots.push((store.clone(), model.clone())),
            }
            agree(&store, &model);
        }
        // Later changes do not affect snapshots.
        snapshots.iter().for_each(|(store, model)| agree(store, model));
        for key in model.keys() {
            store.remove(key);
        }
        prop_assert_eq!((store.len(), store.text_bytes(), store.meta_bytes()), (0, 0, 0));
    }
}
