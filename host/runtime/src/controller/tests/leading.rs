use pintle_core::lifecycle::Phase;

use super::*;

/// Two cached objects, each its own key, and a plugin with a scripted action per call.
fn standing_by(script: impl Fn(usize) -> GuestResult + Send + Sync + 'static) -> (Fixture, Calls) {
    let manifest = manifest(|m| m["queues"][0]["tickMs"] = 60_000.into());
    let (guest, calls) = scripted(manifest, script);
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.put(&["a", "b"]);
    fixture.controller.begin_on_standby();
    fixture.start();
    (fixture, calls)
}

fn names(calls: &Calls) -> Vec<String> {
    calls.lock().iter().map(|(_, name, _)| name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn on_standby_nothing_runs_and_a_term_begins_with_every_object() {
    let (fixture, calls) = standing_by(|_| done());
    fixture.add(&["x"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!((names(&calls), fixture.controller.status().phase), (Vec::new(), Phase::Standby));
    assert_eq!(fixture.controller.counters().problem, None, "that is how it should be");
    assert_eq!(fixture.metric("workqueue_adds_total{name=\"widgets\"}"), 0, "nothing waits, ticks included");
    let runs = || fixture.metric("running_managed_controllers{name=\"widgets\",manager=\"pintle\"}");
    assert_eq!(runs(), 0);
    let start = Instant::now();
    fixture.controller.lead();
    until("runs", || calls.lock().len() == 3).await;
    assert!(start.elapsed() <= Duration::from_millis(20), "at once");
    let mut all = names(&calls);
    all.sort();
    assert_eq!(
        (all, fixture.controller.status().phase),
        (vec!["a".into(), "b".into(), "widgets".into()], Phase::Running)
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(names(&calls).len(), 4, "the tick");
    assert_eq!(runs(), 1);
    fixture.controller.disable("a test");
    assert_eq!(runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_term_waits_for_runs_in_flight_and_forgets_all_keys() {
    let (fixture, calls) = standing_by(|i| if i == 0 { creates(&["p"]) } else { retry(None) });
    fixture.api.paused.send_replace(true);
    fixture.controller.lead();
    until("a write", || !fixture.api.log().is_empty()).await;
    let n_calls = calls.lock().len();
    let ended = tokio::spawn({
        let controller = fixture.controller.clone();
        async move { controller.stand_by().await }
    });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!ended.is_finished(), "a write is in flight");
    assert_eq!(calls.lock().len(), n_calls, "no run starts");
    fixture.api.paused.send_replace(false);
    ended.await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(calls.lock().len(), n_calls, "no retry is left");
    let queues = fixture.controller.status().queues;
    assert!(
        queues.iter().all(|queue| queue.n_dirty + queue.n_waiting + queue.n_running + queue.n_held == 0),
        "{queues:?}"
    );
    // The next term starts without earlier failures.
    fixture.controller.lead();
    until("runs", || calls.lock().len() >= n_calls + 3).await;
    assert!(calls.lock()[n_calls..n_calls + 3].iter().all(|(_, _, attempt)| *attempt == 0), "{:?}", calls.lock());
}

#[tokio::test(start_paused = true)]
async fn the_state_of_a_plugin_ends_with_the_term() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |_, view| {
        log.lock().push(view.state("n"));
        Ok(Ok(Outcome { state: vec![("n".into(), Some("1".into()))], ..Outcome::default() }))
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    fixture.add(&["a"]);
    fixture.idle(Duration::ZERO).await;
    fixture.controller.stand_by().await;
    fixture.controller.lead();
    fixture.add(&["a"]);
    fixture.idle(Duration::ZERO).await;
    let seen: Vec<Option<String>> = seen.lock().iter().map(|value| value.as_deref().map(str::to_owned)).collect();
    assert_eq!(seen, [None, Some("1".to_owned()), None]);
}
