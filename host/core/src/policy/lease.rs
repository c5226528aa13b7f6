//! Determines whether a process renews a Lease.
//!
//! The times in a Lease are from its holder's clock, which may differ from ours: a change between two readings proves
//! that the holder is running. The times only save the wait for a Lease that expired long ago.
//!
//! *Source*: `client-go/tools/leaderelection` (`tryAcquireOrRenew`, `isLeaseValid`), which also compares its own
//! observations.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::election::Lease;

/// Largest assumed difference between two clocks.
const MAX_SKEW: SignedDuration = SignedDuration::from_secs(60);
/// Longest Lease duration to wait for; kube-controller-manager's default is 15 s.
const MAX_DURATION: Duration = Duration::from_secs(300);

/// The part of a Lease's `spec` that names its holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// Empty after a release.
    pub holder_identity: Option<String>,
    /// Time for which the holder keeps the Lease after a renewal.
    pub lease_duration_seconds: Option<i64>,
    /// Last renewal, by the clock of the holder.
    pub renew_time: Option<Timestamp>,
}

impl LeaseSpec {
    /// The spec of a Lease.
    ///
    /// # Errors
    /// If a field has a wrong type.
    pub fn of(lease: &Lease) -> Result<Self, serde_json::Error> {
        match lease.spec() {
            Value::Null => Ok(Self::default()),
            spec => Self::deserialize(spec),
        }
    }

    fn duration(&self) -> Duration {
        let seconds = u64::try_from(self.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        Duration::from_secs(seconds).min(MAX_DURATION)
    }
}

/// The holder of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseHolder {
    /// No holder: the Lease was released, or not renewed within its duration.
    None,
    /// The process with this identity has renewed it since the first reading.
    Running(String),
    /// Unknown until the Lease changes, or this time has passed since the first reading.
    Unknown(Duration),
}

/// Successive readings of one Lease.
#[derive(Clone, Debug, Default)]
pub struct LeaseReadings(Option<LeaseSpec>);

impl LeaseReadings {
    /// Adds a reading. `elapsed`: time since the first reading; `now`: our clock.
    pub fn add(&mut self, read: LeaseSpec, elapsed: Duration, now: Timestamp) -> LeaseHolder {
        let (holder, renewed) = match (&read.holder_identity, read.renew_time) {
            (Some(holder), Some(renewed)) if !holder.is_empty() => (holder.clone(), renewed),
            _ => return LeaseHolder::None,
        };
        let duration = read.duration();
        let first = self.0.get_or_insert_with(|| read.clone());
        if *first != read {
            return LeaseHolder::Running(holder);
        }
        let ended_long_ago =
            SignedDuration::try_from(duration).is_ok_and(|duration| now.duration_since(renewed) >= duration + MAX_SKEW);
        if ended_long_ago || elapsed >= duration { LeaseHolder::None } else { LeaseHolder::Unknown(duration) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn lease(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(at(renewed)),
        }
    }

    /// The result of readings at these seconds, with synchronous clocks.
    fn read(readings: &[(u64, LeaseSpec)]) -> LeaseHolder {
        let mut all = LeaseReadings::default();
        let mut last = LeaseHolder::None;
        for (second, lease) in readings {
            last = all.add(lease.clone(), Duration::from_secs(*second), at(i64::try_from(*second).unwrap()));
        }
        last
    }

    #[test]
    fn a_lease_that_changes_has_a_holder_and_one_that_does_not_expires() {
        let unknown = LeaseHolder::Unknown(Duration::from_secs(15));
        let running = |holder: &str| LeaseHolder::Running(holder.to_owned());
        assert_eq!(read(&[(0, lease("a", 0))]), unknown);
        assert_eq!(read(&[(0, lease("a", 0)), (14, lease("a", 0))]), unknown);
        assert_eq!(read(&[(0, lease("a", 0)), (15, lease("a", 0))]), LeaseHolder::None);
        assert_eq!(read(&[(0, lease("a", 0)), (2, lease("a", 2))]), running("a"));
        assert_eq!(read(&[(0, lease("a", 0)), (2, lease("b", 2))]), running("b"));
        assert_eq!(read(&[(0, lease("a", 0)), (2, lease("", 2))]), LeaseHolder::None, "released");
    }

    #[test]
    fn clocks_that_differ_by_a_minute_do_not_matter() {
        for renewed in [-74, -15, 60, 100_000] {
            assert_eq!(read(&[(0, lease("a", renewed))]), LeaseHolder::Unknown(Duration::from_secs(15)), "{renewed}");
            let readings = [(0, lease("a", renewed)), (2, lease("a", renewed + 2))];
            assert_eq!(read(&readings), LeaseHolder::Running("a".to_owned()), "{renewed}");
        }
        assert_eq!(read(&[(0, lease("a", -75))]), LeaseHolder::None, "no wait for one that ended long ago");
    }

    #[test]
    fn an_incomplete_lease_has_no_holder_and_a_long_one_is_bounded() {
        let full = lease("a", 0);
        assert_eq!(read(&[(0, LeaseSpec::default())]), LeaseHolder::None);
        assert_eq!(read(&[(0, LeaseSpec { renew_time: None, ..full.clone() })]), LeaseHolder::None);
        for duration in [None, Some(0), Some(-1)] {
            assert_eq!(read(&[(0, LeaseSpec { lease_duration_seconds: duration, ..full.clone() })]), LeaseHolder::None);
        }
        let long = LeaseSpec { lease_duration_seconds: Some(i64::MAX), ..full };
        assert_eq!(read(&[(0, long)]), LeaseHolder::Unknown(MAX_DURATION));
    }
}
