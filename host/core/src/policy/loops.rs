//! Detects keys that run again and again only because of their own writes.
//!
//! ```text
//! run ──writes──> API server ──changes──> rules ──> the same key ──> run ──writes──> ...
//! ```
//!
//! Typical causes are a status that contains the time, or a list without an order. Such a key never rests, and nothing
//! fails.
//!
//! Invariants:
//! 1. A run counts only if every change that enqueued its key was made by the key's last run, and if the run writes as
//!    well. Any other run resets the count.
//! 2. No clock: only the number of runs counts, at any speed.
//! 3. At most [`MAX_KEYS`] keys are tracked, with [`MAX_WRITES`] writes each.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::object::version::{ResourceVersion, Uid};
use crate::policy::pending::{Leaves, PendingWrite};

/// Number of runs in a row after which a key is reported. A controller that makes its changes one by one, each after it
/// has seen the previous one, ends before that.
pub const LIMIT: u32 = 100;
/// Maximum number of tracked keys.
const MAX_KEYS: usize = 1024;
/// Maximum writes of a tracked run. A run with more does not repeat itself in the same way.
const MAX_WRITES: usize = 16;

/// Identifies a state of an object: its version, or its uid once it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    pub(crate) fn version(version: &ResourceVersion) -> Self {
        Self::of(version)
    }

    pub(crate) fn gone(uid: &Uid) -> Self {
        Self::of(uid)
    }

    fn of(part: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        part.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Stamps of the changes that a write leads to.
    fn of_write(write: &PendingWrite) -> impl Iterator<Item = Self> {
        let version = || Self::version(&ResourceVersion::parse(&write.resource_version));
        let gone = || Self::gone(&Uid::parse(&write.uid));
        let stamps = match write.leaves {
            Leaves::Object => [Some(version()), None],
            Leaves::Terminating => [Some(version()), Some(gone())],
            Leaves::Nothing => [None, Some(gone())],
        };
        stamps.into_iter().flatten()
    }
}

#[derive(Debug, Default)]
struct Followed {
    /// Stamps of the last run's writes.
    wrote: Vec<Stamp>,
    /// Whether a change made by the last run has enqueued the key.
    is_own: bool,
    /// Stamps of the changes that enqueued the key while it runs.
    meanwhile: Vec<Stamp>,
    /// Whether anything else has enqueued the key.
    is_other: bool,
    is_running: bool,
    n_runs: u32,
}

/// The keys that may be in such a loop.
#[derive(Debug)]
pub struct Loops<K> {
    keys: HashMap<K, Followed>,
}

impl<K> Default for Loops<K> {
    fn default() -> Self {
        Self { keys: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone> Loops<K> {
    /// Records that a change enqueued a key. A change without a stamp comes from another writer.
    pub fn caused(&mut self, key: &K, change: Option<Stamp>) {
        let Some(followed) = self.keys.get_mut(key) else { return };
        match change {
            // The writes of the run are known at its end.
            Some(stamp) if followed.is_running && followed.meanwhile.len() < 2 * MAX_WRITES => {
                followed.meanwhile.push(stamp);
            }
            Some(stamp) if !followed.is_running && followed.wrote.contains(&stamp) => followed.is_own = true,
            _ => followed.is_other = true,
        }
    }

    /// Records that a run of a key begins.
    pub fn begin(&mut self, key: &K) {
        if !self.keys.contains_key(key) {
            if self.keys.len() >= MAX_KEYS {
                self.keys.retain(|_, followed| followed.is_running || followed.n_runs > 1);
            }
            if self.keys.len() >= MAX_KEYS {
                return;
            }
        }
        let followed = self.keys.entry(key.clone()).or_default();
        if !followed.is_own || followed.is_other {
            followed.n_runs = 0;
        }
        let n_runs = followed.n_runs;
        *followed = Followed { is_running: true, n_runs, ..Followed::default() };
    }

    /// Records the end of a run, with its writes (none if it failed). Returns the number of runs in a row caused by the
    /// key's own writes, if it is [`LIMIT`] or more.
    pub fn end(&mut self, key: &K, writes: &[PendingWrite]) -> Option<u32> {
        let followed = self.keys.get_mut(key)?;
        if writes.is_empty() || writes.len() > MAX_WRITES {
            self.keys.remove(key);
            return None;
        }
        followed.is_running = false;
        followed.n_runs = followed.n_runs.saturating_add(1);
        followed.wrote = writes.iter().flat_map(Stamp::of_write).collect();
        let n_runs = followed.n_runs;
        for stamp in std::mem::take(&mut followed.meanwhile) {
            self.caused(key, Some(stamp));
        }
        (n_runs >= LIMIT).then_some(n_runs)
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::id::{Kind, ObjectKey};

    fn write(version: u32) -> PendingWrite {
        PendingWrite {
            kind: Kind::new("", "v1", "ConfigMap"),
            object: ObjectKey::new("a", "b"),
            uid: "u".into(),
            resource_version: version.to_string(),
            leaves: Leaves::Object,
            labels: None,
        }
    }

    fn stamp(version: u32) -> Option<Stamp> {
        Some(Stamp::version(&ResourceVersion::parse(&version.to_string())))
    }

    /// Runs a key, each run with a write that leads to the next one; returns the runs in which it is first reported.
    fn reported(n_runs: u32, other: impl Fn(&mut Loops<u8>, u32)) -> Vec<u32> {
        let mut loops = Loops::default();
        let mut reported = Vec::new();
        for i in 1..=n_runs {
            loops.begin(&0);
            // Every second change arrives before the end of the run.
            if i % 2 == 0 {
                loops.caused(&0, stamp(i));
            }
            if loops.end(&0, &[write(i)]) == Some(LIMIT) {
                reported.push(i);
            }
            loops.caused(&0, stamp(i));
            other(&mut loops, i);
        }
        reported
    }

    #[test]
    fn a_key_that_its_own_writes_enqueue_is_reported_once() {
        assert_eq!(reported(LIMIT - 1, |_, _| ()), [] as [u32; 0]);
        assert_eq!(reported(3 * LIMIT, |_, _| ()), [LIMIT]);
    }

    #[test]
    fn another_cause_begins_the_count_again() {
        let causes: [fn(&mut Loops<u8>, u32); 3] = [
            |loops, _| loops.caused(&0, None),
            |loops, i| loops.caused(&0, stamp(1_000_000 + i)),
            |loops, _| {
                loops.begin(&0);
                loops.end(&0, &[]);
            },
        ];
        for cause in causes {
            let at_50 = |loops: &mut Loops<u8>, i| {
                if i == 50 {
                    cause(loops, i);
                }
            };
            assert_eq!(reported(LIMIT + 50, at_50), [50 + LIMIT]);
            assert_eq!(reported(LIMIT + 49, at_50), [] as [u32; 0]);
        }
        let requeued = |loops: &mut Loops<u8>, i: u32| {
            // No write of the run enqueued it.
            loops.begin(&0);
            loops.end(&0, &[write(i)]);
        };
        assert_eq!(reported(3 * LIMIT, requeued), [] as [u32; 0]);
    }

    #[test]
    fn what_is_deleted_and_created_again_is_a_loop() {
        let mut loops = Loops::default();
        let mut n_reported = 0;
        for i in 0..LIMIT {
            loops.begin(&0);
            let deleted = PendingWrite { leaves: Leaves::Nothing, ..write(i) };
            n_reported += u32::from(loops.end(&0, &[deleted, write(i + 1)]).is_some());
            loops.caused(&0, Some(Stamp::gone(&Uid::parse("u"))));
        }
        assert_eq!(n_reported, 1);
    }

    #[test]
    fn what_is_followed_is_bounded() {
        let mut loops = Loops::default();
        for key in 0..2 * MAX_KEYS {
            loops.begin(&key);
            loops.end(&key, &[write(1)]);
        }
        assert!(loops.keys.len() <= MAX_KEYS);
        let many: Vec<PendingWrite> = (0..=u32::try_from(MAX_WRITES).unwrap()).map(write).collect();
        for _ in 0..2 * LIMIT {
            loops.begin(&0);
            assert!(loops.end(&0, &many).is_none(), "too many to repeat itself");
            loops.caused(&0, stamp(1));
        }
        let n_keys = 2 * MAX_KEYS;
        for key in 0..n_keys {
            loops.begin(&key);
        }
        assert!(loops.keys.len() <= MAX_KEYS);
    }
}
