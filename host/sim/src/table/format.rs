//! Formats times, labels and lists in cells.

use jiff::Timestamp;
use serde_json::Value;

/// The text of a string field, empty when absent.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text of a field, or `otherwise` when it is absent or empty.
pub(super) fn text_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    match value.as_str() {
        Some(text) if !text.is_empty() => text,
        _ => otherwise,
    }
}

/// An integer field, zero when absent.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// The elements of a list field.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Texts of a list field, joined.
pub(super) fn joined(value: &Value, separator: &str) -> String {
    list(value).iter().map(text).collect::<Vec<_>>().join(separator)
}

/// Text or number, as an int-or-string or a quantity prints.
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Time since a timestamp field, `<unknown>` when absent.
pub(super) fn since(value: &Value, now: Timestamp) -> String {
    match value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(now.as_second() - then.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// The object's age.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

/// Seconds between two timestamp fields.
pub(super) fn seconds_between(from: &Value, to: &Value) -> Option<i64> {
    let parse = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    Some(parse(to)?.as_second() - parse(from)?.as_second())
}

/// Two or three significant figures of a duration, as `apimachinery/pkg/util/duration` prints it.
pub(super) fn human_duration(seconds: i64) -> String {
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => pair(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// `a=1,b=2`, or `<none>`.
pub(super) fn labels(value: &Value) -> String {
    let mut pairs: Vec<String> =
        value.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect();
    pairs.sort();
    or_none(pairs.join(","))
}

/// A text, or `<none>` when it is empty.
pub(super) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_two_or_three_figures() {
        for (seconds, printed) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (10 * 86400, "10d"),
            (3 * 365 * 86400, "3y"),
            (3 * 365 * 86400 + 86400, "3y1d"),
            (9 * 365 * 86400, "9y"),
        ] {
            assert_eq!(human_duration(seconds), printed, "{seconds}");
        }
    }
}
