//! The contents of a work queue, for humans: every key once, in the order in which it will run.

use std::hash::Hash;
use std::time::{Duration, Instant};

use super::{Stage, WorkQueue};

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A run is in progress, for this time.
    Running(Duration),
    /// The caches do not show its writes yet.
    Held,
    /// It waits for a worker, for this time.
    Ready(Duration),
    /// It becomes ready after this time.
    Delayed(Duration),
}

impl Place {
    /// The state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running(_) => "running",
            Self::Held => "held",
            Self::Ready(_) => "ready",
            Self::Delayed(_) => "delayed",
        }
    }
}

/// A key of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedKey<'q, K> {
    /// The key.
    pub key: &'q K,
    /// Its state.
    pub place: Place,
    /// While it runs or is held: whether it runs again afterwards.
    pub again: bool,
    /// The delay after which it is added in any case, unless it is in [`Place::Delayed`].
    pub added_after: Option<Duration>,
    /// Consecutive faults.
    pub n_faults: u32,
}

impl<K: Clone + Eq + Ord + Hash> WorkQueue<K> {
    /// At most `limit` keys: running, held, ready and delayed ones, in this order. Keys that are only suspects are left
    /// out. Takes time proportional to the number of running and held keys and the limit.
    pub fn contents(&self, limit: usize, now: Instant) -> Vec<QueuedKey<'_, K>> {
        let due = |key: &K| self.delays.get(key).map(|(due, ..)| due.saturating_duration_since(now));
        let entry = |key, place, again| QueuedKey {
            key,
            place,
            again,
            added_after: due(key),
            n_faults: self.suspects.get(key).map_or(0, |suspect| suspect.n_faults),
        };
        // All keys are searched only for these stages, and only if there are any.
        let n_away = self.n_running + self.n_held;
        let mut away: Vec<_> = self.items.iter().filter(|(_, item)| item.stage != Stage::Idle).take(n_away).collect();
        away.sort_by_key(|(key, item)| (item.stage == Stage::Held, *key));
        let away = away.into_iter().map(|(key, item)| {
            let place = match item.stage {
                Stage::Running { since, .. } => Place::Running(now.saturating_duration_since(since)),
                _ => Place::Held,
            };
            entry(key, place, item.dirty.is_some())
        });
        let ready = self.ready.iter().rev().flat_map(|class| class.values()).map(|key| {
            let since = self.items.get(key).and_then(|item| item.dirty.as_ref()).map_or(now, |dirty| dirty.since);
            entry(key, Place::Ready(now.saturating_duration_since(since)), false)
        });
        let delayed = self.waiting.iter().filter(|(_, key)| !self.items.contains_key(*key)).map(|((due, _), key)| {
            QueuedKey { added_after: None, ..entry(key, Place::Delayed(due.saturating_duration_since(now)), false) }
        });
        away.chain(ready).chain(delayed).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Priority;
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn each_key_is_shown_once_where_it_is() {
        let start = Instant::now();
        let mut queue = WorkQueue::new();
        for key in ["held", "running", "again"] {
            queue.add(key, Priority::Normal, start);
            assert!(queue.take(start).is_some());
        }
        queue.hold(&"held", start);
        queue.add("again", Priority::Normal, start);
        queue.add_after("again", seconds(60), Priority::Normal, start);
        queue.add("low", Priority::Low, start + seconds(1));
        queue.add("normal", Priority::Normal, start + seconds(2));
        queue.add_after("later", seconds(30), Priority::Normal, start);
        queue.add_after("soon", seconds(20), Priority::Normal, start);
        queue.add_after("normal", seconds(40), Priority::Normal, start);
        queue.fault(&"running", start);
        let now = start + seconds(5);
        let shown: Vec<_> = queue.contents(100, now).into_iter().map(|key| (*key.key, key.place, key.again)).collect();
        let expected = [
            ("again", Place::Running(seconds(5)), true),
            ("running", Place::Running(seconds(5)), false),
            ("held", Place::Held, false),
            ("normal", Place::Ready(seconds(3)), false),
            ("low", Place::Ready(seconds(4)), false),
            ("soon", Place::Delayed(seconds(15)), false),
            ("later", Place::Delayed(seconds(25)), false),
        ];
        assert_eq!(shown, expected);
        let all = queue.contents(100, now);
        assert_eq!(
            (all[0].added_after, all[1].n_faults, all[3].added_after),
            (Some(seconds(55)), 1, Some(seconds(35)))
        );
        assert_eq!(queue.contents(4, now), all[..4]);
        assert!(queue.contents(0, now).is_empty());
    }
}
