//! Sizes and tables for the terminal.

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
}
