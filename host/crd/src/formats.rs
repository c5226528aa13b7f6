//! String formats that JSON Schema lacks, or defines differently.
//!
//! *Source*: `kube-openapi/pkg/validation/strfmt`. The formats `isbn`, `creditcard`, `ssn` and colours are not checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A format's name, and its check.
type Format = (&'static str, fn(&str) -> bool);

pub(crate) const FORMATS: [Format; 8] = [
    ("byte", |text| STANDARD.decode(text).is_ok()),
    ("cidr", |text| text.parse::<ipnet::IpNet>().is_ok()),
    ("date", is_date),
    ("duration", is_duration),
    ("mac", is_mac),
    ("uuid", is_uuid),
    ("uuid4", |text| is_uuid(text) && version(text) == Some('4')),
    ("uuid5", |text| is_uuid(text) && version(text) == Some('5')),
];

/// `2006-01-02`.
fn is_date(text: &str) -> bool {
    let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|digit| digit.is_ascii_digit());
    let parts: Vec<&str> = text.split('-').collect();
    let is_spelled = matches!(parts[..], [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2));
    // The library accepts other spellings, too.
    is_spelled && text.parse::<jiff::civil::Date>().is_ok()
}

/// A Go duration, such as `1h30m`, or a number with a unit, such as `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 30] = [
        "ns",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micro",
        "micros",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "minute",
        "minutes",
        "h",
        "hour",
        "hours",
        "day",
        "days",
    ];
    let text = text.trim();
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut n_parts = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let is_unit = UNITS.contains(&unit);
        if number.parse::<f64>().is_err() || !is_unit {
            return false;
        }
        rest = tail.trim_start();
        n_parts += 1;
    }
    n_parts > 0
}

/// Six pairs of hexadecimal digits, with `:` or `-` between them.
fn is_mac(text: &str) -> bool {
    [':', '-'].iter().any(|separator| {
        let pairs: Vec<&str> = text.split(*separator).collect();
        pairs.len() == 6
            && pairs.iter().all(|pair| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
    })
}

fn is_uuid(text: &str) -> bool {
    // The library accepts braces and a prefix.
    matches!(text.len(), 32 | 36) && uuid::Uuid::parse_str(text).is_ok()
}

fn version(uuid: &str) -> Option<char> {
    uuid.chars().filter(|c| *c != '-').nth(12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_what_kubernetes_accepts() {
        let check = |format: &str, text: &str| {
            FORMATS.iter().find(|(name, _)| *name == format).is_some_and(|(_, is_valid)| is_valid(text))
        };
        let cases = [
            ("byte", "aGVsbG8=", "hello!"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("cidr", "fd00::/64", "10.0.0.0"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date", "1999-12-31", "1999-13-01"),
            ("duration", "1h30m", "1h30"),
            ("duration", "3 days", "days"),
            ("duration", "0", ""),
            ("mac", "00:1A:2b:3c:4d:5e", "00:1A:2b:3c:4d"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            ("uuid4", "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ];
        for (format, valid, invalid) in cases {
            assert!(check(format, valid), "{format} {valid}");
            assert!(!check(format, invalid), "{format} {invalid}");
        }
    }
}
