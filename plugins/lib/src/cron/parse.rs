//! The schedule syntax. Errors are reasons without the schedule itself.

use std::time::Duration;

use pintle_sdk::time::go_duration;

use super::{Fields, Times};

/// A field: its name, its lowest and highest value, and the names of values, starting with the lowest.
#[doc(alias = "bounds")]
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { name: "minute", low: 0, high: 59, names: &[] },
    Field { name: "hour", low: 0, high: 23, names: &[] },
    Field { name: "day of the month", low: 1, high: 31, names: &[] },
    Field { name: "month", low: 1, high: 12, names: &MONTHS },
    Field { name: "day of the week", low: 0, high: 6, names: &WEEKDAYS },
];

/// Parses the part after the time zone.
#[doc(alias = "Parse")]
#[doc(alias = "parseDescriptor")]
pub(super) fn times(spec: &str) -> Result<Times, String> {
    let fields = match spec {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => match other.strip_prefix("@every ") {
            Some(duration) => return every(duration).map(Times::Every),
            None if other.starts_with('@') => {
                return Err(format!(
                    "{other:?} is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every DURATION"
                ));
            }
            None => other,
        },
    };
    let words: Vec<_> = fields.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = words[..] else {
        return Err(format!("it has {} of the 5 fields MINUTE HOUR DAY MONTH WEEKDAY", words.len()));
    };
    let [minutes, hours, days, months, weekdays] =
        [(minute, 0), (hour, 1), (day, 2), (month, 3), (weekday, 4)].map(|(text, i)| FIELDS[i].parse(text));
    let ((minutes, _), (hours, _), (months, _)) = (minutes?, hours?, months?);
    let ((days, any_day), (weekdays, any_weekday)) = (days?, weekdays?);
    Ok(Times::Fields(Fields { minutes, hours, days, months, weekdays, any_day: any_day || any_weekday }))
}

impl Field {
    /// Its bits, and whether it has a `*` without a step. Empty list items are skipped.
    #[doc(alias = "getField")]
    fn parse(&self, text: &str) -> Result<(u64, bool), String> {
        let (mut bits, mut is_any) = (0, false);
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (more, any) = self.item(item).ok_or_else(|| {
                let Self { name, low, high, .. } = self;
                let names = match self.names {
                    [first, .., last] => format!(" or {first}-{last}"),
                    _ => String::new(),
                };
                format!("{item:?} is not a valid {name}: {low}-{high}{names}, ranges, *, and steps of at least 1 such as */5")
            })?;
            bits |= more;
            is_any |= any;
        }
        Ok((bits, is_any))
    }

    #[doc(alias = "getRange")]
    #[doc(alias = "getBits")]
    fn item(&self, item: &str) -> Option<(u64, bool)> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (item, None),
        };
        let mut ends = range.split('-');
        let first = ends.next()?;
        let is_any = matches!(first, "*" | "?");
        let (from, to) = if is_any {
            (self.low, self.high)
        } else {
            let from = self.value(first)?;
            match (ends.next(), ends.next(), step) {
                (None, _, None) => (from, from),
                (None, _, Some(_)) => (from, self.high),
                (Some(to), None, _) => (from, self.value(to)?),
                (Some(_), Some(_), _) => return None,
            }
        };
        let step = step.unwrap_or(1);
        if from < self.low || to > self.high || from > to || step == 0 {
            return None;
        }
        let bits = (from..=to).step_by(usize::try_from(step).ok()?).fold(0, |bits, value| bits | 1 << value);
        Some((bits, is_any && step == 1))
    }

    #[doc(alias = "parseIntOrName")]
    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().zip(self.low..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        named.map(|(_, value)| value).or_else(|| number(text))
    }
}

#[doc(alias = "mustParseInt")]
fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// Parses Go's durations, rounded to whole seconds, at least one.
#[doc(alias = "Every")]
fn every(text: &str) -> Result<Duration, String> {
    let nanos = go_duration(text)
        .ok_or_else(|| format!("{text:?} is not a duration such as 1h30m; units are h, m, s, ms, us, ns"))?;
    Ok(Duration::from_secs(u64::try_from(nanos / 1_000_000_000).unwrap_or(0).max(1)))
}
