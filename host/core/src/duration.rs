//! Durations in Go's syntax, as in the flags of Kubernetes components.

use std::time::Duration;

/// Longest duration that a queue's timer supports.
pub const LONGEST: Duration = Duration::from_millis(u32::MAX as u64);

/// Parses a duration such as `1h30m`, `1.5s`, `300ms` or `0`.
///
/// # Errors
/// The valid syntax. A retry does not help.
pub fn parse(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("\u{b5}s", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0)];
    let wrong = || "write a duration such as 90s, 5m or 1h30m".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    loop {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (value, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        seconds += value.parse::<f64>().map_err(|_| wrong())? * factor;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Formats a duration in Go's syntax, for example `1h30m`, `1.5s` or `300ms`; the smallest unit is a nanosecond.
pub fn format(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    let mut text = String::new();
    for (n, unit) in [(seconds / 3_600, 'h'), (seconds / 60 % 60, 'm')] {
        if n > 0 {
            text += &format!("{n}{unit}");
        }
    }
    match (seconds % 60, nanos) {
        (0, 0) => {}
        (n, 0) => text += &format!("{n}s"),
        (0, nanos) if nanos % 1_000_000 == 0 => text += &format!("{}ms", nanos / 1_000_000),
        (0, nanos) if nanos % 1_000 == 0 => text += &format!("{}us", nanos / 1_000),
        (0, nanos) => text += &format!("{nanos}ns"),
        (n, nanos) => text += &format!("{n}.{}s", format!("{nanos:09}").trim_end_matches('0')),
    }
    text
}

/// Parses a duration of at most [`LONGEST`].
///
/// # Errors
/// The valid syntax or range. A retry does not help.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        duration if duration > LONGEST => Err(format!("at most {}h", LONGEST.as_secs() / 3_600)),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_gos_syntax() {
        for (text, millis) in
            [("0", 0), ("0s", 0), ("5m", 300_000), ("1h30m", 5_400_000), ("1.5s", 1_500), ("300ms", 300)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "-5m", "m", "5 m", "1d", "1h-3m", "1..5s"] {
            assert_eq!(parse(text), Err("write a duration such as 90s, 5m or 1h30m".to_owned()), "{text}");
        }
    }

    #[test]
    fn a_duration_that_is_written_is_the_same_one_when_it_is_read() {
        for (text, nanos) in [
            ("0s", 0),
            ("15s", 15_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("8760h", 31_536_000_000_000_000),
            ("1m1.5s", 61_500_000_000),
            ("1h300ms", 3_600_300_000_000),
            ("20us", 20_000),
            ("7ns", 7),
        ] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!((format(duration).as_str(), parse(text)), (text, Ok(duration)));
        }
    }

    #[test]
    fn a_period_fits_the_timer_of_a_queue() {
        assert_eq!(parse("9999h"), Ok(Duration::from_secs(9_999 * 3_600)));
        assert_eq!(parse_period("9999h"), Err("at most 1193h".to_owned()));
        assert_eq!(parse_period("1193h"), Ok(Duration::from_secs(1_193 * 3_600)));
        assert_eq!(parse_period("x"), parse("x"));
    }
}
