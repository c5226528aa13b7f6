//! Fault scripts over real HTTP.

use pintle_sim::faults::{Failure, RequestMatch, WatchEnd, When};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::Server;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn the_nth_create_fails_as_told_and_the_next_one_works() {
    let server = Server::start().await;
    server.cluster.faults().fail(
        RequestMatch::new("create", "configmaps"),
        2,
        1,
        When::Before,
        Failure::too_many_requests(3),
    );
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let refused = server.post(CONFIG_MAPS, &config_map("b")).await;
    assert_eq!((refused.code, &refused.headers["retry-after"]), (StatusCode::TOO_MANY_REQUESTS, &"3".parse().unwrap()));
    assert_eq!(refused.body["reason"], "TooManyRequests");
    server.post(CONFIG_MAPS, &config_map("b")).await.is(StatusCode::CREATED);
}

#[tokio::test]
async fn a_connection_dropped_after_the_write_leaves_the_object() {
    let server = Server::start().await;
    server.cluster.faults().fail(RequestMatch::new("create", "ConfigMap"), 1, 1, When::After, Failure::DropConnection);
    assert!(server.request(Method::POST, CONFIG_MAPS).json(&config_map("a")).send().await.is_err());
    server.get(&format!("{CONFIG_MAPS}/a")).await.is(StatusCode::OK);
}

#[tokio::test]
async fn a_connection_dropped_before_the_write_leaves_nothing() {
    let server = Server::start().await;
    server.cluster.faults().fail_next(RequestMatch::writes(), Failure::DropConnection);
    assert!(server.request(Method::POST, CONFIG_MAPS).json(&config_map("a")).send().await.is_err());
    server.get(&format!("{CONFIG_MAPS}/a")).await.is(StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn watches_end_as_told() {
    let server = Server::start().await;
    let rv = server.cluster.resource_version();
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={rv}");
    let mut watch = server.watch(&path).await;
    server.cluster.faults().end_watches(Some("pods"), WatchEnd::Close);
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    assert_eq!(watch.next().await.0, "ADDED");
    server.cluster.faults().end_watches(Some("configmaps"), WatchEnd::Gone);
    let (kind, status) = watch.next().await;
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(410)));
    watch.ended().await;
    let mut watch = server.watch(&path).await;
    assert_eq!(watch.next().await.0, "ADDED");
    server.cluster.faults().end_watches(None, WatchEnd::Drop);
    watch.ended().await;
}

#[tokio::test]
async fn events_come_twice_when_told() {
    let server = Server::start().await;
    server.cluster.faults().duplicate_events(Some("configmaps"));
    let rv = server.cluster.resource_version();
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={rv}")).await;
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    assert_eq!(watch.next().await, watch.next().await);
}

#[tokio::test]
async fn a_server_that_is_down_answers_nobody_and_comes_back_with_its_objects() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    let rv = server.cluster.resource_version();
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?watch=true&resourceVersion={rv}")).await;
    server.cluster.faults().down();
    watch.ended().await;
    assert!(server.request(Method::GET, CONFIG_MAPS).send().await.is_err());
    server.cluster.faults().up();
    server.get(&format!("{CONFIG_MAPS}/a")).await.is(StatusCode::OK);
}

#[tokio::test]
async fn a_killed_client_gets_no_answer_and_no_further_write_of_it_takes_effect() {
    let server = Server::start().await;
    let killed = server.cluster.faults().kill_client_after(2, "test/");
    let before = server.cluster.n_writes();
    server.post(CONFIG_MAPS, &config_map("a")).await.is(StatusCode::CREATED);
    assert!(server.request(Method::POST, CONFIG_MAPS).json(&config_map("b")).send().await.is_err());
    assert!(*killed.borrow());
    assert!(server.request(Method::POST, CONFIG_MAPS).json(&config_map("c")).send().await.is_err());
    assert_eq!(server.cluster.n_writes(), before + 2);
    server.cluster.faults().revive_clients();
    server.get(&format!("{CONFIG_MAPS}/b")).await.is(StatusCode::OK);
    let last = server.cluster.history().last().cloned().unwrap();
    assert_eq!((&*last.after.name, last.user_agent.as_str()), ("b", "test/1"));
}
