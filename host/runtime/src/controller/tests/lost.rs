//! Writes whose answer was lost: the key waits until the caches show the result.

use pintle_core::contract::outcome::{Action, Mutation};
use pintle_core::ports::api::{ApiError, Detail, ListPage, ListWatchTarget};

use super::*;

fn page(items: &[&str]) -> Result<ListPage, ApiError> {
    let items = items.iter().map(|item| format!(r#"{{"metadata":{{{item}}}}}"#).into()).collect();
    Ok(ListPage { items, resource_version: "200".into(), next: None })
}

/// Creates a Pod without a name on its first call.
fn creator() -> (FakeGuest, Calls) {
    scripted(manifest(|_| {}), |i| {
        if i > 0 {
            return done();
        }
        let object = r#"{"metadata":{"generateName":"a-","labels":{"app":"web","tier":"x"}}}"#;
        let action = Action::Create { kind: pod(), namespace: "ns".into(), object: object.into(), subresource: None };
        let mutation = Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() };
        Ok(Ok(steps(vec![step(Order::Sequential, vec![mutation])])))
    })
}

/// The lists that were requested: namespace, label selector, field selector.
type Asked = Arc<Mutex<Vec<(Option<String>, Option<String>, Option<String>)>>>;

fn asked_by(answer: impl Fn(usize) -> Result<ListPage, ApiError> + Send + Sync + 'static) -> (Arc<FakeServer>, Asked) {
    let asked = Asked::default();
    let log = asked.clone();
    let reader = FakeServer::listing(move |target: &ListWatchTarget| {
        let mut log = log.lock();
        log.push((target.namespace.clone(), target.label_selector.clone(), target.field_selector.clone()));
        answer(log.len())
    });
    (reader, asked)
}

/// Ends when the caches show `version`, one second after the write.
async fn shows_late(fixture: &Fixture, version: u64) {
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.reach(version).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_a_created_object_whose_answer_was_lost() {
    let (guest, calls) = creator();
    let (reader, asked) = asked_by(|_| page(&[r#""name":"a-x","uid":"u","resourceVersion":"150""#]));
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(0))), reader);
    shows_late(&fixture, 149).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(times(&calls), [(0, 0)]);
    fixture.reach(150).await;
    fixture.idle(Duration::ZERO).await;
    assert_eq!(times(&calls), [(0, 0), (2_001, 1)]);
    let expected = (Some("ns".to_owned()), Some("app=web,tier=x".to_owned()), None);
    assert_eq!(*asked.lock(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_others_made_are_not_waited_for() {
    let (guest, calls) = creator();
    // The server would not generate this name from the prefix.
    let (reader, asked) = asked_by(|_| page(&[r#""name":"b-x","uid":"u","resourceVersion":"150""#]));
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(0))), reader);
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((times(&calls), asked.lock().len()), (vec![(0, 0), (5, 1)], 1));
}

#[tokio::test(start_paused = true)]
async fn after_a_timeout_of_the_server_a_write_has_time_to_happen() {
    let (guest, calls) = creator();
    let began = Instant::now();
    // The server executes it after its own timeout.
    let (reader, asked) = asked_by(move |_| {
        let is_done = began.elapsed() > Duration::from_secs(8);
        if is_done { page(&[r#""name":"a-x","uid":"u","resourceVersion":"150""#]) } else { page(&[]) }
    });
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(504))), reader);
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!((times(&calls), asked.lock().len()), (vec![(0, 0)], 1), "a key that runs now would create it twice");
    fixture.reach(150).await;
    fixture.idle(Duration::ZERO).await;
    assert_eq!(times(&calls), [(0, 0), (20_000, 1)]);
}

#[tokio::test(start_paused = true)]
async fn probes_are_in_the_plugins_rate_limit_and_read_metadata() {
    let (guest, _) = creator();
    let detail = Arc::new(Mutex::new(None));
    let log = detail.clone();
    let reader = FakeServer::listing(move |target: &ListWatchTarget| {
        *log.lock() = Some(target.detail);
        page(&[])
    });
    let limited = FakeServer::new();
    let api = FakeWriter::new(|_, _| Err(refusal(0)));
    let fixture = Fixture::with_parts(guest, api, reader.clone(), |parts| parts.live = limited.clone());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!((limited.requests(), *detail.lock()), (vec!["turn".to_owned()], Some(Detail::Metadata)));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_arrived_costs_the_backoff_and_one_probe() {
    for code in [0, 500] {
        let (guest, calls) = creator();
        let (reader, asked) = asked_by(|_| page(&[]));
        let fixture = Fixture::with_reader(guest, FakeWriter::new(move |_, _| Err(refusal(code))), reader);
        fixture.server.state().version = 100;
        fixture.run_until_idle(&["a"]).await;
        assert_eq!((times(&calls), asked.lock().len()), (vec![(0, 0), (5, 1)], 1), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_write_is_not_probed() {
    for code in [403, 404, 409, 422, 429] {
        let (guest, _) = creator();
        let (reader, asked) = asked_by(|_| page(&[]));
        let fixture = Fixture::with_reader(guest, FakeWriter::new(move |_, _| Err(refusal(code))), reader);
        fixture.run_until_idle(&["a"]).await;
        assert!(asked.lock().is_empty(), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_kind_and_namespace_share_a_probe_and_named_ones_are_probed_by_name() {
    let (guest, _) = scripted(manifest(|_| {}), |i| {
        if i > 0 {
            return done();
        }
        Ok(Ok(steps(vec![step(Order::Parallel, vec![create("p"), pintle_testing::delete("p"), create("q")])])))
    });
    let (reader, asked) = asked_by(|_| page(&[]));
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(0))), reader);
    // The caches show a deleted object until the version of the list.
    fixture.server.state().version = 99;
    fixture.put(&["p"]);
    shows_late(&fixture, 199).await;
    assert_eq!(fixture.controller.status().queues[0].n_held, 1);
    fixture.reach(200).await;
    fixture.idle(Duration::ZERO).await;
    let named = |name: &str| (Some("ns".to_owned()), None, Some(format!("metadata.name={name}")));
    assert_eq!(*asked.lock(), [named("p"), named("q")]);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_probed_again_and_the_worker_is_free_meanwhile() {
    let (guest, calls) = creator();
    let (reader, asked) = asked_by(|n| if n < 4 { Err(refusal(0)) } else { page(&[]) });
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(0))), reader);
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    fixture.add(&["b"]);
    fixture.idle(Duration::from_secs(3600)).await;
    let calls: Vec<_> = calls.lock().iter().map(|(at, key, _)| (*at, key.clone())).collect();
    assert_eq!(calls, [(0, "a".to_owned()), (100, "b".to_owned()), (350, "a".to_owned())]);
    assert_eq!(asked.lock().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_key_stays_held_while_the_api_server_does_not_answer() {
    let (guest, calls) = creator();
    let (reader, asked) = asked_by(|n| if n < 40 { Err(refusal(500)) } else { page(&[]) });
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(500))), reader);
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(times(&calls), [(0, 0)], "a key that runs now may create the object twice");
    assert_eq!(fixture.metric("pintle_stale_cache_wait_timeouts_total{plugin=\"widgets\"}"), 1);
    assert_eq!(fixture.metric("pintle_stale_cache_held_keys{plugin=\"widgets\"}"), 1);
    let n_asked = asked.lock().len();
    assert!((20..40).contains(&n_asked), "delays grow to 30 s: {n_asked}");
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(calls.lock().len(), 2);
    assert_eq!(fixture.metric("pintle_stale_cache_held_keys{plugin=\"widgets\"}"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_released_when_its_kind_is_gone() {
    let (guest, calls) = creator();
    let (reader, asked) = asked_by(|_| Err(refusal(404)));
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(500))), reader);
    fixture.server.state().version = 100;
    fixture.run_until_idle(&["a"]).await;
    assert_eq!((times(&calls), asked.lock().len()), (vec![(0, 0), (5, 1)], 1));
}

/// Creates the Pod `p` in its first call; the caches do not advance after version 100.
fn silent(reader: Arc<FakeServer>) -> (Fixture, Calls) {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i == 0 { creates(&["p"]) } else { done() });
    let fixture = Fixture::with_reader(guest, FakeWriter::agreeable(), reader);
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    (fixture, calls)
}

#[tokio::test(start_paused = true)]
async fn a_key_stays_held_while_the_caches_show_less_than_the_api_server() {
    let (reader, asked) = asked_by(|_| page(&[r#""name":"p","uid":"u","resourceVersion":"101""#]));
    let (fixture, calls) = silent(reader);
    tokio::time::sleep(Duration::from_millis(1)).await;
    // A change makes the key dirty while it is held.
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let n_watches = || fixture.controller.caches.stats()[0].watches;
    assert_eq!(n_watches(), 1, "the watch is opened again");
    tokio::time::sleep(Duration::from_secs(1770)).await;
    assert_eq!(times(&calls), [(0, 0)]);
    assert_eq!(fixture.metric("pintle_stale_cache_wait_timeouts_total{plugin=\"widgets\"}"), 1);
    assert_eq!(fixture.metric("pintle_stale_cache_held_keys{plugin=\"widgets\"}"), 1);
    let by_name = (Some("ns".to_owned()), None, Some("metadata.name=p".to_owned()));
    assert_eq!(asked.lock().first(), Some(&by_name));
    // After 30, 60, 120, 240, 480 s, and then every 300 s.
    assert_eq!(asked.lock().len(), 9);
    // Each time, the watch is reopened before the API server is asked.
    let requests = fixture.server.requests();
    assert_eq!(requests.iter().filter(|request| *request == "turn").count(), 9, "{requests:?}");
    let is_reopened = |two: &[String]| two[1] != "turn" || two[0].starts_with("watch");
    assert!(requests.windows(2).all(is_reopened), "{requests:?}");
    fixture.reach(101).await;
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(calls.lock().len(), 2);
    assert_eq!(fixture.metric("pintle_stale_cache_held_keys{plugin=\"widgets\"}"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_released_at_the_bound_if_the_api_server_shows_what_the_caches_show() {
    // The watch's selector leaves the object out, and so does the cache.
    let (reader, _) = asked_by(|_| Ok(ListPage { items: Vec::new(), resource_version: "100".into(), next: None }));
    let (fixture, calls) = silent(reader);
    tokio::time::sleep(Duration::from_millis(1)).await;
    fixture.add(&["a"]);
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(times(&calls), [(0, 0), (30_000, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_a_field_selector_may_leave_out_is_asked_about_at_once() {
    let running = manifest(|m| m["watches"][0]["fieldSelector"] = "status.phase=Running".into());
    let (guest, calls) = scripted(running, |i| if i == 0 { creates(&["p"]) } else { done() });
    let (reader, asked) = asked_by(|_| page(&[]));
    let fixture = Fixture::with_reader(guest, FakeWriter::agreeable(), reader);
    fixture.server.state().version = 100;
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    // The watch is at version 100, the list at 200.
    assert_eq!(asked.lock().len(), 1);
    fixture.add(&["a"]);
    fixture.reach(200).await;
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(times(&calls), [(0, 0), (1, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_live_read_ends_when_the_controller_stops() {
    let (guest, _) =
        scripted(manifest(|m| m["grants"] = serde_json::json!([{"verbs": ["get"], "kinds": ["v1/Pod"]}])), |_| {
            let need = Need::live_object(pod(), pintle_core::object::id::ObjectKey::new("ns", "p"));
            Ok(Ok(Outcome { needs: vec![need], ..Outcome::default() }))
        });
    let reader = FakeServer::answering(|_, _, _| page(&[]), |_, _| Err(refusal(429)));
    let fixture = Fixture::with_reader(guest, FakeWriter::agreeable(), reader);
    stops_at_once(&fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_the_server_ends_when_the_controller_stops() {
    let (guest, _) = scripted(manifest(|_| {}), |_| creates(&["p"]));
    let fixture = Fixture::new(guest, FakeWriter::new(|_, _| Err(refusal(429))));
    stops_at_once(&fixture).await;
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_answers() {
    let (guest, _) = creator();
    let (reader, _) = asked_by(|_| Err(refusal(0)));
    let fixture = Fixture::with_reader(guest, FakeWriter::new(|_, _| Err(refusal(0))), reader);
    stops_at_once(&fixture).await;
}

/// Stops the controller during the run of a key.
async fn stops_at_once(fixture: &Fixture) {
    fixture.start();
    fixture.add(&["a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    fixture.controller.stop().await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}
