//! Gauges whose values the host keeps per key (`per: key`).
//!
//! *Flow*: an accepted outcome replaces all values of its key; before metrics are written, each series is set to the
//! sum of its keys' values.
//!
//! *Invariants*:
//! 1. A series exists as long as a key has a value for it.
//! 2. A key has values only for metrics, and in queues, that the current version declares.
//! 3. The text of series is bounded like that of other metrics; values are bytes in the account of the plugin's runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::Observation;
use pintle_core::object::id::Key;

use super::declared::{DeclaredMetrics, SeriesId, cut_labels};
use pintle_core::policy::held::Held;

/// Bytes of a key in addition to its text: its entry and the headers of its texts.
const KEY_BYTES: u64 = 256;

/// A series, and the key's value.
type KeyValue = (Arc<SeriesId>, f64);

/// The values of all keys of one plugin.
#[derive(Debug)]
pub(crate) struct KeyGauges {
    /// Ordered, so that sums are deterministic. Values are ordered by series.
    by_key: BTreeMap<Key, Box<[KeyValue]>>,
    /// The series, each with the number of keys that have a value for it.
    n_keys: HashMap<Arc<SeriesId>, usize>,
    n_bytes: u64,
    held: Held,
    /// Whether values have changed since the series were set.
    has_changed: bool,
}

fn bytes_of(key: &Key, values: &[KeyValue]) -> u64 {
    KEY_BYTES + key.n_bytes() as u64 + size_of_val(values) as u64
}

impl KeyGauges {
    pub(crate) fn new(held: Held) -> Self {
        Self { by_key: BTreeMap::new(), n_keys: HashMap::new(), n_bytes: 0, held, has_changed: false }
    }

    /// Replaces the values of a key by these samples; the last sample of a series counts. Returns the number of samples
    /// that do not fit.
    pub(crate) fn replace(&mut self, declared: &DeclaredMetrics, key: &Key, samples: &[Observation]) -> usize {
        let old = self.take(key);
        if samples.is_empty() && old.is_none() {
            return 0;
        }
        self.has_changed = true;
        let id = |sample: &Observation| SeriesId { metric: sample.metric.clone(), labels: cut_labels(&sample.labels) };
        let wanted: BTreeMap<SeriesId, f64> = samples.iter().map(|sample| (id(sample), sample.value)).collect();
        // This comes first: a key whose labels have changed needs no additional room.
        for (series, _) in old.iter().flatten().filter(|(series, _)| !wanted.contains_key(&**series)) {
            self.leave(declared, series);
        }
        let before: Vec<&Arc<SeriesId>> = old.iter().flatten().map(|(series, _)| series).collect();
        let mut n_dropped = 0;
        let mut values: Vec<KeyValue> = Vec::with_capacity(wanted.len());
        for (id, value) in wanted {
            let series = match before.binary_search_by(|series| (***series).cmp(&id)) {
                Ok(at) => Some(before[at].clone()),
                Err(_) => self.join(declared, id),
            };
            match series {
                Some(series) => values.push((series, value)),
                None => n_dropped += 1,
            }
        }
        if values.is_empty() {
            return n_dropped;
        }
        let n_bytes = self.n_bytes + bytes_of(key, &values);
        if !self.held.resize(n_bytes) {
            values.iter().for_each(|(series, _)| self.leave(declared, series));
            return n_dropped + values.len();
        }
        self.n_bytes = n_bytes;
        self.by_key.insert(key.clone(), values.into());
        n_dropped
    }

    /// Keeps the values that are valid for another version: metrics with shared values, and keys in its queues.
    pub(crate) fn hand_over(&mut self, from: &DeclaredMetrics, to: &DeclaredMetrics, manifest: &Manifest) {
        let has_queue = |key: &Key| manifest.queues.iter().any(|queue| *queue.name == *key.queue);
        let stays = |metric: &str| from.shares_values(to, metric);
        let affected: Vec<Key> = self
            .by_key
            .iter()
            .filter(|(key, values)| !has_queue(key) || values.iter().any(|(series, _)| !stays(&series.metric)))
            .map(|(key, _)| key.clone())
            .collect();
        for key in affected {
            let is_gone = !has_queue(&key);
            let values = self.take(&key).unwrap_or_default();
            let (kept, gone): (Vec<_>, Vec<_>) =
                values.into_iter().partition(|(series, _)| !is_gone && stays(&series.metric));
            gone.iter().for_each(|(series, _)| self.leave(from, series));
            if !kept.is_empty() {
                self.n_bytes += bytes_of(&key, &kept);
                self.held.set(self.n_bytes);
                self.by_key.insert(key, kept.into());
            }
            self.has_changed = true;
        }
    }

    /// Forgets all values.
    pub(crate) fn clear(&mut self, declared: &DeclaredMetrics) {
        for series in std::mem::take(&mut self.n_keys).into_keys() {
            declared.release(&series);
        }
        self.by_key.clear();
        self.n_bytes = 0;
        self.held.set(0);
    }

    /// Sets each series to the sum of its keys' values.
    pub(crate) fn publish(&mut self, declared: &DeclaredMetrics) {
        if !std::mem::take(&mut self.has_changed) {
            return;
        }
        let mut sums: HashMap<&SeriesId, f64> = HashMap::with_capacity(self.n_keys.len());
        for (series, value) in self.by_key.values().flatten() {
            *sums.entry(series).or_default() += value;
        }
        for (series, sum) in sums {
            declared.set_sum(series, sum);
        }
    }

    /// Removes the values of a key; they keep their places in the series.
    fn take(&mut self, key: &Key) -> Option<Box<[KeyValue]>> {
        let values = self.by_key.remove(key)?;
        self.n_bytes -= bytes_of(key, &values);
        self.held.set(self.n_bytes);
        Some(values)
    }

    /// Adds a key to a series; `None` if there is no room for a new series.
    fn join(&mut self, declared: &DeclaredMetrics, id: SeriesId) -> Option<Arc<SeriesId>> {
        if let Some((known, _)) = self.n_keys.get_key_value(&id) {
            let known = known.clone();
            self.n_keys.entry(known.clone()).and_modify(|n| *n += 1);
            return Some(known);
        }
        if !declared.reserve(&id) {
            return None;
        }
        let series = Arc::new(id);
        self.n_keys.insert(series.clone(), 1);
        Some(series)
    }

    /// Removes a key from a series, which ends with its last key.
    fn leave(&mut self, declared: &DeclaredMetrics, series: &SeriesId) {
        let Some(n_keys) = self.n_keys.get_mut(series) else { return };
        *n_keys -= 1;
        if *n_keys == 0 {
            self.n_keys.remove(series);
            declared.release(series);
        }
    }
}
