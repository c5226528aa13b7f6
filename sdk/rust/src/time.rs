//! Timestamps in Kubernetes' formats.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant in UTC, to the microsecond.
///
/// Serializes in whole seconds, as `metav1.Time` does; use [`Timestamp::micros`] where the API has a `MicroTime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The timestamp without fractions of a second.
    #[must_use]
    pub const fn truncate(self) -> Self {
        Self(self.0.div_euclid(1_000_000) * 1_000_000)
    }

    /// Parses RFC 3339, with any offset and number of decimals (those beyond microseconds are dropped).
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().try_fold(0_i64, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
        };
        let at = |place: usize, allowed: &[u8]| bytes.get(place).is_some_and(|b| allowed.contains(b));
        let punctuation =
            at(4, b"-") && at(7, b"-") && at(10, b"Tt ") && at(13, b":") && at(16, b":") && bytes.len() > 19;
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if !punctuation
            || !(1..=12).contains(&month)
            || !(1..=days_in_month(year, month)).contains(&day)
            || hour > 23
            || minute > 59
            || second > 60
        {
            return None;
        }
        let mut place = 19;
        let mut micros = 0;
        if at(place, b".") {
            let digits = bytes[20..].iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            for i in 0..6 {
                micros = micros * 10 + if i < digits { i64::from(bytes[20 + i] - b'0') } else { 0 };
            }
            place = 20 + digits;
        }
        let offset_seconds = match bytes.get(place)? {
            b'Z' | b'z' if bytes.len() == place + 1 => 0,
            sign @ (b'+' | b'-') if bytes.len() == place + 6 && at(place + 3, b":") => {
                let seconds = number(place + 1, place + 3)? * 3600 + number(place + 4, place + 6)? * 60;
                if *sign == b'-' { -seconds } else { seconds }
            }
            _ => return None,
        };
        let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_seconds;
        Some(Self(seconds * 1_000_000 + micros))
    }

    /// RFC 3339 with microseconds, as the API writes a `MicroTime`.
    pub fn micros(self) -> String {
        format!("{}.{:06}Z", self.civil(), self.0.rem_euclid(1_000_000))
    }

    /// Time from `earlier` to this; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Adds a duration. Saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Subtracts a duration. Saturates.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    fn civil(self) -> String {
        let seconds = self.0.div_euclid(1_000_000);
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let rest = seconds.rem_euclid(86_400);
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in whole seconds, as the API writes a `Time`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", self.civil())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl serde::de::Visitor<'_> for Text {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in RFC 3339")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// A duration in Go's syntax, for example `1h30m` or `-1.5s`, in nanoseconds; smaller parts are ignored. `None` if it
/// is invalid, or longer than 292 years, as in Go.
///
/// *Source*: `time.ParseDuration`.
#[doc(alias = "ParseDuration")]
#[must_use]
pub fn go_duration(text: &str) -> Option<i64> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    match rest {
        "" => return None,
        "0" => return Some(0),
        _ => {}
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit: u64 = match &after[..end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // Parts below a nanosecond are ignored.
        let part = fraction.bytes().rev().fold(0, |part, digit| (u64::from(digit - b'0') * unit + part) / 10);
        total = total.checked_add(whole.checked_mul(unit)?.checked_add(part)?)?;
        rest = &after[end..];
    }
    let nanos = i64::try_from(total).ok()?;
    Some(if text.starts_with('-') { -nanos } else { nanos })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar. Years start in March, so that a leap day is the last day of its
/// year.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("+.5ms", Some(500_000)),
            ("1.us", Some(1_000)),
            ("2\u{b5}s3ns", Some(2_003)),
            ("0.9ns", Some(0)),
            ("2562047h47m16.854775807s", Some(i64::MAX)),
            ("2562047h47m16.854775808s", None),
            ("", None),
            ("-", None),
            ("5", None),
            ("s", None),
            (".s", None),
            ("1d", None),
            ("1 s", None),
            ("1..5s", None),
        ] {
            assert_eq!(go_duration(text), nanos, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_survives_a_round_trip() {
        for day in -150_000..150_000 {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }

    #[test]
    fn times_are_read_with_offsets_and_decimals() {
        for (text, seconds, micros) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 0),
            ("2026-02-28T23:30:00.5-01:00", "2026-03-01T00:30:00Z", 500_000),
            ("2024-02-29T12:00:00.123456789Z", "2024-02-29T12:00:00Z", 123_456),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59Z", 999_999),
        ] {
            let time = Timestamp::parse(text).unwrap();
            assert_eq!(time.to_string(), seconds, "{text}");
            assert_eq!(time.as_micros().rem_euclid(1_000_000), micros, "{text}");
        }
        for text in [
            "",
            "2026-02-29T00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00",
            "2026-01-01T00:00:00.Z",
            "2026-13-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn differences_never_go_below_zero() {
        let early = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let late = early.plus(Duration::from_secs(5));
        assert_eq!(late.since(early), Duration::from_secs(5));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late.minus(Duration::from_secs(5)), early);
        assert_eq!(late.micros(), "2026-01-01T00:00:05.000000Z");
    }
}
