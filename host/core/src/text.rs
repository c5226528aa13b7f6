//! Tables, sizes and ages for the terminal, as kubectl prints them.

/// A size that is read at a glance and exact: `2.2 MiB (2,255,012 bytes)`.
pub fn bytes(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    let exact = format!("{} bytes", groups.join(","));
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| n >> bits > 0) {
        // Exact enough for one digit after the point.
        Some((unit, bits)) => format!("{:.1} {unit} ({exact})", n as f64 / f64::from(1_u32 << bits)),
        None => exact,
    }
}

/// Columns as wide as their widest cell, three spaces between them, as kubectl prints tables.
pub fn table(rows: &[Vec<String>]) -> String {
    const GAP: usize = 3;
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..n_columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<pad$}", pad = width + GAP));
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A duration as kubectl prints ages: `37s`, `5m`, `3h12m`, `4d`.
pub fn age(seconds: i64) -> String {
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
    fn sizes_are_read_at_a_glance_and_exact() {
        for (n, expected) in [
            (0, "0 bytes"),
            (1_023, "1,023 bytes"),
            (1_024, "1.0 KiB (1,024 bytes)"),
            (2_255_012, "2.2 MiB (2,255,012 bytes)"),
            (5 << 30, "5.0 GiB (5,368,709,120 bytes)"),
        ] {
            assert_eq!(bytes(n), expected);
        }
    }

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
