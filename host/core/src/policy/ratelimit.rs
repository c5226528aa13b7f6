//! Rate limits: the delay of a failed key, and token buckets.
//!
//! Flow: the dispatcher calls [`RateLimiter::when`] for the delay of a failed key and [`RateLimiter::forget`] after a
//! success.
//!
//! Invariants:
//! 1. No clock: the time is an argument; a time that goes backwards counts as unchanged.
//! 2. Only keys that have failed since their last success take memory.
//!
//! Not here: the delayed keys (`queue`).
//!
//! Source: client-go's `workqueue` rate limiters; the token bucket is that of `golang.org/x/time/rate`.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::contract::manifest::Backoff;

/// A token bucket that can go into debt, so that a caller gets the time to wait.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    last: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket. A rate that is not a positive number means no limit.
    pub fn new(per_second: f64, burst: u32) -> Self {
        Self { per_second, burst: f64::from(burst), tokens: f64::from(burst), last: None }
    }

    fn unlimited(&self) -> bool {
        !(self.per_second.is_finite() && self.per_second > 0.0)
    }

    fn refill(&mut self, now: Instant) {
        if let Some(last) = self.last {
            let elapsed = now.saturating_duration_since(last).as_secs_f64();
            self.tokens = (self.tokens + elapsed * self.per_second).min(self.burst);
        }
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
    }

    /// Takes a token, now or in the future; returns how long the caller must wait for it.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        if self.unlimited() {
            return Duration::ZERO;
        }
        self.refill(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 { Duration::ZERO } else { seconds(-self.tokens / self.per_second) }
    }

    /// Takes a token if one is available now.
    pub fn try_take(&mut self, now: Instant) -> bool {
        if self.unlimited() {
            return true;
        }
        self.refill(now);
        let enough = self.tokens >= 1.0;
        if enough {
            self.tokens -= 1.0;
        }
        enough
    }
}

/// `Duration::from_secs_f64` without its panics: values out of range become the longest duration.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Delay after the n-th consecutive failure of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerItem {
    /// `base * 2^failures`, at most `max`.
    Exponential {
        /// Delay after the first failure.
        base: Duration,
        /// Longest delay.
        max: Duration,
    },
    /// Fixed delay.
    Fixed(Duration),
}

impl PerItem {
    fn of(backoff: &Backoff) -> Self {
        match backoff.fixed() {
            Some(fixed) => Self::Fixed(fixed),
            None => Self::Exponential { base: backoff.base(), max: backoff.max() },
        }
    }

    /// The delay after this many earlier failures.
    pub fn delay(self, failures: u32) -> Duration {
        match self {
            Self::Fixed(delay) => delay,
            Self::Exponential { base, max } => {
                1_u32.checked_shl(failures).and_then(|factor| base.checked_mul(factor)).unwrap_or(max).min(max)
            }
        }
    }
}

/// The rate limiter of one queue: the longer of the key's and the queue's delay applies.
#[derive(Clone, Debug)]
pub struct RateLimiter<K> {
    per_item: PerItem,
    overall: TokenBucket,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> RateLimiter<K> {
    /// Creates the limiter that a manifest declares.
    pub fn new(backoff: &Backoff) -> Self {
        let overall = TokenBucket::new(f64::from(backoff.qps), backoff.burst);
        Self { per_item: PerItem::of(backoff), overall, failures: HashMap::new() }
    }

    /// Adopts another declaration; failures are kept, and the debt of an unchanged bucket as well.
    pub fn retune(&mut self, backoff: &Backoff) {
        self.per_item = PerItem::of(backoff);
        let overall = TokenBucket::new(f64::from(backoff.qps), backoff.burst);
        if (overall.per_second, overall.burst) != (self.overall.per_second, self.overall.burst) {
            self.overall = overall;
        }
    }

    /// Counts a failure; returns the key's delay.
    #[doc(alias = "AddRateLimited")]
    pub fn when(&mut self, key: &K, now: Instant) -> Duration {
        let own = self.per_item.delay(self.count(key));
        own.max(self.overall.reserve(now))
    }

    /// Counts a failure whose delay is decided elsewhere; returns the number of earlier failures.
    pub fn count(&mut self, key: &K) -> u32 {
        match self.failures.get_mut(key) {
            Some(failures) => {
                let before = *failures;
                *failures = before.saturating_add(1);
                before
            }
            None => {
                self.failures.insert(key.clone(), 1);
                0
            }
        }
    }

    /// Forgets a key that succeeded or was dropped.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Forgets all keys. The debt of the queue's bucket stays.
    pub fn forget_all(&mut self) {
        self.failures.clear();
    }

    /// Number of keys that have failed.
    pub fn n_failing(&self) -> usize {
        self.failures.len()
    }

    /// Consecutive failures so far.
    #[doc(alias = "NumRequeues")]
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_declaration_keeps_failures_and_debt() {
        let now = Instant::now();
        let backoff = Backoff { base_ms: 10.into(), qps: 1.0, burst: 1, ..Backoff::default() };
        let mut limiter = RateLimiter::new(&backoff);
        limiter.when(&"a", now);
        limiter.retune(&Backoff { base_ms: 20.into(), ..backoff.clone() });
        // The key's second failure, with the new base; the bucket is still empty.
        assert_eq!(limiter.when(&"a", now), Duration::from_secs(1));
        limiter.retune(&Backoff { base_ms: 20.into(), qps: 0.0, ..backoff });
        assert_eq!((limiter.when(&"a", now), limiter.failures(&"a")), (Duration::from_millis(80), 3));
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let rule = PerItem::Exponential { base: Duration::from_millis(5), max: Duration::from_secs(1000) };
        let delays: Vec<u128> = [0, 1, 2, 10, 17, 18, 31, 32, 1000].map(|n| rule.delay(n).as_millis()).into();
        assert_eq!(delays, [5, 10, 20, 5120, 655_360, 1_000_000, 1_000_000, 1_000_000, 1_000_000]);
        assert_eq!(PerItem::Fixed(Duration::from_secs(3)).delay(40), Duration::from_secs(3));
    }

    #[test]
    fn the_longer_delay_applies_and_success_resets_it() {
        let backoff = Backoff { qps: 1.0, burst: 2, ..Backoff::default() };
        let mut limiter = RateLimiter::new(&backoff);
        let now = Instant::now();
        assert_eq!(limiter.when(&"a", now), Duration::from_millis(5));
        assert_eq!(limiter.when(&"b", now), Duration::from_millis(5));
        // The bucket is empty: the third failure of the queue waits for it, regardless of the key's own failures.
        assert_eq!(limiter.when(&"c", now), Duration::from_secs(1));
        assert_eq!(limiter.when(&"c", now), Duration::from_secs(2));
        assert_eq!(limiter.failures(&"c"), 2);
        limiter.forget(&"c");
        assert_eq!(limiter.failures(&"c"), 0);
        assert_eq!(limiter.when(&"c", now + Duration::from_secs(60)), Duration::from_millis(5));
    }

    #[test]
    fn a_rate_of_zero_means_no_limit() {
        let mut bucket = TokenBucket::new(0.0, 0);
        assert!((0..1000).all(|_| bucket.try_take(Instant::now())));
    }

    proptest! {
        #[test]
        fn a_bucket_never_gives_more_than_burst_and_rate_allow(
            steps in prop::collection::vec(0_u64..3_000, 1..200), rate in 1_u32..20, burst in 1_u32..30,
        ) {
            let mut bucket = TokenBucket::new(f64::from(rate), burst);
            let start = Instant::now();
            let mut now = start;
            let mut taken = 0_u32;
            for step in steps {
                now += Duration::from_millis(step);
                taken += u32::from(bucket.try_take(now));
                let allowed = f64::from(burst) + now.duration_since(start).as_secs_f64() * f64::from(rate);
                prop_assert!(f64::from(taken) <= allowed + 1e-6);
            }
        }

        #[test]
        fn reservations_are_spaced_by_the_rate(n in 1_usize..200, rate in 1_u32..20, burst in 1_u32..30) {
            let mut bucket = TokenBucket::new(f64::from(rate), burst);
            let now = Instant::now();
            for i in 0..n {
                let expected = (i as f64 + 1.0 - f64::from(burst)).max(0.0) / f64::from(rate);
                prop_assert!((bucket.reserve(now).as_secs_f64() - expected).abs() < 1e-6);
            }
        }
    }
}
