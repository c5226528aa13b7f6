//! Times as kubectl prints them.

/// A duration as kubectl prints ages: `37s`, `5m`, `3h12m`, `4d`.
pub(super) fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let with = |n: i64, unit: char, rest: i64, rest_unit: char| {
        if rest == 0 { format!("{n}{unit}") } else { format!("{n}{unit}{rest}{rest_unit}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        with(minutes, 'm', seconds % 60, 's')
    } else if hours < 3 {
        format!("{minutes}m")
    } else if hours < 8 {
        with(hours, 'h', minutes % 60, 'm')
    } else if days < 2 {
        format!("{hours}h")
    } else if days < 8 {
        with(days, 'd', hours % 24, 'h')
    } else {
        format!("{days}d")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_kubectls() {
        for (seconds, expected) in [
            (-3, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (601, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (100_000, "27h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (700_000, "8d"),
        ] {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }
}
