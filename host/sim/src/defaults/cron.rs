//! Validation of a CronJob's schedule and time zone.
//!
//! Not here: computing due times.
//!
//! Source: `github.com/robfig/cron/v3`, `pkg/apis/batch/validation`.

/// The fields of a schedule: least and most value, and names.
const FIELDS: [(u64, u64, &[&str], u64); 5] = [
    (0, 59, &[], 0),
    (0, 23, &[], 0),
    (1, 31, &[], 0),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"], 0),
];

/// The error in a schedule.
pub(super) fn schedule(text: &str) -> Option<String> {
    let mut text = text;
    // The zone is rejected elsewhere.
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        match text.split_once(' ') {
            Some((_, rest)) => text = rest.trim(),
            None => return Some("invalid schedule format".to_owned()),
        }
    }
    if let Some(descriptor) = text.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        return match descriptor.strip_prefix("every ") {
            Some(duration) if is_duration(duration) => None,
            Some(duration) => Some(format!("failed to parse duration {duration}")),
            None if known.contains(&descriptor) => None,
            None => Some(format!("unrecognized descriptor: {text}")),
        };
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let wrong = |(field, range): (&&str, &(u64, u64, &[&str], u64))| {
        field.split(',').filter(|part| !part.is_empty()).find_map(|part| wrong_range(part, range))
    };
    fields.iter().zip(&FIELDS).find_map(wrong)
}

fn wrong_range(text: &str, (least, most, names, first): &(u64, u64, &[&str], u64)) -> Option<String> {
    let number = |text: &str| {
        let lower = text.to_lowercase();
        let named = names.iter().position(|name| *name == lower).and_then(|place| u64::try_from(place).ok());
        named.map(|place| place + first).or_else(|| text.parse().ok())
    };
    let failed = |text: &str| Some(format!("failed to parse int from {text}"));
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    let (low, high) = range.split_once('-').map_or((range, None), |(low, high)| (low, Some(high)));
    let (start, mut end) = if matches!(low, "*" | "?") {
        (*least, *most)
    } else {
        let Some(start) = number(low) else { return failed(low) };
        let Some(end) = high.map_or(Some(start), &number) else { return failed(high.unwrap_or_default()) };
        (start, end)
    };
    if let Some(step) = step {
        match step.parse::<u64>() {
            Ok(0) => return Some(format!("step of range should be a positive number: {text}")),
            Ok(_) if high.is_none() => end = *most,
            Ok(_) => {}
            Err(_) => return failed(step),
        }
    }
    if start < *least {
        return Some(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > *most {
        return Some(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    (start > end).then(|| format!("beginning of range ({start}) beyond end of range ({end}): {text}"))
}

/// Whether this is one of Go's durations, such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut found = false;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].into_iter().find(|unit| tail.starts_with(unit));
        let (Ok(_), Some(unit)) = (number.parse::<f64>(), unit) else { return false };
        rest = &tail[unit.len()..];
        found = true;
    }
    found
}

/// The error in a time zone name.
pub(super) fn zone(name: &str) -> Option<String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    let part = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(fine)
    };
    if name.is_empty() {
        return Some("timeZone must be nil or non-empty string".to_owned());
    }
    let unknown = Some(format!("unknown time zone {name}"));
    if !name.split('/').all(part) {
        return unknown;
    }
    if name.eq_ignore_ascii_case("local") {
        return Some("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned());
    }
    // Without a time zone database, any name may be valid.
    let zones = jiff::tz::db();
    let is_known = zones.is_definitively_empty() || zones.get(name).is_ok_and(|zone| zone.iana_name() == Some(name));
    if is_known { None } else { unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_by_the_controller() {
        let fine =
            ["* * * * *", "*/5 1,2,3 1-7 JAN-DEC mon-fri", "? ? ? ? ?", "5/10 * * * *", "@hourly", "@every 1h30m"];
        assert_eq!(fine.map(schedule), [const { None }; 6]);
        let wrong =
            ["* * * * 7", "@reboot", "*/0 * * * *", "* * *", "60 * * * *", "a b c d e", "5-1 * * * *", "@every x"];
        assert!(wrong.into_iter().all(|text| schedule(text).is_some()));
    }
}
