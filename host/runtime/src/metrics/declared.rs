//! Metrics that plugins declare in their manifests and feed with observations.
//!
//! Invariants:
//! 1. A metric has at most [`MAX_SERIES`] combinations of label values; observations of further ones are dropped.
//! 2. Two plugins (or two versions of one) may share a metric only with equal declarations.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::manifest::{Metric, MetricSource, MetricType};
use pintle_core::contract::outcome::Observation;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Maximum combinations of label values per metric.
const MAX_SERIES: usize = 1_000;
/// Longest label value in bytes; longer ones are cut.
const MAX_LABEL_BYTES: usize = 128;

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

#[derive(Debug)]
struct Declared {
    metric: Metric,
    series: Series,
    seen: Mutex<HashSet<Vec<String>>>,
}

/// A metric cannot be declared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeclaredError {
    #[error("metric {0:?} is declared by another plugin with another type, labels or buckets")]
    Differs(String),
    #[error("metric {0:?} has a name or label that Prometheus does not accept")]
    Name(String),
    #[error("metric {0:?} begins with a prefix of the host's own metrics")]
    Reserved(String),
}

/// All declared metrics of the host.
#[derive(Debug, Default)]
pub(crate) struct DeclaredRegistry {
    by_name: HashMap<String, Arc<Declared>>,
}

impl DeclaredRegistry {
    pub(crate) fn declare(
        &mut self,
        registry: &mut Registry,
        metrics: &[Metric],
    ) -> Result<DeclaredMetrics, DeclaredError> {
        for metric in metrics {
            check(metric)?;
            if let Some(known) = self.by_name.get(&metric.name).filter(|known| !alike(&known.metric, metric)) {
                return Err(DeclaredError::Differs(known.metric.name.clone()));
            }
        }
        let mut by_name = HashMap::new();
        for metric in metrics {
            let declared =
                self.by_name.entry(metric.name.clone()).or_insert_with(|| Arc::new(Declared::new(registry, metric)));
            by_name.insert(metric.name.clone(), declared.clone());
        }
        Ok(DeclaredMetrics { by_name })
    }
}

fn alike(a: &Metric, b: &Metric) -> bool {
    a.kind == b.kind && a.labels == b.labels && a.buckets == b.buckets && a.of == b.of
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
    if ["workqueue_", "controller_runtime_", "pintle_", "rest_client_"].iter().any(|own| metric.name.starts_with(own)) {
        return Err(DeclaredError::Reserved(metric.name.clone()));
    }
    Ok(())
}

impl Declared {
    fn new(registry: &mut Registry, metric: &Metric) -> Self {
        // The encoder adds the suffix of counters.
        let name = match metric.kind {
            MetricType::Counter => metric.name.strip_suffix("_total").unwrap_or(&metric.name),
            _ => &metric.name,
        };
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
        Self { metric: metric.clone(), series, seen: Mutex::new(HashSet::new()) }
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
            if !seen.contains(&values) {
                if seen.len() >= MAX_SERIES {
                    return false;
                }
                seen.insert(values);
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
    pub(crate) fn ran(&self, code: u16, took: Duration) {
        for declared in self.by_name.values().filter(|declared| declared.metric.of == MetricSource::Runs) {
            let value = if declared.metric.kind == MetricType::Histogram { took.as_secs_f64() } else { 1.0 };
            let labels = declared.metric.labels.iter().map(|_| code.to_string()).collect();
            declared.observe(&Observation { metric: declared.metric.name.clone(), labels, value });
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
        Observation { metric: metric.into(), labels: vec![color.into()], value }
    }

    #[test]
    fn observations_are_recorded_by_type() {
        let mut registry = Registry::default();
        let metrics = [
            metric(MetricType::Counter, "widgets_total"),
            metric(MetricType::Gauge, "widget_size"),
            metric(MetricType::Histogram, "widget_age"),
        ];
        let declared = DeclaredRegistry::default().declare(&mut registry, &metrics).unwrap();
        let dropped = declared.observe(&[
            observation("widgets_total", "red", 2.0),
            observation("widgets_total", "red", 1.5),
            observation("widget_size", "red", 4.0),
            observation("widget_size", "red", 3.0),
            observation("widget_age", "red", 1.5),
        ]);
        assert_eq!(dropped, 0);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
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
        let mut registry = Registry::default();
        let of_runs = |kind, name| Metric { labels: vec!["code".into()], of: MetricSource::Runs, ..metric(kind, name) };
        let metrics = [
            of_runs(MetricType::Counter, "syncs_total"),
            of_runs(MetricType::Histogram, "sync_seconds"),
            metric(MetricType::Counter, "others_total"),
        ];
        let declared = DeclaredRegistry::default().declare(&mut registry, &metrics).unwrap();
        declared.ran(200, Duration::from_millis(1500));
        declared.ran(200, Duration::from_millis(500));
        declared.ran(409, Duration::ZERO);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
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

    #[test]
    fn series_are_bounded() {
        let mut registry = Registry::default();
        let declared = DeclaredRegistry::default()
            .declare(&mut registry, &[metric(MetricType::Counter, "widgets_total")])
            .unwrap();
        let flood: Vec<_> = (0..MAX_SERIES + 5).map(|i| observation("widgets_total", &i.to_string(), 1.0)).collect();
        assert_eq!(declared.observe(&flood), 5);
        assert_eq!(declared.observe(&[observation("widgets_total", "0", 1.0)]), 0);
    }

    #[test]
    fn a_metric_has_one_shape() {
        let mut registry = Registry::default();
        let mut all = DeclaredRegistry::default();
        all.declare(&mut registry, &[metric(MetricType::Counter, "a_total")]).unwrap();
        all.declare(&mut registry, &[metric(MetricType::Counter, "a_total")]).unwrap();
        assert!(matches!(
            all.declare(&mut registry, &[metric(MetricType::Gauge, "a_total")]),
            Err(DeclaredError::Differs(_))
        ));
        assert!(matches!(all.declare(&mut registry, &[metric(MetricType::Gauge, "a b")]), Err(DeclaredError::Name(_))));
        assert!(matches!(
            all.declare(&mut registry, &[metric(MetricType::Gauge, "pintle_x")]),
            Err(DeclaredError::Reserved(_))
        ));
    }
}
