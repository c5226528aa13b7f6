//! Quotas: refusals, and the usage in their status. The usage of each kind is tested where it is computed, in
//! `plugins/quota`.

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Answer, Server};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const MERGE: &str = "application/merge-patch+json";

/// A quota with the status that its controller writes.
async fn quota(server: &Server, name: &str, spec: Value, used: Value) {
    let status = json!({"status": {"hard": spec["hard"], "used": used}});
    server.post(QUOTAS, &json!({"metadata": {"name": name}, "spec": spec})).await.is(StatusCode::CREATED);
    server.patch(&format!("{QUOTAS}/{name}/status"), MERGE, &status).await.is(StatusCode::OK);
}

async fn used(server: &Server, name: &str) -> Value {
    server.get(&format!("{QUOTAS}/{name}")).await.is(StatusCode::OK)["status"]["used"].clone()
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

#[track_caller]
fn message(answer: Answer) -> String {
    answer.is(StatusCode::FORBIDDEN)["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_creators_at_once_do_not_exceed_a_quota() {
    let server = Server::start().await;
    let hard = json!({"hard": {"pods": "5", "requests.cpu": "1"}});
    quota(&server, "q", hard, json!({"pods": "0", "requests.cpu": "0"})).await;
    // The limit of CPU allows fewer than that of Pods.
    let create = |n: usize| {
        let (server, pod) = (&server, pod(&format!("p{n}"), "300m"));
        async move { server.post(PODS, &pod).await.code }
    };
    let codes = join_all((0..32).map(create)).await;
    assert_eq!(codes.iter().filter(|code| **code == StatusCode::CREATED).count(), 3);
    assert!(codes.iter().all(|code| [StatusCode::CREATED, StatusCode::FORBIDDEN].contains(code)), "{codes:?}");
    assert_eq!(used(&server, "q").await, json!({"pods": "3", "requests.cpu": "900m"}));
}

#[tokio::test]
async fn all_quotas_of_a_namespace_must_allow_an_object() {
    let server = Server::start().await;
    quota(&server, "all", json!({"hard": {"pods": "5"}}), json!({"pods": "0"})).await;
    quota(&server, "few", json!({"hard": {"cpu": "1", "pods": "1"}}), json!({"cpu": "0", "pods": "0"})).await;
    server.post(PODS, &pod("a", "100m")).await.is(StatusCode::CREATED);
    let why = message(server.post(PODS, &pod("b", "100m")).await);
    assert_eq!(why, "pods \"b\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1");
    // If one quota refuses an object, no quota is charged.
    assert_eq!(used(&server, "all").await, json!({"pods": "1"}));
    assert_eq!(used(&server, "few").await, json!({"cpu": "100m", "pods": "1"}));
    // A dry run is not charged.
    server.patch(&format!("{QUOTAS}/few/status"), MERGE, &json!({"status": {"hard": {"pods": "2"}}})).await;
    server.post(&format!("{PODS}?dryRun=All"), &pod("b", "100m")).await.is(StatusCode::CREATED);
    assert_eq!(used(&server, "all").await, json!({"pods": "1"}));
    let plain = json!({"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let why = message(server.post(PODS, &plain).await);
    assert_eq!(why, "pods \"b\" is forbidden: failed quota: few: must specify cpu for: c");
    server.patch(&format!("{QUOTAS}/few/status"), MERGE, &json!({"status": {"used": {"cpu": null}}})).await;
    let why = message(server.post(PODS, &pod("b", "100m")).await);
    assert_eq!(why, "pods \"b\" is forbidden: status unknown for quota: few, resources: cpu,pods");
}

#[tokio::test]
async fn an_update_is_charged_with_what_it_uses_more() {
    let server = Server::start().await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": ports}});
    server.post(SERVICES, &service).await.is(StatusCode::CREATED);
    let spec = json!({"hard": {"services": "1", "services.nodeports": "2"}});
    quota(&server, "q", spec, json!({"services": "1", "services.nodeports": "1"})).await;
    let web = format!("{SERVICES}/web");
    let node_ports = json!({"spec": {"type": "NodePort"}});
    let why = message(server.patch(&web, MERGE, &node_ports).await);
    let expected = "services \"web\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, \
                    limited: services.nodeports=2";
    assert_eq!(why, expected);
    server.patch(&web, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.is(StatusCode::OK);
    assert_eq!(used(&server, "q").await, json!({"services": "1", "services.nodeports": "1"}));
    server.patch(&format!("{QUOTAS}/q/status"), MERGE, &json!({"status": {"used": {"services.nodeports": "0"}}})).await;
    server.patch(&web, MERGE, &node_ports).await.is(StatusCode::OK);
    assert_eq!(used(&server, "q").await, json!({"services": "1", "services.nodeports": "2"}));
}

#[tokio::test]
async fn a_pod_that_comes_into_a_scope_is_charged() {
    let server = Server::start().await;
    server.post(PODS, &pod("a", "1")).await.is(StatusCode::CREATED);
    let ends = json!({"hard": {"pods": "1", "requests.cpu": "2"}, "scopes": ["Terminating"]});
    quota(&server, "ends", ends, json!({"pods": "0", "requests.cpu": "0"})).await;
    server.post(PODS, &pod("b", "1")).await.is(StatusCode::CREATED);
    assert_eq!(used(&server, "ends").await, json!({"pods": "0", "requests.cpu": "0"}));
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
    server.patch(&format!("{PODS}/a"), MERGE, &deadline).await.is(StatusCode::OK);
    assert_eq!(used(&server, "ends").await, json!({"pods": "1", "requests.cpu": "1"}));
    message(server.patch(&format!("{PODS}/b"), MERGE, &deadline).await);
}

#[tokio::test]
async fn objects_of_any_kind_are_counted() {
    let server = Server::start().await;
    let hard = json!({"hard": {"count/secrets": "1", "secrets": "2", "count/events": "0"}});
    quota(&server, "q", hard, json!({"count/secrets": "0", "secrets": "0", "count/events": "0"})).await;
    let secret = |name: &str| json!({"metadata": {"name": name}});
    server.post(SECRETS, &secret("a")).await.is(StatusCode::CREATED);
    let why = message(server.post(SECRETS, &secret("b")).await);
    let expected = "secrets \"b\" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, \
                    limited: count/secrets=1";
    assert_eq!(why, expected);
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    server.post("/api/v1/namespaces/default/events", &event).await.is(StatusCode::CREATED);
}
