use serde_json::json;

use super::*;
use crate::api::meta::{ObjectMeta, Resource as _};
use crate::outcome::{Mutation, Outcome, PatchType, Refusal, Step};
use crate::{Children, Lister as _};

crate::types!("v1/ConfigMap": [], "v1/Namespace": [], "v1/Pod": []);

const MAP: Kind = ConfigMap::KIND;
const POD: Kind = Pod::KIND;
const NAMESPACE: Kind = Namespace::KIND;
const WIDGET: Kind = Kind::new("example.com", "v1", "Widget");
const MANIFEST: &str = "
name: test
watches:
  - {kind: v1/ConfigMap, whole: true}
  - {kind: v1/Pod, whole: true}
  - {kind: example.com/v1/Widget, whole: true}
queues: [{name: q}]
config: {size: {default: 3}}
";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"a": "1"}})
}

fn create(name: &str) -> Mutation {
    Mutation::create(&MAP, "ns", json!({"metadata": {"name": name}}))
}

/// Carries out the outcome once, in a separate run.
fn carry_out(cluster: &mut Cluster, outcome: Outcome) -> Run {
    let plugin = Plugin::new(MANIFEST, move |_, _| Ok(outcome.clone()));
    let key = plugin.key(&MAP, "ns", "key");
    cluster.run(&plugin, &key)
}

/// Carries out one mutation, and returns the reason why it failed.
fn write(cluster: &mut Cluster, mutation: Mutation) -> Option<String> {
    let run = carry_out(cluster, Outcome::new().step(Step::sequential([mutation])));
    run.failures.into_iter().next().map(|failure| failure.reason)
}

fn names(cluster: &Cluster, kind: &Kind) -> Vec<String> {
    cluster.list(kind).map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn meta<'a>(cluster: &'a Cluster, kind: &Kind, name: &str) -> &'a Value {
    &cluster.get(kind, "ns", name).unwrap()["metadata"]
}

#[test]
fn a_created_object_has_what_the_server_gives_it() {
    let mut cluster =
        Cluster::new(1).defaults(&POD, json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}));
    let body = json!({"metadata": {"generateName": "web-"}, "spec": {"x": 1}, "status": {"phase": "Running"}});
    for _ in 0..2 {
        assert_eq!(write(&mut cluster, Mutation::create(&POD, "ns", body.clone())), None);
    }
    let names = names(&cluster, &POD);
    assert!(names.len() == 2 && names.iter().all(|name| name.starts_with("web-")), "{names:?}");
    let pod = cluster.get(&POD, "ns", &names[0]).unwrap();
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
    assert_eq!(pod["spec"], json!({"x": 1, "nodeName": "n"}));
    assert_eq!(pod["status"], json!({"phase": "Pending"}), "a status is not created");
    assert_eq!(pod["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(pod["metadata"]["generation"], 1);
    assert_ne!(meta(&cluster, &POD, &names[0])["uid"], meta(&cluster, &POD, &names[1])["uid"]);

    let rejected = |cluster: &mut Cluster, object| write(cluster, Mutation::create(&POD, "ns", object));
    assert_eq!(rejected(&mut cluster, json!({"metadata": {"name": names[0]}})).as_deref(), Some("AlreadyExists"));
    assert_eq!(rejected(&mut cluster, json!({})).as_deref(), Some("Invalid"));
}

#[test]
fn nothing_is_created_in_a_namespace_that_is_being_deleted() {
    let mut cluster = Cluster::new(1);
    cluster.insert(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    assert_eq!(write(&mut cluster, create("a")), None);
    cluster.delete(&NAMESPACE, "", "ns");
    assert_eq!(cluster.get(&NAMESPACE, "", "ns").unwrap()["status"]["phase"], "Terminating");
    let run = carry_out(&mut cluster, Outcome::new().step(Step::sequential([create("b")])));
    assert_eq!((run.failures[0].code, &*run.failures[0].causes), (403, &["NamespaceTerminating".to_owned()][..]));
    assert_eq!(write(&mut cluster, create("b").tolerate([Refusal::NamespaceTerminating])), None);

    let mut finalized = cluster.get(&NAMESPACE, "", "ns").unwrap().clone();
    finalized["spec"]["finalizers"] = json!([]);
    assert_eq!(write(&mut cluster, Mutation::update(&NAMESPACE, finalized).subresource("finalize")), None);
    assert_eq!(cluster.get(&NAMESPACE, "", "ns"), None);
}

#[test]
fn an_update_needs_the_current_version_and_a_status_is_written_apart() {
    let mut cluster = Cluster::new(1);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"size": 1}, "status": {"size": 0}});
    cluster.insert(widget);
    let seen = cluster.get(&WIDGET, "ns", "w").unwrap().clone();
    let mut new = seen.clone();
    new["spec"]["size"] = json!(2);
    new["status"]["size"] = json!(2);
    assert_eq!(write(&mut cluster, Mutation::update(&WIDGET, new.clone())), None);
    assert_eq!(write(&mut cluster, Mutation::update(&WIDGET, new.clone())).as_deref(), Some("Conflict"));
    let stored = cluster.get(&WIDGET, "ns", "w").unwrap().clone();
    assert_eq!((&stored["spec"], &stored["status"]), (&json!({"size": 2}), &json!({"size": 0})));
    assert_eq!(stored["metadata"]["generation"], 2);

    new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    new["spec"]["size"] = json!(3);
    assert_eq!(write(&mut cluster, Mutation::update_status(&WIDGET, new.clone())), None);
    let stored = cluster.get(&WIDGET, "ns", "w").unwrap().clone();
    assert_eq!((&stored["spec"], &stored["status"]), (&json!({"size": 2}), &json!({"size": 2})));
    assert_eq!(stored["metadata"]["generation"], 2);

    let version = cluster.version();
    assert_eq!(write(&mut cluster, Mutation::update(&WIDGET, &stored)), None);
    assert_eq!(cluster.version(), version, "the same object is not a change");
    let mut namesake = stored.clone();
    namesake["metadata"]["uid"] = json!("other");
    assert_eq!(write(&mut cluster, Mutation::update(&WIDGET, namesake)).as_deref(), Some("Conflict"));
    new["metadata"]["name"] = json!("x");
    assert_eq!(write(&mut cluster, Mutation::update(&WIDGET, new)).as_deref(), Some("NotFound"));
    assert_eq!(
        write(
            &mut cluster,
            Mutation::patch(&WIDGET, ObjectKey::new("ns", "w"), PatchType::Merge, "{\"spec\":{\"replicas\":4}}")
                .subresource("scale")
        ),
        None
    );
    assert_eq!(cluster.get(&WIDGET, "ns", "w").unwrap()["spec"], json!({"size": 2, "replicas": 4}));
}

#[test]
fn patches_of_every_form_do_what_they_say() {
    let mut cluster = Cluster::new(1);
    let mut object = map("a");
    object["metadata"]["ownerReferences"] = json!([{"uid": "x", "name": "x"}, {"uid": "y", "name": "y"}]);
    object["metadata"]["finalizers"] = json!(["a/a"]);
    cluster.insert(object);
    let patch = |form, body: Value| Mutation::patch(&MAP, ObjectKey::new("ns", "a"), form, body);
    let json_patch =
        json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}]);
    assert_eq!(write(&mut cluster, patch(PatchType::Json, json_patch.clone())), None);
    assert_eq!(write(&mut cluster, patch(PatchType::Merge, json!({"data": {"a": null}}))), None);
    assert_eq!(cluster.get(&MAP, "ns", "a").unwrap()["data"], json!({"b": "2"}));
    assert_eq!(write(&mut cluster, patch(PatchType::Json, json_patch)).as_deref(), Some("Invalid"), "the test fails");
    let strategic = json!({"metadata": {
        "ownerReferences": [{"$patch": "delete", "uid": "x"}, {"uid": "y", "controller": true}, {"uid": "z"}],
        "finalizers": ["b/b"], "$deleteFromPrimitiveList/finalizers": ["a/a"],
    }});
    assert_eq!(write(&mut cluster, patch(PatchType::StrategicMerge, strategic)), None);
    let found = meta(&cluster, &MAP, "a");
    assert_eq!(found["ownerReferences"], json!([{"uid": "y", "name": "y", "controller": true}, {"uid": "z"}]));
    assert_eq!(found["finalizers"], json!(["b/b"]));
    let conditional = |uid: &str| patch(PatchType::Merge, json!({"data": {"c": "3"}})).uid(uid);
    assert_eq!(write(&mut cluster, conditional("other")).as_deref(), Some("Conflict"));
    let uid = meta(&cluster, &MAP, "a")["uid"].as_str().unwrap().to_owned();
    assert_eq!(write(&mut cluster, conditional(&uid)), None);
}

#[test]
fn an_applied_field_goes_with_the_next_apply_and_conflicts_with_other_managers() {
    let mut cluster = Cluster::new(1);
    let apply =
        |manager: &str, force, body: Value| Mutation::apply(&POD, ObjectKey::new("ns", "p"), manager, force, body);
    let containers = |containers: Value| json!({"metadata": {"name": "p", "labels": {"x": "1"}}, "spec": {"containers": containers}});
    let two = containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]));
    assert_eq!(write(&mut cluster, apply("one", false, two)), None, "it is created");
    cluster.edit(&POD, "ns", "p", |pod| pod["spec"]["nodeName"] = json!("n"));
    let other = json!({"spec": {"containers": [{"name": "a", "image": "2"}]}});
    assert_eq!(write(&mut cluster, apply("two", false, other.clone())).as_deref(), Some("Conflict"));
    assert_eq!(write(&mut cluster, apply("two", true, other)), None);
    let spec = |cluster: &Cluster| cluster.get(&POD, "ns", "p").unwrap()["spec"].clone();
    assert_eq!(spec(&cluster)["containers"], json!([{"name": "a", "image": "2"}, {"name": "b", "image": "1"}]));

    assert_eq!(write(&mut cluster, apply("one", false, json!({"metadata": {"name": "p"}}))), None);
    assert_eq!(spec(&cluster), json!({"containers": [{"name": "a", "image": "2"}], "nodeName": "n"}));
    assert!(meta(&cluster, &POD, "p").get("labels").is_none());
    let missing = Mutation::apply(&POD, ObjectKey::new("ns", "q"), "one", true, json!({"metadata": {"name": "q"}}));
    assert_eq!(write(&mut cluster, missing.uid("gone")).as_deref(), Some("Conflict"));
}

#[test]
fn finalizers_and_grace_hold_what_is_being_deleted() {
    let mut cluster = Cluster::new(1);
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["x/y"]);
    let pod = |name: &str, node: &str, phase: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}},
            "spec": {"nodeName": node}, "status": {"phase": phase}})
    };
    for object in [held, map("free"), pod("run", "n", "Running"), pod("new", "", "Pending"), pod("over", "n", "Failed")]
    {
        cluster.insert(object);
    }
    let uid = meta(&cluster, &MAP, "free")["uid"].as_str().unwrap().to_owned();
    assert_eq!(write(&mut cluster, Mutation::delete(&MAP, "ns", "free").uid("other")).as_deref(), Some("Conflict"));
    for delete in [Mutation::delete(&MAP, "ns", "free").uid(&uid), Mutation::delete(&MAP, "ns", "free")] {
        assert_eq!(write(&mut cluster, delete), None, "what is gone needs no delete");
    }
    assert_eq!(write(&mut cluster, Mutation::delete(&MAP, "ns", "held")), None);
    assert_eq!(meta(&cluster, &MAP, "held")["deletionTimestamp"], "2026-01-01T00:00:00Z");
    let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    let patch = |body| Mutation::patch(&MAP, ObjectKey::new("ns", "held"), PatchType::Merge, body);
    assert_eq!(write(&mut cluster, patch(finalizers(&["x/y", "new"]))).as_deref(), Some("Invalid"));
    assert_eq!(write(&mut cluster, patch(finalizers(&[]))), None);
    assert_eq!(names(&cluster, &MAP), [""; 0]);

    let all = Mutation::delete_collection(&POD, "ns", Some("app=web".into()));
    assert_eq!(write(&mut cluster, all), None);
    assert_eq!(names(&cluster, &POD), ["run"], "it has time to shut down");
    assert_eq!(meta(&cluster, &POD, "run")["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(write(&mut cluster, Mutation::delete(&POD, "ns", "run").grace_period_seconds(0)), None);
    assert_eq!(names(&cluster, &POD), [""; 0]);
}

#[test]
fn a_foreground_deletion_waits_for_its_finalizer() {
    let mut cluster = Cluster::new(1);
    cluster.insert(map("a"));
    let delete = Mutation::delete(&MAP, "ns", "a").propagation(crate::Propagation::Foreground);
    assert_eq!(write(&mut cluster, delete), None);
    assert_eq!(meta(&cluster, &MAP, "a")["finalizers"], json!(["foregroundDeletion"]));
}

/// Names of the objects created by one outcome with one fault at the nth create.
fn created(outcome: Outcome, nth: u32, seed: u64) -> (Vec<String>, Run) {
    let mut cluster = Cluster::new(seed);
    cluster.inject(Fault::reject(500, "InternalError", "not now").verb("create").skip(nth).times(1));
    let run = carry_out(&mut cluster, outcome);
    (names(&cluster, &MAP), run)
}

#[test]
fn steps_end_where_the_host_ends_them() {
    let many = || (0..7).map(|i| create(&format!("m{i}")));
    let last = || Step::sequential([create("z")]);
    let (sequential, run) = created(Outcome::new().step(Step::sequential(many())).step(last()), 2, 1);
    assert_eq!((sequential.join(" ").as_str(), run.n_writes), ("m0 m1", 3));
    assert_eq!((run.failures[0].step, run.failures[0].position), (0, 2));
    let (always, _) = created(Outcome::new().step(Step::sequential(many())).step(last().always()), 2, 1);
    assert_eq!(always.join(" "), "m0 m1 z");
    for seed in 0..5 {
        let (parallel, run) = created(Outcome::new().step(Step::parallel(many())).step(last()), 2, seed);
        assert_eq!((parallel.len(), run.n_writes, run.failures.len()), (6, 7, 1), "all are tried");
        // Batches of 1, 2 and 4: the third write is in the second batch.
        let (slow, run) = created(Outcome::new().step(Step::slow_start(many())), 2, seed);
        assert_eq!((slow.len(), run.n_writes), (2, 3));
        let (slow, run) = created(Outcome::new().step(Step::slow_start(many())), 9, seed);
        assert_eq!((slow.len(), run.n_writes, run.failures.len()), (7, 7, 0));
    }
    let order = |seed| {
        let mut cluster = Cluster::new(seed);
        carry_out(&mut cluster, Outcome::new().step(Step::parallel(many())));
        cluster.writes().iter().map(Write::to_string).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2), "the seed decides");
}

#[test]
fn the_next_run_sees_failures_state_and_attempts_and_a_crash_loses_them() {
    let seen = RefCell::new(Vec::new());
    let plugin = Plugin::new(MANIFEST, |_, lister| {
        let failures: Vec<String> = lister.failures().iter().map(|failure| failure.reason.clone()).collect();
        seen.borrow_mut().push((lister.attempt(), lister.state("n"), failures.join(",")));
        let event = |text: &str| Event::normal(&MAP, &ObjectMeta::default(), "R", text);
        let create = create("a").on_failure(event("{error}")).on_success(event("made {name}"));
        Ok(Outcome::new().keep("n", "1").step(Step::sequential([create.tolerate([Refusal::AlreadyExists])])))
    });
    let key = plugin.key(&MAP, "ns", "a");
    let mut cluster = Cluster::new(1);
    cluster.inject(Fault::reject(500, "InternalError", "not now").times(2));
    cluster.inject(Fault::crash().kind(&MAP).skip(2));
    for _ in 0..6 {
        cluster.run(&plugin, &key);
    }
    assert_eq!(
        seen.take(),
        [
            (0, None, String::new()),
            (1, Some("1".into()), "InternalError".into()),
            (2, Some("1".into()), "InternalError".into()),
            (0, Some("1".into()), String::new()),
            (0, Some("1".into()), String::new()),
            (0, None, String::new()),
        ]
    );
    let messages: Vec<&str> = cluster.events().iter().map(|event| event.message.as_str()).collect();
    assert_eq!(messages, ["not now", "not now", "made a"]);
    assert_eq!(cluster.n_faults(), 0);
    let writes: Vec<String> = cluster.writes().iter().map(Write::to_string).collect();
    let create = "create v1/ConfigMap ns/a";
    let rejected = |reason| format!("{create}: {reason}");
    let (error, there) = (rejected("InternalError"), rejected("AlreadyExists"));
    assert_eq!(writes, [error.clone(), error, create.to_owned(), there.clone(), there]);
}

#[test]
fn runs_at_the_same_time_see_the_same_objects_and_conflict() {
    let count = |_: &Key, lister: &FixtureLister| {
        let text = lister.get_json(&MAP, &ObjectKey::new("ns", "counter")).unwrap();
        let mut object: Value = serde_json::from_str(&text)?;
        let number: u32 = object["data"]["a"].as_str().unwrap().parse().unwrap();
        object["data"]["a"] = json!((number + 1).to_string());
        Ok(Outcome::new().step(Step::sequential([Mutation::update(&MAP, object)])))
    };
    let plugin = Plugin::new(MANIFEST, count);
    let keys = ["a", "b", "c"].map(|name| plugin.key(&MAP, "ns", name));
    let keys: Vec<_> = keys.iter().map(|key| (&plugin, key)).collect();
    let mut n_conflicts = 0;
    for seed in 0..20 {
        let mut cluster = Cluster::new(seed);
        cluster.insert(map("counter"));
        let runs = cluster.round(&keys);
        let n_failed = runs.iter().filter(|run| !run.failures.is_empty()).count();
        let counted = format!("{}", 1 + 3 - n_failed);
        assert_eq!(cluster.get(&MAP, "ns", "counter").unwrap()["data"]["a"], counted, "no update is lost");
        n_conflicts += n_failed;
    }
    assert!(n_conflicts > 0 && n_conflicts < 40, "{n_conflicts}");
}

#[test]
fn children_come_to_what_is_wanted_of_them() {
    let wanted = std::cell::Cell::new(3);
    let plugin = Plugin::new(MANIFEST, |key, lister| {
        let Some(text) = lister.get_json(&WIDGET, &ObjectKey::new(&key.namespace, &key.name)) else {
            return Ok(Outcome::new());
        };
        let owner: Value = serde_json::from_str(&text)?;
        let owner: ObjectMeta = serde_json::from_value(owner["metadata"].clone())?;
        let mut children = Children::new(&WIDGET, &owner, "test").own(MAP);
        for i in 0..wanted.get() {
            let mut child = map(&format!("child-{i}"));
            child["data"] = json!({"n": wanted.get().to_string()});
            children = children.want(child);
        }
        Ok(Outcome::new().step(Step::parallel(children.plan(lister)?.mutations)))
    })
    .config("size", 1);
    let key = plugin.key(&WIDGET, "ns", "w");
    for seed in seeds(0..5) {
        let mut cluster = Cluster::new(seed);
        cluster.insert(
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns"}}),
        );
        for n in [3, 1, 2] {
            wanted.set(n);
            cluster.inject(Fault::reject(500, "InternalError", "not now").one_in(3).times(2));
            cluster.inject(Fault::crash().skip(1));
            assert_eq!(cluster.settle(&[(&plugin, &key)], |_| false), None);
            assert_eq!(names(&cluster, &MAP), (0..n).map(|i| format!("child-{i}")).collect::<Vec<_>>());
            let number = n.to_string();
            assert!(cluster.list(&MAP).all(|child| child["data"]["n"] == number));
            cluster.edit(&MAP, "ns", "child-0", |child| child["data"] = json!({"other": "1"}));
        }
    }
}

#[test]
fn discovery_and_live_reads_are_answered_from_the_cluster() {
    let manifest = format!("{MANIFEST}discovery: true\n");
    let plugin = Plugin::new(&manifest, |_, lister| {
        lister.ask(crate::Need::Discovery)?.expect("it is answered");
        let live = lister.live::<ConfigMap>("ns", "a")?;
        assert!(lister.resources().len() == 1 && live.is_some());
        Ok(Outcome::new().requeue_after(Duration::from_secs(7)))
    });
    let resource = json!([{"kind": "v1/ConfigMap", "plural": "configmaps", "namespaced": true, "verbs": []}]);
    let mut cluster = Cluster::new(1).resources(serde_json::from_value(resource).unwrap());
    cluster.insert(map("a"));
    let key = plugin.key(&MAP, "ns", "a");
    assert_eq!(cluster.settle(&[(&plugin, &key)], |_| false), Some(Duration::from_secs(7)));
    cluster.advance(Duration::from_secs(7));
    assert_eq!(cluster.fixture(&plugin, &key).lister.now_text(), "2026-01-01T00:00:07Z");
}
