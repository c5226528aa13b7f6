//! Backoff of new Pods after failures.
//!
//! *Source*: backoff_utils.go. Upstream updates the record of a Job after the status write; here it is stored before,
//! because the host stores state then. So the record names one of the failed Pods that it includes: while that Pod is
//! still uncounted, the status was not written, and the previous record applies.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Lister, ObjectKey, Outcome};
use plugin_lib::backoff::Exponential;
use plugin_lib::state::ObjectRecord;
use serde::{Deserialize, Serialize};

use crate::types::{Job, Pod};

/// Delays of new Pods after failures.
#[doc(alias = "DefaultJobPodFailureBackOff", alias = "MaxJobPodFailureBackOff")]
const BACKOFF: Exponential = Exponential { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

/// Failures since the last success.
#[doc(alias = "backoffRecord")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    /// Number of failures.
    pub(crate) n: u32,
    /// Time of the last failure.
    pub(crate) last: Option<Timestamp>,
}

impl Failures {
    /// Adds Pods that have ended since.
    #[doc(alias = "newBackoffRecord")]
    #[must_use]
    pub(crate) fn and(self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let last_success = succeeded.iter().map(|pod| pod.finished_at()).max();
        let since =
            failed.iter().map(|pod| pod.finished_at()).filter(|time| last_success.is_none_or(|last| *time > last));
        let (n, last) = since.fold((0_u32, None), |(n, last), time| (n.saturating_add(1), last.max(Some(time))));
        match last_success {
            None if n == 0 => self,
            None => Self { n: self.n.saturating_add(n), last },
            Some(_) => Self { n, last },
        }
    }

    /// Remaining delay of a new Pod.
    #[doc(alias = "getRemainingTime", alias = "getRemainingTimeForFailuresCount")]
    pub(crate) fn remaining(self, now: Timestamp) -> Duration {
        let Some(last) = self.last.filter(|_| self.n > 0) else { return Duration::ZERO };
        BACKOFF.after(self.n).saturating_sub(now.since(last))
    }
}

/// Remaining delay of an index: after its last failed Pod, by that Pod's annotations.
#[doc(alias = "getRemainingTimePerIndex")]
pub(crate) fn remaining_of_index(last_failed: Option<&Pod>, now: Timestamp) -> Duration {
    let Some(pod) = last_failed else { return Duration::ZERO };
    let n = pod.index_failures() + pod.ignored_index_failures() + 1;
    Failures { n: u32::try_from(n).unwrap_or(u32::MAX), last: Some(pod.finished_at()) }.remaining(now)
}

/// State kept for a Job.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// Failures, and the time of the last in microseconds.
    n: u32,
    last: Option<i64>,
    /// The previous failures, and a Pod that was uncounted then.
    before: (u32, Option<i64>),
    pod: String,
}

/// The record of a Job.
#[doc(alias = "backoffStore")]
#[derive(Debug)]
pub(crate) struct StoredRecord(ObjectRecord<Record>);

impl StoredRecord {
    /// Reads the record.
    pub(crate) fn read(lister: &impl Lister, job: &ObjectKey) -> Self {
        Self(ObjectRecord::of(lister, "backoff", job))
    }

    /// The failures that the status includes. `failed` are the Pods that it does not include.
    pub(crate) fn failures(&self, job: &Job, failed: &[&Pod]) -> Failures {
        let failures = |(n, last): (u32, Option<i64>)| Failures { n, last: last.map(Timestamp::from_micros) };
        match self.0.of_uid(&job.metadata.uid) {
            None => Failures::default(),
            Some(record) if failed.iter().any(|pod| pod.metadata.uid == record.pod) => failures(record.before),
            Some(record) => failures((record.n, record.last)),
        }
    }

    /// Stores the failures of a status that is about to be written.
    #[doc(alias = "updateBackoffRecord")]
    pub(crate) fn keep(
        &self,
        outcome: Outcome,
        job: &Job,
        before: Failures,
        after: Failures,
        failed: &[&Pod],
    ) -> Outcome {
        if after == Failures::default() {
            return self.forget(outcome);
        }
        let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
        let (n, last) = (after.n, micros(after.last));
        let pod = failed.first().map(|pod| pod.metadata.uid.clone()).unwrap_or_default();
        let uid = &job.metadata.uid;
        // For the same status, the record already has the failures before it.
        let is_same = self.0.of_uid(uid).is_some_and(|old| (old.n, old.last, &old.pod) == (n, last, &pod));
        let record = Record { n, last, before: (before.n, micros(before.last)), pod };
        if is_same { outcome } else { self.0.keep_of(outcome, uid, record) }
    }

    /// Removes the record.
    #[doc(alias = "removeBackoffRecord")]
    pub(crate) fn forget(&self, outcome: Outcome) -> Outcome {
        self.0.forget(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn pod(finished: i64) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.creation_timestamp = Some(at(finished));
        pod
    }

    /// As `TestNewBackoffRecord` of backoff_utils_test.go.
    #[test]
    fn failures_count_since_the_last_success() {
        let before = Failures { n: 2, last: Some(at(50)) };
        for (succeeded, failed, expected) in [
            (vec![], vec![], before),
            (vec![], vec![60, 70, 65], Failures { n: 5, last: Some(at(70)) }),
            (vec![60], vec![], Failures::default()),
            (vec![60], vec![55, 60], Failures::default()),
            (vec![60, 58], vec![59, 61, 80, 70], Failures { n: 3, last: Some(at(80)) }),
        ] {
            let pods = |times: &[i64]| times.iter().map(|time| pod(*time)).collect::<Vec<_>>();
            let (succeeded, failed) = (pods(&succeeded), pods(&failed));
            let after = before.and(&succeeded.iter().collect::<Vec<_>>(), &failed.iter().collect::<Vec<_>>());
            assert_eq!(after, expected);
        }
    }

    /// As `TestGetRemainingBackoffTime` of backoff_utils_test.go.
    #[test]
    fn the_wait_doubles_up_to_ten_minutes() {
        for (n, elapsed, expected) in [
            (0, 0, 0),
            (1, 0, 10),
            (1, 4, 6),
            (1, 11, 0),
            (2, 5, 15),
            (3, 0, 40),
            (7, 0, 600),
            (1000, 100, 500),
            (u32::MAX, 601, 0),
            // The clock was set back: at most the whole delay.
            (2, -100, 20),
        ] {
            let failures = Failures { n, last: Some(at(1000)) };
            assert_eq!(failures.remaining(at(1000 + elapsed)), Duration::from_secs(expected), "{n} {elapsed}");
        }
    }
}
