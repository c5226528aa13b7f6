//! The columns of the table: values and sort order.

use std::cmp::Ordering;

use pintle_core::overview::PluginOverview;
use pintle_core::text::printable;

/// Longest displayed name; names of plugins are shorter.
const MAX_NAME_BYTES: usize = 80;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    Phase,
    Ready,
    Delayed,
    Held,
    Running,
    RunsPerSecond,
    Median,
    P99,
    Failed,
    Faults,
    Memory,
}

impl Column {
    /// In display order.
    pub(super) const ALL: [Self; 12] = [
        Self::Name,
        Self::Phase,
        Self::Ready,
        Self::Delayed,
        Self::Held,
        Self::Running,
        Self::RunsPerSecond,
        Self::Median,
        Self::P99,
        Self::Failed,
        Self::Faults,
        Self::Memory,
    ];

    /// Columns dropped on a narrow terminal, the first one first. The name is always shown.
    pub(super) const DISPENSABLE: [Self; 11] = [
        Self::Delayed,
        Self::Held,
        Self::Median,
        Self::Failed,
        Self::Running,
        Self::Memory,
        Self::P99,
        Self::Phase,
        Self::Faults,
        Self::Ready,
        Self::RunsPerSecond,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Phase => "PHASE",
            Self::Ready => "QUEUED",
            Self::Delayed => "DELAYED",
            Self::Held => "HELD",
            Self::Running => "RUNNING",
            Self::RunsPerSecond => "RUNS/S",
            Self::Median => "MEDIAN",
            Self::P99 => "P99",
            Self::Failed => "FAILED",
            Self::Faults => "FAULTS",
            Self::Memory => "MEMORY",
        }
    }

    /// Whether it is a number, sorted in descending order by default.
    pub(super) fn is_number(self) -> bool {
        !matches!(self, Self::Name | Self::Phase)
    }

    pub(super) fn text(self, plugin: &PluginOverview) -> String {
        match self {
            Self::Name => printable(&plugin.name, MAX_NAME_BYTES),
            // A plugin that is not working is marked without colours, too.
            Self::Phase if plugin.problem.is_some() => format!("{:?} !", plugin.phase),
            Self::Phase => format!("{:?}", plugin.phase),
            Self::Ready => plugin.queue.ready.to_string(),
            Self::Delayed => plugin.queue.delayed.to_string(),
            Self::Held => plugin.queue.held.to_string(),
            Self::Running => format!("{}/{}", plugin.queue.running, plugin.n_workers),
            Self::RunsPerSecond => rate(plugin.runs_per_second),
            Self::Median => seconds(plugin.latency.map(|latency| latency.p50)),
            Self::P99 => seconds(plugin.latency.map(|latency| latency.p99)),
            Self::Failed => plugin.runs.failed().to_string(),
            Self::Faults => plugin.n_faults.to_string(),
            Self::Memory => bytes(plugin.memory_bytes),
        }
    }

    /// Ascending; plugins with equal values are sorted by name.
    pub(super) fn compare(self, a: &PluginOverview, b: &PluginOverview) -> Ordering {
        let of = |plugin: &PluginOverview| match self {
            Self::Ready => count(plugin.queue.ready),
            Self::Delayed => count(plugin.queue.delayed),
            Self::Held => count(plugin.queue.held),
            Self::Running => count(plugin.queue.running),
            Self::RunsPerSecond => plugin.runs_per_second,
            Self::Median => plugin.latency.map_or(-1.0, |latency| latency.p50),
            Self::P99 => plugin.latency.map_or(-1.0, |latency| latency.p99),
            Self::Failed => float(plugin.runs.failed()),
            Self::Faults => float(plugin.n_faults),
            Self::Memory => float(plugin.memory_bytes),
            Self::Name | Self::Phase => 0.0,
        };
        match self {
            Self::Phase => format!("{:?}", a.phase).cmp(&format!("{:?}", b.phase)),
            _ => of(a).total_cmp(&of(b)),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "an order of numbers for humans")]
fn float(n: u64) -> f64 {
    n as f64
}

fn count(n: usize) -> f64 {
    float(n as u64)
}

/// A rate: `0`, `0.25`, `12.3`, `1234`.
pub(super) fn rate(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.01 => "<0.01".to_owned(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A time: `85us`, `2.1ms`, `340ms`, `1.5s`.
pub(super) fn seconds(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 0.001 => format!("{:.0}us", value * 1e6),
        Some(value) if value < 0.01 => format!("{:.1}ms", value * 1e3),
        Some(value) if value < 1.0 => format!("{:.0}ms", value * 1e3),
        Some(value) => format!("{value:.1}s"),
    }
}

/// A size: `812B`, `1.2KiB`, `340MiB`.
pub(super) fn bytes(n: u64) -> String {
    let (mut value, mut units) = (float(n), ["B", "KiB", "MiB", "GiB", "TiB"].iter());
    let mut unit = units.next();
    while let (true, Some(next)) = (value >= 1024.0, units.as_slice().first()) {
        value /= 1024.0;
        unit = Some(next);
        units.next();
    }
    let unit = unit.copied().unwrap_or_default();
    if n < 1024 || value >= 100.0 { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let sizes = [0, 812, 1024, 1_300, 356_515_840, 5 << 30, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0B", "812B", "1.0KiB", "1.3KiB", "340MiB", "5.0GiB", "16777216TiB"]);
        assert_eq!([0.0, 0.004, 0.25, 12.34, 1234.0].map(rate), ["0", "<0.01", "0.25", "12.3", "1234"]);
        let times = [None, Some(0.000_085), Some(0.002_1), Some(0.34), Some(1.5)].map(seconds);
        assert_eq!(times, ["-", "85us", "2.1ms", "340ms", "1.5s"]);
    }
}
