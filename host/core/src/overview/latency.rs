//! Durations of runs in buckets, and their quantiles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rounded;

/// Upper bounds of the buckets in seconds, from 50 us (a run without reads) to a minute; the last bucket has none. The
/// same as in `controller_runtime_reconcile_time_seconds`.
const BOUNDS: [f64; 19] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0,
];

/// Number of runs by duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    counts: [u64; BOUNDS.len() + 1],
}

/// Durations that 50, 90 and 99 percent of the runs did not exceed, in seconds, at the resolution of the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The median.
    #[serde(rename = "p50Seconds")]
    pub p50: f64,
    /// 90 percent.
    #[serde(rename = "p90Seconds")]
    pub p90: f64,
    /// 99 percent.
    #[serde(rename = "p99Seconds")]
    pub p99: f64,
}

impl Latency {
    /// Counts a run.
    pub fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.counts[BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
    }

    /// The runs that are not in `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self { counts: std::array::from_fn(|i| self.counts[i].saturating_sub(earlier.counts[i])) }
    }

    /// The runs of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { counts: std::array::from_fn(|i| self.counts[i].saturating_add(other.counts[i])) }
    }

    /// Number of runs.
    pub fn n_runs(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration that this fraction of the runs (0 to 1) did not exceed, interpolated within a bucket as in
    /// Prometheus. The last bound for longer runs, and `None` without runs.
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let n_runs = self.n_runs();
        if n_runs == 0 {
            return None;
        }
        let rank = part.clamp(0.0, 1.0) * n_runs as f64;
        let mut n_below = 0_u64;
        for (i, count) in self.counts.iter().enumerate() {
            let reached = n_below + count;
            if *count > 0 && reached as f64 >= rank {
                let Some(upper) = BOUNDS.get(i) else { break };
                let lower = if i == 0 { 0.0 } else { BOUNDS[i - 1] };
                return Some(lower + (upper - lower) * ((rank - n_below as f64) / *count as f64));
            }
            n_below = reached;
        }
        BOUNDS.last().copied()
    }

    /// Its quantiles; `None` without runs.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let of = |part| self.quantile(part).map(rounded);
        Some(Quantiles { p50: of(0.5)?, p90: of(0.9)?, p99: of(0.99)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u64]) -> Latency {
        let mut latency = Latency::default();
        times.iter().for_each(|micros| latency.observe(Duration::from_micros(*micros)));
        latency
    }

    #[test]
    fn quantiles_are_interpolated_in_their_bucket() {
        assert_eq!(Latency::default().quantiles(), None);
        // Ten runs between 1 and 2.5 ms.
        let latency = of(&[2_000; 10]);
        let near = |part: f64, expected: f64| {
            let found = latency.quantile(part).unwrap();
            assert!((found - expected).abs() < 1e-9, "{part}: {found}");
        };
        near(0.0, 0.001);
        near(0.5, 0.001_75);
        near(1.0, 0.002_5);
        // A bucket includes its upper bound.
        assert_eq!(of(&[1_000]).quantile(1.0), Some(0.001));
        // Longer than the last bound.
        assert_eq!(of(&[1, 90_000_000]).quantile(0.99), Some(60.0));
    }

    #[test]
    fn what_was_counted_before_does_not_count() {
        let before = of(&[10, 2_000]);
        let after = before.and(&of(&[400_000]));
        assert_eq!((after.n_runs(), after.since(&before)), (3, of(&[400_000])));
        // The counters were reset: no count is negative.
        assert_eq!(before.since(&after), Latency::default());
    }

    proptest! {
        /// Compared with the sorted durations: the quantile is in the bucket of the run of that rank.
        #[test]
        fn a_quantile_is_in_the_bucket_of_its_run(times in prop::collection::vec(0..100_000_000_u64, 1..60), part in 0.0..1.0_f64) {
            let found = of(&times).quantile(part).unwrap();
            let mut sorted = times;
            sorted.sort_unstable();
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few runs")]
            let rank = ((part * sorted.len() as f64).ceil() as usize).max(1);
            let seconds = Duration::from_micros(sorted[rank - 1]).as_secs_f64();
            let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
            let lower = bucket.checked_sub(1).map_or(0.0, |i| BOUNDS[i]);
            let upper = BOUNDS.get(bucket).copied().unwrap_or(60.0);
            prop_assert!(found >= lower && found <= upper, "{found} is not in {lower}..={upper}");
        }
    }
}
