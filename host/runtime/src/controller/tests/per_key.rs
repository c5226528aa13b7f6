//! Gauges with values per key.

use pintle_core::contract::outcome::{Action, Moment, Mutation, Observation};
use serde_json::{Value, json};

use super::*;

fn sizes(labels: &[&str]) -> Value {
    json!([{"name": "widget_sizes", "help": "Sizes.", "type": "gauge", "labels": labels, "per": "key"}])
}

fn declaring(change: impl FnOnce(&mut Value)) -> Arc<Manifest> {
    manifest(|m| {
        m["contract"] = "0.2".into();
        m["queues"] = json!([{"name": "widgets"}, {"name": "others"}]);
        m["metrics"] = sizes(&["color"]);
        change(m);
    })
}

fn sample((color, value): &(&str, f64)) -> Observation {
    Observation { metric: "widget_sizes".into(), labels: vec![(*color).into()], value: *value, at: Moment::Now }
}

/// An outcome with these observations.
fn observing(samples: &[(&str, f64)]) -> GuestResult {
    Ok(Ok(Outcome { observations: samples.iter().map(sample).collect(), ..Outcome::default() }))
}

/// The series, as `label=value`.
fn series(fixture: &Fixture) -> String {
    fixture.controller.refresh_metrics();
    let text = fixture.metrics.text();
    let mut lines: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("widget_sizes{"))
        .map(|line| line.replace("color=", "").replace(['"', '}'], "").replace(' ', "="))
        .collect();
    lines.sort();
    lines.join(" ")
}

/// A guest with a script per key and run; the last entry applies to all later runs.
fn by_key(manifest: Arc<Manifest>, script: impl Fn(&str, usize) -> GuestResult + Send + Sync + 'static) -> FakeGuest {
    let runs = Mutex::new(HashMap::<String, usize>::new());
    FakeGuest::new(manifest, move |key, _| {
        let mut runs = runs.lock();
        let n = runs.entry(key.object.name.to_string()).or_default();
        *n += 1;
        script(&key.object.name, *n - 1)
    })
}

impl Fixture {
    async fn again(&self, names: &[&str]) -> String {
        self.add(names);
        self.idle(Duration::ZERO).await;
        series(self)
    }
}

#[tokio::test(start_paused = true)]
async fn a_series_is_the_sum_of_its_keys_and_goes_with_the_last_one() {
    let guest = by_key(declaring(|_| {}), |key, n| match (key, n) {
        ("a", 0) => observing(&[("red", 1.0), ("blue", 5.0), ("red", 2.0)]),
        ("a", 1) => observing(&[("red", 0.1)]),
        ("b", 0) => observing(&[("red", 0.2)]),
        _ => observing(&[]),
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    assert_eq!(series(&fixture), "blue=5.0 red=2.0", "of two samples of a series, the last one counts");
    assert_eq!(fixture.again(&["b"]).await, "blue=5.0 red=2.2");
    let sum = fixture.again(&["a"]).await;
    assert!(sum.starts_with("red=0.3") && !sum.contains(' '), "what is not observed is gone: {sum}");
    assert_eq!(fixture.again(&["b"]).await, "red=0.1", "no rest of a sum stays");
    assert_eq!(fixture.again(&["a"]).await, "", "an object that is gone observes nothing");
    assert_eq!(fixture.metric("pintle_plugin_held_bytes{plugin=\"widgets\"}"), 0);
}

#[tokio::test(start_paused = true)]
async fn errors_faults_and_denied_writes_keep_the_values_and_refused_writes_replace_them() {
    let with = |write: Mutation, value: f64| {
        let steps = vec![step(Order::Sequential, vec![write])];
        Ok(Ok(Outcome { steps, observations: vec![sample(&("red", value))], ..Outcome::default() }))
    };
    let denied = || {
        let mut create = create("p");
        if let Action::Create { kind, .. } = &mut create.action {
            *kind = Kind::new("", "v1", "Secret");
        }
        create
    };
    let only_pods = declaring(|m| m["grants"] = json!([{"verbs": ["create"], "kinds": ["v1/Pod"]}]));
    let (guest, calls) = scripted(only_pods, move |i| match i {
        0 => observing(&[("red", 1.0)]),
        1 => Ok(Err(ReconcileError::Terminal("never".into()))),
        2 => Ok(Err(ReconcileError::Retry { message: "later".into(), after: Some(Duration::from_secs(7200)) })),
        3 => Err(PluginFault { kind: FaultKind::Trap, message: "unreachable".into() }),
        4 => with(denied(), 2.0),
        5 => with(create("p"), 3.0),
        _ => observing(&[]),
    });
    let fixture = Fixture::new(guest, FakeWriter::new(|_, _| Err(refusal(500))));
    fixture.start();
    for (i, expected) in ["red=1.0", "red=1.0", "red=1.0", "red=1.0", "red=1.0", "red=3.0"].into_iter().enumerate() {
        fixture.add(&["a"]);
        until("the next run", || calls.lock().len() > i).await;
        tokio::time::sleep(Duration::from_micros(100)).await;
        assert_eq!(series(&fixture), expected, "run {i}");
    }
    fixture.idle(Duration::from_secs(3600)).await;
    assert_eq!(series(&fixture), "");
}

#[tokio::test(start_paused = true)]
async fn series_of_keys_are_bounded_by_the_limit_and_room_is_given_back() {
    let colors = |from: usize, n: usize| -> Vec<String> { (from..from + n).map(|i| format!("c{i:02}")).collect() };
    let observing = |colors: Vec<String>| {
        let samples: Vec<(&str, f64)> = colors.iter().map(|color| (color.as_str(), 1.0)).collect();
        observing(&samples)
    };
    let limited = declaring(|m| m["limits"] = json!({"series": 10}));
    let guest = by_key(limited, move |key, n| match (key, n) {
        ("a", 0) => observing(colors(0, 10)),
        ("b", 0) => observing(colors(5, 10)),
        ("a", 1) => observing(colors(20, 3)),
        ("b", 1) => observing(colors(5, 10)),
        _ => observing(Vec::new()),
    });
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    let n_series = || series(&fixture).split_whitespace().count();
    let n_dropped = || fixture.metric("pintle_dropped_samples_total{plugin=\"widgets\"}");
    fixture.run_until_idle(&["a"]).await;
    assert_eq!((n_series(), n_dropped()), (10, 0), "as many as the limit");
    fixture.again(&["b"]).await;
    assert_eq!((n_series(), n_dropped()), (10, 5), "no more than the limit, but those that are there already");
    fixture.again(&["a"]).await;
    assert_eq!((n_series(), n_dropped()), (8, 5), "5 of b, 3 of a: a gave back what it had alone");
    fixture.again(&["b"]).await;
    assert_eq!((n_series(), n_dropped()), (10, 8));
    assert_eq!(fixture.again(&["a", "b"]).await, "");
}

#[tokio::test(start_paused = true)]
async fn values_of_keys_are_bytes_of_the_plugins_account() {
    let guest = by_key(declaring(|_| {}), |_, n| observing(if n == 0 { &[("red", 1.0)] } else { &[] }));
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a", "b"]).await;
    let held = || fixture.metric("pintle_plugin_held_bytes{plugin=\"widgets\"}");
    let both = held();
    assert!(both > 512, "{both}");
    assert_eq!(series(&fixture), "red=2.0");
    // Without room, a key has no values.
    let account = fixture.controller.held.clone();
    let mut rest = account.open();
    assert!(rest.grow(account.max_bytes() - account.n_bytes()));
    fixture.again(&["c"]).await;
    assert_eq!(series(&fixture), "red=2.0");
    assert_eq!(fixture.metric("pintle_dropped_samples_total{plugin=\"widgets\"}"), 1);
    drop(rest);
    fixture.again(&["a", "b"]).await;
    assert_eq!((held(), series(&fixture)), (0, String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_swap_keeps_values_of_equal_labels_and_of_queues_that_stay() {
    let observe = |manifest: Arc<Manifest>| by_key(manifest, |_, _| observing(&[("red", 1.0)]));
    let fixture = Fixture::new(observe(declaring(|_| {})), FakeWriter::agreeable());
    fixture.run_until_idle(&["a"]).await;
    let in_other_queue = Key { queue: "others".into(), ..key("a") };
    fixture.controller.enqueue(vec![in_other_queue], Priority::Normal);
    fixture.idle(Duration::ZERO).await;
    assert_eq!(series(&fixture), "red=2.0");
    let silent = |change: fn(&mut Value)| {
        FakeGuest::new(declaring(change), |_, _| Ok(Err(ReconcileError::Terminal("keeps its values".into()))))
    };
    fixture.swap(silent(|m| m["metrics"][0]["help"] = "Other words.".into())).await;
    assert_eq!(series(&fixture), "red=2.0");
    fixture.swap(silent(|m| m["queues"] = json!([{"name": "widgets"}]))).await;
    assert_eq!(series(&fixture), "red=1.0", "the values of a queue go with it");
    fixture.swap(silent(|m| m["metrics"] = sizes(&["size"]))).await;
    fixture.controller.refresh_metrics();
    assert!(!fixture.metrics.text().contains("widget_sizes{"), "another label is another metric");
    fixture.swap(silent(|_| {})).await;
    assert_eq!(series(&fixture), "", "what another version dropped does not come back");
}

#[tokio::test(start_paused = true)]
async fn values_of_keys_end_with_the_term() {
    let guest = by_key(declaring(|_| {}), |_, _| observing(&[("red", 1.0)]));
    let fixture = Fixture::new(guest, FakeWriter::agreeable());
    fixture.run_until_idle(&["a", "b"]).await;
    assert_eq!(series(&fixture), "red=2.0");
    fixture.controller.stand_by().await;
    assert_eq!(series(&fixture), "", "another host reports them");
    fixture.controller.lead();
    assert_eq!(fixture.again(&["a"]).await, "red=1.0");
}
