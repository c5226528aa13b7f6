//! Results of a run for other keys: woken keys, samples that depend on writes, labels of its metrics.

use pintle_core::contract::outcome::{Action, Moment, Mutation, Observation, Place, Wake};

use super::*;

fn wakes(names: &[(&str, Option<u64>)]) -> GuestResult {
    let wake =
        |(name, after): &(&str, Option<u64>)| Wake { key: key_in(name), after: after.map(Duration::from_millis) };
    Ok(Ok(Outcome { wake: names.iter().map(wake).collect(), ..Outcome::default() }))
}

fn calls_of(calls: &Calls) -> Vec<String> {
    calls.lock().iter().map(|(at, name, _)| format!("{at}:{name}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_wakes_other_keys_at_once_and_later_each_once() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| {
        if i == 0 { wakes(&[("b", None), ("c", Some(2_000)), ("c", Some(1_000)), ("b", None)]) } else { done() }
    });
    Fixture::new(guest, FakeWriter::agreeable()).run_until_idle(&["a"]).await;
    assert_eq!(calls_of(&calls), ["0:a", "0:b", "1000:c"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_wakes_itself_leaves_a_pause() {
    let (guest, calls) = scripted(manifest(|_| {}), |i| if i < 2 { wakes(&[("a", None)]) } else { done() });
    Fixture::new(guest, FakeWriter::agreeable()).run_until_idle(&["a"]).await;
    assert_eq!(calls_of(&calls), ["0:a", "5:a", "10:a"]);
}

#[tokio::test(start_paused = true)]
async fn keys_are_woken_before_the_writes_and_not_by_an_outcome_with_a_denied_write() {
    let outcome = |name: &str, write: Mutation| {
        let steps = vec![step(Order::Sequential, vec![write])];
        Ok(Ok(Outcome { steps, wake: vec![Wake { key: key(name), after: None }], ..Outcome::default() }))
    };
    let refused = |name: &str| {
        let mut create = create(name);
        if let Action::Create { kind, .. } = &mut create.action {
            *kind = Kind::new("", "v1", "Secret");
        }
        create
    };
    let only_pods = manifest(|m| {
        m["grants"] = serde_json::json!([{"verbs": ["create"], "kinds": ["v1/Pod"]}]);
    });
    let (guest, calls) = scripted(only_pods, move |i| match i {
        0 => outcome("woken", create("p")),
        2 => outcome("not-woken", refused("s")),
        _ => done(),
    });
    let fixture = Fixture::new(guest, FakeWriter::new(|_, _| Err(refusal(500))));
    fixture.start();
    fixture.add(&["a"]);
    until("a run of the woken key", || calls.lock().len() >= 2).await;
    assert_eq!(calls_of(&calls)[..2], ["0:a", "0:woken"]);
    fixture.idle(Duration::from_secs(3600)).await;
    assert!(calls_of(&calls).iter().all(|call| !call.ends_with(":not-woken")), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_that_a_plugin_invents_are_bounded() {
    // Each run invents other keys.
    let (guest, calls) = scripted(manifest(|_| {}), |i| {
        let names: Vec<String> = (0..50).map(|j| format!("k{i}-{j}")).collect();
        let names: Vec<(&str, Option<u64>)> = names.iter().map(|name| (name.as_str(), Some(3_600_000))).collect();
        wakes(&names)
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.start();
    fixture.add(&["a", "b", "c"]);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(calls.lock().len(), 3);
    let faults = fixture.metric("pintle_plugin_faults_total{plugin=\"widgets\",kind=\"output\"}");
    assert_eq!(faults, 1, "the third finds more entries than there may be");
    let why = fixture.controller.status().last_error.unwrap_or_default();
    assert!(why.contains("the plugin has invented too many keys"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn samples_count_when_their_write_is_done_or_has_failed() {
    let manifest = manifest(|m| {
        m["contract"] = "0.2".into();
        m["metrics"] = serde_json::json!([
            {"name": "widgets_total", "help": "H.", "type": "counter", "labels": ["what"]},
            {"name": "widgets_runs_total", "help": "H.", "type": "counter", "of": "runs", "labels": ["action", "result"]},
        ]);
    });
    let sample =
        |what: &str, at| Observation { metric: "widgets_total".into(), labels: vec![what.into()], value: 1.0, at };
    let place = |position| Place { step: 0, position };
    let (guest, _) = scripted(manifest, move |i| {
        if i > 1 {
            return done();
        }
        let observations = vec![
            sample("now", Moment::Now),
            sample("first done", Moment::Done(place(0))),
            sample("first failed", Moment::Failed(place(0))),
            sample("second done", Moment::Done(place(1))),
            sample("second failed", Moment::Failed(place(1))),
            sample("third failed", Moment::Failed(place(2))),
        ];
        let names = ["p", "q", "r"].map(create);
        let steps = vec![step(Order::Sequential, names.into())];
        let run_labels = vec![("action".to_owned(), "tried".to_owned())];
        Ok(Ok(Outcome { steps, observations, run_labels, ..Outcome::default() }))
    });
    // The second create fails in the first run only.
    let n_sent = AtomicUsize::new(0);
    let writer = FakeWriter::new(move |_, _| match n_sent.fetch_add(1, Ordering::Relaxed) {
        1 => Err(refusal(500)),
        _ => Ok(()),
    });
    let fixture = Fixture::new(guest, writer);
    fixture.run_until_idle(&["a"]).await;
    let count = |what: &str| fixture.metrics.text().contains(&format!("widgets_total{{what=\"{what}\"}} "));
    let text = fixture.metrics.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("widgets_")).collect();
    assert!(!count("first failed"), "{lines:#?}");
    for line in [
        r#"widgets_total{what="now"} 2.0"#,
        r#"widgets_total{what="first done"} 2.0"#,
        r#"widgets_total{what="second done"} 1.0"#,
        r#"widgets_total{what="second failed"} 1.0"#,
        r#"widgets_total{what="third failed"} 1.0"#,
        r#"widgets_runs_total{action="tried",result="error"} 1.0"#,
        r#"widgets_runs_total{action="tried",result="success"} 1.0"#,
    ] {
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_see_how_long_the_host_runs() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let guest = FakeGuest::new(manifest(|_| {}), move |_, view| {
        log.lock().push(view.uptime());
        done()
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    fixture.add(&["a"]);
    fixture.idle(Duration::ZERO).await;
    let seen = seen.lock().clone();
    assert_eq!(seen[1] - seen[0], Duration::from_secs(90), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn the_tick_key_of_contract_0_2_is_that_of_no_object() {
    let manifest = manifest(|m| {
        m["contract"] = "0.2".into();
        m["queues"][0]["tickMs"] = 10_000.into();
    });
    let keys = Arc::new(Mutex::new(Vec::new()));
    let log = keys.clone();
    let guest = FakeGuest::new(manifest, move |key, _| {
        log.lock().push(key.to_string());
        done()
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.start();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*keys.lock(), ["pintle/v1/Tick widgets"]);
}
