//! The due time of a schedule, and the next one.
//!
//! *Invariant*: missed times are computed, not enumerated: see [`Times::most_recent`].
//!
//! *Source*: utils.go, cronjob_controllerv2.go.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use plugin_lib::cron::{Schedule, is_zone};

use crate::types::{CronJob, Status};

/// A run starts this much after the scheduled time, because clocks differ.
#[doc(alias = "nextScheduleDelta")]
const DELTA: Duration = Duration::from_millis(100);

/// Missed times above this number are reported. *Source*: `mostRecentScheduleTime`.
const MANY: i64 = 100;

/// Most times to try one after the other, before a binary search.
const MOST_STEPS: usize = 1_000;

const SECOND: i64 = 1_000_000;

/// A schedule that never matches, such as the 31st of February.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsound;

/// Upstream's text.
pub(crate) const UNSOUND: &str = "time difference between two schedules is less than 1 second";

/// Number of times passed since the earliest one.
#[doc(alias = "missedSchedulesType")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// None, or one.
    None,
    /// More than one, by an estimate.
    Few,
    /// More than 100, by an estimate.
    Many,
}

/// The times of a CronJob.
#[derive(Debug)]
pub(crate) struct Times {
    schedule: Schedule,
    now: Timestamp,
    /// Start of the interval to search for missed times: the last schedule time, or the creation.
    since: Timestamp,
    /// Times before this are too late to start.
    deadline: Option<Timestamp>,
}

impl Times {
    /// The times of a CronJob with this status.
    ///
    /// # Errors
    /// The reason why the schedule is malformed.
    #[doc(alias = "formatSchedule")]
    pub(crate) fn new(object: &CronJob, status: &Status, now: Timestamp) -> Result<Self, String> {
        let (text, zone) = (&object.spec.schedule, object.spec.time_zone.as_deref());
        // An unknown zone is ignored here: it is reported elsewhere.
        let zone = zone.filter(|zone| !text.contains("TZ") && is_zone(zone));
        let schedule = Schedule::parse(text, zone).map_err(|error| {
            let error = error.to_string();
            error.strip_prefix(&format!("schedule {text:?}: ")).unwrap_or(&error).to_owned()
        })?;
        let created = object.metadata.creation_timestamp.unwrap_or(Timestamp::from_micros(0));
        let since = status.last_schedule_time.unwrap_or(created);
        let deadline = object.spec.starting_deadline_seconds;
        let deadline = deadline.map(|seconds| now.minus(Duration::from_secs(seconds.try_into().unwrap_or(0))));
        Ok(Self { schedule, now, since, deadline })
    }

    /// The times after `last` becomes the last schedule time.
    pub(crate) fn after(self, last: Timestamp) -> Self {
        Self { since: last, ..self }
    }

    /// The due time, and how many were missed; `None` if none is due.
    #[doc(alias = "nextScheduleTime")]
    pub(crate) fn due(&self) -> Result<Option<(Timestamp, Missed)>, Unsound> {
        let since = self.deadline.map_or(self.since, |deadline| deadline.max(self.since));
        let (time, missed) = self.most_recent(since)?;
        Ok(time.map(|time| (time, missed)))
    }

    /// When to run the CronJob again; `None` if there is no further time.
    #[doc(alias = "nextScheduleTimeDuration")]
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let from = match self.most_recent(self.since) {
            Ok((Some(time), _)) => time,
            Ok((None, Missed::None)) => self.since,
            Ok((None, _)) | Err(Unsound) => self.now,
        };
        Some(self.schedule.next(from)?.plus(DELTA))
    }

    /// The last time passed since this one, and the number of them.
    ///
    /// Assumes equal intervals, so it misses the last time where a longer interval was expected, as upstream does.
    #[doc(alias = "mostRecentScheduleTime")]
    fn most_recent(&self, since: Timestamp) -> Result<(Option<Timestamp>, Missed), Unsound> {
        let first = self.schedule.next(since).ok_or(Unsound)?;
        if self.now < first {
            return Ok((None, Missed::None));
        }
        let second = self.schedule.next(first).ok_or(Unsound)?;
        if self.now < second {
            return Ok((Some(first), Missed::None));
        }
        let distance = (second.as_micros() - first.as_micros()) / SECOND;
        if distance < 1 {
            return Err(Unsound);
        }
        let n_missed = (self.now.as_micros() - first.as_micros()) / SECOND / distance + 1;
        let back = (n_missed - 2).saturating_mul(distance).saturating_mul(SECOND);
        let start = Timestamp::from_micros(first.as_micros().saturating_add(back));
        let missed = if n_missed > MANY { Missed::Many } else { Missed::Few };
        Ok((self.last_after(start), missed))
    }

    /// The last passed time after this one.
    fn last_after(&self, start: Timestamp) -> Option<Timestamp> {
        let passed = |from| self.schedule.next(from).filter(|time| *time <= self.now);
        let mut last = passed(start)?;
        for _ in 0..MOST_STEPS {
            match passed(last) {
                Some(time) => last = time,
                None => return Some(last),
            }
        }
        // A schedule that is dense after a gap, such as every minute of one month.
        let (mut low, mut high) = (last, self.now);
        while high.since(low) > Duration::from_secs(1) {
            let middle = low.plus(high.since(low) / 2);
            match passed(middle) {
                Some(time) => (last, low) = (time, middle),
                None => high = middle,
            }
        }
        Some(last)
    }
}

/// Go's error for an unknown time zone.
pub(crate) fn zone_error(zone: &str) -> String {
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        "time: invalid location name".to_owned()
    } else {
        format!("unknown time zone {zone}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).expect("a time")
    }

    fn times(schedule: &str, since: &str, now: &str, deadline: Option<i64>) -> Times {
        let mut object = CronJob::default();
        object.spec.schedule = schedule.to_owned();
        object.spec.starting_deadline_seconds = deadline;
        object.metadata.creation_timestamp = Some(at(since));
        Times::new(&object, &Status::default(), at(now)).expect("a schedule")
    }

    /// 2016-05-19 10:00, a Thursday, plus some minutes.
    fn hour(minutes: i64) -> String {
        at("2016-05-19T10:00:00Z").plus(Duration::from_secs(60 * minutes.unsigned_abs())).to_string()
    }

    /// `TestMostRecentScheduleTime`: schedule, since, now, the expected time, and how many were missed. The rows with
    /// `startingDeadlineSeconds` are those of `due`.
    #[test]
    fn the_most_recent_time_is_that_of_upstream() {
        use Missed::{Few, Many, None as No};
        let day = 24 * 60;
        for (schedule, since, now, expected, missed) in [
            ("0 * * * *", hour(0), "2016-05-19T10:00:30Z".to_owned(), None, No),
            ("0 * * * *", hour(0), hour(61), Some(hour(60)), No),
            ("0 * * * *", "2016-05-19T10:00:10Z".to_owned(), hour(301), Some(hour(300)), Few),
            ("30 6-16/4 * * 1-5", hour(30), hour(day + 31), Some(hour(day + 30)), Few),
            ("30 10,11,12 * * 1-5", hour(30), hour(30 * 60 + 30), None, Few),
            ("30 6-16/4 * * 1-5", hour(30), hour(4 * day + 31), Some(hour(4 * day + 30)), Few),
            ("30 6-16/4 * * 1-5", hour(0), hour(day + 31), Some(hour(day + 30)), Few),
            ("@every 1h", hour(1), hour(7 * day), Some(hour(7 * day - 59)), Many),
            ("0 * * * *", hour(0), "2016-05-19T10:00:30Z".to_owned(), None, No),
            ("*/5 * * * *", hour(30), hour(31), None, No),
        ] {
            let recent = times(schedule, &since, &now, None).most_recent(at(&since)).expect("a sound schedule");
            assert_eq!((recent.0.map(|time| time.to_string()), recent.1), (expected, missed), "{schedule} at {now}");
        }
        let rogue = times("59 23 31 2 *", "2016-05-19T10:00:10Z", &hour(60), None);
        assert_eq!(rogue.most_recent(rogue.since), Err(Unsound));
        assert_eq!(times("*/5 * * * *", &hour(30), &hour(31), Some(60)).due(), Ok(None));
        assert_eq!(times("*/5 * * * *", &hour(30), &hour(32), Some(60)).due(), Ok(None));
    }

    /// `TestNextScheduleTimeDuration`: schedule, since, now, and the minutes until the next run.
    #[test]
    fn the_next_run_is_that_of_upstream() {
        let day = 24 * 60;
        for (schedule, since, now, minutes) in [
            ("30 6-16/4 * * 1-5", hour(30), hour(day + 31), 3 * 60 + 59),
            ("30 10,11,12 * * 1-5", hour(30), hour(30 * 60 + 30), 66 * 60),
            ("0 12 * * 4", hour(120), hour(19 * day + 90), 48 * 60 + 30),
            ("0 12 * * 5", hour(0), hour(6 * 60), 20 * 60),
        ] {
            let times = times(schedule, &since, &now, None);
            let after = times.next().expect("a time").since(times.now);
            assert_eq!(after, Duration::from_secs(60 * minutes) + DELTA, "{schedule}");
        }
    }

    /// The binary search finds the same time as enumeration.
    #[test]
    fn a_dense_schedule_after_a_gap_is_searched() {
        for (schedule, since, now, expected) in [
            ("* * * 1-6 *", "2016-06-30T23:58:00Z", "2018-06-30T12:34:56Z", "2018-06-30T12:34:00Z"),
            ("* * 1 1 *", "2016-01-01T23:58:30Z", "2018-12-31T00:00:00Z", "2018-01-01T23:59:00Z"),
            ("* * * 3 *", "2016-03-31T23:58:00Z", "2018-04-01T00:00:00Z", "2018-03-31T23:59:00Z"),
        ] {
            let times = times(schedule, since, now, None);
            let (time, _) = times.most_recent(times.since).expect("a sound schedule");
            assert_eq!(time.map(|time| time.to_string()).as_deref(), Some(expected), "{schedule}");
        }
    }

    #[test]
    fn extreme_times_are_survived() {
        for (since, now, deadline) in [
            ("0001-01-01T00:00:00Z", "2026-01-01T00:00:00Z", None),
            ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", Some(i64::MAX)),
            ("9999-12-31T23:59:59Z", "2026-01-01T00:00:00Z", Some(i64::MIN)),
        ] {
            for schedule in ["@every 1s", "* * * * *", "0 0 29 2 *", "@every 2562047h"] {
                let times = times(schedule, since, now, deadline);
                let (due, next) = (times.due(), times.next());
                assert!(due.is_err() || next.is_none_or(|next| next > times.now), "{schedule} {since}");
            }
        }
    }
}
