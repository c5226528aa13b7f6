//! A cache with expiration.
//!
//! Invariants:
//! 1. An entry is used only before it expires.
//! 2. At capacity, the entries that expire first are evicted.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Cached results by request.
#[derive(Debug)]
pub struct Decisions<K, V> {
    by_key: HashMap<K, (V, Instant, u64)>,
    /// Expiration, and the number of the entry, which makes it unique.
    ends: BTreeMap<(Instant, u64), K>,
    capacity: usize,
    next: u64,
}

impl<K: Clone + Eq + Hash, V: Clone> Decisions<K, V> {
    /// A cache with this capacity.
    pub fn new(capacity: usize) -> Self {
        Self { by_key: HashMap::new(), ends: BTreeMap::new(), capacity, next: 0 }
    }

    /// The cached result, unless it has expired.
    pub fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.by_key.get(key).filter(|(_, end, _)| now < *end).map(|(value, ..)| value.clone())
    }

    /// Caches a result for a time; with zero it is not cached.
    pub fn put(&mut self, key: K, value: V, ttl: Duration, now: Instant) {
        if let Some((_, end, n)) = self.by_key.remove(&key) {
            self.ends.remove(&(end, n));
        }
        let Some(end) = now.checked_add(ttl).filter(|end| *end > now) else { return };
        while let Some(first) = self.ends.first_entry() {
            if first.key().0 > now && self.by_key.len() < self.capacity {
                break;
            }
            self.by_key.remove(&first.remove());
        }
        if self.capacity == 0 {
            return;
        }
        self.next += 1;
        self.ends.insert((end, self.next), key.clone());
        self.by_key.insert(key, (value, end, self.next));
    }

    /// Number of entries, including expired ones.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn an_answer_ends_with_its_time() {
        let start = Instant::now();
        let mut decisions = Decisions::new(10);
        decisions.put("a", true, TTL, start);
        assert_eq!(decisions.get(&"a", start + TTL - Duration::from_nanos(1)), Some(true));
        assert_eq!(decisions.get(&"a", start + TTL), None);
        decisions.put("a", false, TTL, start + TTL);
        assert_eq!(decisions.get(&"a", start + TTL), Some(false));
        decisions.put("a", true, Duration::ZERO, start + TTL);
        assert_eq!((decisions.get(&"a", start + TTL), decisions.len()), (None, 0));
    }

    #[test]
    fn what_ends_first_makes_room() {
        let start = Instant::now();
        let mut decisions = Decisions::new(2);
        decisions.put("long", 1, TTL * 2, start);
        decisions.put("short", 2, TTL, start);
        decisions.put("new", 3, TTL, start);
        let seen = ["long", "short", "new"].map(|key| decisions.get(&key, start));
        assert_eq!((seen, decisions.len()), ([Some(1), None, Some(3)], 2));
        let mut none = Decisions::new(0);
        none.put("a", 1, TTL, start);
        assert!(none.is_empty());
    }

    proptest! {
        /// Compares with a list of all entries.
        #[test]
        fn an_answer_is_the_last_one_that_was_put(
            steps in prop::collection::vec((0..6_u8, 0..40_u64, 0..8_u64), 0..60), capacity in 1..5_usize,
        ) {
            let mut now = Instant::now();
            let mut decisions = Decisions::new(capacity);
            let mut last: HashMap<u8, (usize, Instant)> = HashMap::new();
            for (n, (key, ttl, pause)) in steps.into_iter().enumerate() {
                now += Duration::from_secs(pause);
                decisions.put(key, n, Duration::from_secs(ttl), now);
                last.insert(key, (n, now + Duration::from_secs(ttl)));
                prop_assert!(decisions.len() <= capacity && decisions.ends.len() == decisions.len());
                if ttl > 0 {
                    prop_assert_eq!(decisions.get(&key, now), Some(n));
                }
                for key in 0..6 {
                    let expected = last.get(&key).filter(|(_, end)| now < *end).map(|(n, _)| *n);
                    let seen = decisions.get(&key, now);
                    prop_assert!(seen.is_none() || seen == expected);
                }
            }
        }
    }
}
