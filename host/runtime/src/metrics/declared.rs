//! Metrics that plugins declare in their manifests and feed with observations.
//!
//! *Flow*: [`DeclaredRegistry::declare`] creates the metrics of a version; [`DeclaredMetrics::observe`] records the
//! observations of its runs; [`DeclaredRegistry::encode`] writes the metrics of all loaded versions.
//!
//! *Invariants*:
//! 1. The combinations of label values of a plugin, and their text, are bounded ([`SeriesLimits`]); observations with
//!    further combinations are dropped.
//! 2. A metric belongs to one plugin. Built-in controllers may share one with equal declarations, as upstream.
//! 3. A metric ends with the last version that declares it. Versions whose declarations differ only in the description
//!    share values.
//!
//! Not here: the values per key (`per_key`), whose sum is a series.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::manifest::{Metric, MetricSource, MetricType};
use pintle_core::contract::outcome::{Moment, Observation};
use pintle_core::text::cut;
use pintle_metrics::is_reserved;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType as Exposed, TypedMetric};
use prometheus_client::registry::Registry;

/// Average bytes of text per series.
const SERIES_TEXT_BYTES: usize = 1_048;
/// Maximum bytes of a label value; longer ones are truncated.
const MAX_LABEL_BYTES: usize = 128;
/// Bytes of a line in addition to names and label values: the value, quotes, commas, the suffix and the bucket limit.
const LINE_BYTES: usize = 64;

type Labels = Vec<(String, String)>;

#[derive(Clone, Debug)]
struct Buckets(Arc<[f64]>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Limits for the metrics of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesLimits {
    /// Maximum combinations of label values per metric.
    per_metric: usize,
    /// Maximum combinations of all metrics in total.
    in_all: usize,
    /// Maximum bytes of the text of all metrics.
    text_bytes: usize,
}

impl SeriesLimits {
    /// `n_series`: the limit `series` of the version.
    pub(crate) fn new(n_series: u32) -> Self {
        let per_metric = n_series as usize;
        let in_all = per_metric.saturating_mul(2);
        Self { per_metric, in_all, text_bytes: in_all.saturating_mul(SERIES_TEXT_BYTES) }
    }
}

/// A counter without the suffix `_total`, as upstream has some. OpenMetrics has no such counters: its type is unknown.
#[derive(Clone, Debug, Default)]
struct Unsuffixed(Counter<f64, AtomicU64>);

impl TypedMetric for Unsuffixed {
    const TYPE: Exposed = Exposed::Unknown;
}

impl EncodeMetric for Unsuffixed {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> Exposed {
        Self::TYPE
    }
}

#[derive(Clone, Debug)]
enum Series {
    Counter(Family<Labels, Counter<f64, AtomicU64>>),
    Unsuffixed(Family<Labels, Unsuffixed>),
    Gauge(Family<Labels, Gauge<f64, AtomicU64>>),
    Histogram(Family<Labels, Histogram, Buckets>),
}

/// Resources used by the metrics of one plugin.
#[derive(Debug, Default)]
struct Usage {
    n_series: AtomicUsize,
    text_bytes: AtomicUsize,
}

impl Usage {
    /// Reserves room for a series; returns false if there is none.
    fn take(&self, text_bytes: usize, limits: &SeriesLimits) -> bool {
        let fits = |used: &AtomicUsize, more: usize, most: usize| {
            let add = |used: usize| used.checked_add(more).filter(|sum| *sum <= most);
            used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
        };
        if !fits(&self.n_series, 1, limits.in_all) {
            return false;
        }
        let is_taken = fits(&self.text_bytes, text_bytes, limits.text_bytes);
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
    values: Arc<Values>,
    /// Contains only this metric.
    registry: Registry,
}

/// The values of a metric, shared by versions with the same labels.
#[derive(Debug)]
struct Values {
    series: Series,
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
    /// Versions of one plugin may declare a metric differently; the declaration of the last loaded one is encoded.
    by_name: BTreeMap<String, Vec<Weak<Declared>>>,
    usage: HashMap<Arc<str>, Weak<Usage>>,
}

impl DeclaredRegistry {
    /// Declares the metrics of a version. `shares`: whether the metrics may be shared with other plugins that set it.
    ///
    /// # Errors
    /// [`DeclaredError`]; nothing was declared.
    pub(crate) fn declare(
        &mut self,
        plugin: &str,
        shares: bool,
        metrics: &[Metric],
        limits: SeriesLimits,
    ) -> Result<DeclaredMetrics, DeclaredError> {
        self.forget_ended();
        for metric in metrics {
            check(metric)?;
            let taken = self
                .loaded(&metric.name)
                .find(|known| &*known.plugin != plugin && !(shares && known.may_be_shared(metric)));
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
                let alike = self.loaded(&metric.name).find(|known| known.metric.measures_as(metric));
                let values = alike.map_or_else(|| Values::new(metric, usage.clone()), |known| known.values.clone());
                let declared = Arc::new(Declared::new(&plugin, shares, metric, values));
                self.by_name.entry(family(&metric.name).to_owned()).or_default().push(Arc::downgrade(&declared));
                declared
            });
            by_name.insert(metric.name.clone(), declared);
        }
        Ok(DeclaredMetrics { by_name, limits })
    }

    /// Appends the metrics of all loaded versions, without an end marker.
    ///
    /// # Errors
    /// If the encoder fails.
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

impl Values {
    fn new(metric: &Metric, usage: Arc<Usage>) -> Arc<Self> {
        let series = match metric.kind {
            MetricType::Counter if metric.name.ends_with("_total") => Series::Counter(Family::default()),
            MetricType::Counter => Series::Unsuffixed(Family::default()),
            MetricType::Gauge => Series::Gauge(Family::default()),
            MetricType::Histogram => {
                Series::Histogram(Family::new_with_constructor(Buckets(metric.buckets.clone().into())))
            }
        };
        Arc::new(Self { series, seen: Mutex::default(), usage })
    }
}

impl Declared {
    fn new(plugin: &Arc<str>, is_shared: bool, metric: &Metric, values: Arc<Values>) -> Self {
        let mut registry = Registry::default();
        let help = metric.help.trim_end_matches('.');
        match &values.series {
            Series::Counter(series) => registry.register(family(&metric.name), help, series.clone()),
            Series::Unsuffixed(series) => registry.register(&metric.name, help, series.clone()),
            Series::Gauge(series) => registry.register(&metric.name, help, series.clone()),
            Series::Histogram(series) => registry.register(&metric.name, help, series.clone()),
        }
        let (metric, plugin) = (metric.clone(), plugin.clone());
        Self { metric, plugin, is_shared, values, registry }
    }

    /// Whether another built-in plugin may have the same metric. A sum over keys belongs to one plugin.
    fn may_be_shared(&self, metric: &Metric) -> bool {
        self.is_shared && self.metric == *metric && metric.per.is_none()
    }

    /// Upper bound of the text size of a series.
    fn text_bytes(&self, values: &[String]) -> usize {
        let n_lines = match self.metric.kind {
            MetricType::Counter | MetricType::Gauge => 1,
            // In addition to the buckets: the bucket without a limit, the count and the sum.
            MetricType::Histogram => self.metric.buckets.len() + 3,
        };
        // The encoder adds at most one byte for each byte of a value.
        let labels = self.metric.labels.iter().zip(values).map(|(label, value)| label.len() + 2 * value.len() + 4);
        n_lines * (self.metric.name.len() + labels.sum::<usize>() + LINE_BYTES)
    }

    fn labels(&self, values: &[String]) -> Labels {
        self.metric.labels.iter().cloned().zip(values.iter().cloned()).collect()
    }

    /// Reserves room for a new series; returns false if there is none.
    fn reserve(&self, values: &[String], limits: &SeriesLimits) -> bool {
        let mut seen = self.values.seen.lock();
        if seen.values.contains(values) {
            return true;
        }
        let text_bytes = self.text_bytes(values);
        if seen.values.len() >= limits.per_metric || !self.values.usage.take(text_bytes, limits) {
            return false;
        }
        seen.text_bytes += text_bytes;
        seen.values.insert(values.to_vec());
        true
    }

    /// Ends a series.
    fn release(&self, values: &[String]) {
        let mut seen = self.values.seen.lock();
        if seen.values.remove(values) {
            let text_bytes = self.text_bytes(values);
            seen.text_bytes -= text_bytes;
            self.values.usage.give_back(1, text_bytes);
            if let Series::Gauge(family) = &self.values.series {
                family.remove(&self.labels(values));
            }
        }
    }

    fn observe(&self, observation: &Observation, limits: &SeriesLimits) -> bool {
        let values = cut_labels(&observation.labels);
        if !self.reserve(&values, limits) {
            return false;
        }
        let labels = self.labels(&values);
        match &self.values.series {
            // Counters only increase.
            Series::Counter(family) => drop(family.get_or_create(&labels).inc_by(observation.value.max(0.0))),
            Series::Unsuffixed(family) => drop(family.get_or_create(&labels).0.inc_by(observation.value.max(0.0))),
            Series::Gauge(family) => drop(family.get_or_create(&labels).set(observation.value)),
            Series::Histogram(family) => family.get_or_create(&labels).observe(observation.value),
        }
        true
    }
}

/// A series: a metric and the values of its labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesId {
    pub(super) metric: String,
    pub(super) labels: Vec<String>,
}

/// Values of labels, with at most [`MAX_LABEL_BYTES`] each.
pub(super) fn cut_labels(labels: &[String]) -> Vec<String> {
    labels.iter().map(|value| cut(value, MAX_LABEL_BYTES).to_owned()).collect()
}

impl Drop for Values {
    fn drop(&mut self) {
        let seen = self.seen.get_mut();
        self.usage.give_back(seen.values.len(), seen.text_bytes);
    }
}

/// The declared metrics of one plugin.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredMetrics {
    by_name: HashMap<String, Arc<Declared>>,
    limits: SeriesLimits,
}

impl DeclaredMetrics {
    /// Whether the samples of a metric are values of the run's key.
    pub(crate) fn is_per_key(&self, metric: &str) -> bool {
        self.by_name.get(metric).is_some_and(|declared| declared.metric.per.is_some())
    }

    /// Whether any metric has values per key.
    pub(crate) fn has_values_of_keys(&self) -> bool {
        self.by_name.values().any(|declared| declared.metric.per.is_some())
    }

    /// Whether a metric has the same values in both versions.
    pub(super) fn shares_values(&self, other: &Self, metric: &str) -> bool {
        let values = |of: &Self| of.by_name.get(metric).map(|declared| declared.values.clone());
        values(self).zip(values(other)).is_some_and(|(ours, theirs)| Arc::ptr_eq(&ours, &theirs))
    }

    /// Reserves room for a new series; returns false if there is none.
    pub(super) fn reserve(&self, series: &SeriesId) -> bool {
        self.by_name.get(&series.metric).is_some_and(|declared| declared.reserve(&series.labels, &self.limits))
    }

    /// Ends a series.
    pub(super) fn release(&self, series: &SeriesId) {
        if let Some(declared) = self.by_name.get(&series.metric) {
            declared.release(&series.labels);
        }
    }

    /// Sets a series that has reserved room.
    pub(super) fn set_sum(&self, series: &SeriesId, sum: f64) {
        if let Some(declared) = self.by_name.get(&series.metric)
            && let Series::Gauge(family) = &declared.values.series
        {
            family.get_or_create(&declared.labels(&series.labels)).set(sum);
        }
    }

    /// Records observations that were checked against the manifest; returns the number of dropped ones.
    pub(crate) fn observe(&self, observations: &[Observation]) -> usize {
        let taken = |observation: &&Observation| {
            self.by_name.get(&observation.metric).is_some_and(|declared| declared.observe(observation, &self.limits))
        };
        observations.len() - observations.iter().filter(taken).count()
    }

    /// Records a run of a queue in the metrics of runs; returns the number of dropped samples.
    pub(crate) fn ran(&self, queue: &str, code: u16, labels: &[(String, String)], took: Duration) -> usize {
        let mut n_dropped = 0;
        let is_about = |metric: &Metric| {
            metric.of == MetricSource::Runs && metric.queue.as_deref().is_none_or(|wanted| wanted == queue)
        };
        for declared in self.by_name.values().filter(|declared| is_about(&declared.metric)) {
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
            let sample = Observation { metric, labels, value, at: Moment::Now };
            n_dropped += usize::from(!declared.observe(&sample, &self.limits));
        }
        n_dropped
    }
}

#[cfg(test)]
mod tests;
