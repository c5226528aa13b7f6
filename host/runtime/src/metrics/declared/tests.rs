//! Bounds, owners and text of declared metrics.

use super::*;

fn metric(kind: MetricType, name: &str) -> Metric {
    let buckets = if kind == MetricType::Histogram { vec![1.0, 2.0] } else { Vec::new() };
    let of = MetricSource::Observations;
    Metric {
        name: name.into(),
        help: "Help.".into(),
        kind,
        labels: vec!["color".into()],
        buckets,
        of,
        queue: None,
        per: None,
    }
}

/// Maximum series of all metrics of a plugin with `limits()`.
const MAX_SERIES: usize = 2_000;
/// Maximum bytes of their text.
const MAX_TEXT_BYTES: usize = MAX_SERIES * SERIES_TEXT_BYTES;

fn limits() -> SeriesLimits {
    SeriesLimits { per_metric: MAX_SERIES, ..SeriesLimits::new(1_000) }
}

fn observation(metric: &str, color: &str, value: f64) -> Observation {
    Observation { metric: metric.into(), labels: vec![color.into()], value, at: Moment::Now }
}

#[test]
fn observations_are_recorded_by_type() {
    let mut all = DeclaredRegistry::default();
    let metrics = [
        metric(MetricType::Counter, "widgets_total"),
        metric(MetricType::Counter, "widget_changes"),
        metric(MetricType::Gauge, "widget_size"),
        metric(MetricType::Histogram, "widget_age"),
    ];
    let declared = all.declare("widgets", false, &metrics, limits()).unwrap();
    let dropped = declared.observe(&[
        observation("widgets_total", "red", 2.0),
        observation("widgets_total", "red", 1.5),
        observation("widget_changes", "red", 2.0),
        observation("widget_changes", "red", 2.5),
        observation("widget_size", "red", 4.0),
        observation("widget_size", "red", 3.0),
        observation("widget_age", "red", 1.5),
    ]);
    assert_eq!(dropped, 0);
    let text = text(&all);
    for line in [
        "widgets_total{color=\"red\"} 3.5",
        "# TYPE widget_changes unknown",
        "widget_changes{color=\"red\"} 4.5",
        "widget_size{color=\"red\"} 3.0",
        "widget_age_bucket{le=\"1.0\",color=\"red\"} 0",
        "widget_age_bucket{le=\"2.0\",color=\"red\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
}

#[test]
fn runs_are_counted_and_timed_by_code() {
    let mut all = DeclaredRegistry::default();
    let of_runs = |kind, name| Metric { labels: vec!["code".into()], of: MetricSource::Runs, ..metric(kind, name) };
    let metrics = [
        of_runs(MetricType::Counter, "syncs_total"),
        of_runs(MetricType::Histogram, "sync_seconds"),
        Metric { queue: Some("widgets".into()), ..of_runs(MetricType::Counter, "widget_syncs_total") },
        metric(MetricType::Counter, "others_total"),
    ];
    let declared = all.declare("widgets", false, &metrics, limits()).unwrap();
    declared.ran("widgets", 200, &[], Duration::from_millis(1500));
    declared.ran("widgets", 200, &[], Duration::from_millis(500));
    declared.ran("others", 409, &[], Duration::ZERO);
    let text = text(&all);
    for line in [
        "syncs_total{code=\"200\"} 2.0",
        "syncs_total{code=\"409\"} 1.0",
        "widget_syncs_total{code=\"200\"} 2.0",
        "sync_seconds_sum{code=\"200\"} 2.0",
        "sync_seconds_bucket{le=\"1.0\",code=\"200\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
    for absent in ["others_total{", "widget_syncs_total{code=\"409\"}"] {
        assert!(!text.contains(absent), "{text}");
    }
}

fn text(all: &DeclaredRegistry) -> String {
    let mut text = String::new();
    all.encode(&mut text).unwrap();
    text
}

/// Like the durations of job_job_controller.
#[test]
fn runs_have_labels_of_the_host_and_of_the_plugin_in_any_order() {
    let mut all = DeclaredRegistry::default();
    let labels = ["completion_mode", "result", "code", "action"].map(str::to_owned).into();
    let metric = Metric { labels, of: MetricSource::Runs, ..metric(MetricType::Histogram, "sync_seconds") };
    let declared = all.declare("widgets", false, std::slice::from_ref(&metric), limits()).unwrap();
    let ran = |code, labels: &[(&str, &str)]| {
        let labels: Vec<_> = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        declared.ran("widgets", code, &labels, Duration::from_millis(1500))
    };
    // A plugin cannot set the result of its run.
    assert_eq!(ran(200, &[("action", "tracking"), ("result", "forged"), ("completion_mode", "Indexed")]), 0);
    assert_eq!(ran(409, &[("code", "200"), ("unknown", "x")]), 0);
    let text = text(&all);
    for line in [
        "sync_seconds_bucket{le=\"2.0\",completion_mode=\"Indexed\",result=\"success\",code=\"200\",action=\"tracking\"} 1",
        "sync_seconds_sum{completion_mode=\"Indexed\",result=\"success\",code=\"200\",action=\"tracking\"} 1.5",
        "sync_seconds_count{completion_mode=\"\",result=\"error\",code=\"409\",action=\"\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_plugin_has_as_many_series_of_each_metric_as_its_limit_and_twice_as_many_in_all() {
    let mut all = DeclaredRegistry::default();
    let metrics = ["a_total", "b_total", "c_total"].map(|name| metric(MetricType::Counter, name));
    let declared = all.declare("widgets", false, &metrics, SeriesLimits::new(100)).unwrap();
    let of = |name: &str, n: usize| -> Vec<_> { (0..n).map(|i| observation(name, &i.to_string(), 1.0)).collect() };
    assert_eq!(declared.observe(&of("a_total", 100)), 0);
    assert_eq!(declared.observe(&of("a_total", 103)), 3, "those that are there go on");
    assert_eq!(declared.observe(&of("b_total", 60)), 0);
    assert_eq!(declared.observe(&of("c_total", 45)), 5);
    // The text is bounded as well: 1,048 bytes per series, of 200.
    drop(declared);
    let long = Metric { name: "m".repeat(128), labels: vec!["l".repeat(128); 8], ..metric(MetricType::Gauge, "") };
    let declared = all.declare("widgets", false, std::slice::from_ref(&long), SeriesLimits::new(100)).unwrap();
    let flood = (0..100).map(|i| Observation {
        metric: long.name.clone(),
        labels: vec![format!("{i:0>128}"); 8],
        value: 1.0,
        at: Moment::Now,
    });
    let n_dropped = declared.observe(&flood.collect::<Vec<_>>());
    assert!(
        n_dropped > 0 && n_dropped < 100 && text(&all).len() <= 200 * 1_048 + 1_024,
        "{n_dropped} {}",
        text(&all).len()
    );
}

#[test]
fn a_version_with_another_description_goes_on_with_the_values() {
    let mut all = DeclaredRegistry::default();
    let counter = metric(MetricType::Counter, "widgets_total");
    let old = all.declare("widgets", false, std::slice::from_ref(&counter), limits()).unwrap();
    old.observe(&[observation("widgets_total", "red", 1.0)]);
    let next = Metric { help: "Other words.".into(), ..counter };
    let new = all.declare("widgets", false, std::slice::from_ref(&next), limits()).unwrap();
    drop(old);
    new.observe(&[observation("widgets_total", "red", 1.0)]);
    let text = text(&all);
    assert!(text.contains("Other words") && text.contains("widgets_total{color=\"red\"} 2.0"), "{text}");
}

#[test]
fn plugins_do_not_share_sums_of_keys() {
    let mut all = DeclaredRegistry::default();
    let gauge = Metric { per: Some(pintle_core::contract::manifest::Per::Key), ..metric(MetricType::Gauge, "sizes") };
    let mut declare =
        |plugin: &str| all.declare(plugin, true, std::slice::from_ref(&gauge), limits()).map_err(|why| why.to_string());
    let _own = declare("one").unwrap();
    assert!(declare("one").is_ok());
    assert!(declare("two").unwrap_err().contains("is declared by plugin \"one\" already"));
}

#[test]
fn the_series_of_a_plugin_are_bounded() {
    let mut all = DeclaredRegistry::default();
    let metrics = [metric(MetricType::Counter, "widgets_total"), metric(MetricType::Gauge, "widget_size")];
    let declared = all.declare("widgets", false, &metrics, limits()).unwrap();
    let half = MAX_SERIES / 2;
    let of = |name: &str, n: usize| -> Vec<_> { (0..n).map(|i| observation(name, &i.to_string(), 1.0)).collect() };
    assert_eq!(declared.observe(&of("widgets_total", half)), 0);
    assert_eq!(declared.observe(&of("widget_size", half + 5)), 5);
    assert_eq!(declared.observe(&[observation("widgets_total", "0", 1.0)]), 0);
    // Another plugin has its own bound, and so has a version that is loaded after this one was dropped.
    let other = all.declare("others", false, &[metric(MetricType::Counter, "others_total")], limits()).unwrap();
    assert_eq!(other.observe(&of("others_total", MAX_SERIES + 1)), 1);
    drop(declared);
    let declared = all.declare("widgets", false, &metrics, limits()).unwrap();
    assert_eq!(declared.observe(&of("widgets_total", MAX_SERIES + 1)), 1);
}

#[test]
fn versions_of_a_plugin_share_its_bound_and_one_that_ends_gives_its_part_back() {
    let mut all = DeclaredRegistry::default();
    let mut version =
        |name: &str| all.declare("widgets", false, &[metric(MetricType::Counter, name)], limits()).unwrap();
    let (old, new) = (version("widgets_total"), version("gadgets_total"));
    let of = |name: &str, n: usize| -> Vec<_> { (0..n).map(|i| observation(name, &i.to_string(), 1.0)).collect() };
    assert_eq!(old.observe(&of("widgets_total", MAX_SERIES)), 0);
    assert_eq!(new.observe(&of("gadgets_total", 5)), 5);
    drop(old);
    assert_eq!(new.observe(&of("gadgets_total", MAX_SERIES + 5)), 5);
}

#[test]
fn the_text_of_a_plugins_metrics_is_bounded() {
    let mut all = DeclaredRegistry::default();
    let long = |letter: &str| letter.repeat(128);
    let labels: Vec<String> = ('a'..='p').map(|letter| long(&letter.to_string())).collect();
    let buckets = (0..64).map(f64::from).collect();
    let of = MetricSource::Observations;
    let kind = MetricType::Histogram;
    let metric = Metric { name: long("m"), help: "Help.".into(), kind, labels, buckets, of, queue: None, per: None };
    let declared = all.declare("widgets", false, std::slice::from_ref(&metric), limits()).unwrap();
    let flood: Vec<_> = (0..MAX_SERIES)
        .map(|i| Observation {
            metric: metric.name.clone(),
            labels: (0..16).map(|label| format!("{i:0>64}{}", "\"".repeat(64 - label % 2))).collect(),
            value: 1.0,
            at: Moment::Now,
        })
        .collect();
    let dropped = declared.observe(&flood);
    assert!(dropped > 0 && dropped < MAX_SERIES, "{dropped}");
    let n_bytes = text(&all).len();
    assert!(n_bytes > MAX_TEXT_BYTES / 2 && n_bytes <= MAX_TEXT_BYTES + 1024, "{n_bytes}");
}

#[test]
fn a_metric_ends_with_the_last_version_that_declares_it() {
    let mut all = DeclaredRegistry::default();
    let counter = metric(MetricType::Counter, "widgets_total");
    let old = all.declare("widgets", false, std::slice::from_ref(&counter), limits()).unwrap();
    old.observe(&[observation("widgets_total", "red", 1.0)]);
    // The next version has a different label and label value.
    let next = Metric { labels: vec!["size".into()], ..counter };
    let new = all.declare("widgets", false, std::slice::from_ref(&next), limits()).unwrap();
    new.observe(&[observation("widgets_total", "small", 1.0)]);
    assert!(text(&all).contains("widgets_total{size=\"small\"}") && !text(&all).contains("color"), "{}", text(&all));
    drop(new);
    assert!(text(&all).contains("widgets_total{color=\"red\"}"), "{}", text(&all));
    drop(old);
    assert_eq!(text(&all), "");
}

#[test]
fn a_metric_belongs_to_one_plugin() {
    let mut all = DeclaredRegistry::default();
    let counter = metric(MetricType::Counter, "a_total");
    let declare = |all: &mut DeclaredRegistry, plugin: &str, shares, metric: &Metric| {
        all.declare(plugin, shares, std::slice::from_ref(metric), limits()).map_err(|why| why.to_string())
    };
    let own = declare(&mut all, "one", true, &counter).unwrap();
    let taken = "metric \"a_total\" is declared by plugin \"one\" already; begin the name with that of your plugin";
    assert_eq!(declare(&mut all, "two", false, &counter).unwrap_err(), taken);
    let gauge = metric(MetricType::Gauge, "a_total");
    assert_eq!(declare(&mut all, "two", true, &gauge).unwrap_err(), taken);
    // Its counter would have the same name in the text.
    let gauge = metric(MetricType::Gauge, "a");
    assert!(declare(&mut all, "two", true, &gauge).is_err());
    let shared = declare(&mut all, "two", true, &counter).unwrap();
    own.observe(&[observation("a_total", "red", 1.0)]);
    shared.observe(&[observation("a_total", "red", 1.0)]);
    assert!(text(&all).contains("a_total{color=\"red\"} 2.0"), "{}", text(&all));
}

#[test]
fn names_of_metrics_are_checked() {
    let mut all = DeclaredRegistry::default();
    let mut declare = |name: &str| all.declare("one", false, &[metric(MetricType::Gauge, name)], limits()).unwrap_err();
    assert!(matches!(declare("a b"), DeclaredError::Name(_)));
    assert!(matches!(declare("pintle_x"), DeclaredError::Reserved(_)));
}
