//! Informers with an API server that fails in the ways API servers fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_cache::{ChangeHandler, Delta};
use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiErrorClass, WatchFrame};
use pintle_core::ports::view::Query;
use pintle_testing::server::{error, resource, settle};
use pintle_testing::{FakeServer, until};
use serde_json::json;

use crate::common::{Heard, caches, context, listed, manifest, subscribe};

fn pods() -> serde_json::Value {
    json!([{"kind": "v1/Pod", "fields": ["spec.x"]}])
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_fills_the_cache_and_changes_follow() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    server.put("pods", "ns", "b", json!({}));
    let caches = caches(&server);
    let (pods, heard) = subscribe(&caches, pods()).await;
    assert_eq!(heard.take(), "*ns/a@11 *ns/b@12");
    server.put("pods", "ns", "a", json!({}));
    server.put("pods", "ns", "c", json!({}));
    server.delete("pods", "ns", "b");
    settle().await;
    assert_eq!(heard.take(), "~ns/a@13 +ns/c@14 -ns/b@12");
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@13 ns/c@14");
    assert_eq!(server.requests(), ["stream pods"]);
}

#[tokio::test(start_paused = true)]
async fn pages_are_listed_where_there_are_no_streaming_lists() {
    let server = FakeServer::new();
    server.state().streams = false;
    for name in ["a", "b", "c", "d", "e"] {
        server.put("pods", "ns", name, json!({}));
    }
    let caches = caches(&server);
    let (pods, heard) = subscribe(&caches, pods()).await;
    settle().await;
    assert_eq!(server.requests(), ["stream pods", "list pods", "list@2 pods", "list@4 pods", "watch@15 pods"]);
    assert_eq!(heard.take().split(' ').count(), 5);
    server.delete("pods", "ns", "c");
    settle().await;
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@11 ns/b@12 ns/d@14 ns/e@15");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_what_a_streaming_list_is_gets_a_paged_one() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    // The server treats the streaming list as a watch: objects arrive, but the list never ends.
    server.state().endless = true;
    let (pods, _) = subscribe(&caches(&server), pods()).await;
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@11");
    settle().await;
    assert_eq!(server.requests(), ["stream pods", "list pods", "watch@11 pods"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_the_start_is_waited_for() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    server.set_down(true);
    let caches = caches(&server);
    let heard = Arc::new(Heard::default());
    let pods = caches.subscribe(manifest(pods()), heard.clone());
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!pods.is_synced());
    server.set_down(false);
    tokio::time::timeout(Duration::from_secs(61), pods.synced()).await.unwrap();
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@11");
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_served_while_the_server_is_away_and_catches_up() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    let caches = caches(&server);
    let (pods, heard) = subscribe(&caches, pods()).await;
    settle().await;
    heard.take();
    server.requests();
    server.set_down(true);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@11");
    let attempts = server.requests();
    assert!(attempts.iter().all(|request| request == "watch@11 pods"), "{attempts:?}");
    assert!((10..35).contains(&attempts.len()), "{} attempts in 10 minutes", attempts.len());
    server.put("pods", "ns", "b", json!({}));
    server.set_down(false);
    until("the change is seen", || listed(&pods, "v1/Pod") == "ns/a@11 ns/b@12").await;
    assert_eq!(heard.take(), "+ns/b@12");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_from_the_last_bookmark() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    let caches = caches(&server);
    let (_pods, heard) = subscribe(&caches, pods()).await;
    heard.take();
    // A change of another kind advances the version.
    server.put("deployments", "ns", "d", json!({}));
    server.bookmark();
    settle().await;
    server.requests();
    server.end_watches();
    settle().await;
    assert_eq!(server.requests(), ["watch@12 pods"]);
    server.put("pods", "ns", "b", json!({}));
    settle().await;
    assert_eq!(heard.take(), "+ns/b@13");
}

#[tokio::test(start_paused = true)]
async fn a_relist_after_gone_reports_only_what_differs() {
    let server = FakeServer::new();
    for name in ["a", "b", "c"] {
        server.put("pods", "ns", name, json!({}));
    }
    let caches = caches(&server);
    let (pods, heard) = subscribe(&caches, pods()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    heard.take();
    let before = pods.snapshot();
    server.end_watches();
    server.put("pods", "ns", "b", json!({}));
    server.delete("pods", "ns", "c");
    server.put("pods", "ns", "d", json!({}));
    server.compact();
    server.requests();
    until("the list is there", || listed(&pods, "v1/Pod") == "ns/a@11 ns/b@14 ns/d@16").await;
    assert_eq!(heard.take(), "~ns/b@14 -ns/c@13 +ns/d@16");
    assert_eq!(server.requests(), ["watch@13 pods", "stream pods"]);
    // An earlier snapshot still shows the old state.
    assert_eq!(before.view(context()).count(&"v1/Pod".parse().unwrap(), &Query::default()).unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_gone_in_the_middle_of_a_watch_relists() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    let caches = caches(&server);
    let (pods, heard) = subscribe(&caches, pods()).await;
    heard.take();
    server.send("pods", || Err(error(ApiErrorClass::Gone, 410)));
    server.put("pods", "ns", "b", json!({}));
    until("the change is seen", || listed(&pods, "v1/Pod") == "ns/a@11 ns/b@12").await;
    assert_eq!(heard.take(), "+ns/b@12");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_parse_is_counted_and_nothing_else_is_lost() {
    let server = FakeServer::new();
    server.state().garbage.insert("bad".into(), r#"{"metadata":{"name":7}}"#.into());
    server.put("pods", "ns", "a", json!({}));
    server.put("pods", "ns", "bad", json!({}));
    server.put("pods", "ns", "c", json!({}));
    let caches = caches(&server);
    let (pods, _) = subscribe(&caches, pods()).await;
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@11 ns/c@13");
    server.put("pods", "ns", "bad", json!({}));
    server.put("pods", "ns", "d", json!({}));
    settle().await;
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@11 ns/c@13 ns/d@15");
    assert_eq!(caches.stats()[0].skipped, 2);
}

/// As in a list, an object is absent while it does not parse.
#[tokio::test(start_paused = true)]
async fn an_object_whose_newer_state_does_not_parse_is_not_served_in_its_older_one() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    server.put("pods", "ns", "b", json!({}));
    let caches = caches(&server);
    let (pods, heard) = subscribe(&caches, pods()).await;
    heard.take();
    let broken = |version: u32| {
        let metadata = json!({"name": "a", "namespace": "ns", "resourceVersion": version.to_string(), "labels": 7});
        json!({"metadata": metadata}).to_string().into_boxed_str()
    };
    // An older frame changes nothing.
    server.send("pods", || Ok(WatchFrame::Modified(broken(10))));
    settle().await;
    assert_eq!((listed(&pods, "v1/Pod"), heard.take()), ("ns/a@11 ns/b@12".into(), String::new()));
    server.send("pods", || Ok(WatchFrame::Modified(broken(13))));
    settle().await;
    assert_eq!((listed(&pods, "v1/Pod"), heard.take()), ("ns/b@12".into(), "-ns/a@11".into()));
    assert_eq!(caches.stats()[0].skipped, 2);
    // A later state parses again.
    server.put("pods", "ns", "b", json!({}));
    server.put("pods", "ns", "a", json!({}));
    settle().await;
    assert_eq!((listed(&pods, "v1/Pod"), heard.take()), ("ns/a@14 ns/b@13".into(), "~ns/b@13 +ns/a@14".into()));
    server.send("pods", || Ok(WatchFrame::Deleted(broken(15))));
    settle().await;
    assert_eq!((listed(&pods, "v1/Pod"), heard.take()), ("ns/b@13".into(), "-ns/a@14".into()));
}

#[tokio::test(start_paused = true)]
async fn late_and_repeated_frames_change_nothing() {
    let server = FakeServer::new();
    let caches = caches(&server);
    let (pods, heard) = subscribe(&caches, pods()).await;
    server.put("pods", "ns", "a", json!({}));
    server.put("pods", "ns", "a", json!({}));
    server.put("pods", "ns", "b", json!({}));
    server.delete("pods", "ns", "b");
    settle().await;
    assert_eq!(heard.take(), "+ns/a@11 ~ns/a@12 +ns/b@13 -ns/b@13");
    let object = |name: &str, version: u32| {
        let metadata = json!({"name": name, "namespace": "ns", "resourceVersion": version.to_string()});
        json!({"metadata": metadata}).to_string().into_boxed_str()
    };
    server.send("pods", || Ok(WatchFrame::Modified(object("a", 11))));
    server.send("pods", || Ok(WatchFrame::Modified(object("a", 12))));
    server.send("pods", || Ok(WatchFrame::Deleted(object("a", 9))));
    server.send("pods", || Ok(WatchFrame::Added(object("b", 13))));
    server.send("pods", || Ok(WatchFrame::Deleted(object("c", 14))));
    settle().await;
    assert_eq!(heard.take(), "");
    assert_eq!(listed(&pods, "v1/Pod"), "ns/a@12");
}

#[tokio::test(start_paused = true)]
async fn plugins_share_an_informer_and_the_last_one_stops_it() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({"spec": {"x": 1, "y": 2}}));
    let caches = caches(&server);
    let (first, first_heard) = subscribe(&caches, pods()).await;
    let (second, second_heard) = subscribe(&caches, pods()).await;
    assert_eq!(second_heard.take(), "*ns/a@11");
    assert_eq!(server.requests(), ["stream pods"]);
    first_heard.take();
    server.put("pods", "ns", "b", json!({}));
    settle().await;
    assert_eq!((first_heard.take(), second_heard.take()), ("+ns/b@12".into(), "+ns/b@12".into()));
    drop(first);
    settle().await;
    assert_eq!(server.n_watches(), 1);
    server.put("pods", "ns", "c", json!({}));
    settle().await;
    assert_eq!((first_heard.take(), second_heard.take()), (String::new(), "+ns/c@13".into()));
    drop(second);
    settle().await;
    assert_eq!(server.n_watches(), 0);
    assert!(caches.stats().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_needs_more_widens_the_informer_while_the_old_data_is_served() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({"spec": {"x": 1, "y": 2}}));
    let caches = caches(&server);
    let (first, first_heard) = subscribe(&caches, json!([{"kind": "v1/Pod", "fields": ["metadata.labels"]}])).await;
    assert_eq!(server.requests(), ["stream pods metadata"]);
    first_heard.take();
    // The new list fails for a while.
    let failures = vec![error(ApiErrorClass::Server, 500); 2];
    server.state().failures.insert("pods".into(), failures.into());
    let heard = Arc::new(Heard::default());
    let second =
        caches.subscribe(manifest(json!([{"kind": "v1/Pod", "fields": ["spec.y"], "whole": true}])), heard.clone());
    settle().await;
    assert!(!second.is_synced());
    assert_eq!((listed(&first, "v1/Pod").as_str(), listed(&second, "v1/Pod").as_str()), ("ns/a@11", ""));
    second.synced().await;
    assert_eq!(server.requests(), ["stream pods", "stream pods", "stream pods"]);
    assert_eq!((first_heard.take(), heard.take()), (String::new(), "*ns/a@11".into()));
    let kind = "v1/Pod".parse().unwrap();
    let view = |subscription: &pintle_cache::Subscription| subscription.snapshot().view(context());
    let text = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let first_text = view(&first).list(&kind, &Query::default()).unwrap();
    assert_eq!(text(&first_text[0]).get("spec"), None, "a plugin sees its own projection only");
    let projection = view(&second).list(&kind, &Query::default()).unwrap();
    assert_eq!(text(&projection[0])["spec"], json!({"y": 2}));
    let whole = view(&second).list(&kind, &Query { whole: true, ..Query::default() }).unwrap();
    assert_eq!(text(&whole[0])["spec"], json!({"x": 1, "y": 2}));
    assert!(first.cached_bytes() > 0 && second.cached_bytes() > first.cached_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_every_kind_follows_what_the_server_has() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    server.put("widgets", "ns", "w", json!({}));
    let every = json!([{"every": {"verbs": ["delete"], "except": ["apps/v1/Deployment"]}, "fields": ["metadata.ownerReferences"]}]);
    let caches = caches(&server);
    let (all, heard) = subscribe(&caches, every).await;
    assert_eq!(server.requests(), ["stream pods metadata", "stream replicasets metadata"]);
    assert_eq!(heard.take(), "*ns/a@11");
    let widgets = resource("example.com/v1/Widget", "widgets");
    server.state().resources.push(widgets.clone());
    until("the new kind is seen", || heard.take() == "*ns/w@12").await;
    assert_eq!(listed(&all, "example.com/v1/Widget"), "ns/w@12");
    // The group does not answer for a while: nothing is lost.
    server.state().resources.retain(|resource| resource != &widgets);
    server.state().failed_groups.push("example.com/v1".into());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(listed(&all, "example.com/v1/Widget"), "ns/w@12");
    server.state().failed_groups.clear();
    until("the kind is gone", || heard.take() == "-ns/w@12").await;
    assert!(all.snapshot().view(context()).list(&widgets.kind, &Query::default()).is_err());
    assert_eq!(server.n_watches(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_custom_resource_definition_is_followed_at_once() {
    let server = FakeServer::new();
    let crds = resource("apiextensions.k8s.io/v1/CustomResourceDefinition", "customresourcedefinitions");
    server.state().resources.push(crds);
    server.put("widgets", "ns", "w", json!({}));
    let caches = caches(&server);
    let (_all, heard) = subscribe(&caches, json!([{"every": {}}])).await;
    settle().await;
    server.state().resources.push(resource("example.com/v1/Widget", "widgets"));
    server.put("customresourcedefinitions", "", "widgets.example.com", json!({}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(heard.take().contains("*ns/w@11"));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_discovery_gets_what_the_server_has_now() {
    let server = FakeServer::new();
    let caches = caches(&server);
    caches.discovered().await;
    let widget: Kind = "example.com/v1/Widget".parse().unwrap();
    server.state().resources.push(resource("example.com/v1/Widget", "widgets"));
    caches.refreshed(Duration::from_secs(5)).await.unwrap();
    assert!(caches.resource(&widget).is_none(), "discovery was young enough");
    caches.refreshed(Duration::ZERO).await.unwrap();
    assert!(caches.resource(&widget).is_some());
    // A failed round ends the wait as well, and leaves the known resources.
    server.set_down(true);
    assert!(caches.refreshed(Duration::ZERO).await.is_err());
    assert!(caches.resource(&widget).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_refused_does_not_hold_up_a_watch_of_every_kind_but_one_that_is_named() {
    let server = FakeServer::new();
    server.state().refusals.insert("pods".into(), error(ApiErrorClass::Forbidden, 403));
    let caches = caches(&server);
    let (every, _) = subscribe(&caches, json!([{"every": {}}])).await;
    assert_eq!(listed(&every, "v1/Pod"), "");
    // A controller that trusted an empty list would create Pods endlessly.
    let heard = Arc::new(Heard::default());
    let named = caches.subscribe(manifest(pods()), heard.clone());
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!named.is_synced());
    assert_eq!(named.unsynced(), ["v1/Pod".parse().unwrap()]);
    server.put("pods", "ns", "a", json!({}));
    server.state().refusals.clear();
    named.synced().await;
    assert_eq!(listed(&named, "v1/Pod"), "ns/a@11");
    until("the other one sees it too", || listed(&every, "v1/Pod") == "ns/a@11").await;
}

/// API servers answer 403 until they have loaded their roles.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_refused_for_a_moment_is_waited_for() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    server.state().refusals.insert("pods".into(), error(ApiErrorClass::Forbidden, 403));
    let caches = caches(&server);
    let heard = Arc::new(Heard::default());
    let every = caches.subscribe(manifest(json!([{"every": {}}])), heard.clone());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!every.is_synced(), "it may be listed soon");
    server.state().refusals.clear();
    every.synced().await;
    assert_eq!(listed(&every, "v1/Pod"), "ns/a@11");
}

/// A plugin that reads dependents before removing a finalizer would treat those of the new kind as absent.
#[tokio::test(start_paused = true)]
async fn answers_about_dependents_are_incomplete_while_a_new_kind_is_not_listed() {
    let server = FakeServer::new();
    let caches = caches(&server);
    let (every, _) = subscribe(&caches, json!([{"every": {}}])).await;
    let is_incomplete = || {
        let view = every.snapshot().view(context());
        assert_eq!(view.incomplete_dependents(), None, "nothing was read");
        view.dependents("uid").unwrap();
        view.incomplete_dependents().map(ToString::to_string)
    };
    assert_eq!(is_incomplete(), None);
    server.state().refusals.insert("widgets".into(), error(ApiErrorClass::Forbidden, 403));
    server.state().resources.push(resource("example.com/v1/Widget", "widgets"));
    caches.refreshed(Duration::ZERO).await.unwrap();
    settle().await;
    assert_eq!(is_incomplete().as_deref(), Some("example.com/v1/Widget"));
    server.state().refusals.clear();
    until("it is listed", || is_incomplete().is_none()).await;
    // A kind that is refused for long counts as empty, as upstream.
    server.state().refusals.insert("gadgets".into(), error(ApiErrorClass::Forbidden, 403));
    server.state().resources.push(resource("example.com/v1/Gadget", "gadgets"));
    caches.refreshed(Duration::ZERO).await.unwrap();
    settle().await;
    assert!(is_incomplete().is_some());
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(is_incomplete(), None);
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_panics_lists_again_and_its_listeners_learn_of_the_gap() {
    /// Panics at the first change after the initial list.
    #[derive(Default)]
    struct Fragile {
        n_batches: AtomicUsize,
        n_gaps: AtomicUsize,
    }
    impl ChangeHandler for Fragile {
        fn on_changes(&self, _: &Arc<[Delta]>) {
            assert!(self.n_batches.fetch_add(1, Ordering::SeqCst) != 1, "boom");
        }
        fn on_progress(&self, _: &Kind) {}
        fn on_gap(&self, _: &Kind) {
            self.n_gaps.fetch_add(1, Ordering::SeqCst);
        }
    }
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    let caches = caches(&server);
    let fragile = Arc::new(Fragile::default());
    let pods_only = caches.subscribe(manifest(pods()), fragile.clone());
    pods_only.synced().await;
    server.put("pods", "ns", "b", json!({}));
    until("it has panicked", || caches.supervisor().panics() == [("informer", 1)]).await;
    server.put("pods", "ns", "c", json!({}));
    until("it lists again", || listed(&pods_only, "v1/Pod") == "ns/a@11 ns/b@12 ns/c@13").await;
    assert_eq!(fragile.n_gaps.load(Ordering::SeqCst), 1);
    assert!(caches.supervisor().failing().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_reopened_continues_where_it_was() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    let caches = caches(&server);
    let (subscription, _) = subscribe(&caches, pods()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    server.requests();
    subscription.reopen(&"v1/Pod".parse().unwrap());
    subscription.reopen(&"v1/Unknown".parse().unwrap());
    settle().await;
    assert_eq!(server.requests(), ["watch@11 pods"]);
    subscription.reopen(&"v1/Pod".parse().unwrap());
    settle().await;
    assert!(server.requests().is_empty(), "it was opened a moment ago");
    server.put("pods", "ns", "b", json!({}));
    until("the new watch brings changes", || listed(&subscription, "v1/Pod") == "ns/a@11 ns/b@12").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced_after_two_and_a_half_minutes() {
    let server = FakeServer::new();
    server.put("pods", "ns", "a", json!({}));
    let caches = caches(&server);
    let (_subscription, _) = subscribe(&caches, pods()).await;
    server.requests();
    tokio::time::sleep(Duration::from_secs(149)).await;
    assert!(server.requests().is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.requests(), ["watch@11 pods"]);
}

#[tokio::test(start_paused = true)]
async fn a_named_kind_that_the_server_does_not_have_is_empty_until_it_appears() {
    let server = FakeServer::new();
    server.put("widgets", "ns", "w", json!({}));
    let caches = caches(&server);
    let (widgets, heard) = subscribe(&caches, json!([{"kind": "example.com/v1/Widget"}])).await;
    assert_eq!(listed(&widgets, "example.com/v1/Widget"), "");
    server.state().resources.push(resource("example.com/v1/Widget", "widgets"));
    until("it is seen", || heard.take() == "*ns/w@11").await;
    assert_eq!(caches.resource(&"example.com/v9/Widget".parse().unwrap()).unwrap().plural, "widgets");
}
