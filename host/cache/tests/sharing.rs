//! Plugins that watch one kind share at most four texts per object, without any effect on their reads.

use std::sync::Arc;

use pintle_cache::{Caches, Snapshot, Subscription};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::ports::view::Query;
use pintle_testing::FakeServer;
use pintle_testing::server::{resource, settle};
use serde_json::{Value, json};

use crate::common::{Heard, caches, context, manifest, subscribe, with_rules};

const POD: &str = "v1/Pod";

/// Enough plugins, each with one of these fields of a kind, that all share texts.
async fn crowd(caches: &Arc<Caches>, kind: &str, fields: &[&str]) -> Vec<Subscription> {
    let mut crowd = Vec::new();
    for field in fields {
        crowd.push(subscribe(caches, json!([{"kind": kind, "fields": [field]}])).await.0);
    }
    crowd
}

fn n_texts(caches: &Caches, kind: &str) -> usize {
    let kind: Kind = kind.parse().unwrap();
    caches.stats().iter().find(|stats| stats.kind == kind).unwrap().n_texts
}

const FIELDS: [&str; 6] = ["spec.x", "spec.y", "spec.z", "spec.env", "status.phase", "status.ip"];

fn one_of_each() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "n"}},
        "spec": {"x": 1, "y": 2, "z": 3, "env": [{"name": "TOKEN", "value": "t"}]},
        "status": {"phase": "Running", "ip": "10.0.0.1"},
    })
}

/// The fields of an object beyond its identity that a plugin reads, through every kind of read; all must be equal.
fn read(snapshot: &Snapshot, kind: &str) -> Value {
    let kind: Kind = kind.parse().unwrap();
    let view = snapshot.view(context());
    let selects = [("app".to_owned(), "web".to_owned())];
    let reads = [
        view.get(&kind, &ObjectKey::new("ns", "a")).unwrap(),
        view.by_uid("uid-a").unwrap(),
        view.list(&kind, &Query::default()).unwrap().pop(),
        view.dependents("uid-owner").unwrap().pop(),
        view.selecting(&kind, "ns", &selects).ok().and_then(|mut found| found.pop()),
        snapshot.all_as_new(&kind).iter().find_map(|delta| snapshot.projection(&kind, delta.new.as_ref()?)),
    ];
    let reads: Vec<Value> = reads.iter().flatten().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert!(reads.len() >= 4 && reads.iter().all(|text| *text == reads[0]), "{reads:?}");
    // A failed run is saved with the fields read; labels and owners, by which it was found, are added again.
    let seen = view.read_set().objects[0].text.clone();
    assert_eq!(serde_json::from_str::<Value>(&seen).unwrap(), reads[0]);
    let mut object = reads[0].clone();
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        object["metadata"].as_object_mut().unwrap().remove(field).unwrap();
    }
    for field in ["apiVersion", "kind"] {
        object.as_object_mut().unwrap().remove(field).unwrap();
    }
    object
}

#[tokio::test(start_paused = true)]
async fn a_plugin_reads_only_what_it_declares_of_a_shared_text() {
    let server = FakeServer::new();
    server.state().resources.push(resource("v1/Secret", "secrets"));
    let mut pod = one_of_each();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "uid-owner"}]);
    server.put("pods", "ns", "a", pod);
    let owners = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "uid-owner"}]);
    let secret = json!({"metadata": {"ownerReferences": owners}, "type": "t", "data": {"user": "u", "password": "p"}});
    server.put("secrets", "ns", "a", secret);
    let caches = caches(&server);
    let pods = crowd(&caches, POD, &FIELDS).await;
    assert_eq!(n_texts(&caches, POD), 4);
    let expected = [
        json!({"spec": {"x": 1}}),
        json!({"spec": {"y": 2}}),
        json!({"spec": {"z": 3}}),
        json!({"spec": {"env": [{"name": "TOKEN", "value": "t"}]}}),
        json!({"status": {"phase": "Running"}}),
        json!({"status": {"ip": "10.0.0.1"}}),
    ];
    for (plugin, mut expected) in pods.iter().zip(expected) {
        expected["metadata"] = json!({});
        assert_eq!(read(&plugin.snapshot(), POD), expected);
    }
    // A plugin that reads only names shares a text with one that reads values, and still reads no values.
    let fields = ["data.user", "data.password", "type", "metadata.labels", "immutable", "metadata.ownerReferences.uid"];
    let secrets = crowd(&caches, "v1/Secret", &fields).await;
    let names = subscribe(&caches, json!([{"kind": "v1/Secret"}])).await.0;
    assert_eq!(n_texts(&caches, "v1/Secret"), 4);
    assert_eq!(read(&names.snapshot(), "v1/Secret"), json!({"metadata": {}}));
    assert_eq!(read(&secrets[0].snapshot(), "v1/Secret"), json!({"metadata": {}, "data": {"user": "u"}}));
    assert_eq!(read(&secrets[2].snapshot(), "v1/Secret"), json!({"metadata": {}, "type": "t"}));
}

#[tokio::test(start_paused = true)]
async fn a_rule_looks_only_at_the_fields_that_its_plugin_declares() {
    let server = FakeServer::new();
    let caches = caches(&server);
    let _crowd = crowd(&caches, POD, &FIELDS).await;
    let changed = json!([{"kind": POD, "enqueue": [{"to": "self", "changed": ["spec.x"]}]}]);
    let (_changed, keys) = with_rules(&caches, changed).await;
    // An `every` watch reads only metadata: its rules see no phase, although its shared text has one.
    let _shares_with_every =
        subscribe(&caches, json!([{"kind": POD, "fields": ["metadata.labels", "status.phase"]}])).await;
    let every = json!([{"every": {}, "fields": ["metadata.labels"], "enqueue": [
        {"to": "self", "present": "status.phase"},
        {"to": "self", "on": ["update"], "changed": ["status.phase"]},
        {"to": "field", "kind": POD, "field": "status.phase"},
    ]}]);
    let (_every, of_every) = with_rules(&caches, every).await;
    let part = json!([{"kind": POD, "enqueue": [{"to": "self", "present": "spec.env.secret"}]}]);
    let (_part, of_part) = with_rules(&caches, part).await;
    assert_eq!(n_texts(&caches, POD), 4);
    let mut pod = one_of_each();
    server.put("pods", "ns", "a", pod.clone());
    settle().await;
    assert_eq!(keys.take(), ["q:v1/Pod ns/a"], "it is new");
    for (field, value) in [("y", json!(5)), ("env", json!([])), ("z", json!(null))] {
        pod["spec"][field] = value;
        pod["status"]["phase"] = json!(field);
        server.put("pods", "ns", "a", pod.clone());
    }
    settle().await;
    assert_eq!(keys.take(), Vec::<String>::new(), "only fields of others have changed");
    pod["spec"]["x"] = json!(2);
    server.put("pods", "ns", "a", pod);
    settle().await;
    assert_eq!(keys.take(), ["q:v1/Pod ns/a"]);
    assert_eq!((of_every.take(), of_part.take()), (Vec::<String>::new(), Vec::<String>::new()));
}

#[tokio::test(start_paused = true)]
async fn plugins_come_and_go_and_each_reads_its_own_fields_all_the_time() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", one_of_each());
    let caches = caches(&server);
    let names = |subscription: &Subscription| {
        let pod =
            subscription.snapshot().view(context()).get(&POD.parse().unwrap(), &ObjectKey::new("ns", "a")).unwrap();
        pod.map(|pod| serde_json::from_str::<Value>(&pod).unwrap()["spec"].clone())
    };
    let mut crowd = crowd(&caches, POD, &FIELDS[..4]).await;
    let lists = |server: &FakeServer| server.requests().iter().filter(|request| request.starts_with("stream")).count();
    assert_eq!((n_texts(&caches, POD), lists(&server)), (4, 4));
    // A delta created before the fifth plugin joined is evaluated with the same fields as a later one.
    let before = crowd[0].snapshot().all_as_new(&POD.parse().unwrap());
    crowd.push(subscribe(&caches, json!([{"kind": POD, "fields": ["spec.w"]}])).await.0);
    assert_eq!((n_texts(&caches, POD), lists(&server)), (4, 1));
    let after = crowd[0].snapshot();
    for delta in before.iter().chain(&after.all_as_new(&POD.parse().unwrap())) {
        let text = after.projection(&delta.kind, delta.new.as_ref().unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["spec"], json!({"x": 1}));
    }
    // All its fields are present: it reads them immediately.
    let heard = Arc::new(Heard::default());
    let part = caches.subscribe(manifest(json!([{"kind": POD, "fields": ["spec.env.name"]}])), heard.clone());
    part.synced().await;
    assert_eq!((heard.take().as_str(), lists(&server)), ("*ns/a@11", 0));
    assert_eq!(names(&part), Some(json!({"env": [{"name": "TOKEN"}]})));
    drop(crowd.remove(0));
    settle().await;
    let expected = [json!({"y": 2}), json!({"z": 3}), json!({"env": [{"name": "TOKEN", "value": "t"}]}), json!({})];
    for (plugin, expected) in crowd.iter().zip(expected) {
        assert_eq!(names(plugin), Some(expected));
    }
    assert_eq!(lists(&server), 0);
    // A plugin that reads whole objects has its own text; the others share three.
    let whole = subscribe(&caches, json!([{"kind": POD, "whole": true, "fields": ["spec.x"]}])).await.0;
    assert_eq!((n_texts(&caches, POD), lists(&server)), (4, 1));
    assert_eq!(names(&whole), Some(one_of_each()["spec"].clone()));
    assert_eq!(names(&crowd[0]), Some(json!({"y": 2})));
}
