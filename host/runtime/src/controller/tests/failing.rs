//! Outcomes with an error: their writes are executed, but the run has failed.

use super::*;

fn failing(names: &[&str], error: ReconcileError) -> GuestResult {
    let mutations = names.iter().map(|name| create(name)).collect();
    Ok(Ok(Outcome { error: Some(error), ..steps(vec![step(Order::Sequential, mutations)]) }))
}

fn later(after: Option<Duration>) -> ReconcileError {
    ReconcileError::Retry { message: "not yet".into(), after }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_writes_and_backs_off() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| match i {
        0..3 => failing(&[["a", "b", "c"][i]], later(None)),
        _ => creates(&["d"]),
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["key"]).await;
    assert_eq!(times(&calls), [(0, 0), (5, 1), (15, 2), (35, 3)]);
    assert_eq!(fixture.api.log(), ["a", "b", "c", "d"].map(|name| format!("create pods ns/{name}")));
    let result = |result: &str| {
        fixture.metric(&format!("controller_runtime_reconcile_total{{controller=\"widgets\",result=\"{result}\"}}"))
    };
    assert_eq!((result("error"), result("success")), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_outcome_may_name_a_delay_and_a_requeue_comes_earlier() {
    let minute = Duration::from_secs(60);
    let (guest, calls) = scripted(manifest(|_| {}), move |i| {
        let requeue_after = Some(Duration::from_secs(1)).filter(|_| i == 1);
        let result = if i < 2 { failing(&[], later(Some(minute))) } else { return done() };
        result.map(|result| result.map(|outcome| Outcome { requeue_after, ..outcome }))
    });
    Fixture::new(guest, FakeWriter::agreeable()).run_until_idle(&["key"]).await;
    assert_eq!(times(&calls)[..3], [(0, 0), (60_000, 1), (61_000, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_of_an_outcome_waits_for_the_next_change() {
    let (guest, calls) = scripted(manifest(|_| {}), |_| failing(&["a"], ReconcileError::Terminal("never".into())));
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["key"]).await;
    assert_eq!((times(&calls), fixture.api.log().len()), (vec![(0, 0)], 1));
    assert_eq!(fixture.metric("pintle_dropped_keys_total{plugin=\"widgets\",reason=\"terminal\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_queued_is_not_dropped() {
    let errors = [("terminal", ReconcileError::Terminal("never".into())), ("max_retries", later(None))];
    for (reason, error) in errors {
        let (guest, calls) = scripted(manifest(|m| m["queues"][0]["maxRetries"] = 0.into()), move |i| {
            let requeue_after = Some(Duration::from_secs(60));
            let result = if i == 0 { failing(&[], error.clone()) } else { return done() };
            result.map(|result| result.map(|outcome| Outcome { requeue_after, ..outcome }))
        });
        let fixture = Fixture::new(guest, FakeWriter::agreeable());
        fixture.run_until_idle(&["key"]).await;
        assert_eq!(times(&calls), [(0, 0), (60_000, 0)]);
        let metric = format!("pintle_dropped_keys_total{{plugin=\"widgets\",reason=\"{reason}\"}}");
        assert_eq!(fixture.metric(&metric), 0, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_decides_about_the_retry() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| match i {
        0 => failing(&["a"], ReconcileError::Terminal("never".into())),
        _ => done(),
    });
    let api = FakeWriter::new(|line, _| if line.ends_with("/a") { Err(refusal(403)) } else { Ok(()) });
    Fixture::new(guest, api).run_until_idle(&["key"]).await;
    assert_eq!(times(&calls), [(0, 0), (5, 1)], "it is tried again, although the error is terminal");
}

#[tokio::test(start_paused = true)]
async fn failures_of_writes_are_those_of_the_last_outcome() {
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let noted = seen.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |_, view| {
        let mut seen = noted.lock();
        seen.push(view.failures().len());
        match seen.len() {
            1 => creates(&["a"]),
            2 => failing(&["b"], later(None)),
            _ => done(),
        }
    });
    let api = FakeWriter::new(|line, _| if line.ends_with("/a") { Err(refusal(403)) } else { Ok(()) });
    Fixture::new(guest, api).run_until_idle(&["key"]).await;
    assert_eq!(*seen.lock(), [0, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_is_one_event_about_the_object() {
    for (code, n_shown) in [(403, 1), (422, 1), (404, 0), (409, 0), (500, 0)] {
        let (guest, _) = scripted(manifest(|_| {}), |i| if i < 3 { creates(&["a"]) } else { done() });
        let fixture = Fixture::new(guest, FakeWriter::new(move |_, _| Err(refusal(code))));
        fixture.run_until_idle(&["key"]).await;
        let reasons = fixture.event_reasons();
        let n_events = reasons.iter().filter(|reason| *reason == "WriteRefused").count();
        assert_eq!(n_events, n_shown, "{code}: {reasons:?}");
    }
}
