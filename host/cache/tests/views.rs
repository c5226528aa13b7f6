//! The plugins' view of the caches, the keys of changes, and the visibility of writes.

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::{Caches, RunContext, Subscription};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::pending::{Leaves, PendingWrite};
use pintle_core::policy::selection::Selected;
use pintle_core::ports::api::{ApiResource, WatchFrame};
use pintle_core::ports::view::{OwnedBy, Query, View};
use pintle_testing::FakeServer;
use pintle_testing::server::{resource, settle};
use serde_json::{Value, json};

use crate::common::{caches, context, subscribe, with_rules};

const POD: &str = "v1/Pod";
const RS: &str = "apps/v1/ReplicaSet";
const DEPLOYMENT: &str = "apps/v1/Deployment";

fn kind(text: &str) -> Kind {
    text.parse().unwrap()
}

/// Names of objects, in order.
fn names(objects: &[Arc<str>]) -> String {
    let names = objects.iter().map(|object| {
        let object: Value = serde_json::from_str(object).unwrap();
        format!(
            "{}/{}",
            object["metadata"]["namespace"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap()
        )
    });
    names.collect::<Vec<_>>().join(" ")
}

fn list(view: &dyn View, kind_text: &str, query: Query) -> String {
    match view.list(&kind(kind_text), &query) {
        Ok(objects) => {
            assert_eq!(view.count(&kind(kind_text), &query).unwrap(), objects.len());
            names(&objects)
        }
        Err(why) => format!("error: {why}"),
    }
}

fn owned(controller: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": controller, "uid": format!("uid-{controller}"), "controller": true},
        {"apiVersion": "v1", "kind": "Thing", "name": name, "uid": format!("uid-{name}")}])
}

async fn world() -> (Arc<FakeServer>, Arc<Caches>, Subscription) {
    let server = FakeServer::new();
    let pod = |namespace: &str, name: &str, app: &str, owner: Option<&str>, node: &str| {
        let owners = owner.map_or(json!([]), |owner| owned(owner, "thing"));
        let metadata = json!({"labels": {"app": app}, "ownerReferences": owners});
        server.put("pods", namespace, name, json!({"metadata": metadata, "spec": {"nodeName": node, "x": 1}}));
    };
    pod("b", "p1", "web", Some("rs1"), "n1");
    pod("a", "p2", "web", Some("rs1"), "n2");
    pod("a", "p3", "web", None, "n1");
    pod("a", "p4", "db", Some("rs2"), "n1");
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
    server.put("replicasets", "a", "rs1", selector.clone());
    server.put("replicasets", "b", "rs1b", selector);
    server.put("replicasets", "a", "all", json!({"spec": {"selector": {}}}));
    let caches = caches(&server);
    let watches = json!([
        {"kind": POD, "fields": ["spec.nodeName"], "indexes": [{"name": "node", "field": "spec.nodeName"}]},
        {"kind": RS, "whole": true, "selects": {"field": "spec.selector", "form": "labelSelector"}},
    ]);
    let (subscription, _) = subscribe(&caches, watches).await;
    (server, caches, subscription)
}

#[tokio::test(start_paused = true)]
async fn queries_combine_their_conditions_and_keep_the_order() {
    let (_server, _caches, subscription) = world().await;
    let view = subscription.snapshot().view(context());
    let view = &*view;
    let query = Query::default;
    let namespace = |name: &str| Some(name.to_owned());
    let node = |name: &str| Some(("node".to_owned(), name.to_owned()));
    assert_eq!(list(view, POD, query()), "a/p2 a/p3 a/p4 b/p1");
    assert_eq!(list(view, POD, Query { namespace: namespace("a"), ..query() }), "a/p2 a/p3 a/p4");
    assert_eq!(list(view, POD, Query { namespace: namespace("none"), ..query() }), "");
    assert_eq!(list(view, POD, Query { label_selector: Some("app=web".into()), ..query() }), "a/p2 a/p3 b/p1");
    assert_eq!(list(view, POD, Query { index: node("n1"), ..query() }), "a/p3 a/p4 b/p1");
    assert_eq!(list(view, POD, Query { index: node("n1"), namespace: namespace("a"), ..query() }), "a/p3 a/p4");
    let controller = || Some(OwnedBy::Controller("uid-rs1".into()));
    assert_eq!(list(view, POD, Query { owner: controller(), ..query() }), "a/p2 b/p1");
    assert_eq!(list(view, POD, Query { owner: controller(), index: node("n1"), ..query() }), "b/p1");
    let or_orphan = || Some(OwnedBy::ControllerOrOrphan("uid-rs1".into()));
    assert_eq!(list(view, POD, Query { owner: or_orphan(), namespace: namespace("a"), ..query() }), "a/p2 a/p3");
    assert_eq!(list(view, POD, Query { owner: or_orphan(), ..query() }), "a/p2 a/p3 b/p1");
    assert_eq!(list(view, POD, Query { owner: Some(OwnedBy::Controller("uid-thing".into())), ..query() }), "");
    assert_eq!(list(view, POD, Query { owner: Some(OwnedBy::Any("uid-thing".into())), ..query() }), "a/p2 a/p4 b/p1");
}

/// The objects that a run has read, by name.
fn seen(view: &dyn View) -> Vec<String> {
    let objects = view.read_set().objects.into_iter().map(|seen| seen.value());
    objects.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_read_can_be_found_again() {
    let (server, _caches, subscription) = world().await;
    let fresh = || subscription.snapshot().view(context());
    assert!(seen(&*fresh()).is_empty());
    let view = fresh();
    view.get(&kind(POD), &ObjectKey::new("a", "p4")).unwrap();
    view.get(&kind(POD), &ObjectKey::new("a", "none")).unwrap();
    view.by_uid("uid-rs1b").unwrap();
    view.list(&kind(POD), &Query { index: Some(("node".into(), "n2".into())), ..Query::default() }).unwrap();
    view.count(&kind(POD), &Query { label_selector: Some("app=db".into()), ..Query::default() }).unwrap();
    view.selecting(&kind(RS), "a", &[("app".into(), "web".into())]).unwrap();
    view.dependents("uid-rs1").unwrap();
    view.list(&kind("v1/Node"), &Query::default()).unwrap_err();
    // Changes after the run are not included.
    server.put("pods", "a", "p2", json!({"spec": {"nodeName": "n9"}}));
    settle().await;
    assert_eq!(seen(&*view), ["p4", "rs1b", "p2", "rs1", "p1"]);
    let first = view.read_set().objects[0].value();
    assert_eq!((&first["metadata"]["labels"]["app"], &first["spec"]), (&json!("db"), &json!({"nodeName": "n1"})));
    assert!(!view.read_set().is_incomplete);
}

#[tokio::test(start_paused = true)]
async fn what_was_read_is_found_again_up_to_a_limit() {
    let server = FakeServer::new();
    // With the overhead per object, 16 of them are four mebibytes, and 17 do not fit.
    let text = "x".repeat((4 << 20) / 16 - 1_200);
    for i in 0..16 {
        server.put("pods", "a", &format!("p{i:02}"), json!({"spec": {"x": text}}));
    }
    let caches = caches(&server);
    let (subscription, _) = subscribe(&caches, json!([{"kind": POD, "fields": ["spec.x"]}])).await;
    let view = subscription.snapshot().view(context());
    view.list(&kind(POD), &Query::default()).unwrap();
    assert_eq!((seen(&*view).len(), view.read_set().is_incomplete), (16, false));

    server.put("pods", "a", "p16", json!({"spec": {"x": text}}));
    settle().await;
    let view = subscription.snapshot().view(context());
    view.list(&kind(POD), &Query::default()).unwrap();
    assert_eq!((seen(&*view).len(), view.read_set().is_incomplete), (16, true));
}

#[tokio::test(start_paused = true)]
async fn other_reads_answer_from_all_watched_kinds() {
    let (_server, _caches, subscription) = world().await;
    let view = subscription.snapshot().view(context());
    let labels = [("app".to_owned(), "web".to_owned()), ("x".to_owned(), "y".to_owned())];
    assert_eq!(names(&view.selecting(&kind(RS), "a", &labels).unwrap()), "a/rs1", "an empty selector selects nothing");
    assert_eq!(names(&view.selecting(&kind(RS), "b", &labels).unwrap()), "b/rs1b");
    assert_eq!(names(&view.selecting(&kind(RS), "a", &[]).unwrap()), "");
    assert_eq!(names(&view.dependents("uid-rs1").unwrap()), "a/p2 b/p1");
    assert_eq!(names(view.by_uid("uid-rs1b").unwrap().as_slice()), "b/rs1b");
    assert!(view.by_uid("uid-nobody").unwrap().is_none());
    let get = |kind_text: &str, name: &str| {
        let object = view.get(&kind(kind_text), &ObjectKey::new("a", name)).unwrap();
        object.map(|object| serde_json::from_str::<Value>(&object).unwrap())
    };
    assert_eq!(get(POD, "p3").unwrap()["spec"], json!({"nodeName": "n1"}));
    assert_eq!(get(RS, "rs1").unwrap()["spec"]["selector"]["matchLabels"]["app"], "web", "get gives whole objects");
    assert_eq!(get(RS, "rs1").unwrap()["apiVersion"], "apps/v1");
    assert!(get(POD, "p9").is_none());
    assert_eq!(view.resources().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_is_asked_for_counts_at_once() {
    let (server, caches, subscription) = world().await;
    let plurals = || {
        let resources = subscription.snapshot().view(context()).resources().unwrap();
        resources.iter().map(|resource| resource.plural.clone()).collect::<Vec<_>>().join(" ")
    };
    {
        let mut state = server.state();
        state.resources.retain(|resource| resource.plural != "deployments");
        state.resources.push(resource("v1/Secret", "secrets"));
        state.failed_groups = vec!["apps/v1".into()];
    }
    assert_eq!(plurals(), "pods replicasets deployments");
    assert_eq!(caches.refreshed(Duration::ZERO).await.unwrap(), ["apps/v1"]);
    assert_eq!(plurals(), "pods replicasets secrets replicasets deployments", "what did not answer is as before");
    assert!(caches.resource(&kind("v1/Secret")).is_some());
    server.set_down(true);
    assert!(caches.refreshed(Duration::ZERO).await.is_err());
    assert!(caches.resource(&kind("v1/Secret")).is_some());
}

#[tokio::test(start_paused = true)]
async fn reads_that_the_manifest_does_not_allow_are_faults_that_say_why() {
    let (_server, caches, subscription) = world().await;
    let view = subscription.snapshot().view(context());
    let view = &*view;
    let query = Query::default;
    assert_eq!(
        list(view, DEPLOYMENT, query()),
        "error: kind apps/v1/Deployment is not watched by this plugin; its manifest watches v1/Pod, apps/v1/ReplicaSet. Add \
         `- {kind: apps/v1/Deployment, fields: [...]}` with the fields that are read to `watches`, or `whole: true`"
    );
    assert_eq!(list(view, POD, Query { whole: true, ..query() }), "error: watch of v1/Pod does not declare `whole`");
    let index = Some(("pod".to_owned(), "x".to_owned()));
    assert_eq!(list(view, POD, Query { index, ..query() }), "error: watch of v1/Pod declares no index \"pod\"");
    let bad = list(view, POD, Query { label_selector: Some("a in b".into()), ..query() });
    assert_eq!(bad, "error: label selector \"a in b\" is not valid: expected '(' before \"b\"");
    assert_eq!(
        view.selecting(&kind(POD), "a", &[]).unwrap_err().to_string(),
        "watch of v1/Pod does not declare `selects`"
    );
    let (limited, _) = subscribe(&caches, json!([{"kind": POD, "namespace": "a"}])).await;
    let view = limited.snapshot().view(context());
    assert_eq!(list(&*view, POD, query()), "a/p2 a/p3 a/p4");
    assert_eq!(list(&*view, POD, Query { namespace: Some("a".into()), ..query() }), "a/p2 a/p3 a/p4");
    assert!(
        list(&*view, POD, Query { namespace: Some("b".into()), ..query() }).starts_with("error: reading v1/Pod in")
    );
    assert!(view.get(&kind(POD), &ObjectKey::new("b", "p1")).is_err());
}

/// A selector with `n` requirements.
fn requirements(n: usize) -> String {
    (0..n).map(|i| format!("!l{i}")).collect::<Vec<_>>().join(",")
}

#[tokio::test(start_paused = true)]
async fn selectors_of_plugins_are_bounded() {
    let (_server, _caches, subscription) = world().await;
    let view = subscription.snapshot().view(context());
    let by = |selector: String| list(&*view, POD, Query { label_selector: Some(selector), ..Query::default() });
    assert_eq!(by(requirements(64)), "a/p2 a/p3 a/p4 b/p1");
    let error = by(requirements(65));
    assert!(error.ends_with("is not valid: it has 65 requirements, at most 64"), "{error}");
    let long = |n_bytes: usize| format!("app!={}", "x".repeat(n_bytes - "app!=".len()));
    assert_eq!(by(long(16 << 10)), "a/p2 a/p3 a/p4 b/p1");
    let error = by(long((16 << 10) + 1));
    assert!(error.ends_with("is not valid: it has 16385 bytes, at most 16384"), "{error}");
    assert!(error.len() < 512, "the error does not repeat the selector");
}

#[tokio::test(start_paused = true)]
async fn one_call_of_the_lister_ends_however_much_it_is_asked_to_compare() {
    const N_OWNERS: usize = 20_000;
    let server = FakeServer::new();
    let owner = |i: usize| json!({"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": format!("u{i}")});
    let owners: Vec<Value> = (0..N_OWNERS).map(owner).collect();
    let selector: Vec<Value> =
        (0..N_OWNERS).map(|i| json!({"key": format!("k{i}"), "operator": "DoesNotExist"})).collect();
    for i in 0..2 {
        server.put("pods", "a", &format!("p{i}"), json!({"metadata": {"ownerReferences": owners}}));
        let spec = json!({"selector": {"matchExpressions": selector}});
        server.put("replicasets", "a", &format!("rs{i}"), json!({"spec": spec}));
    }
    let caches = caches(&server);
    let watches = json!([
        {"kind": POD, "fields": []},
        {"kind": RS, "fields": [], "selects": {"field": "spec.selector", "form": "labelSelector"}},
    ]);
    let (subscription, _) = subscribe(&caches, watches).await;
    let view = |max_work| subscription.snapshot().view(RunContext { max_work, ..context() });
    let owned =
        || Query { owner: Some(OwnedBy::Any("u5".into())), label_selector: Some("!x".into()), ..Query::default() };
    let labels = [("app".to_owned(), "web".to_owned())];
    let n_units = N_OWNERS as u64;
    assert_eq!(list(&*view(3 * n_units), POD, owned()), "a/p0 a/p1");
    assert_eq!(names(&view(5 * n_units).selecting(&kind(RS), "a", &labels).unwrap()), "a/rs0 a/rs1");
    let too_much = "the call of the lister takes too much work: too many objects for so many requirements; ask for a namespace, an owner or \
                    an index";
    assert_eq!(list(&*view(n_units), POD, owned()), format!("error: {too_much}"));
    assert_eq!(view(n_units).count(&kind(POD), &owned()).unwrap_err().to_string(), too_much);
    assert_eq!(view(3 * n_units).selecting(&kind(RS), "a", &labels).unwrap_err().to_string(), too_much);
}

#[tokio::test(start_paused = true)]
async fn every_object_every_requirement_and_every_text_of_a_call_is_work() {
    let (_server, _caches, subscription) = world().await;
    let view = |max_work| subscription.snapshot().view(RunContext { max_work, ..context() });
    let takes = |max_work, query: Query| {
        (view(max_work).list(&kind(POD), &query).is_ok(), view(max_work).count(&kind(POD), &query).is_ok())
    };
    let requiring = |n| Query { label_selector: Some(requirements(n)), ..Query::default() };
    // Four Pods are examined, at one unit each plus two per requirement. Each text costs one more.
    for (n_requirements, n_units) in [(0, 4), (64, 4 + 4 * 64 * 2)] {
        assert_eq!(takes(n_units + 4, requiring(n_requirements)), (true, true));
        assert_eq!(takes(n_units + 3, requiring(n_requirements)), (false, true));
        assert_eq!(takes(n_units, requiring(n_requirements)), (false, true));
        assert_eq!(takes(n_units - 1, requiring(n_requirements)), (false, false));
    }
}

#[tokio::test(start_paused = true)]
async fn finding_again_what_was_read_takes_less_work_than_one_read_may() {
    let (_server, _caches, subscription) = world().await;
    let found = |max_work| {
        let view = subscription.snapshot().view(RunContext { max_work, ..context() });
        view.list(&kind(POD), &Query::default()).unwrap();
        (seen(&*view).len(), view.read_set().is_incomplete)
    };
    assert_eq!(found(8 * 8), (4, false));
    assert_eq!(found(8 * 7), (3, true));
    assert_eq!(found(8 * 3), (0, true), "not even the names of all four");
}

#[tokio::test(start_paused = true)]
async fn one_call_of_the_lister_returns_no_more_bytes_than_a_run_may_read() {
    let (server, _caches, subscription) = world().await;
    server.put("replicasets", "a", "sub", json!({"metadata": {"ownerReferences": owned("rs1", "thing")}}));
    settle().await;
    let view = |max_read_bytes| subscription.snapshot().view(RunContext { max_read_bytes, ..context() });
    let n_bytes = |texts: Vec<Arc<str>>| texts.iter().map(|text| text.len() as u64).sum::<u64>();
    let all = n_bytes(view(u64::MAX).list(&kind(POD), &Query::default()).unwrap());
    assert_eq!(list(&*view(all), POD, Query::default()), "a/p2 a/p3 a/p4 b/p1");
    let too_many =
        |limit: u64| format!("the lister was asked for more than {limit} bytes (limits.readBytes of the manifest)");
    assert_eq!(list(&*view(all - 1), POD, Query::default()), format!("error: {}", too_many(all - 1)));
    let owned = n_bytes(view(u64::MAX).dependents("uid-rs1").unwrap());
    assert_eq!(names(&view(owned).dependents("uid-rs1").unwrap()), "a/p2 b/p1 a/sub");
    let error = view(owned - 1).dependents("uid-rs1").unwrap_err().to_string();
    assert_eq!(error, too_many(owned - 1), "the bytes of all kinds count");
}

#[tokio::test(start_paused = true)]
async fn rules_lead_to_controllers_over_the_controllers_in_between() {
    let server = FakeServer::new();
    server.put("deployments", "a", "d", json!({}));
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "uid-d", "controller": true}]);
    server.put("replicasets", "a", "rs1", json!({"metadata": {"ownerReferences": owner}}));
    let (_subscription, keys) = with_rules(&caches(&server), json!([
        {"kind": DEPLOYMENT, "enqueue": [{"to": "self"}]},
        {"kind": RS, "enqueue": [{"to": "controller", "kind": DEPLOYMENT}, {"to": "self", "queue": "other", "delayMs": 50}]},
        {"kind": POD, "enqueue": [{"to": "controller", "kind": DEPLOYMENT, "via": [RS], "on": ["delete"]},
            {"to": "controller", "kind": RS, "on": ["add", "update"], "changed": ["status.phase"]}]},
    ])).await;
    server.put("deployments", "a", "d", json!({}));
    server.put("replicasets", "a", "rs1", json!({"metadata": {"ownerReferences": owner}}));
    settle().await;
    assert_eq!(
        keys.take(),
        ["q:apps/v1/Deployment a/d", "other:apps/v1/ReplicaSet a/rs1+50", "q:apps/v1/Deployment a/d"]
    );
    let pod = |phase: &str, spec: u32| json!({"metadata": {"ownerReferences": owned("rs1", "x")}, "status": {"phase": phase}, "spec": {"x": spec}});
    server.put("pods", "a", "p", pod("Pending", 1));
    settle().await;
    assert_eq!(keys.take(), ["q:apps/v1/ReplicaSet a/rs1"]);
    server.put("pods", "a", "p", pod("Pending", 2));
    settle().await;
    assert_eq!(keys.take(), Vec::<String>::new(), "nothing that the rule looks at has changed");
    server.put("pods", "a", "p", pod("Running", 2));
    settle().await;
    assert_eq!(keys.take(), ["q:apps/v1/ReplicaSet a/rs1"]);
    server.delete("pods", "a", "p");
    settle().await;
    assert_eq!(keys.take(), ["q:apps/v1/Deployment a/d"]);
    // A controller with the same name, but a different object.
    server.put(
        "pods",
        "a",
        "p2",
        json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs1", "uid": "uid-of-before", "controller": true}]}}),
    );
    settle().await;
    assert_eq!(keys.take(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn rules_follow_fields_labels_selectors_owners_and_namespaces() {
    let server = FakeServer::new();
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
    server.put("replicasets", "a", "rs1", selector.clone());
    server.put("replicasets", "b", "rs2", selector);
    let (subscription, keys) = with_rules(
        &caches(&server),
        json!([
            {"kind": RS, "selects": {"field": "spec.selector", "form": "labelSelector"}, "enqueue": [
                {"to": "self", "on": []}, {"to": "dependents", "on": ["delete"], "queue": "other"}]},
            {"kind": POD, "enqueue": [
                {"to": "selecting", "kind": RS, "orphans": true},
                {"to": "field", "kind": DEPLOYMENT, "field": "spec.volumes.claim"},
                {"to": "label", "kind": "v1/Node", "field": "node"},
                {"to": "owners"},
                {"to": "namespace", "queue": "other"},
                {"to": "plugin", "on": ["update"]}]},
            {"kind": DEPLOYMENT, "enqueue": [{"to": "namespaceKeys", "kind": RS}]},
        ]),
    )
    .await;
    server.put(
        "pods",
        "a",
        "p",
        json!({"metadata": {"labels": {"app": "web", "node": "n1"}},
        "spec": {"volumes": [{"claim": "c1"}, {"claim": "x/c2"}, {}]}}),
    );
    settle().await;
    let mut touched = vec![
        "other:v1/Namespace a",
        "q:v1/Node a/n1",
        "q:apps/v1/Deployment a/c1",
        "q:apps/v1/Deployment x/c2",
        "q:apps/v1/ReplicaSet a/rs1",
    ];
    assert_eq!(keys.take(), touched);
    // The old and the new state are both mapped: the previous owner is enqueued as well.
    server.put("pods", "a", "p", json!({"metadata": {"ownerReferences": owned("rs1", "thing")}}));
    settle().await;
    touched.push("plugin");
    assert_eq!(keys.take(), touched);
    server.put("deployments", "b", "d", json!({}));
    settle().await;
    assert_eq!(keys.take(), ["q:apps/v1/ReplicaSet b/rs2"]);
    server.delete("replicasets", "a", "rs1");
    settle().await;
    assert_eq!(keys.take(), ["other:v1/Pod a/p", "q:apps/v1/ReplicaSet a/rs1"]);
    let all: Vec<String> = subscription.all_keys().iter().map(|key| format!("{}:{key}", key.queue)).collect();
    assert_eq!(all, ["q:apps/v1/ReplicaSet b/rs2"]);
}

/// In a policy/v1 PodDisruptionBudget, an empty selector selects every Pod of the namespace; in a Service, it selects
/// none.
#[tokio::test(start_paused = true)]
async fn an_empty_selector_matches_everything_only_if_the_watch_declares_it_and_an_absent_one_nothing() {
    for (empty, expected) in [(None, "a/some"), (Some("nothing"), "a/some"), (Some("everything"), "a/empty a/some")] {
        let server = FakeServer::new();
        for (namespace, name, selector) in [
            ("a", "absent", json!(null)),
            ("a", "empty", json!({"matchLabels": {}})),
            ("a", "other", json!({"matchLabels": {"app": "db"}})),
            ("a", "some", json!({"matchLabels": {"app": "web"}})),
            ("a", "wrong", json!({"matchExpressions": [{"key": "app", "operator": "Like"}]})),
            ("a", "wrong-too", json!("app=web")),
            ("b", "empty", json!({})),
        ] {
            server.put("replicasets", namespace, name, json!({"spec": {"selector": selector}}));
        }
        let mut selects = json!({"field": "spec.selector", "form": "labelSelector"});
        if let Some(empty) = empty {
            selects["empty"] = json!(empty);
        }
        let watches =
            json!([{"kind": RS, "selects": selects}, {"kind": POD, "enqueue": [{"to": "selecting", "kind": RS}]}]);
        let (subscription, keys) = with_rules(&caches(&server), watches).await;
        server.put("pods", "a", "p", json!({"metadata": {"labels": {"app": "web"}}}));
        settle().await;
        let of_rule = keys.take().join(" ").replace("q:apps/v1/ReplicaSet ", "");
        let view = subscription.snapshot().view(context());
        let of_lister = names(&view.selecting(&kind(RS), "a", &[("app".into(), "web".into())]).unwrap());
        // The host's check before a key may adopt.
        let pod = view.object(&kind(POD), &ObjectKey::new("a", "p")).unwrap();
        let may_adopt = |name: &&str| view.selects(&kind(RS), &ObjectKey::new("a", name), &pod.meta);
        let adopts = ["absent", "empty", "other", "some", "wrong", "wrong-too"].into_iter().filter(may_adopt);
        let adopts = adopts.map(|name| format!("a/{name}")).collect::<Vec<_>>().join(" ");
        assert_eq!([of_rule, of_lister, adopts], [expected; 3], "{empty:?}");
    }
}

fn with_nodes() -> Arc<FakeServer> {
    let server = FakeServer::new();
    server.state().resources.push(ApiResource { namespaced: false, ..resource("v1/Node", "nodes") });
    server
}

#[tokio::test(start_paused = true)]
async fn rules_by_index_stay_in_the_namespace_unless_an_object_has_none() {
    let server = with_nodes();
    let on = |node: &str| json!({"spec": {"nodeName": node, "claims": [node, "c"]}});
    for (namespace, name, node) in [("a", "p1", "n1"), ("a", "p2", "n2"), ("b", "p3", "n1")] {
        server.put("pods", namespace, name, on(node));
    }
    let indexes = json!([{"name": "node", "field": "spec.nodeName"}, {"name": "claim", "field": "spec.claims"}]);
    let by_name = |index: &str| json!({"to": "indexed", "kind": POD, "index": index});
    let (subscription, keys) = with_rules(
        &caches(&server),
        json!([
            {"kind": POD, "indexes": indexes, "enqueue": [{"to": "self", "on": ["add"]}]},
            {"kind": "v1/Node", "enqueue": [by_name("node")]},
            {"kind": DEPLOYMENT, "enqueue": [
                by_name("claim"), {"to": "tick", "queue": "other", "delayMs": 7},
                {"to": "indexed", "kind": POD, "index": "node", "field": "spec.nodes", "queue": "other"}]},
        ]),
    )
    .await;
    server.put("nodes", "", "n1", json!({}));
    settle().await;
    assert_eq!(keys.take(), ["q:v1/Pod a/p1", "q:v1/Pod b/p3"]);
    server.delete("nodes", "", "n1");
    settle().await;
    assert_eq!(keys.take(), ["q:v1/Pod a/p1", "q:v1/Pod b/p3"], "of a name that is gone");
    server.put("deployments", "a", "c", json!({}));
    settle().await;
    let tick = "other:pintle/v1/Tick other+7";
    assert_eq!(keys.take(), [tick, "q:v1/Pod a/p1", "q:v1/Pod a/p2"], "the index of every element");
    server.put("deployments", "b", "x", json!({"spec": {"nodes": ["n1", "n2"]}}));
    settle().await;
    assert_eq!(keys.take(), ["other:v1/Pod b/p3", tick], "Pods of other namespaces are none of its business");
    server.put("deployments", "b", "x", json!({"spec": {"nodes": "n2"}}));
    settle().await;
    assert_eq!(keys.take(), ["other:v1/Pod b/p3", tick], "those of the old values");
    // Objects that enter the index after the change get the rules of their kind.
    server.put("pods", "b", "p4", on("n1"));
    settle().await;
    assert_eq!(keys.take(), ["q:v1/Pod b/p4"]);
    let all: Vec<String> = subscription.all_keys().iter().map(|key| format!("{}:{key}", key.queue)).collect();
    assert_eq!(all, ["q:v1/Pod a/p1", "q:v1/Pod a/p2", "q:v1/Pod b/p3", "q:v1/Pod b/p4", "other:pintle/v1/Tick other"]);
    assert_eq!(subscription.n_keys(), 5);
}

/// A rule has no work limit: a key that it misses is lost.
#[tokio::test(start_paused = true)]
async fn a_rule_by_index_leads_to_every_object_of_the_value_and_to_none_of_a_name_that_nothing_can_have() {
    let server = with_nodes();
    for i in 0..3_000 {
        server.put("pods", "a", &format!("p{i}"), json!({"spec": {"nodeName": if i == 0 { "../n" } else { "n1" }}}));
    }
    let indexes = json!([{"name": "node", "field": "spec.nodeName"}]);
    let rule = json!({"to": "indexed", "kind": POD, "index": "node", "field": "spec.node"});
    let watches =
        json!([{"kind": POD, "indexes": indexes}, {"kind": "v1/Node", "fields": ["spec.node"], "enqueue": [rule]}]);
    let (_subscription, keys) = with_rules(&caches(&server), watches).await;
    let n_keys = async |node: Value| {
        server.put("nodes", "", "x", json!({"spec": {"node": node}}));
        settle().await;
        keys.take().len()
    };
    assert_eq!(n_keys(json!("n1")).await, 2_999);
    assert_eq!(n_keys(json!(["n1", "../n"])).await, 3_000);
    assert_eq!(n_keys(json!([])).await, 3_000);
    assert_eq!(n_keys(json!([null, {}, "", "n".repeat(100_000)])).await, 0);
}

fn write(name: &str, version: u64, leaves: Leaves) -> PendingWrite {
    PendingWrite {
        kind: kind(POD),
        object: ObjectKey::new("a", name),
        uid: format!("uid-{name}"),
        resource_version: if version == 0 { String::new() } else { version.to_string() },
        leaves,
        labels: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_is_seen_when_the_cache_has_reached_it() {
    let server = FakeServer::new();
    server.put("pods", "a", "p", json!({}));
    server.put("pods", "a", "q", json!({}));
    let caches = caches(&server);
    let (pods, _) = subscribe(&caches, json!([{"kind": POD}])).await;
    let (limited, _) = subscribe(&caches, json!([{"kind": POD, "namespace": "b"}])).await;
    assert!(pods.sees(&write("p", 11, Leaves::Object)) && pods.sees(&write("p", 12, Leaves::Object)));
    assert!(!pods.sees(&write("p", 13, Leaves::Object)), "an update that is still to come");
    assert!(!pods.sees(&write("new", 13, Leaves::Object)), "a create that is still to come");
    assert!(!pods.sees(&write("p", 0, Leaves::Terminating)), "a delete that is still to come");
    assert!(limited.sees(&write("p", 13, Leaves::Object)), "another namespace is not watched");
    assert!(
        pods.sees(&PendingWrite { kind: kind(RS), ..write("p", 13, Leaves::Object) }),
        "another kind is not watched"
    );
    server.put("pods", "a", "p", json!({}));
    settle().await;
    assert!(pods.sees(&write("p", 13, Leaves::Object)) && !pods.sees(&write("p", 14, Leaves::Object)));
    // Any later list or frame counts, for any object.
    server.put("deployments", "a", "d", json!({}));
    server.bookmark();
    settle().await;
    assert!(pods.sees(&write("gone-again", 14, Leaves::Object)));
    server.put("pods", "a", "p", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    settle().await;
    assert!(pods.sees(&write("p", 0, Leaves::Terminating)), "a delete that waits for finalizers");
    assert!(!pods.sees(&write("p", 0, Leaves::Nothing)), "its last finalizer has gone, which is still to come");
    server.delete("pods", "a", "p");
    server.delete("pods", "a", "q");
    settle().await;
    assert!(pods.sees(&write("p", 0, Leaves::Nothing)) && pods.sees(&write("q", 0, Leaves::Terminating)));
    server.put("pods", "a", "q", json!({"metadata": {"uid": "another"}}));
    settle().await;
    for leaves in [Leaves::Terminating, Leaves::Nothing] {
        assert!(pods.sees(&write("q", 0, leaves)), "another object has its name");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_to_an_object_outside_of_the_watch_is_not_waited_for() {
    let server = FakeServer::new();
    let labelled = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    server.put("pods", "a", "p", labelled("web"));
    let caches = caches(&server);
    let (web, _) = subscribe(&caches, json!([{"kind": POD, "labelSelector": "app=web"}])).await;
    let (named, _) = subscribe(&caches, json!([{"kind": POD, "fieldSelector": "metadata.name=p"}])).await;
    let (running, _) = subscribe(&caches, json!([{"kind": POD, "fieldSelector": "status.phase=Running"}])).await;
    let with = |app: &str, name: &str, version| PendingWrite {
        labels: Some([("app".to_owned(), app.to_owned())].into()),
        ..write(name, version, Leaves::Object)
    };
    assert!(!web.sees(&with("web", "new", 12)), "it will come");
    assert!(web.sees(&with("db", "new", 12)), "it will never come");
    assert!(!web.sees(&write("new", 12, Leaves::Object)), "the answer did not contain its labels");
    assert!(!web.sees(&with("db", "p", 12)), "it is still in the cache, and will leave it");
    server.put("pods", "a", "p", labelled("db"));
    server.send("pods", || {
        Ok(WatchFrame::Deleted(r#"{"metadata":{"name":"p","namespace":"a","resourceVersion":"12"}}"#.into()))
    });
    settle().await;
    assert!(web.sees(&with("db", "p", 12)));
    assert!(!named.sees(&write("p", 13, Leaves::Object)) && named.sees(&write("new", 13, Leaves::Object)));
    assert_eq!(running.selects(&write("new", 13, Leaves::Object)), Selected::Unknown, "the API server has to be asked");
    assert_eq!(running.selects(&write("new", 13, Leaves::Terminating)), Selected::Yes, "it is gone in any case");
}

/// The grant is for a namespace: a list of a cluster-scoped kind would return all objects.
#[tokio::test(start_paused = true)]
async fn a_watch_of_one_namespace_shows_nothing_that_lives_in_none() {
    let server = FakeServer::new();
    let node = pintle_core::ports::api::ApiResource { namespaced: false, ..resource("v1/Node", "nodes") };
    server.state().resources.push(node);
    server.put("nodes", "", "n1", json!({}));
    server.put("pods", "a", "p1", json!({}));
    let caches = caches(&server);
    let (by_name, _) = subscribe(&caches, json!([{"kind": "v1/Node", "namespace": "a"}])).await;
    let (every, _) = subscribe(&caches, json!([{"every": {}, "namespace": "a"}])).await;
    for (subscription, pods) in [(&by_name, None), (&every, Some("a/p1"))] {
        let view = subscription.snapshot().view(context());
        assert_eq!(list(&*view, "v1/Node", Query::default()), "");
        if let Some(pods) = pods {
            assert_eq!(list(&*view, POD, Query::default()), pods);
        }
    }
    let requests = server.state().requests.clone();
    assert!(requests.iter().all(|request| !request.contains("nodes")), "{requests:?}");
    assert!(requests.iter().any(|request| request.contains("pods")), "{requests:?}");
}
