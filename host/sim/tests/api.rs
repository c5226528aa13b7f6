//! The API over real HTTP, as a client sees it.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test]
async fn a_created_object_has_what_the_server_decides() {
    let server = Server::start().await;
    let made = server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    assert_eq!(made["metadata"]["namespace"], "default");
    for field in ["uid", "creationTimestamp", "resourceVersion"] {
        assert!(made["metadata"][field].is_string(), "{field}");
    }
    let again = server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CONFLICT);
    assert_eq!(
        (&again["reason"], &again["message"]),
        (&json!("AlreadyExists"), &json!("configmaps \"a\" already exists"))
    );
    assert_eq!(again["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn generated_names_differ_and_keep_their_prefix() {
    let server = Server::start().await;
    let object = json!({"metadata": {"generateName": "a-"}});
    let first = server.post(CONFIG_MAPS, &object).await.is(StatusCode::CREATED);
    let second = server.post(CONFIG_MAPS, &object).await.is(StatusCode::CREATED);
    assert!(first["metadata"]["name"].as_str().unwrap().starts_with("a-"));
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

#[tokio::test]
async fn a_stale_update_is_a_conflict_and_an_unconditional_one_is_not() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let first = server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let mut change = config_map("a");
    change["data"]["a"] = json!("2");
    server.put(&path, &change).await.is(StatusCode::OK);
    let status = server.put(&path, &first).await.is(StatusCode::CONFLICT);
    assert_eq!(
        status["message"],
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_makes_no_version() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let first = server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let second =
        server.patch(&path, "application/merge-patch+json", &json!({"data": {"a": "1"}})).await.is(StatusCode::OK);
    assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn delete_preconditions_protect_the_successor_of_an_object() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let status = server.delete(&path, &json!({"preconditions": {"uid": "other"}})).await.is(StatusCode::CONFLICT);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("the UID in the precondition (other) does not match the UID in record (")
    );
    let status = server.delete(&path, &json!({})).await.is(StatusCode::OK);
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    server.get(&path).await.is(StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_removed() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.post(CONFIG_MAPS, &object).await.is(StatusCode::CREATED);
    let held = server.delete(&path, &json!({})).await.is(StatusCode::OK);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let status = server.patch(&path, "application/merge-patch+json", &more).await.is(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        status["message"].as_str().unwrap().contains("no new finalizers can be added if the object is being deleted")
    );
    server
        .patch(&path, "application/merge-patch+json", &json!({"metadata": {"finalizers": null}}))
        .await
        .is(StatusCode::OK);
    server.get(&path).await.is(StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_bound_pod_is_deleted_in_two_steps_and_seen_so_by_a_watch() {
    let server = Server::start().await;
    let path = format!("{PODS}/p");
    server.post(PODS, &pod("p")).await.is(StatusCode::CREATED);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    server.post(&format!("{path}/binding"), &binding).await.is(StatusCode::CREATED);
    let again = server.post(&format!("{path}/binding"), &binding).await.is(StatusCode::CONFLICT);
    assert_eq!(
        again["message"],
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""
    );
    let bound = server.get(&path).await.is(StatusCode::OK);
    assert_eq!(
        (&bound["spec"]["nodeName"], &bound["status"]["conditions"][0]["type"]),
        (&json!("n"), &json!("PodScheduled"))
    );
    let rv = bound["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let marked = server.delete(&path, &json!({"gracePeriodSeconds": 7})).await.is(StatusCode::OK);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 7);
    server.delete(&path, &json!({"gracePeriodSeconds": 0})).await.is(StatusCode::OK);
    let mut watch = server.watch(&format!("{PODS}?watch=true&resourceVersion={rv}")).await;
    let kinds = [watch.next().await.0, watch.next().await.0, watch.next().await.0];
    assert_eq!(kinds, ["MODIFIED", "MODIFIED", "DELETED"]);
}

#[tokio::test]
async fn lists_are_paged_over_one_instant() {
    let server = Server::start().await;
    for n in 0..5 {
        server.post(CONFIG_MAPS, &config_map(&format!("a{n}"))).await.is(StatusCode::CREATED);
    }
    let first = server.get(&format!("{CONFIG_MAPS}?limit=2")).await.is(StatusCode::OK);
    assert_eq!((&first["metadata"]["remainingItemCount"], &first["items"][0]["kind"]), (&json!(3), &Value::Null));
    server.delete(&format!("{CONFIG_MAPS}/a4"), &json!({})).await.is(StatusCode::OK);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{CONFIG_MAPS}?limit=9&continue={token}")).await.is(StatusCode::OK);
    assert_eq!(rest["items"].as_array().unwrap().len(), 3);
    server.cluster.compact();
    let gone = server.get(&format!("{CONFIG_MAPS}?limit=9&continue={token}")).await.is(StatusCode::GONE);
    assert_eq!(gone["reason"], "Expired");
    let token = gone["metadata"]["continue"].as_str().unwrap();
    let rest = server.get(&format!("{CONFIG_MAPS}?limit=9&continue={token}")).await.is(StatusCode::OK);
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn selectors_filter_lists_and_turn_changes_into_arrivals_and_departures() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        server.post(PODS, &pod(name)).await.is(StatusCode::CREATED);
    }
    let list = server
        .get(&format!("{PODS}?labelSelector=app%20in%20(a)&fieldSelector=metadata.name!=b"))
        .await
        .is(StatusCode::OK);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let rv = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = server.watch(&format!("{PODS}?watch=true&labelSelector=app=a&resourceVersion={rv}")).await;
    let relabel = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let merge = "application/merge-patch+json";
    server.patch(&format!("{PODS}/b"), merge, &relabel("a")).await.is(StatusCode::OK);
    server.patch(&format!("{PODS}/b"), merge, &relabel("c")).await.is(StatusCode::OK);
    let (kind, object) = watch.next().await;
    assert_eq!((kind.as_str(), &object["metadata"]["name"]), ("ADDED", &json!("b")));
    let (kind, object) = watch.next().await;
    // The last state that the watch knew, at the version of the change.
    assert_eq!((kind.as_str(), &object["metadata"]["labels"]["app"]), ("DELETED", &json!("a")));
    assert_eq!(object["metadata"]["resourceVersion"].as_str().unwrap(), server.cluster.resource_version().to_string());
}

#[tokio::test]
async fn a_streaming_list_ends_with_an_annotated_bookmark() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let options = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?{options}")).await;
    assert_eq!(watch.next().await.0, "ADDED");
    let (kind, object) = watch.next().await;
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(object["metadata"]["resourceVersion"].as_str().unwrap(), server.cluster.resource_version().to_string());
    server.post(CONFIG_MAPS, &config_map("b")).await.is(StatusCode::CREATED);
    assert_eq!(watch.next().await.1["metadata"]["name"], "b");
}

#[tokio::test]
async fn a_watch_from_a_compacted_version_is_told_that_it_is_gone() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    server.cluster.compact();
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion=1")).await;
    let (kind, status) = watch.next().await;
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
}

#[tokio::test]
async fn metadata_alone_is_served_to_those_who_ask() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = server.get_as(CONFIG_MAPS, accept).await.is(StatusCode::OK);
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
    assert!(list["items"][0].get("data").is_none());
    let table = server.get_as(CONFIG_MAPS, "application/json;as=Table;g=meta.k8s.io;v=v1").await.is(StatusCode::OK);
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
}

#[tokio::test]
async fn a_namespace_refuses_new_content_while_it_ends() {
    let server = Server::start().await;
    server.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.is(StatusCode::CREATED);
    let maps = "/api/v1/namespaces/n/configmaps";
    let ending = server.delete("/api/v1/namespaces/n", &json!({})).await.is(StatusCode::OK);
    assert_eq!(ending["status"]["phase"], "Terminating");
    let status = server.post(maps, &config_map("a")).await.is(StatusCode::FORBIDDEN);
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut last = ending.clone();
    last["spec"]["finalizers"] = json!([]);
    server.put("/api/v1/namespaces/n/finalize", &last).await.is(StatusCode::OK);
    server.get("/api/v1/namespaces/n").await.is(StatusCode::NOT_FOUND);
    server.post(maps, &config_map("a")).await.is(StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_quota_refuses_the_pod_that_is_one_too_many() {
    let server = Server::start().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    let mut quota = server.post("/api/v1/namespaces/default/resourcequotas", &quota).await.is(StatusCode::CREATED);
    // The quota's controller says when counting starts.
    quota["status"] = json!({"hard": {"pods": "1"}, "used": {"pods": "0"}});
    server.put("/api/v1/namespaces/default/resourcequotas/q/status", &quota).await.is(StatusCode::OK);
    server.post(PODS, &pod("a")).await.is(StatusCode::CREATED);
    let status = server.post(PODS, &pod("b")).await.is(StatusCode::FORBIDDEN);
    assert_eq!(
        status["message"],
        "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
}

#[tokio::test]
async fn a_scale_is_read_and_written_through_its_subresource() {
    let server = Server::start().await;
    let labels = json!({"app": "web"});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    server.post(path, &deployment).await.is(StatusCode::CREATED);
    let mut scale = server.get(&format!("{path}/web/scale")).await.is(StatusCode::OK);
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(2), &json!("app=web")));
    scale["spec"]["replicas"] = json!(4);
    server.put(&format!("{path}/web/scale"), &scale).await.is(StatusCode::OK);
    let stored = server.get(&format!("{path}/web")).await.is(StatusCode::OK);
    assert_eq!((&stored["spec"]["replicas"], &stored["metadata"]["generation"]), (&json!(4), &json!(2)));
    server.put(&format!("{path}/web/scale"), &scale).await.is(StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let server = Server::start().await;
    let before = server.cluster.resource_version();
    let made = server.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.is(StatusCode::CREATED);
    assert!(made["metadata"]["uid"].is_string());
    assert_eq!(server.cluster.resource_version(), before);
    server.get(&format!("{CONFIG_MAPS}/a")).await.is(StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_event_reads_in_the_version_that_is_asked_for() {
    let server = Server::start().await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "message": "m", "reason": "R", "type": "Normal"});
    server.post("/api/v1/namespaces/default/events", &event).await.is(StatusCode::CREATED);
    let new = server.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await.is(StatusCode::OK);
    assert_eq!(
        (&new["regarding"]["name"], &new["note"], &new["apiVersion"]),
        (&json!("p"), &json!("m"), &json!("events.k8s.io/v1"))
    );
    let list =
        server.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=p").await.is(StatusCode::OK);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_needs_containers_is_refused_clearly() {
    let server = Server::start().await;
    server.post(PODS, &pod("p")).await.is(StatusCode::CREATED);
    let status = server.get(&format!("{PODS}/p/log")).await.is(StatusCode::NOT_IMPLEMENTED);
    assert_eq!(status["kind"], "Status");
}

#[tokio::test]
async fn a_custom_kind_comes_and_goes_with_its_definition() {
    let server = Server::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    server.get(widgets).await.is(StatusCode::NOT_FOUND);
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
    }});
    server.post(definitions, &definition).await.is(StatusCode::CREATED);
    let stored = server.get(&format!("{definitions}/widgets.example.com")).await.is(StatusCode::OK);
    let conditions: Vec<&Value> =
        stored["status"]["conditions"].as_array().unwrap().iter().map(|condition| &condition["type"]).collect();
    assert_eq!(conditions, ["NamesAccepted", "Established"]);
    let groups = server.get("/apis").await.is(StatusCode::OK);
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "example.com"));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}, "status": {"x": 1}});
    let made = server.post(widgets, &widget).await.is(StatusCode::CREATED);
    assert_eq!(
        (&made["spec"]["size"], made.get("status"), &made["metadata"]["generation"]),
        (&json!(3), None, &json!(1))
    );
    let status = json!({"status": {"x": 2}, "spec": {"size": 9}});
    let made =
        server.patch(&format!("{widgets}/w/status"), "application/merge-patch+json", &status).await.is(StatusCode::OK);
    assert_eq!(
        (&made["spec"]["size"], &made["status"]["x"], &made["metadata"]["generation"]),
        (&json!(3), &json!(2), &json!(1))
    );
    let mut watch = server.watch(&format!("{widgets}?watch=true")).await;
    assert_eq!(watch.next().await.0, "ADDED");
    server.delete(&format!("{definitions}/widgets.example.com"), &json!({})).await.is(StatusCode::OK);
    server.get(&format!("{definitions}/widgets.example.com")).await.is(StatusCode::NOT_FOUND);
    server.get(widgets).await.is(StatusCode::NOT_FOUND);
    watch.ended().await;
}

#[tokio::test]
async fn an_update_of_a_namesake_is_a_conflict() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut first = server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let uid = first["metadata"]["uid"].as_str().unwrap().to_owned();
    server.delete(&path, &json!({})).await.is(StatusCode::OK);
    let status = server.put(&path, &first).await.is(StatusCode::CONFLICT);
    assert!(
        status["message"].as_str().unwrap().ends_with(&format!("UID in precondition: {uid}, UID in object meta: "))
    );
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    first["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    server.put(&path, &first).await.is(StatusCode::CONFLICT);
    server
        .patch(&path, "application/merge-patch+json", &json!({"metadata": {"uid": uid}}))
        .await
        .is(StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn an_eviction_obeys_the_budget() {
    let server = Server::start().await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    server.post(PODS, &pod("p")).await.is(StatusCode::CREATED);
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    server.patch(&format!("{PODS}/p/status"), "application/merge-patch+json", &running).await.is(StatusCode::OK);
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}});
    server.post(budgets, &budget).await.is(StatusCode::CREATED);
    let status = |allowed: u64| json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    server.patch(&format!("{budgets}/b/status"), "application/merge-patch+json", &status(0)).await.is(StatusCode::OK);
    let eviction = json!({"metadata": {"name": "p"}});
    let refused = server.post(&format!("{PODS}/p/eviction"), &eviction).await.is(StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused["details"]["causes"][0]["reason"], "DisruptionBudget");
    server.patch(&format!("{budgets}/b/status"), "application/merge-patch+json", &status(1)).await.is(StatusCode::OK);
    server.post(&format!("{PODS}/p/eviction"), &eviction).await.is(StatusCode::CREATED);
    server.get(&format!("{PODS}/p")).await.is(StatusCode::NOT_FOUND);
    let budget = server.get(&format!("{budgets}/b")).await.is(StatusCode::OK);
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["p"].is_string());
}

#[tokio::test]
async fn a_foreground_delete_waits_for_the_collector() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let held = server.delete(&path, &json!({"propagationPolicy": "Foreground"})).await.is(StatusCode::OK);
    assert_eq!(held["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let refused =
        server.delete(&path, &json!({"propagationPolicy": "Sideways"})).await.is(StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused["reason"], "Invalid");
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_of_or_refused() {
    let server = Server::start().await;
    let mut object = pod("p");
    object["spec"]["foo"] = json!(1);
    let strict = server.post(&format!("{PODS}?fieldValidation=Strict"), &object).await.is(StatusCode::BAD_REQUEST);
    assert!(
        strict["message"].as_str().unwrap().contains("strict decoding error: unknown field \"spec.foo\""),
        "{strict}"
    );
    let warned = server.post(PODS, &object).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.foo\\\"\"");
    assert!(warned.is(StatusCode::CREATED)["spec"].get("foo").is_none());
}

#[tokio::test]
async fn apply_makes_an_object_owns_its_fields_and_conflicts_with_other_owners() {
    let server = Server::start().await;
    let path = |manager: &str| format!("{CONFIG_MAPS}/a?fieldManager={manager}");
    let apply = "application/apply-patch+yaml";
    let config =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}});
    let made = server.patch(&path("one"), apply, &config("1")).await.is(StatusCode::CREATED);
    assert_eq!(
        (&made["metadata"]["managedFields"][0]["manager"], &made["metadata"]["managedFields"][0]["operation"]),
        (&json!("one"), &json!("Apply"))
    );
    let again = server.patch(&path("one"), apply, &config("1")).await.is(StatusCode::OK);
    assert_eq!(made["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"]);
    let status = server.patch(&path("two"), apply, &config("2")).await.is(StatusCode::CONFLICT);
    assert_eq!(
        (&status["details"]["causes"][0]["reason"], &status["details"]["causes"][0]["field"]),
        (&json!("FieldManagerConflict"), &json!(".data.x"))
    );
    server.patch(&format!("{}&force=true", path("two")), apply, &config("2")).await.is(StatusCode::OK);
    let status =
        server.patch(&format!("{CONFIG_MAPS}/a"), apply, &config("2")).await.is(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(status["message"].as_str().unwrap().contains("fieldManager: Required value: is required for apply patch"));
}
