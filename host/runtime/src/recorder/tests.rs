use expect_test::expect;

use super::*;
use crate::metrics::{EventMetrics, Metrics};
use pintle_core::object::id::ObjectKey;
use pintle_testing::{FakeWriter, event, refusal, wall_clock};

/// The metrics, and a handle that keeps the series.
type Kept = (Arc<Metrics>, EventMetrics);

fn start(api: Arc<FakeWriter>) -> (Recorder, tokio::task::JoinHandle<()>, Kept) {
    start_counting(api, &Account::new(1 << 20))
}

fn start_counting(api: Arc<FakeWriter>, account: &Arc<Account>) -> (Recorder, tokio::task::JoinHandle<()>, Kept) {
    let metrics = Metrics::new();
    let config = RecorderConfig {
        component: "replicaset-controller".into(),
        clock: wall_clock(),
        seed: 1,
        idle_signal: Arc::default(),
        account: account.clone(),
    };
    let events = metrics.events("widgets");
    let (recorder, task) = Recorder::start(api, config, events.clone());
    (recorder, task, (metrics, events))
}

fn events_metric((metrics, _): &Kept, result: &str) -> u64 {
    let line = format!("pintle_events_total{{plugin=\"widgets\",result=\"{result}\"}} ");
    metrics.text().lines().find_map(|other| other.strip_prefix(&line)).map_or(0, |value| value.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_event_looks_as_client_go_writes_it() {
    let api = FakeWriter::agreeable();
    let (recorder, task, _) = start(api.clone());
    recorder.record(event("Created pod: a-1"));
    drop(recorder);
    task.await.unwrap();
    assert_eq!(api.log(), ["create events ns/a.18fae27693b40000"]);
    expect![[r#"
        {
          "apiVersion": "v1",
          "kind": "Event",
          "metadata": {
            "name": "a.18fae27693b40000",
            "namespace": "ns"
          },
          "involvedObject": {
            "kind": "Pod",
            "name": "a",
            "apiVersion": "v1",
            "namespace": "ns",
            "uid": "uid-a"
          },
          "reason": "Tested",
          "message": "Created pod: a-1",
          "source": {
            "component": "replicaset-controller"
          },
          "firstTimestamp": "2027-01-15T08:00:00Z",
          "lastTimestamp": "2027-01-15T08:00:00Z",
          "count": 1,
          "type": "Normal",
          "reportingComponent": "replicaset-controller",
          "reportingInstance": ""
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&api.bodies()[0]).unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_waits_in_the_queue_is_short_and_counted() {
    let api = FakeWriter::agreeable();
    let account = Account::new(10 << 20);
    let (recorder, task, metrics) = start_counting(api.clone(), &account);
    let long = "x".repeat(1 << 20);
    for _ in 0..3 {
        recorder.record(event(&long));
    }
    let (of_message, counted) = (3 * 1024, account.n_bytes());
    assert!((of_message..of_message + 3 * 64).contains(&counted), "{counted}");
    // No object can have such a name, kind or uid.
    recorder.record(Event { regarding: ObjectKey::new("ns", &long), ..event("m") });
    recorder.record(Event { regarding_kind: Kind::new("", &long, "Pod"), ..event("m") });
    recorder.record(Event { regarding_uid: long, ..event("m") });
    assert_eq!((account.n_bytes(), events_metric(&metrics, "dropped")), (counted, 3));
    drop(recorder);
    task.await.unwrap();
    assert_eq!((account.n_bytes(), api.bodies()[0]["message"].as_str().unwrap().len()), (0, 1024));
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_patches_its_count() {
    let api = FakeWriter::agreeable();
    let (recorder, task, metrics) = start(api.clone());
    recorder.record(event("m"));
    tokio::time::advance(Duration::from_secs(5)).await;
    recorder.record(event("m"));
    drop(recorder);
    task.await.unwrap();
    assert_eq!(api.log()[1], "patch events ns/a.18fae27693b40000");
    expect![[r#"{"count":2,"lastTimestamp":"2027-01-15T08:00:05Z","message":"m"}"#]]
        .assert_eq(&api.bodies()[1].to_string());
    assert_eq!((events_metric(&metrics, "created"), events_metric(&metrics, "counted")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_created_again_with_its_count() {
    let api = FakeWriter::new(|line, _| if line.starts_with("patch") { Err(refusal(404)) } else { Ok(()) });
    let (recorder, task, _) = start(api.clone());
    recorder.record(event("m"));
    recorder.record(event("m"));
    drop(recorder);
    task.await.unwrap();
    assert_eq!(api.log().len(), 3);
    assert_eq!(api.bodies()[2]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_has_its_events_in_default() {
    let api = FakeWriter::agreeable();
    let (recorder, task, _) = start(api.clone());
    let mut node = event("m");
    node.regarding = pintle_core::object::id::ObjectKey::new("", "node-1");
    recorder.record(node);
    drop(recorder);
    task.await.unwrap();
    assert!(api.log()[0].starts_with("create events default/node-1."));
    assert_eq!(api.bodies()[0]["involvedObject"].get("namespace"), None);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_twelve_times() {
    let api = FakeWriter::new(|_, _| Err(refusal(0)));
    let (recorder, task, metrics) = start(api.clone());
    let started = Instant::now();
    recorder.record(event("m"));
    drop(recorder);
    task.await.unwrap();
    assert_eq!(api.log().len(), 12);
    assert!((100..=110).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    assert_eq!(events_metric(&metrics, "failed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_final() {
    // 429 contains a delay, after which the request is repeated, ten times.
    for (code, n_sent) in [(403, 1), (409, 1), (422, 1), (500, 1), (429, 11)] {
        let api = FakeWriter::new(move |_, _| Err(refusal(code)));
        let (recorder, task, _) = start(api.clone());
        recorder.record(event("m"));
        drop(recorder);
        task.await.unwrap();
        assert_eq!(api.log().len(), n_sent, "{code}");
    }
}

/// An earlier try may have succeeded although its answer was lost.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_there_already_after_an_answer_was_lost_is_done_with() {
    let n = AtomicUsize::new(0);
    let api = FakeWriter::new(move |_, _| match n.fetch_add(1, Ordering::Relaxed) {
        0 => Err(refusal(0)),
        _ => Err(ApiError { class: ApiErrorClass::AlreadyExists, reason: "AlreadyExists".into(), ..refusal(409) }),
    });
    let (recorder, task, _) = start(api.clone());
    recorder.record(event("m"));
    recorder.record(event("other"));
    drop(recorder);
    task.await.unwrap();
    assert_eq!(api.log().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_late_or_not_understood_is_asked_for_again() {
    for (class, code) in [(ApiErrorClass::Malformed, 0), (ApiErrorClass::Timeout, 0), (ApiErrorClass::Timeout, 504)] {
        let api = FakeWriter::new(move |_, _| Err(ApiError { class, code, ..refusal(0) }));
        let (recorder, task, _) = start(api.clone());
        recorder.record(event("m"));
        drop(recorder);
        task.await.unwrap();
        assert_eq!(api.log().len(), MAX_TRIES as usize, "{class:?} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_event_and_the_next_is_written() {
    let n = AtomicUsize::new(0);
    let api = FakeWriter::new(move |_, _| match n.fetch_add(1, Ordering::Relaxed) {
        0 => panic!("broken invariant"),
        _ => Ok(()),
    });
    let (recorder, task, metrics) = start(api.clone());
    recorder.record(event("m"));
    recorder.record(event("other"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(recorder.is_idle());
    drop(recorder);
    task.await.unwrap();
    assert_eq!((events_metric(&metrics, "failed"), events_metric(&metrics, "created")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_never_waits() {
    let api = FakeWriter::agreeable();
    api.paused.send_replace(true);
    let (recorder, task, metrics) = start(api.clone());
    for i in 0..QUEUE + 10 {
        recorder.record(event(&format!("m{i}")));
    }
    assert_eq!(events_metric(&metrics, "dropped"), 10);
    assert!(!recorder.is_idle());
    api.paused.send_replace(false);
    drop(recorder);
    task.await.unwrap();
    // The object's share: a burst of 25.
    assert_eq!((api.log().len(), events_metric(&metrics, "filtered")), (25, QUEUE as u64 - 25));
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_retries() {
    let api = FakeWriter::new(|_, _| Err(refusal(0)));
    let (recorder, task, _) = start(api.clone());
    let started = Instant::now();
    recorder.record(event("m"));
    tokio::task::yield_now().await;
    recorder.close();
    drop(recorder);
    task.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1) && api.log().len() <= 2);
}
