//! Writes that are allowed under grants for the key's objects, and writes smuggled in bodies.

use pintle_core::contract::outcome::{PatchType, Preconditions};
use pintle_testing::cached;
use serde_json::Value;

use super::*;

pub(super) const UID: &str = "uid-key";

/// Has the key's object, and Pods controlled by it, by another object and by none.
pub(super) fn owned(asked: Value) -> Fixture {
    let mut fixture = Fixture::granted(FakeWriter::agreeable(), asked);
    let shown = [("key", None), ("mine", Some("key")), ("theirs", Some("other")), ("orphan", None)];
    fixture.shown = shown.into_iter().map(|(name, controller)| (pod(), cached(name, controller))).collect();
    fixture
}

pub(super) fn mutation(action: Action) -> Mutation {
    Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() }
}

pub(super) fn delete_of(name: &str, uid: Option<&str>) -> Mutation {
    let mut delete = delete(name);
    if let Action::Delete { preconditions, .. } = &mut delete.action {
        preconditions.uid = uid.map(Into::into);
    }
    delete
}

pub(super) fn patch_of(name: &str, subresource: Option<&str>, patch_type: PatchType, body: &Value) -> Mutation {
    mutation(Action::Patch {
        kind: pod(),
        object: ObjectKey::new("ns", name),
        subresource: subresource.map(Into::into),
        patch_type,
        body: body.to_string(),
        preconditions: Preconditions::default(),
    })
}

pub(super) fn update_of(object: &Value, subresource: Option<&str>) -> Mutation {
    mutation(Action::Update { kind: pod(), object: object.to_string(), subresource: subresource.map(Into::into) })
}

pub(super) fn create_of(object: &Value) -> Mutation {
    mutation(Action::Create { kind: pod(), namespace: "ns".into(), object: object.to_string(), subresource: None })
}

pub(super) fn reference(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": format!("uid-{name}"), "controller": true})
}

/// The failure's message, if the mutation was denied; then it must not have been sent.
pub(super) async fn refusal_of(fixture: &Fixture, mutation: Mutation) -> Option<String> {
    let before = fixture.api.log().len();
    let report = fixture.carry_out(vec![step(Order::Sequential, vec![mutation])]).await;
    let failure = report.failures.into_iter().next();
    assert_eq!(fixture.api.log().len() - before, usize::from(failure.is_none()));
    assert_eq!(report.n_denied, usize::from(failure.is_some()));
    failure.map(|failure| {
        assert_eq!((failure.reason.as_str(), failure.code), ("NotGranted", 0));
        failure.message
    })
}

#[tokio::test(start_paused = true)]
async fn a_plugin_deletes_only_objects_that_it_saw_as_its_own() {
    let fixture = owned(json!([{"verbs": ["delete", "deletecollection"], "kinds": ["v1/Pod"], "of": "controlled"}]));
    assert_eq!(refusal_of(&fixture, delete_of("mine", None)).await, None);
    assert_eq!(refusal_of(&fixture, delete_of("mine", Some("uid-mine"))).await, None);
    // A newer object with the same name is not hit.
    assert_eq!(fixture.api.bodies(), [json!({"uid": "uid-mine"}), json!({"uid": "uid-mine"})]);
    let why = refusal_of(&fixture, delete_of("theirs", None)).await.unwrap();
    assert_eq!(
        why,
        "delete v1/Pod ns/theirs is not granted to plugin widgets, whose manifest asks for objects of the key only: the caches show \
         ns/theirs controlled by v1/Pod other, not by v1/Pod key; for all objects add `- {verbs: [delete], kinds: [v1/Pod]}` to \
         `grants` of the manifest"
    );
    for (name, uid) in [("orphan", None), ("unseen", None), ("key", None), ("mine", Some("uid-other"))] {
        assert!(refusal_of(&fixture, delete_of(name, uid)).await.is_some(), "{name}");
    }
    let collection =
        Action::DeleteCollection { kind: pod(), namespace: "ns".into(), label_selector: None, propagation: None };
    assert!(refusal_of(&fixture, mutation(collection)).await.unwrap().contains("a collection is of many objects"));
    let mut elsewhere = delete_of("mine", None);
    if let Action::Delete { object, .. } = &mut elsewhere.action {
        *object = ObjectKey::new("other", "mine");
    }
    assert!(refusal_of(&fixture, elsewhere).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_cached_object_owns_nothing() {
    let mut fixture = owned(json!([{"verbs": ["*"], "kinds": ["v1/Pod"], "of": "controlled"}]));
    fixture.shown.remove(0);
    let why = refusal_of(&fixture, delete_of("mine", None)).await.unwrap();
    assert!(why.contains("the caches of the plugin do not show v1/Pod ns/key"), "{why}");
    let object = json!({"metadata": {"generateName": "a-", "ownerReferences": [reference("key")]}});
    assert!(refusal_of(&fixture, create_of(&object)).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn updates_and_patches_release_but_set_no_other_controller() {
    let asked = json!([
        {"verbs": ["update", "patch"], "kinds": ["v1/Pod"], "of": "controlled"},
        {"verbs": ["update", "patch"], "kinds": ["v1/Pod"], "subresources": ["status"], "of": "controlled"},
    ]);
    let fixture = owned(asked);
    let take = json!({"metadata": {"ownerReferences": [reference("key")]}});
    let release = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": UID}]}});
    let give = json!({"metadata": {"ownerReferences": [reference("other")]}});
    let strategic = |name, body| patch_of(name, None, PatchType::StrategicMerge, body);
    assert_eq!(refusal_of(&fixture, strategic("mine", &release)).await, None);
    assert_eq!(refusal_of(&fixture, patch_of("mine", None, PatchType::Merge, &json!({"spec": {}}))).await, None);
    let bodies = fixture.api.bodies();
    let uids: Vec<&Value> = bodies.iter().map(|body| &body["metadata"]["uid"]).collect();
    assert_eq!(uids, [&json!("uid-mine"), &json!("uid-mine")]);
    assert!(refusal_of(&fixture, strategic("theirs", &take)).await.is_some());
    assert!(refusal_of(&fixture, strategic("mine", &give)).await.unwrap().contains("as the controller"));
    assert!(refusal_of(&fixture, strategic("orphan", &give)).await.is_some());
    // Objects of other owners have no writable status either.
    let status = |name| patch_of(name, Some("status"), PatchType::Merge, &json!({"status": {}}));
    assert_eq!(refusal_of(&fixture, status("mine")).await, None);
    assert!(refusal_of(&fixture, status("theirs")).await.is_some());
    assert!(refusal_of(&fixture, status("orphan")).await.is_some());

    let object = |name: &str, owner: &str, uid: Option<&str>| {
        let meta = json!({"name": name, "namespace": "ns", "resourceVersion": "5", "uid": uid});
        let mut object = json!({ "metadata": meta });
        object["metadata"]["ownerReferences"] = json!([reference(owner)]);
        object
    };
    assert_eq!(refusal_of(&fixture, update_of(&object("mine", "key", Some("uid-mine")), None)).await, None);
    assert_eq!(fixture.api.bodies().last().unwrap()["metadata"]["uid"], "uid-mine");
    for (name, owner, uid) in
        [("mine", "other", None), ("theirs", "key", None), ("orphan", "key", None), ("mine", "key", Some("uid-other"))]
    {
        assert!(refusal_of(&fixture, update_of(&object(name, owner, uid), None)).await.is_some(), "{name} {owner}");
    }
}

#[tokio::test(start_paused = true)]
async fn created_objects_belong_to_the_key() {
    let fixture = owned(json!([{"verbs": ["create"], "kinds": ["v1/Pod"], "of": "controlled"}]));
    let object = |owners: Value| json!({"metadata": {"generateName": "a-", "ownerReferences": owners}});
    assert_eq!(refusal_of(&fixture, create_of(&object(json!([reference("key")])))).await, None);
    for owners in [json!([]), json!([reference("other")]), json!([reference("key"), reference("other")])] {
        assert!(refusal_of(&fixture, create_of(&object(owners.clone()))).await.is_some(), "{owners}");
    }
}

/// Like a controller that declares its children: one apply creates or changes each of them.
#[tokio::test(start_paused = true)]
async fn objects_created_by_apply_belong_to_the_key() {
    let asked = json!([
        {"verbs": ["create", "patch"], "kinds": ["v1/Pod"], "of": "controlled"},
        {"verbs": ["create", "patch"], "kinds": ["v1/Pod"], "subresources": ["status"], "of": "controlled"},
    ]);
    let apply = || PatchType::Apply { field_manager: "m".into(), force: true };
    let object = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
    let own = object(json!([reference("key")]));
    let new = |subresource, patch_type, body: &Value| patch_of("new", subresource, patch_type, body);
    let fixture = owned(asked.clone());
    assert_eq!(refusal_of(&fixture, new(None, apply(), &own)).await, None);
    assert_eq!(fixture.api.bodies()[0]["metadata"].get("uid"), None);
    for owners in [json!([]), json!([reference("other")]), json!([reference("key"), reference("other")])] {
        assert!(refusal_of(&fixture, new(None, apply(), &object(owners.clone()))).await.is_some(), "{owners}");
    }
    // Patches create nothing else, and do not create cached objects.
    assert!(refusal_of(&fixture, new(Some("status"), apply(), &own)).await.is_some());
    assert!(refusal_of(&fixture, new(None, PatchType::Merge, &own)).await.is_some());
    let mut seen = new(None, apply(), &own);
    if let Action::Patch { preconditions, .. } = &mut seen.action {
        preconditions.uid = Some("uid-new".into());
    }
    assert!(refusal_of(&fixture, seen).await.is_some());
    assert!(refusal_of(&fixture, patch_of("theirs", None, apply(), &own)).await.is_some());

    // Both permissions are required, as in the API server.
    let patching = owned(json!([{"verbs": ["patch"], "kinds": ["v1/Pod"], "of": "controlled"}]));
    let why = refusal_of(&patching, new(None, apply(), &own)).await.unwrap();
    assert!(why.starts_with("create v1/Pod ns/new is not granted"), "{why}");
    assert_eq!(refusal_of(&patching, patch_of("mine", None, apply(), &own)).await, None);

    // A plugin that does not watch all objects cannot prove that one is missing.
    for watch in [
        json!({"kind": "v1/Secret"}),
        json!({"kind": "v1/Pod", "namespace": "other"}),
        json!({"kind": "v1/Pod", "labelSelector": "a=b"}),
        json!({"kind": "v1/Pod", "fieldSelector": "a=b"}),
    ] {
        let mut fixture = owned(asked.clone());
        fixture.manifest = manifest(|m| m["watches"] = json!([watch]));
        let why = refusal_of(&fixture, new(None, apply(), &own)).await.unwrap();
        assert!(why.contains("does not watch every v1/Pod there"), "{watch}: {why}");
    }
    let mut here = owned(asked);
    here.manifest = manifest(|m| m["watches"] = json!([{"kind": "v1/Pod", "namespace": "ns"}]));
    assert_eq!(refusal_of(&here, new(None, apply(), &own)).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_only_what_the_plugin_may_create() {
    let apply = |name: &str| {
        let patch_type = PatchType::Apply { field_manager: "m".into(), force: true };
        patch_of(name, None, patch_type, &json!({"metadata": {"labels": {"a": "b"}}}))
    };
    let uid_of_last = |fixture: &Fixture| fixture.api.bodies().last().unwrap()["metadata"].get("uid").cloned();
    let patching = owned(json!([{"verbs": ["patch"], "kinds": ["v1/Pod"]}]));
    let why = refusal_of(&patching, apply("new")).await.unwrap();
    assert!(why.starts_with("create v1/Pod ns/new is not granted"), "{why}");
    assert!(patching.api.log().is_empty());
    // The cached object may have been deleted meanwhile: its uid is required.
    assert_eq!(refusal_of(&patching, apply("theirs")).await, None);
    assert_eq!(uid_of_last(&patching), Some(json!("uid-theirs")));
    let mut required = apply("new");
    if let Action::Patch { preconditions, .. } = &mut required.action {
        preconditions.uid = Some("uid-new".into());
    }
    assert_eq!(refusal_of(&patching, required).await, None);
    assert_eq!(refusal_of(&patching, patch_of("new", None, PatchType::Merge, &json!({}))).await, None);
    let both = owned(json!([{"verbs": ["create", "patch"], "kinds": ["v1/Pod"]}]));
    for name in ["new", "theirs"] {
        assert_eq!(refusal_of(&both, apply(name)).await, None);
        assert_eq!(uid_of_last(&both), None);
    }
}

#[tokio::test(start_paused = true)]
async fn grants_of_the_key_reach_only_its_object() {
    let asked = json!([
        {"verbs": ["patch", "delete"], "kinds": ["v1/Pod"], "of": "key"},
        {"verbs": ["update"], "kinds": ["v1/Pod"], "subresources": ["status"], "of": "key"},
    ]);
    let fixture = owned(asked);
    let status = |name: &str| {
        let metadata = json!({"name": name, "namespace": "ns", "resourceVersion": "5"});
        update_of(&json!({"metadata": metadata, "status": {}}), Some("status"))
    };
    assert_eq!(refusal_of(&fixture, status("key")).await, None);
    assert_eq!(refusal_of(&fixture, delete_of("key", None)).await, None);
    let bodies = fixture.api.bodies();
    assert_eq!((&bodies[0]["metadata"]["uid"], &bodies[1]), (&json!(UID), &json!({"uid": UID})));
    for other in ["mine", "theirs", "orphan", "unseen"] {
        assert!(refusal_of(&fixture, status(other)).await.unwrap().contains("the key is v1/Pod ns/key"));
        assert!(refusal_of(&fixture, delete_of(other, None)).await.is_some());
    }
    assert!(refusal_of(&fixture, delete_of("key", Some("uid-other"))).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn events_are_about_watched_objects_or_neighbours_of_the_key() {
    let mut fixture = owned(json!([{"verbs": ["create"], "kinds": ["v1/Pod"]}]));
    fixture.manifest = manifest(|m| {
        m["watches"] = json!([{"kind": "apps/v1/ReplicaSet", "namespace": "ns"}, {"kind": "v1/Node"}]);
    });
    let about = |kind: &str, namespace: &str| Event {
        regarding_kind: kind.parse().unwrap(),
        regarding: ObjectKey::new(namespace, "a"),
        ..event(&format!("{kind} {namespace}"))
    };
    let told = [("apps/v1/ReplicaSet", "ns"), ("apps/v2/ReplicaSet", "ns"), ("v1/Node", ""), ("v1/Pod", "ns")];
    let not_told = [("apps/v1/ReplicaSet", "other"), ("v1/ReplicaSet", "ns"), ("v1/Secret", "ns"), ("v1/Pod", "other")];
    let events = told.iter().chain(&not_told).map(|(kind, namespace)| about(kind, namespace));
    let mut mutations: Vec<Mutation> = events.clone().map(|event| mutation(Action::Event(event))).collect();
    // Events of a write are checked as well; the write continues.
    mutations.extend(events.map(|event| {
        let message = format!("by {}", event.message);
        Mutation { on_success: Some(Event { message, ..event }), ..create("x") }
    }));
    let report = fixture.carry_out(vec![step(Order::Sequential, mutations)]).await;
    assert_eq!((report.failures.len(), report.n_denied, report.writes.len()), (0, 8, 8));
    let text = fixture.metrics.text();
    assert!(text.contains(r#"pintle_plugin_faults_total{plugin="widgets",kind="grant"} 8"#), "{text}");
    let expected: Vec<String> = told.iter().map(|(kind, namespace)| format!("{kind} {namespace}")).collect();
    let by = expected.iter().map(|message| format!("by {message}"));
    let expected: Vec<String> = expected.iter().cloned().chain(by).collect();
    assert_eq!(fixture.events().await, expected);

    let mut silent = owned(json!([]));
    silent.manifest = manifest(|m| m["events"] = json!(false));
    let about = mutation(Action::Event(event("about a Pod, which it watches")));
    assert_eq!(silent.carry_out(vec![step(Order::Sequential, vec![about])]).await.n_denied, 1);
    assert!(silent.events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn bodies_cannot_smuggle_other_targets() {
    let asked = json!([
        {"verbs": ["create", "update", "patch"], "kinds": ["v1/Pod"], "namespaces": ["ns"], "names": ["a"]},
    ]);
    let fixture = owned(asked);
    let meta = |name: &str, namespace: &str| json!({"metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}});
    // The namespace and the name are taken from the body, where the API server reads them.
    assert!(refusal_of(&fixture, update_of(&meta("a", "kube-system"), None)).await.is_some());
    assert!(refusal_of(&fixture, update_of(&meta("b", "ns"), None)).await.is_some());
    assert!(refusal_of(&fixture, create_of(&json!({"metadata": {"generateName": "a"}}))).await.is_some());
    assert!(refusal_of(&fixture, create_of(&json!({"metadata": {"name": "b", "generateName": "a"}}))).await.is_some());
    // A subresource needs its own grant.
    for subresource in ["status", "finalizers", "scale", "ephemeralcontainers"] {
        assert!(refusal_of(&fixture, update_of(&meta("a", "ns"), Some(subresource))).await.is_some());
        let patch = patch_of("a", Some(subresource), PatchType::Merge, &json!({}));
        assert!(refusal_of(&fixture, patch).await.is_some(), "{subresource}");
    }
    // The type is that of the mutation.
    let mut other = meta("a", "ns");
    other["apiVersion"] = json!("v1");
    other["kind"] = json!("Secret");
    let apply = PatchType::Apply { field_manager: "m".into(), force: false };
    for mutation in [update_of(&other, None), create_of(&other), patch_of("a", None, apply, &other)] {
        assert_eq!(refusal_of(&fixture, mutation).await, None);
        assert_eq!(fixture.api.bodies().last().unwrap()["kind"], "Pod");
    }
    assert!(fixture.api.log().iter().all(|line| line.ends_with("pods ns/a")), "{:?}", fixture.api.log());
    // Names that would change the path are never sent.
    let sent = fixture.api.log().len();
    for mutation in [
        update_of(&meta("../../secrets/a", "ns"), None),
        update_of(&meta("a", "../kube-system"), None),
        update_of(&meta("..", "ns"), None),
        patch_of("a/../b", None, PatchType::Merge, &json!({})),
        delete_of("a?x=y", None),
    ] {
        let text = format!("{mutation:?}");
        assert_eq!(fixture.carry_out(vec![step(Order::Sequential, vec![mutation])]).await.failures.len(), 1, "{text}");
    }
    let all = owned(json!([{"verbs": ["*"], "kinds": ["*"]}]));
    for (mutation, code) in [
        (update_of(&meta("../../secrets/a", "ns"), None), 404),
        (patch_of("a/../b", None, PatchType::Merge, &json!({})), 404),
        (delete_of("a%2fb", None), 404),
        (update_of(&meta("a", ""), None), 400),
    ] {
        let text = format!("{mutation:?}");
        let report = all.carry_out(vec![step(Order::Sequential, vec![mutation])]).await;
        assert_eq!((report.failures[0].code, report.n_denied), (code, 0), "{text}");
    }
    assert!(all.api.log().is_empty(), "{:?}", all.api.log());
    // Ambiguous bodies are faults.
    let faults = [
        create_of(&meta("a", "kube-system")),
        mutation(Action::Update {
            kind: pod(),
            object: r#"{"metadata":{"name":"a","name":"b","resourceVersion":"1"}}"#.into(),
            subresource: None,
        }),
        mutation(Action::Update {
            kind: pod(),
            object: r#"{"metadata":{"name":"a","resourceVersion":"1"},"metadata":{"name":"b"}}"#.into(),
            subresource: None,
        }),
    ];
    for mutation in faults {
        let text = format!("{mutation:?}");
        assert!(fixture.plan(vec![step(Order::Sequential, vec![mutation])]).is_err(), "{text}");
    }
    assert_eq!(fixture.api.log().len(), sent);
}
