//! Writes that adopt objects without a controller, and the namespaces that the key reaches.

use pintle_core::contract::outcome::PatchType;
use pintle_core::object::selector::{Selector, SelectorForm};
use pintle_core::object::version::ResourceVersion;
use pintle_testing::cached;
use serde_json::Value;

use super::rights::{UID, create_of, delete_of, mutation, owned, patch_of, reference, refusal_of, update_of};
use super::*;

/// A grant for Pods that the key controls.
fn controlled(verbs: &[&str], adopt: bool) -> Value {
    let names = if adopt { vec!["*"] } else { Vec::new() };
    json!([{"verbs": verbs, "kinds": ["v1/Pod"], "names": names, "of": "controlled", "adopt": adopt}])
}

fn of_references(references: impl Into<Value>) -> Value {
    json!({"metadata": {"ownerReferences": references.into()}})
}

/// The simplest adoption.
fn adopting() -> Value {
    of_references(vec![reference("key")])
}

/// A patch of the object without a controller, based on the caches.
fn patch_orphan(patch_type: PatchType, body: &Value) -> Mutation {
    let mut patch = patch_of("orphan", None, patch_type, body);
    if let Action::Patch { preconditions, .. } = &mut patch.action {
        preconditions.resource_version = Some("5".into());
    }
    patch
}

/// The objects of `owned`, with a resourceVersion on the one without a controller.
fn shown(asked: Value) -> Fixture {
    let mut fixture = owned(asked);
    change(&mut fixture, "orphan", |orphan| orphan.meta.resource_version = ResourceVersion::parse("5"));
    fixture
}

/// Sets another member at a pointer in a body.
fn with(mut body: Value, parent: &str, member: &str, value: Value) -> Value {
    body.pointer_mut(parent).unwrap()[member] = value;
    body
}

/// Changes an object in the caches.
fn change(fixture: &mut Fixture, name: &str, change: impl FnOnce(&mut Object)) {
    let (_, shown) = fixture.shown.iter_mut().find(|(_, shown)| &*shown.meta.key.name == name).unwrap();
    change(Arc::get_mut(shown).unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_adoption_is_a_merge_patch_of_the_owner_references_alone() {
    let fixture = shown(controlled(&["patch", "delete"], true));
    let also = with(reference("other"), "", "controller", json!(false));
    let identified = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "orphan", "namespace": "ns", "uid": "uid-orphan", "resourceVersion": "5",
            "ownerReferences": [also, reference("key")],
        },
    });
    for patch_type in [PatchType::Merge, PatchType::StrategicMerge] {
        for body in [adopting(), identified.clone()] {
            assert_eq!(refusal_of(&fixture, patch_orphan(patch_type.clone(), &body)).await, None);
            assert_eq!(fixture.api.bodies().last().unwrap()["metadata"]["uid"], "uid-orphan");
        }
        for (body, why) in [
            (with(adopting(), "", "spec", json!({})), r#"it changes "spec""#),
            (with(adopting(), "", "data", Value::Null), r#"it changes "data""#),
            (with(adopting(), "", "status", json!({})), r#"it changes "status""#),
            (with(adopting(), "", "apiVersion", json!("v2")), r#"it changes "apiVersion""#),
            (with(adopting(), "", "kind", json!("Secret")), r#"it changes "kind""#),
            (with(adopting(), "/metadata", "labels", json!({})), r#"it changes "metadata.labels""#),
            (with(adopting(), "/metadata", "finalizers", Value::Null), r#"it changes "metadata.finalizers""#),
            (with(adopting(), "/metadata", "name", json!("other")), r#"it changes "metadata.name""#),
            (with(adopting(), "/metadata", "namespace", Value::Null), r#"it changes "metadata.namespace""#),
            (json!({"spec": {}}), r#"it changes "spec""#),
            (json!({}), "it does not set v1/Pod key as the controller"),
            (of_references(json!([])), "it does not set v1/Pod key as the controller"),
            (of_references(vec![also.clone()]), "it does not set v1/Pod key as the controller"),
            (of_references(vec![reference("other")]), "it does not set v1/Pod key as the controller"),
            (of_references(vec![reference("key"), reference("other")]), "it does not set v1/Pod key as the controller"),
            (of_references(vec![reference("key"), json!({"$patch": "delete", "uid": UID})]), "does not set v1/Pod key"),
        ] {
            let denied = refusal_of(&fixture, patch_orphan(patch_type.clone(), &body)).await.unwrap();
            assert!(denied.contains("the caches show ns/orphan without a controller"), "{denied}");
            assert!(denied.contains("`adopt: true`") && denied.contains(why), "{body}: {denied}");
        }
    }
    // Objects of other controllers are not adopted, and no object through a subresource.
    for (name, subresource) in [("theirs", None), ("unseen", None), ("orphan", Some("status"))] {
        assert!(refusal_of(&fixture, patch_of(name, subresource, PatchType::Merge, &adopting())).await.is_some());
    }
    let mut of_another = patch_orphan(PatchType::Merge, &adopting());
    if let Action::Patch { preconditions, .. } = &mut of_another.action {
        preconditions.uid = Some("uid-other".into());
    }
    assert!(refusal_of(&fixture, of_another).await.is_some());
    let mut elsewhere = patch_orphan(PatchType::Merge, &adopting());
    if let Action::Patch { object, .. } = &mut elsewhere.action {
        *object = ObjectKey::new("other", "orphan");
    }
    assert!(refusal_of(&fixture, elsewhere).await.unwrap().contains("controls nothing in other namespaces"));
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_selector_adopts_what_its_grants_name() {
    let named = |names: &[&str]| -> Vec<Grant> {
        let mut grants = controlled(&["patch"], true);
        grants[0]["names"] = json!(names);
        serde_json::from_value(grants).unwrap()
    };
    for (asked, given, adopts) in [
        (&["*"][..], None, true),
        (&["orphan"], None, true),
        (&[], None, false),
        (&["*"], Some(&["*"][..]), true),
        (&["*"], Some(&[]), false),
        (&[], Some(&["*"]), false),
        (&["*"], Some(&["other"]), false),
    ] {
        let mut fixture = shown(json!([]));
        fixture.grants = Grants::new(&named(asked), given.map(named).as_deref());
        let refusal = refusal_of(&fixture, patch_orphan(PatchType::Merge, &adopting())).await;
        assert_eq!(refusal.is_none(), adopts, "{asked:?} {given:?}: {refusal:?}");
        assert!(given == Some(&["other"]) || refusal.is_none_or(|why| why.contains("declares no `selects`")));
    }
}

/// It replaces the list, including a controller that was set meanwhile.
#[tokio::test(start_paused = true)]
async fn an_adoption_by_merge_patch_requires_the_resource_version_that_was_seen() {
    let fixture = shown(controlled(&["patch"], true));
    let adopt = |patch_type, version: Option<&str>| {
        let mut patch = patch_of("orphan", None, patch_type, &adopting());
        if let Action::Patch { preconditions, .. } = &mut patch.action {
            preconditions.resource_version = version.map(Into::into);
        }
        patch
    };
    for version in [None, Some(""), Some("4"), Some("6")] {
        let why = refusal_of(&fixture, adopt(PatchType::Merge, version)).await.unwrap();
        assert!(why.contains("does not require the resourceVersion that the caches show"), "{version:?}: {why}");
    }
    assert_eq!(refusal_of(&fixture, adopt(PatchType::Merge, Some("5"))).await, None);
    let sent = fixture.api.bodies();
    assert_eq!(sent[0]["metadata"]["resourceVersion"], "5");
    // A strategic merge patch adds to the list: the API server rejects a second controller.
    assert_eq!(refusal_of(&fixture, adopt(PatchType::StrategicMerge, None)).await, None);
}

#[tokio::test(start_paused = true)]
async fn nothing_but_a_merge_patch_adopts() {
    let fixture = shown(controlled(&["update", "patch", "delete"], true));
    let metadata = json!({
        "name": "orphan", "namespace": "ns", "uid": "uid-orphan", "resourceVersion": "5", "ownerReferences": [reference("key")],
    });
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [reference("key")]}]);
    let apply = PatchType::Apply { field_manager: "m".into(), force: true };
    for write in [
        update_of(&json!({ "metadata": metadata }), None),
        patch_of("orphan", None, apply, &adopting()),
        patch_of("orphan", None, PatchType::Json, &add),
        delete_of("orphan", None),
    ] {
        let text = format!("{write:?}");
        let why = refusal_of(&fixture, write).await.unwrap();
        assert!(why.contains("it is not a merge patch or strategic merge patch of the object"), "{text}: {why}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_adopt_an_object_without_a_controller_is_not_owned() {
    let fixture = shown(controlled(&["update", "patch", "delete"], false));
    let apply = PatchType::Apply { field_manager: "m".into(), force: true };
    let metadata =
        json!({"name": "orphan", "namespace": "ns", "resourceVersion": "5", "ownerReferences": [reference("key")]});
    for write in [
        patch_orphan(PatchType::Merge, &adopting()),
        patch_of("orphan", None, PatchType::StrategicMerge, &adopting()),
        patch_of("orphan", None, apply, &adopting()),
        patch_orphan(PatchType::Merge, &json!({"spec": {}})),
        update_of(&json!({ "metadata": metadata }), None),
        delete_of("orphan", None),
    ] {
        let why = refusal_of(&fixture, write).await.unwrap();
        let expected = "the caches show ns/orphan without a controller, and v1/Pod key has to adopt it before any other write, which \
                        takes `adopt: true` in a grant of `patch`";
        assert!(why.contains(expected), "{why}");
    }
    // A grant for all objects needs no adoption.
    let all = shown(json!([{"verbs": ["patch"], "kinds": ["v1/Pod"]}]));
    assert_eq!(refusal_of(&all, patch_orphan(PatchType::Merge, &json!({"spec": {}}))).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_operator_gives_adoption_as_well_as_the_manifest_asks_for_it() {
    let grants = |adopt| -> Vec<Grant> { serde_json::from_value(controlled(&["patch"], adopt)).unwrap() };
    let all: Vec<Grant> = serde_json::from_value(json!([{"verbs": ["*"], "kinds": ["*"]}])).unwrap();
    for (asked, given, is_sent) in [
        (grants(true), grants(true), true),
        (grants(true), all.clone(), true),
        (all, grants(true), true),
        (grants(true), grants(false), false),
        (grants(false), grants(true), false),
    ] {
        let mut fixture = shown(json!([]));
        fixture.grants = Grants::new(&asked, Some(&given));
        let refusal = refusal_of(&fixture, patch_orphan(PatchType::Merge, &adopting())).await;
        assert_eq!(refusal.is_none(), is_sent, "{asked:?} {given:?}");
        assert!(refusal.is_none_or(|why| why.contains("`adopt: true`")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_with_a_selector_adopts_what_it_selects() {
    let labelled = |app: &str| -> Box<[(Arc<str>, Arc<str>)]> { [("app".into(), app.into())].into() };
    let adopt = || patch_orphan(PatchType::Merge, &adopting());
    let selecting = |selector: &str, labels: Box<[(Arc<str>, Arc<str>)]>| {
        let mut fixture = shown(controlled(&["patch"], true));
        fixture.manifest = manifest(|m| {
            let selects = json!({"field": "spec.nodeSelector", "form": "map"});
            m["watches"] = json!([{"kind": "v1/Pod", "fields": ["metadata.ownerReferences"], "selects": selects}]);
        });
        let selector = Selector::from_json(selector, SelectorForm::Map).unwrap();
        change(&mut fixture, "key", |key| key.selectors = [selector].into());
        change(&mut fixture, "orphan", |orphan| orphan.meta.labels = labels);
        fixture
    };
    assert_eq!(refusal_of(&selecting(r#"{"app": "web"}"#, labelled("web")), adopt()).await, None);
    for (selector, labels) in [
        (r#"{"app": "web"}"#, labelled("api")),
        (r#"{"app": "web"}"#, Box::default()),
        // A missing or empty selector would select everything.
        ("null", labelled("web")),
        ("{}", labelled("web")),
    ] {
        let why = refusal_of(&selecting(selector, labels), adopt()).await.unwrap();
        assert!(why.contains("the selector of v1/Pod key does not match its labels"), "{selector}: {why}");
    }
    // A controlled object needs no selector.
    let write = patch_of("mine", None, PatchType::Merge, &json!({"spec": {}}));
    assert_eq!(refusal_of(&selecting("{}", Box::default()), write).await, None);
    // A selector of another kind than the key's does not matter.
    let mut other = shown(controlled(&["patch"], true));
    other.manifest = manifest(|m| {
        m["watches"] = json!([{"kind": "v1/Pod", "whole": true}, {"kind": "v1/Service", "selects": {"field": "spec.selector", "form": "map"}}]);
    });
    assert_eq!(refusal_of(&other, adopt()).await, None);
}

/// Like a controller with too many Pods: it adopts those that match, and deletes some of them immediately.
#[tokio::test(start_paused = true)]
async fn an_object_adopted_by_an_earlier_step_is_owned_in_later_ones() {
    let asked = controlled(&["patch", "delete"], true);
    let adopt = || patch_of("orphan", None, PatchType::StrategicMerge, &adopting());
    let then = |first: Mutation, always: bool| {
        let mut second = step(Order::Parallel, vec![delete_of("orphan", None)]);
        second.always = always;
        vec![step(Order::Parallel, vec![first]), second]
    };
    let fixture = shown(asked.clone());
    assert_eq!(fixture.carry_out(then(adopt(), false)).await.n_denied, 0);
    assert_eq!(fixture.api.log(), ["patch pods ns/orphan", "delete pods ns/orphan"]);
    assert_eq!(fixture.api.bodies()[1], json!({"uid": "uid-orphan"}));
    // The grant of the later write itself needs no `adopt`.
    let apart = shown(json!([controlled(&["patch"], true)[0], controlled(&["delete"], false)[0]]));
    assert_eq!(apart.carry_out(then(adopt(), false)).await.n_denied, 0);
    // An object that cannot be adopted is not deleted.
    let mut refusing = shown(asked.clone());
    refusing.api = FakeWriter::new(|line, _| if line.starts_with("patch") { Err(refusal(422)) } else { Ok(()) });
    refusing.writer.api = refusing.api.clone();
    assert_eq!(places(&refusing.carry_out(then(adopt(), false)).await), [(0, 0)]);
    assert_eq!(refusing.api.log(), ["patch pods ns/orphan"]);
    // Nor is one whose adoption is not granted.
    let denied = shown(controlled(&["patch", "delete"], false));
    assert_eq!(denied.carry_out(then(adopt(), false)).await.n_denied, 2);
    assert!(denied.api.log().is_empty());

    let tolerated = Mutation { tolerate: vec![Refusal::Invalid], ..adopt() };
    let elsewhere = patch_of("orphan", Some("status"), PatchType::Merge, &adopting());
    let other = json!({"metadata": {"labels": {}}});
    let both = of_references(vec![reference("key"), json!({"$patch": "delete", "uid": UID})]);
    let list = "/metadata/ownerReferences";
    let undone = json!([{"op": "add", "path": list, "value": [reference("key")]}, {"op": "remove", "path": list}]);
    let more = with(adopting(), "", "spec", json!({}));
    let same_step = vec![step(Order::Sequential, vec![adopt(), delete_of("orphan", None)])];
    for steps in [
        then(adopt(), true),
        then(tolerated, false),
        then(elsewhere, false),
        then(patch_orphan(PatchType::Merge, &other), false),
        then(patch_orphan(PatchType::Merge, &more), false),
        then(patch_of("orphan", None, PatchType::StrategicMerge, &both), false),
        then(patch_of("orphan", None, PatchType::Json, &undone), false),
        same_step,
    ] {
        let fixture = shown(asked.clone());
        let text = format!("{steps:?}");
        assert!(fixture.carry_out(steps).await.n_denied > 0, "{text}");
        assert!(fixture.api.log().iter().all(|line| !line.starts_with("delete")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_key_reaches_the_namespaces_that_its_grant_lists() {
    let fixture = |namespaces: Value| {
        let mut asked = controlled(&["create", "patch", "delete"], true);
        asked[0]["kinds"] = json!(["v1/Pod", "v1/Node"]);
        asked[0]["namespaces"] = namespaces;
        let mut fixture = shown(asked);
        // The key's object, and a Node controlled by it.
        let in_cluster = |name: &str, owner| {
            let mut object = cached(name, owner);
            Arc::get_mut(&mut object).unwrap().meta.key = ObjectKey::new("", name);
            object
        };
        fixture.shown.remove(0);
        fixture.shown.push((pod(), in_cluster("key", None)));
        fixture.shown.push((Kind::new("", "v1", "Node"), in_cluster("node", Some("key"))));
        fixture.key.object = ObjectKey::new("", "key");
        fixture
    };
    let writes = || {
        let object = json!({"metadata": {"generateName": "a-", "ownerReferences": [reference("key")]}});
        let apply = PatchType::Apply { field_manager: "m".into(), force: true };
        [
            create_of(&object),
            patch_of("new", None, apply, &adopting()),
            patch_of("mine", None, PatchType::Merge, &json!({"spec": {}})),
            patch_orphan(PatchType::Merge, &adopting()),
            delete_of("mine", None),
        ]
    };
    let node = || {
        let delete = delete_of("node", None);
        let Action::Delete { preconditions, propagation, grace_period_seconds, .. } = delete.action else { panic!() };
        let (kind, object) = (Kind::new("", "v1", "Node"), ObjectKey::new("", "node"));
        mutation(Action::Delete { kind, object, preconditions, propagation, grace_period_seconds })
    };
    for write in writes() {
        for listed in [json!(["*"]), json!(["ns"]), json!(["other", "ns"])] {
            assert_eq!(refusal_of(&fixture(listed), write.clone()).await, None, "{write:?}");
        }
        let why = refusal_of(&fixture(json!([])), write.clone()).await.unwrap();
        let expected = "v1/Pod key is cluster-scoped, and by `of: controlled` without `namespaces` it reaches no objects in namespaces; \
                        list them in the grant, or all with `namespaces: [\"*\"]`";
        assert!(why.contains(expected), "{why}");
        assert!(refusal_of(&fixture(json!(["other"])), write).await.is_some());
    }
    // Cluster-scoped objects are in no namespace.
    for listed in [json!([]), json!(["*"])] {
        assert_eq!(refusal_of(&fixture(listed), node()).await, None);
    }
    assert!(refusal_of(&fixture(json!(["ns"])), node()).await.is_some());
}
