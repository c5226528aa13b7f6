//! Bounds on the memory that a plugin can make the host hold.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_core::ports::api::{ApiError, WriteRequest, WriteVerb};
use pintle_core::ports::view::View;
use pintle_testing::delete;
use serde_json::json;

use super::*;
use pintle_core::policy::held::{Account, MAX_HELD_BYTES};
use pintle_core::policy::keys::{OBJECT_BYTES, new_bytes};

#[tokio::test(start_paused = true)]
async fn the_failures_that_a_key_keeps_are_bounded() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |_, view| {
        let lengths = view.failures().iter().map(|failure| (failure.message.len(), failure.causes.len()));
        log.lock().push(lengths.collect::<Vec<_>>());
        if view.attempt() > 0 {
            return done();
        }
        let creates = (0..300).map(|i| create(&format!("p{i}"))).collect();
        Ok(Ok(steps(vec![step(Order::Parallel, creates)])))
    });
    let long = |_: &str, _: &WriteRequest| {
        Err(ApiError { message: "x".repeat(1 << 20), causes: vec!["Cause".into(); 100], ..refusal(422) })
    };
    let fixture = Fixture::new(guest, FakeWriter::new(long));
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(*seen.lock(), [vec![], vec![(1024, 16); 256]]);
    let left = fixture.metric("pintle_plugin_held_bytes{plugin=\"widgets\"}");
    assert_eq!(left, 0, "nothing is left of a key that succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_the_server_holds_no_view_and_its_outcome_is_counted() {
    let of_paths = json!([
        {"verbs": ["get"], "kinds": [], "paths": ["/a"]}, {"verbs": ["create"], "kinds": ["*"]},
    ]);
    let (views, account) = (Arc::new(Mutex::new(Vec::<Weak<dyn View>>::new())), Account::new(1 << 20));
    let seen = views.clone();
    let guest = FakeGuest::new(manifest(|m| m["grants"] = of_paths), move |key, view| {
        seen.lock().push(Arc::downgrade(&view));
        let need = Need::RawPath("/a".into());
        if view.answer(&need).is_none() {
            return Ok(Ok(Outcome { needs: vec![need], ..Outcome::default() }));
        }
        // The second key has an ungranted write.
        let denied = (&*key.object.name == "b").then(|| delete("other"));
        let creates = denied.into_iter().chain([create("p")]).collect();
        Ok(Ok(steps(vec![step(Order::Parallel, creates)])))
    });
    let n_held =
        |views: &Mutex<Vec<Weak<dyn View>>>| views.lock().iter().filter(|view| view.strong_count() > 0).count();
    let (of_writer, counted) = (views.clone(), account.clone());
    let api = FakeWriter::new(move |_, request| {
        assert_eq!(n_held(&of_writer), 0);
        let WriteVerb::Create { body } = &request.verb else { panic!("{request:?}") };
        assert!((body.len() as u64..4 * body.len() as u64).contains(&counted.n_bytes()), "{}", counted.n_bytes());
        Ok(())
    });
    let server = FakeServer::new();
    let fixture = Fixture::with_parts(guest, api, server.clone(), |parts| parts.held = account.clone());
    server.state().stuck = true;
    fixture.start();
    fixture.add(&["a", "b"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let n_views = views.lock().len();
    assert_eq!((n_views, n_held(&views)), (2, 0));
    server.state().stuck = false;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(fixture.api.log().len() >= 2);
    let kept = fixture.controller.observers.failures.of("widgets");
    assert!(kept.iter().all(|failed| failed.run.identity.message.contains("delete v1/Pod")) && !kept.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_outcome_has_no_room_keeps_its_failures() {
    let (seen, account) = (Arc::new(Mutex::new(Vec::new())), Account::new(1 << 20));
    let (log, of_others, others) = (seen.clone(), account.clone(), Mutex::new(None));
    let guest = FakeGuest::new(manifest(|_| {}), move |_, view| {
        let mut log = log.lock();
        log.push((view.attempt(), view.failures().len()));
        // During the second run, other runs hold the rest of the account.
        *others.lock() = (log.len() == 2).then(|| {
            let mut held = of_others.open();
            assert!(held.grow(of_others.max_bytes() - of_others.n_bytes()));
            held
        });
        if log.len() < 3 { creates(&["a"]) } else { done() }
    });
    let api = FakeWriter::new(|_, _| Err(refusal(403)));
    let fixture = Fixture::with_parts(guest, api, FakeServer::new(), |parts| parts.held = account.clone());
    fixture.run_until_idle(&["key"]).await;
    assert_eq!((seen.lock().as_slice(), fixture.api.log().len()), (&[(0, 0), (1, 1), (1, 1)][..], 1));
}

/// A manifest whose plugin maps Deployment changes itself; Pods are keys.
fn mapping_deployments() -> Arc<Manifest> {
    manifest(|m| {
        let mapped = json!({"kind": "apps/v1/Deployment", "enqueue": [{"to": "plugin"}]});
        m["watches"].as_array_mut().unwrap().push(mapped);
    })
}

fn put_deployments(fixture: &Fixture, n: usize) {
    for i in 0..n {
        fixture.server.put("deployments", "ns", &i.to_string(), json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_a_mapping_invents_are_bounded_and_objects_still_run() {
    let (n_changes, n_keys) = (40, 16);
    // An invented key never succeeds, so it stays in the queue.
    let (guest, calls) = scripted(mapping_deployments(), |i| match i {
        0 => done(),
        _ => Err(PluginFault { kind: FaultKind::Trap, message: "made up".into() }),
    });
    let n_mapped = AtomicUsize::new(0);
    let guest = guest.mapping(move |_, _| {
        let n = n_mapped.fetch_add(1, Ordering::Relaxed);
        Ok((0..n_keys).map(|i| key(&format!("made-up-{n}-{i}"))).collect())
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["real"]);
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    put_deployments(&fixture, n_changes);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let n_known: usize = { fixture.controller.inner.lock().keys.n_entries() };
    // A failing key has three entries, and the last mapping fitted.
    assert!((64..3 * (64 + n_keys)).contains(&n_known), "{n_known}");
    assert!(calls.lock()[1..].iter().any(|(_, name, _)| name == "real"));
    let faults = fixture.metric("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"output\"}");
    assert!(faults > 0, "{faults}");
    let events: Vec<String> = fixture.events.bodies().iter().map(|event| event["message"].to_string()).collect();
    assert!(events.iter().any(|text| text.contains("the plugin has invented too many keys")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_mapping_to_every_object_is_within_the_bound_however_many_objects_there_are() {
    let all: Vec<String> = (0..100).map(|i| format!("k{i}")).collect();
    let (guest, calls) = scripted(mapping_deployments(), |i| match i {
        0..100 => done(),
        _ => Err(PluginFault { kind: FaultKind::Trap, message: "each one".into() }),
    });
    let mapped: Vec<Key> = all.iter().map(|name| key(name)).collect();
    let fixture = Fixture::new(guest.mapping(move |_, _| Ok(mapped.clone())), FakeWriter::agreeable());
    fixture.put(&all.iter().map(String::as_str).collect::<Vec<_>>());
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    for _ in 0..3 {
        put_deployments(&fixture, 1);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let names: BTreeSet<String> = calls.lock()[100..].iter().map(|(_, name, _)| name.clone()).collect();
    assert_eq!(names.len(), 100);
    assert_eq!(fixture.metric("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"output\"}"), 0);
}

/// Runs a plugin whose mapping returns 32 large keys for a change, with `n_left` bytes left in its account. Returns the
/// keys that run before the rest of the account is freed, those that run afterwards, and the number of faults.
async fn mapped_with(n_left: impl Fn(u64) -> u64) -> (BTreeSet<String>, Vec<String>, u64) {
    let (guest, calls) = scripted(mapping_deployments(), |_| done());
    let invented: Vec<Key> = (0..32).map(|i| key(&format!("{i}-{}", "x".repeat(500)))).collect();
    let n_bytes = invented.iter().map(new_bytes).sum::<u64>();
    let mapped = invented.clone();
    let fixture = Fixture::new(guest.mapping(move |_, _| Ok(mapped.clone())), FakeWriter::agreeable());
    fixture.put(&["real"]);
    fixture.start();
    fixture.idle(Duration::ZERO).await;
    calls.lock().clear();
    let mut rest = fixture.controller.held.open();
    // There is one object.
    assert!(rest.grow(MAX_HELD_BYTES - n_left(n_bytes - OBJECT_BYTES)));
    put_deployments(&fixture, 1);
    let names = || calls.lock().iter().map(|(_, name, _)| name.clone()).collect::<Vec<String>>();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = names().into_iter().map(|name| name.replace('x', "")).collect();
    drop(rest);
    fixture.idle(Duration::ZERO).await;
    let held = fixture.metric("pintle_plugin_held_bytes{plugin=\"widgets\"}");
    assert_eq!(held, 0, "keys that have run take nothing");
    let after = names().into_iter().filter(|name| name != "real").collect();
    (before, after, fixture.metric("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"output\"}"))
}

#[tokio::test(start_paused = true)]
async fn keys_that_a_mapping_invents_count_in_the_account_and_wait_for_room() {
    let (before, after, n_faults) = mapped_with(|n_bytes| n_bytes).await;
    assert_eq!((before.len(), after.len(), n_faults), (32, 32, 0), "they fit");
    let (before, after, n_faults) = mapped_with(|n_bytes| n_bytes - 1).await;
    assert_eq!(before, ["real".to_owned()].into(), "objects run all the same");
    assert_eq!((after.len(), after.into_iter().collect::<BTreeSet<_>>().len()), (32, 32), "each key, and once");
    assert!((4..20).contains(&n_faults), "{n_faults}");
}
