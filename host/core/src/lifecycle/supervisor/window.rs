//! The runs of the last minute, by distinct key and namespace.
//!
//! Invariants:
//! 1. A key counts with its last run, for [`WINDOW`].
//! 2. At most [`MAX_NAMESPACE_KEYS`] keys of a namespace and [`MAX_KEYS`] in total are kept: a namespace with many
//!    objects counts no more than others, and memory is bounded. Keys above the bounds do not count until others are
//!    dropped.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::Scoped;

/// Time for which a run counts.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Maximum keys that count in one namespace.
pub const MAX_NAMESPACE_KEYS: usize = 256;
/// Maximum keys that count.
const MAX_KEYS: usize = 50_000;

/// Counts of the runs in the last [`WINDOW`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Distinct keys that ran.
    pub n_keys: usize,
    /// Keys whose last run faulted.
    pub n_faulted: usize,
    /// Namespaces of the keys.
    pub n_namespaces: usize,
    /// Namespaces in which most keys faulted.
    pub n_faulting_namespaces: usize,
}

#[derive(Debug)]
struct LastRun {
    at: Instant,
    faulted: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Namespace {
    n_keys: usize,
    n_faulted: usize,
}

impl Namespace {
    fn faults(self) -> bool {
        2 * self.n_faulted > self.n_keys
    }
}

#[derive(Debug)]
pub(super) struct Window<K> {
    runs: HashMap<K, LastRun>,
    /// Time of the next check of a key, with a number that makes it unique. One entry per key.
    expiries: BTreeMap<(Instant, u64), K>,
    n_expiries: u64,
    namespaces: HashMap<Box<str>, Namespace>,
    recent: Recent,
}

impl<K: Clone + Eq + Hash + Scoped> Window<K> {
    pub(super) fn new() -> Self {
        let (runs, expiries, namespaces) = (HashMap::new(), BTreeMap::new(), HashMap::new());
        Self { runs, expiries, n_expiries: 0, namespaces, recent: Recent::default() }
    }

    pub(super) fn recent(&self) -> Recent {
        self.recent
    }

    /// Whether most keys of the namespace faulted.
    pub(super) fn faults_in(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|namespace| namespace.faults())
    }

    pub(super) fn ran(&mut self, key: &K, faulted: bool, now: Instant) {
        self.expire(now);
        if let Some(run) = self.runs.get_mut(key) {
            let before = std::mem::replace(run, LastRun { at: now.max(run.at), faulted });
            if before.faulted != faulted {
                self.count(key.scope(), 0, if faulted { 1 } else { -1 });
            }
            return;
        }
        let n_beside = self.namespaces.get(key.scope()).map_or(0, |namespace| namespace.n_keys);
        if n_beside >= MAX_NAMESPACE_KEYS || self.runs.len() >= MAX_KEYS {
            return;
        }
        self.runs.insert(key.clone(), LastRun { at: now, faulted });
        self.expire_at(now + WINDOW, key.clone());
        self.count(key.scope(), 1, isize::from(faulted));
    }

    fn expire_at(&mut self, at: Instant, key: K) {
        self.n_expiries += 1;
        self.expiries.insert((at, self.n_expiries), key);
    }

    fn expire(&mut self, now: Instant) {
        while let Some(entry) = self.expiries.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            let Some(run) = self.runs.get(&key) else { continue };
            let (ends, faulted) = (run.at + WINDOW, run.faulted);
            if ends > now {
                self.expire_at(ends, key);
            } else {
                self.runs.remove(&key);
                self.count(key.scope(), -1, -isize::from(faulted));
            }
        }
    }

    /// Updates the numbers of keys and of faulted keys in a namespace.
    fn count(&mut self, name: &str, keys: isize, faulted: isize) {
        let before = self.namespaces.get(name).copied();
        let mut namespace = before.unwrap_or_default();
        namespace.n_keys = namespace.n_keys.saturating_add_signed(keys);
        namespace.n_faulted = namespace.n_faulted.saturating_add_signed(faulted);
        let recent = &mut self.recent;
        recent.n_keys = recent.n_keys.saturating_add_signed(keys);
        recent.n_faulted = recent.n_faulted.saturating_add_signed(faulted);
        let faults = |namespace: Option<Namespace>| usize::from(namespace.is_some_and(Namespace::faults));
        recent.n_faulting_namespaces -= faults(before);
        recent.n_faulting_namespaces += faults(Some(namespace));
        if namespace.n_keys == 0 {
            self.namespaces.remove(name);
        } else if let Some(slot) = self.namespaces.get_mut(name) {
            *slot = namespace;
        } else {
            self.namespaces.insert(name.into(), namespace);
        }
        recent.n_namespaces = self.namespaces.len();
    }
}
