//! The API over real HTTP, for parts that the script compared with a real API server (`tests/src/behaviour`) does not
//! cover: compaction, evictions with a budget, warnings, and features that the embedded cluster lacks.

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
async fn a_watch_from_a_compacted_version_is_told_that_it_is_gone() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    server.cluster.compact();
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion=1")).await;
    let (kind, status) = watch.next().await;
    assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &json!(410), &json!("Expired")));
}

#[tokio::test]
async fn what_needs_containers_is_refused_clearly() {
    let server = Server::start().await;
    server.post(PODS, &pod("p")).await.is(StatusCode::CREATED);
    let status = server.get(&format!("{PODS}/p/log")).await.is(StatusCode::NOT_IMPLEMENTED);
    assert_eq!(status["kind"], "Status");
}

#[tokio::test]
async fn watches_of_a_custom_kind_end_with_its_definition() {
    let server = Server::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }});
    server.post(definitions, &definition).await.is(StatusCode::CREATED);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    server.post(widgets, &widget).await.is(StatusCode::CREATED);
    let mut watch = server.watch(&format!("{widgets}?watch=true")).await;
    assert_eq!(watch.next().await.0, "ADDED");
    server.delete(&format!("{definitions}/widgets.example.com"), &json!({})).await.is(StatusCode::OK);
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
async fn a_service_has_an_ip_address_of_the_range_while_it_exists() {
    let server = Server::start().await;
    let (services, addresses) = ("/api/v1/namespaces/default/services", "/apis/networking.k8s.io/v1/ipaddresses");
    let range = server.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await.is(StatusCode::OK);
    assert_eq!(range["spec"]["cidrs"], json!(["10.0.0.0/16"]));
    let own = server.get(&format!("{addresses}/10.0.0.1")).await.is(StatusCode::OK);
    assert_eq!(own["spec"]["parentRef"]["name"], "kubernetes");
    let spec = json!({"ports": [{"port": 80}]});
    let service = server.post(services, &json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let service = service.is(StatusCode::CREATED);
    let path = format!("{addresses}/{}", service["spec"]["clusterIP"].as_str().unwrap());
    let address = server.get(&path).await.is(StatusCode::OK);
    assert_eq!(address["spec"]["parentRef"], json!({"resource": "services", "namespace": "default", "name": "web"}));
    assert_eq!(address["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"], "IPv4");
    let headless = json!({"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    server.post(services, &headless).await.is(StatusCode::CREATED);
    server.delete(&format!("{services}/web"), &json!({})).await.is(StatusCode::OK);
    server.get(&path).await.is(StatusCode::NOT_FOUND);
    let left = server.get(addresses).await.is(StatusCode::OK);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
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

/// One resource with the number of Pods, if there are any.
#[derive(Debug)]
struct PodCount;

impl pintle_sim::Aggregated for PodCount {
    fn groups(&self) -> &[&str] {
        &["count.example.com"]
    }

    fn resources(&self, objects: &dyn Fn(&str) -> Vec<std::sync::Arc<Value>>) -> Vec<pintle_sim::Resource> {
        let resource = pintle_sim::Resource {
            group: "count.example.com".to_owned(),
            version: "v1".to_owned(),
            plural: "counts".to_owned(),
            kind: "Count".to_owned(),
            verbs: vec!["get"],
            ..Default::default()
        };
        if objects("pods").is_empty() { Vec::new() } else { vec![resource] }
    }

    fn get(
        &self,
        path: &[&str],
        query: &dyn Fn(&str) -> Option<String>,
        objects: &dyn Fn(&str) -> Vec<std::sync::Arc<Value>>,
    ) -> Option<Result<Value, (u16, String)>> {
        let n = objects("pods").len();
        (n > 0).then(|| match path {
            [_, _, "counts", name] => Ok(json!({"name": name, "n": n, "of": query("of")})),
            _ => Err((404, "no such count".to_owned())),
        })
    }
}

#[tokio::test]
async fn apis_of_other_servers_are_served_while_they_have_something() {
    let aggregated: Option<std::sync::Arc<dyn pintle_sim::Aggregated>> = Some(std::sync::Arc::new(PodCount));
    let server = Server::with(pintle_sim::SimConfig { aggregated, ..Default::default() }).await;
    let has_group =
        |groups: &Value| groups["groups"].as_array().unwrap().iter().any(|g| g["name"] == "count.example.com");
    let count = "/apis/count.example.com/v1/counts/all?of=pods";
    assert!(!has_group(&server.get("/apis").await.is(StatusCode::OK)));
    server.get("/apis/count.example.com/v1").await.is(StatusCode::NOT_FOUND);
    server.get(count).await.is(StatusCode::NOT_FOUND);
    server.post(PODS, &pod("a")).await.is(StatusCode::CREATED);
    assert!(has_group(&server.get("/apis").await.is(StatusCode::OK)));
    let group = server.get("/apis/count.example.com").await.is(StatusCode::OK);
    assert_eq!(group["preferredVersion"]["groupVersion"], "count.example.com/v1");
    let list = server.get("/apis/count.example.com/v1").await.is(StatusCode::OK);
    assert_eq!(list["resources"][0]["name"], "counts");
    let counted = server.get(count).await.is(StatusCode::OK);
    assert_eq!(counted, json!({"name": "all", "n": 1, "of": "pods"}));
    let unknown = server.get("/apis/count.example.com/v1/others/all").await.is(StatusCode::NOT_FOUND);
    assert_eq!((&unknown["kind"], &unknown["message"]), (&json!("Status"), &json!("no such count")));
    server.post(count, &json!({})).await.is(StatusCode::METHOD_NOT_ALLOWED);
}
