//! Metrics of the shared caches, by kind.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use pintle_cache::InformerStats;
use pintle_metrics::{
    CACHE_BYTES, CACHE_OBJECTS, INFORMER_FAILURES, INFORMER_LISTS, INFORMER_WATCHES, MAX_KINDS, OTHER,
};
use prometheus_client::registry::Registry;

use super::family::{Counters, Forget as _, Gauges};

#[derive(Debug)]
pub(super) struct CacheMetrics {
    bytes: Gauges<1>,
    objects: Gauges<1>,
    lists: Counters<1>,
    watches: Counters<1>,
    failures: Counters<1>,
}

/// Sums over the informers of a kind: there is one informer per selection of objects.
#[derive(Clone, Copy, Default)]
struct Sums {
    bytes: u64,
    objects: u64,
    lists: u64,
    watches: u64,
    failures: u64,
}

impl CacheMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            bytes: Gauges::new(registry, &CACHE_BYTES),
            objects: Gauges::new(registry, &CACHE_OBJECTS),
            lists: Counters::new(registry, &INFORMER_LISTS),
            watches: Counters::new(registry, &INFORMER_WATCHES),
            failures: Counters::new(registry, &INFORMER_FAILURES),
        }
    }

    /// Sets the metrics from the statistics of informers, which are ordered by kind. The series of kinds without an
    /// informer end.
    pub(super) fn refresh(&self, informers: &[InformerStats]) {
        let mut kinds: BTreeMap<String, Sums> = BTreeMap::new();
        for informer in informers {
            let kind = informer.kind.to_string();
            let has_room = kinds.len() < MAX_KINDS || kinds.contains_key(&kind);
            let sums = kinds.entry(if has_room { kind } else { OTHER.to_owned() }).or_default();
            sums.bytes += informer.cached_bytes;
            sums.objects += informer.n_objects;
            sums.lists += informer.lists;
            sums.watches += informer.watches;
            sums.failures += informer.failures;
        }
        self.bytes.retain(&|kind| kinds.contains_key(kind));
        self.objects.retain(&|kind| kinds.contains_key(kind));
        for counters in [&self.lists, &self.watches, &self.failures] {
            counters.retain(&|kind| kinds.contains_key(kind));
        }
        for (kind, sums) in &kinds {
            let gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            self.bytes.of([kind]).set(gauge(sums.bytes));
            self.objects.of([kind]).set(gauge(sums.objects));
            for (counters, n) in
                [(&self.lists, sums.lists), (&self.watches, sums.watches), (&self.failures, sums.failures)]
            {
                // The value is lower than before if an informer has ended, like after a restart.
                counters.of([kind]).inner().store(n, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_core::object::id::Kind;
    use prometheus_client::encoding::text;

    use super::*;

    fn informer(kind: &str, namespace: Option<&str>, n_objects: u64) -> InformerStats {
        InformerStats {
            kind: Kind::new("example.org", "v1", kind),
            namespace: namespace.map(str::to_owned),
            filled: true,
            n_objects,
            n_texts: 1,
            cached_bytes: 10 * n_objects,
            lists: 1,
            watches: 2,
            failures: n_objects,
            frames: 0,
            skipped: 0,
        }
    }

    fn series(registry: &Registry, name: &str) -> Vec<String> {
        let mut out = String::new();
        text::encode_registry(&mut out, registry).unwrap();
        let mut lines: Vec<String> =
            out.lines().filter_map(|line| line.strip_prefix(name)).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn informers_of_a_kind_add_up_and_kinds_that_nobody_watches_end() {
        let mut registry = Registry::default();
        let metrics = CacheMetrics::new(&mut registry);
        metrics.refresh(&[informer("A", Some("x"), 3), informer("A", Some("y"), 4), informer("B", None, 1)]);
        let a = "{kind=\"example.org/v1/A\"}";
        assert_eq!(series(&registry, "pintle_cache_objects")[0], format!("{a} 7"));
        assert_eq!(series(&registry, "pintle_cache_bytes")[0], format!("{a} 70"));
        assert_eq!(series(&registry, "pintle_informer_watches_total")[0], format!("{a} 4"));
        metrics.refresh(&[informer("A", Some("x"), 2)]);
        assert_eq!(series(&registry, "pintle_cache_objects"), [format!("{a} 2")]);
        assert_eq!(series(&registry, "pintle_informer_failures_total"), [format!("{a} 2")]);
    }

    #[test]
    fn kinds_beyond_the_bound_are_one_series() {
        let mut registry = Registry::default();
        let metrics = CacheMetrics::new(&mut registry);
        let informers: Vec<InformerStats> =
            (0..MAX_KINDS + 9).map(|n| informer(&format!("K{n:05}"), None, 1)).collect();
        metrics.refresh(&informers);
        let objects = series(&registry, "pintle_cache_objects");
        assert_eq!((objects.len(), &**objects.last().unwrap()), (MAX_KINDS + 1, "{kind=\"other\"} 9"));
    }
}
