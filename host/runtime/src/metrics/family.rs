//! Metrics with labels, created from the definitions in `pintle_metrics`.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use pintle_metrics::{MetricDef, MetricInfo, MetricKind};
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels<const N: usize> = [(&'static str, String); N];

pub(super) type Counters<const N: usize> = Vector<Counter, N>;
pub(super) type Gauges<const N: usize> = Vector<Gauge, N>;
pub(super) type Seconds<const N: usize> = Vector<Gauge<f64, AtomicU64>, N>;
pub(super) type Histograms<const N: usize> = Vector<Histogram, N>;

/// Creates one series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker(MetricKind);

impl MetricConstructor<Counter> for Maker {
    fn new_metric(&self) -> Counter {
        Counter::default()
    }
}

impl MetricConstructor<Gauge> for Maker {
    fn new_metric(&self) -> Gauge {
        Gauge::default()
    }
}

impl MetricConstructor<Gauge<f64, AtomicU64>> for Maker {
    fn new_metric(&self) -> Gauge<f64, AtomicU64> {
        Gauge::default()
    }
}

impl MetricConstructor<Histogram> for Maker {
    fn new_metric(&self) -> Histogram {
        let buckets: &[f64] = match self.0 {
            MetricKind::Histogram(buckets) => buckets,
            MetricKind::Counter | MetricKind::Gauge => &[],
        };
        Histogram::new(buckets.iter().copied())
    }
}

/// All series of a metric. Series with the same value of the first label end together.
#[derive(Clone, Debug)]
pub(super) struct Vector<M, const N: usize> {
    labels: [&'static str; N],
    family: Family<Labels<N>, M, Maker>,
    /// The label sets by the value of the first label.
    known: Arc<Mutex<HashMap<String, Vec<Labels<N>>>>>,
}

impl<M, const N: usize> Vector<M, N>
where
    M: EncodeMetric + TypedMetric + Clone + Debug + Send + Sync + 'static,
    Maker: MetricConstructor<M>,
{
    /// Registers a metric without series.
    pub(super) fn new(registry: &mut Registry, def: &MetricDef<N>) -> Self {
        let family = Family::new_with_constructor(Maker(def.info.kind));
        register(registry, &def.info, family.clone());
        Self { labels: def.labels, family, known: Arc::default() }
    }

    fn labels<V: ToString>(&self, values: [V; N]) -> Labels<N> {
        let mut values = values.into_iter();
        // There are as many values as labels.
        self.labels.map(|label| (label, values.next().map_or_else(String::new, |value| value.to_string())))
    }

    /// The series with these label values, in the order of the labels.
    pub(super) fn of<V: ToString>(&self, values: [V; N]) -> M {
        let labels = self.labels(values);
        if let Some(series) = self.family.get(&labels) {
            return series.clone();
        }
        let mut known = self.known.lock();
        let first = labels.first().map_or("", |(_, value)| value);
        let of_first = known.entry(first.to_owned()).or_default();
        if !of_first.contains(&labels) {
            of_first.push(labels.clone());
        }
        self.family.get_or_create_owned(&labels)
    }
}

/// Registers a metric; the library itself adds the suffix of counters and the dot after the help text.
pub(super) fn register(
    registry: &mut Registry,
    info: &MetricInfo,
    metric: impl prometheus_client::registry::Metric + Clone,
) {
    registry.register(info.name.strip_suffix("_total").unwrap_or(info.name), info.help, metric);
}

/// A metric whose series can end.
pub(super) trait Forget: Debug + Send + Sync {
    /// Ends all series with this value of the first label.
    fn forget(&self, first: &str);
    /// Ends all series whose first label does not match.
    fn retain(&self, firsts: &dyn Fn(&str) -> bool);
}

impl<M, const N: usize> Forget for Vector<M, N>
where
    M: Debug + Send + Sync + 'static,
    Maker: MetricConstructor<M>,
{
    fn forget(&self, first: &str) {
        self.retain(&|other| other != first);
    }

    fn retain(&self, firsts: &dyn Fn(&str) -> bool) {
        self.known.lock().retain(|first, labels| {
            let stays = firsts(first);
            if !stays {
                for labels in labels {
                    self.family.remove(labels);
                }
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use pintle_metrics::{FAULTS, RECONCILE_TIME};
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn the_series_of_one_value_end_together() {
        let mut registry = Registry::default();
        let faults = Counters::new(&mut registry, &FAULTS);
        for (plugin, kind) in [("a", "trap"), ("a", "deadline"), ("b", "trap")] {
            faults.of([plugin, kind]).inc();
        }
        faults.forget("a");
        faults.of(["c", "trap"]).inc();
        let mut out = String::new();
        text::encode_registry(&mut out, &registry).unwrap();
        let series: Vec<&str> = out.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!out.contains("plugin=\"a\"") && series.len() == 2, "{out}");
        // The counter restarts at 0.
        assert_eq!(faults.of(["a", "trap"]).get(), 0);
    }

    #[test]
    fn buckets_are_those_of_the_definition() {
        let mut registry = Registry::default();
        Histograms::new(&mut registry, &RECONCILE_TIME).of(["a"]).observe(0.0);
        let mut out = String::new();
        text::encode_registry(&mut out, &registry).unwrap();
        let MetricKind::Histogram(buckets) = RECONCILE_TIME.info.kind else { panic!("no histogram") };
        assert_eq!(out.matches("_bucket{le=").count(), buckets.len() + 1, "{out}");
    }
}
