//! Metrics that plugins declare in their manifests and feed with observations.
//!
//! *Flow*: [`DeclaredRegistry::declare`] makes the metrics of a version; [`DeclaredMetrics::observe`] records what its runs
//! report; [`DeclaredRegistry::encode`] writes the metrics of all loaded versions.
//!
//! *Invariants*:
//! 1. A plugin has at most [`MAX_SERIES`] combinations of label values, whose text has at most [`MAX_TEXT_BYTES`];
//!    observations of further ones are dropped.
//! 2. A metric belongs to one plugin. Controllers that the binary carries may share one with equal declarations, as upstream's do.
//! 3. A metric ends with the last version that declares it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::manifest::{Metric, MetricSource, MetricType};
use pintle_core::contract::outcome::{Moment, Observation};
use pintle_core::serving::metrics::is_reserved;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Maximum combinations of label values per plugin, over all of its metrics.
const MAX_SERIES: usize = 2_000;
/// Maximum bytes of the text of a plugin's metrics.
const MAX_TEXT_BYTES: usize = 2 << 20;
/// Longest label value in bytes; longer ones are cut.
const MAX_LABEL_BYTES: usize = 128;
/// Bytes of a line beside the names and the label values: the value, quotes, commas, the suffix and the limit of a bucket.
const LINE_BYTES: usize = 64;

type Labels = Vec<(String, String)>;

#[derive(Clone, Debug)]
struct Buckets(Arc<[f64]>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

#[derive(Clone, Debug)]
enum Series {
    Counter(Family<Labels, Counter<f64, AtomicU64>>),
    Gauge(Family<Labels, Gauge<f64, AtomicU64>>),
    Histogram(Family<Labels, Histogram, Buckets>),
}

/// What the metrics of one plugin take.
#[derive(Debug, Default)]
struct Usage {
    n_series: AtomicUsize,
    text_bytes: AtomicUsize,
}

impl Usage {
    /// Takes room for a series; `false` if there is none.
    fn take(&self, text_bytes: usize) -> bool {
        let fits = |used: &AtomicUsize, more: usize, most: usize| {
            let add = |used: usize| used.checked_add(more).filter(|sum| *sum <= most);
            used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
        };
        if !fits(&self.n_series, 1, MAX_SERIES) {
            return false;
        }
        let is_taken = fits(&self.text_bytes, text_bytes, MAX_TEXT_BYTES);
        if !is_taken {
            self.n_series.fetch_sub(1, Ordering::Relaxed);
        }
        is_taken
    }

    fn give_back(&self, n_series: usize, text_bytes: usize) {
        self.n_series.fetch_sub(n_series, Ordering::Relaxed);
        self.text_bytes.fetch_sub(text_bytes, Ordering::Relaxed);
    }
}

/// A metric of a loaded version.
#[derive(Debug)]
struct Declared {
    metric: Metric,
    plugin: Arc<str>,
    is_shared: bool,
    series: Series,
    /// Has this metric alone.
    registry: Registry,
    seen: Mutex<Seen>,
    usage: Arc<Usage>,
}

#[derive(Debug, Default)]
struct Seen {
    values: HashSet<Vec<String>>,
    text_bytes: usize,
}

/// A metric cannot be declared. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeclaredError {
    #[error("metric {metric:?} is declared by plugin {plugin:?} already; begin the name with that of your plugin")]
    Taken { metric: String, plugin: Arc<str> },
    #[error("metric {0:?} has a name or label that Prometheus does not accept")]
    Name(String),
    #[error("metric {0:?} begins with a prefix of the host's own metrics")]
    Reserved(String),
}

/// All declared metrics of the host.
#[derive(Debug, Default)]
pub(crate) struct DeclaredRegistry {
    /// Versions of one plugin may declare a metric differently; of the loaded ones, the last is encoded.
    by_name: BTreeMap<String, Vec<Weak<Declared>>>,
    usage: HashMap<Arc<str>, Weak<Usage>>,
}

impl DeclaredRegistry {
    /// Declares the metrics of a version. `shares`: whether other plugins that share theirs may have the same metrics.
    ///
    /// # Errors
    /// [`DeclaredError`]; nothing was declared.
    pub(crate) fn declare(
        &mut self,
        plugin: &str,
        shares: bool,
        metrics: &[Metric],
    ) -> Result<DeclaredMetrics, DeclaredError> {
        self.forget_ended();
        for metric in metrics {
            check(metric)?;
            let taken = self
                .loaded(&metric.name)
                .find(|known| &*known.plugin != plugin && !(shares && known.is_shared && known.metric == *metric));
            if let Some(known) = taken {
                return Err(DeclaredError::Taken { metric: metric.name.clone(), plugin: known.plugin.clone() });
            }
        }
        let plugin: Arc<str> = plugin.into();
        let usage = self.usage.get(&plugin).and_then(Weak::upgrade).unwrap_or_default();
        self.usage.insert(plugin.clone(), Arc::downgrade(&usage));
        let mut by_name = HashMap::new();
        for metric in metrics {
            let known = self.loaded(&metric.name).find(|known| known.metric == *metric);
            let declared = known.unwrap_or_else(|| {
                let declared = Arc::new(Declared::new(&plugin, shares, metric, usage.clone()));
                self.by_name.entry(family(&metric.name).to_owned()).or_default().push(Arc::downgrade(&declared));
                declared
            });
            by_name.insert(metric.name.clone(), declared);
        }
        Ok(DeclaredMetrics { by_name })
    }

    /// Appends the metrics of all loaded versions, without an end marker.
    ///
    /// # Errors
    /// As the encoder's.
    pub(crate) fn encode(&self, out: &mut String) -> std::fmt::Result {
        for versions in self.by_name.values() {
            if let Some(declared) = versions.iter().rev().find_map(Weak::upgrade) {
                text::encode_registry(out, &declared.registry)?;
            }
        }
        Ok(())
    }

    fn loaded(&self, metric: &str) -> impl Iterator<Item = Arc<Declared>> {
        self.by_name.get(family(metric)).into_iter().flatten().filter_map(Weak::upgrade)
    }

    fn forget_ended(&mut self) {
        self.by_name.retain(|_, versions| {
            versions.retain(|declared| declared.strong_count() > 0);
            !versions.is_empty()
        });
        self.usage.retain(|_, usage| usage.strong_count() > 0);
    }
}

/// The name that the encoder uses: it adds the suffix of counters.
fn family(metric: &str) -> &str {
    metric.strip_suffix("_total").unwrap_or(metric)
}

fn check(metric: &Metric) -> Result<(), DeclaredError> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if !is_name(&metric.name) || !metric.labels.iter().all(|label| is_name(label) && label != "le") {
        return Err(DeclaredError::Name(metric.name.clone()));
    }
    if is_reserved(&metric.name) {
        return Err(DeclaredError::Reserved(metric.name.clone()));
    }
    Ok(())
}

impl Declared {
    fn new(plugin: &Arc<str>, is_shared: bool, metric: &Metric, usage: Arc<Usage>) -> Self {
        let name = match metric.kind {
            MetricType::Counter => family(&metric.name),
            _ => &metric.name,
        };
        let mut registry = Registry::default();
        let help = metric.help.trim_end_matches('.');
        let series = match metric.kind {
            MetricType::Counter => {
                let family = Family::default();
                registry.register(name, help, family.clone());
                Series::Counter(family)
            }
            MetricType::Gauge => {
                let family = Family::default();
                registry.register(name, help, family.clone());
                Series::Gauge(family)
            }
            MetricType::Histogram => {
                let family = Family::new_with_constructor(Buckets(metric.buckets.clone().into()));
                registry.register(name, help, family.clone());
                Series::Histogram(family)
            }
        };
        let (metric, plugin) = (metric.clone(), plugin.clone());
        Self { metric, plugin, is_shared, series, registry, seen: Mutex::default(), usage }
    }

    /// An upper bound of the text of a series.
    fn text_bytes(&self, values: &[String]) -> usize {
        let n_lines = match self.metric.kind {
            MetricType::Counter | MetricType::Gauge => 1,
            // Beside the buckets: that without a limit, the count and the sum.
            MetricType::Histogram => self.metric.buckets.len() + 3,
        };
        // The encoder escapes each byte of a value with one more at most.
        let labels = self.metric.labels.iter().zip(values).map(|(label, value)| label.len() + 2 * value.len() + 4);
        n_lines * (self.metric.name.len() + labels.sum::<usize>() + LINE_BYTES)
    }

    fn observe(&self, observation: &Observation) -> bool {
        let values: Vec<String> = observation
            .labels
            .iter()
            .map(|value| pintle_core::policy::correlator::cut(value, MAX_LABEL_BYTES).to_owned())
            .collect();
        let labels: Labels = self.metric.labels.iter().cloned().zip(values.iter().cloned()).collect();
        {
            let mut seen = self.seen.lock();
            if !seen.values.contains(&values) {
                let text_bytes = self.text_bytes(&values);
                if !self.usage.take(text_bytes) {
                    return false;
                }
                seen.text_bytes += text_bytes;
                seen.values.insert(values);
            }
        }
        match &self.series {
            // Counters only increase.
            Series::Counter(family) => drop(family.get_or_create(&labels).inc_by(observation.value.max(0.0))),
            Series::Gauge(family) => drop(family.get_or_create(&labels).set(observation.value)),
            Series::Histogram(family) => family.get_or_create(&labels).observe(observation.value),
        }
        true
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        let seen = self.seen.get_mut();
        self.usage.give_back(seen.values.len(), seen.text_bytes);
    }
}

/// The declared metrics of one plugin.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredMetrics {
    by_name: HashMap<String, Arc<Declared>>,
}

impl DeclaredMetrics {
    /// Records observations that were checked against the manifest; returns how many were dropped.
    pub(crate) fn observe(&self, observations: &[Observation]) -> usize {
        let taken = |observation: &&Observation| {
            self.by_name.get(&observation.metric).is_some_and(|declared| declared.observe(observation))
        };
        observations.len() - observations.iter().filter(taken).count()
    }

    /// Records a run in the metrics of runs.
    pub(crate) fn ran(&self, code: u16, labels: &[(String, String)], took: Duration) {
        for declared in self.by_name.values().filter(|declared| declared.metric.of == MetricSource::Runs) {
            let value = if declared.metric.kind == MetricType::Histogram { took.as_secs_f64() } else { 1.0 };
            let labels = declared.metric.labels.iter().map(|label| match label.as_str() {
                "code" => code.to_string(),
                "result" => {
                    if code == 200 {
                        "success".to_owned()
                    } else {
                        "error".to_owned()
                    }
                }
                name => {
                    labels.iter().find(|(ours, _)| ours == name).map(|(_, value)| value.clone()).unwrap_or_default()
                }
            });
            let (metric, labels) = (declared.metric.name.clone(), labels.collect());
            declared.observe(&Observation { metric, labels, value, at: Moment::Now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(kind: MetricType, name: &str) -> Metric {
        let buckets = if kind == MetricType::Histogram { vec![1.0, 2.0] } else { Vec::new() };
        let of = MetricSource::Observations;
        Metric { name: name.into(), help: "Help.".into(), kind, labels: vec!["color".into()], buckets, of }
    }

    fn observation(metric: &str, color: &str, value: f64) -> Observation {
        Observation { metric: metric.into(), labels: vec![color.into()], value, at: Moment::Now }
    }

    #[test]
    fn observations_are_recorded_by_type() {
        let mut all = DeclaredRegistry::default();
        let metrics = [
            metric(MetricType::Counter, "widgets_total"),
            metric(MetricType::Gauge, "widget_size"),
            metric(MetricType::Histogram, "widget_age"),
        ];
        let declared = all.declare("widgets", false, &metrics).unwrap();
        let dropped = declared.observe(&[
            observation("widgets_total", "red", 2.0),
            observation("widgets_total", "red", 1.5),
            observation("widget_size", "red", 4.0),
            observation("widget_size", "red", 3.0),
            observation("widget_age", "red", 1.5),
        ]);
        assert_eq!(dropped, 0);
        let text = text(&all);
        for line in [
            "widgets_total{color=\"red\"} 3.5",
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
            metric(MetricType::Counter, "others_total"),
        ];
        let declared = all.declare("widgets", false, &metrics).unwrap();
        declared.ran(200, &[], Duration::from_millis(1500));
        declared.ran(200, &[], Duration::from_millis(500));
        declared.ran(409, &[], Duration::ZERO);
        let text = text(&all);
        for line in [
            "syncs_total{code=\"200\"} 2.0",
            "syncs_total{code=\"409\"} 1.0",
            "sync_seconds_sum{code=\"200\"} 2.0",
            "sync_seconds_bucket{le=\"1.0\",code=\"200\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("others_total{"), "{text}");
    }

    fn text(all: &DeclaredRegistry) -> String {
        let mut text = String::new();
        all.encode(&mut text).unwrap();
        text
    }

    #[test]
    fn the_series_of_a_plugin_are_bounded() {
        let mut all = DeclaredRegistry::default();
        let metrics = [metric(MetricType::Counter, "widgets_total"), metric(MetricType::Gauge, "widget_size")];
        let declared = all.declare("widgets", false, &metrics).unwrap();
        let half = MAX_SERIES / 2;
        let of = |name: &str, n: usize| -> Vec<_> { (0..n).map(|i| observation(name, &i.to_string(), 1.0)).collect() };
        assert_eq!(declared.observe(&of("widgets_total", half)), 0);
        assert_eq!(declared.observe(&of("widget_size", half + 5)), 5);
        assert_eq!(declared.observe(&[observation("widgets_total", "0", 1.0)]), 0);
        // Another plugin has its own bound, and so has a version that is loaded after this one is gone.
        let other = all.declare("others", false, &[metric(MetricType::Counter, "others_total")]).unwrap();
        assert_eq!(other.observe(&of("others_total", MAX_SERIES + 1)), 1);
        drop(declared);
        let declared = all.declare("widgets", false, &metrics).unwrap();
        assert_eq!(declared.observe(&of("widgets_total", MAX_SERIES + 1)), 1);
    }

    #[test]
    fn versions_of_a_plugin_share_its_bound_and_one_that_ends_gives_its_part_back() {
        let mut all = DeclaredRegistry::default();
        let mut version = |name: &str| all.declare("widgets", false, &[metric(MetricType::Counter, name)]).unwrap();
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
        let metric = Metric { name: long("m"), help: "Help.".into(), kind, labels, buckets, of };
        let declared = all.declare("widgets", false, std::slice::from_ref(&metric)).unwrap();
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
        let old = all.declare("widgets", false, std::slice::from_ref(&counter)).unwrap();
        old.observe(&[observation("widgets_total", "red", 1.0)]);
        // The next version has another label, and another label value.
        let next = Metric { labels: vec!["size".into()], ..counter };
        let new = all.declare("widgets", false, std::slice::from_ref(&next)).unwrap();
        new.observe(&[observation("widgets_total", "small", 1.0)]);
        assert!(
            text(&all).contains("widgets_total{size=\"small\"}") && !text(&all).contains("color"),
            "{}",
            text(&all)
        );
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
            all.declare(plugin, shares, std::slice::from_ref(metric)).map_err(|why| why.to_string())
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
        let mut declare = |name: &str| all.declare("one", false, &[metric(MetricType::Gauge, name)]).unwrap_err();
        assert!(matches!(declare("a b"), DeclaredError::Name(_)));
        assert!(matches!(declare("pintle_x"), DeclaredError::Reserved(_)));
    }
}
