//! Exponential delays.
//!
//! *Source*: `util/flowcontrol/backoff.go` and `util/workqueue/default_rate_limiters.go` of client-go.

use std::time::Duration;

/// A delay that doubles with each consecutive failure.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    /// Delay after the first failure.
    pub first: Duration,
    /// Upper bound of the delay.
    pub longest: Duration,
}

impl Exponential {
    /// The delay after `n_failures` consecutive failures; `None` after none.
    #[doc(alias = "ItemExponentialFailureRateLimiter")]
    pub fn after(&self, n_failures: u32) -> Duration {
        let Some(n_doublings) = n_failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 2_u32.checked_pow(n_doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The delay that follows `last`.
    #[doc(alias = "Next")]
    pub fn next(&self, last: Option<Duration>) -> Duration {
        last.map_or(self.first, |last| last.saturating_mul(2).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_longest() {
        let backoff = Exponential { first: Duration::from_secs(10), longest: Duration::from_secs(600) };
        let after = |n: u32| backoff.after(n).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, 1_000, u32::MAX].map(after), [0, 10, 20, 40, 320, 600, 600, 600]);
        let next = |last: u64| backoff.next(Some(Duration::from_secs(last))).as_secs();
        assert_eq!((backoff.next(None).as_secs(), [10, 320, 600].map(next)), (10, [20, 600, 600]));
    }
}
