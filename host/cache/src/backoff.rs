//! Backoff of informers and of discovery.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Delay between attempts: doubles with each consecutive failure, plus up to 100 % jitter.
pub(crate) struct Backoff {
    base: Duration,
    max: Duration,
    reset_after: Duration,
    failures: u32,
    last: Option<Instant>,
    rng: SmallRng,
}

impl Backoff {
    pub(crate) fn new(base: Duration, max: Duration, reset_after: Duration, seed: u64) -> Self {
        Self { base, max, reset_after, failures: 0, last: None, rng: SmallRng::seed_from_u64(seed) }
    }

    /// Records a failure; returns the delay.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > self.reset_after) {
            self.failures = 0;
        }
        let delay = self.base.saturating_mul(1 << self.failures.min(20)).min(self.max);
        let delay = delay.mul_f64(1.0 + self.rng.random::<f64>());
        self.failures += 1;
        self.last = Some(now + delay);
        delay
    }

    /// A random short delay, so that tasks woken by the same event do not all act at the same time.
    pub(crate) fn spread(&mut self, within: Duration) -> Duration {
        within.mul_f64(self.rng.random())
    }

    /// Resets the failures after a lasting success.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}
