//! The last minutes of a host, as samples at regular intervals.
//!
//! Counters only grow while a plugin is loaded. When a plugin is loaded again, its counters start at zero, which is
//! detected because they are lower than before.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Counters, Latency, MAX_PLUGINS, Overview, PluginOverview, Series, rounded};

/// Time between two samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum points of a series: ten minutes.
pub const MAX_POINTS: usize = 120;
/// Time over which runs per second are counted.
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// Time over which quantiles are counted.
const LATENCY_WINDOW: Duration = Duration::from_secs(60);
/// Maximum counter samples: one [`LATENCY_WINDOW`], and the one before it.
const MAX_MARKS: usize = 14;

/// Counters at one instant.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Duration,
    n_runs: u64,
    n_faults: u64,
    latency: Latency,
}

impl Mark {
    fn of(counters: &Counters, at: Duration) -> Self {
        Self { at, n_runs: counters.runs.total(), n_faults: counters.n_faults, latency: counters.latency }
    }

    /// Whether the counters were reset after `earlier`.
    fn is_reset(&self, earlier: &Self) -> bool {
        self.n_runs < earlier.n_runs || self.n_faults < earlier.n_faults
    }
}

/// The changes between two marks.
#[derive(Clone, Copy, Debug, Default)]
struct Delta {
    took: Duration,
    n_runs: u64,
    n_faults: u64,
    latency: Latency,
}

impl Delta {
    fn between(earlier: &Mark, later: &Mark) -> Self {
        Self {
            took: later.at.saturating_sub(earlier.at),
            n_runs: later.n_runs.saturating_sub(earlier.n_runs),
            n_faults: later.n_faults.saturating_sub(earlier.n_faults),
            latency: later.latency.since(&earlier.latency),
        }
    }
}

/// A count per second; zero if no time has passed.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per_second(count: u64, took: Duration) -> f64 {
    if took.is_zero() { 0.0 } else { rounded(count as f64 / took.as_secs_f64()) }
}

/// Current values, as opposed to counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys in progress.
    pub running: usize,
    /// Memory.
    pub memory_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at: Duration,
    delta_runs: f64,
    delta_faults: f64,
    p50: Option<f64>,
    p99: Option<f64>,
    gauges: Gauges,
}

/// The history of one plugin, or of all.
#[derive(Clone, Debug, Default)]
struct Track {
    marks: VecDeque<Mark>,
    points: VecDeque<Point>,
}

impl Track {
    /// `before`: the time of the host's previous sample, when the counters of a new plugin were zero.
    fn record(&mut self, mark: Mark, gauges: Gauges, before: Duration) -> Delta {
        if self.marks.back().is_some_and(|last| mark.is_reset(last)) {
            self.marks.clear();
        }
        let base = *self.marks.back().unwrap_or(&Mark { at: before, ..Mark::default() });
        if self.marks.is_empty() {
            self.marks.push_back(base);
        }
        let delta = Delta::between(&base, &mark);
        let quantile = |part| delta.latency.quantile(part).map(rounded);
        self.points.push_back(Point {
            at: mark.at,
            delta_runs: per_second(delta.n_runs, delta.took),
            delta_faults: per_second(delta.n_faults, delta.took),
            p50: quantile(0.5),
            p99: quantile(0.99),
            gauges,
        });
        self.marks.push_back(mark);
        self.points.drain(..self.points.len().saturating_sub(MAX_POINTS));
        self.marks.drain(..self.marks.len().saturating_sub(MAX_MARKS));
        delta
    }

    /// The changes since the latest mark that is at least as old as the window, or since the oldest one.
    fn last(&self, now: &Mark, window: Duration) -> Delta {
        let usable = || self.marks.iter().filter(|mark| !now.is_reset(mark));
        let old_enough = usable().rev().find(|mark| now.at.saturating_sub(mark.at) >= window);
        old_enough.or_else(|| usable().next()).map_or_else(Delta::default, |mark| Delta::between(mark, now))
    }

    fn series(&self, now: Duration) -> Series {
        let saturated = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut series = Series::default();
        for point in &self.points {
            series.seconds_ago.push(rounded(now.saturating_sub(point.at).as_secs_f64()));
            series.runs_per_second.push(point.delta_runs);
            series.faults_per_second.push(point.delta_faults);
            series.ready.push(saturated(point.gauges.ready));
            series.running.push(saturated(point.gauges.running));
            series.p50_seconds.push(point.p50);
            series.p99_seconds.push(point.p99);
            series.memory_bytes.push(point.gauges.memory_bytes);
        }
        series
    }
}

/// The last minutes of a host.
#[derive(Clone, Debug, Default)]
pub struct History {
    all: Track,
    /// Counters of all plugins in total, which do not fall when a plugin is unloaded.
    total: Mark,
    by_plugin: BTreeMap<String, Track>,
}

impl History {
    /// Takes a sample. `now` is the time since the start of the host, `memory_bytes` the memory of the process. A
    /// sample that comes too early is ignored.
    pub fn record(&mut self, now: Duration, plugins: &[Counters], memory_bytes: u64) {
        let before = self.all.marks.back().map(|mark| mark.at);
        if before.is_some_and(|before| now < before + SAMPLE_INTERVAL / 2) {
            return;
        }
        let before = before.unwrap_or_default();
        self.by_plugin.retain(|name, _| plugins.iter().take(MAX_PLUGINS).any(|plugin| plugin.name == *name));
        let mut all = Gauges { memory_bytes, ..Gauges::default() };
        for plugin in plugins.iter().take(MAX_PLUGINS) {
            let gauges = Gauges {
                ready: plugin.queue.ready,
                running: plugin.queue.running,
                memory_bytes: plugin.memory_bytes(),
            };
            all.ready += gauges.ready;
            all.running += gauges.running;
            let track = self.by_plugin.entry(plugin.name.clone()).or_default();
            let delta = track.record(Mark::of(plugin, now), gauges, before);
            self.total.n_runs += delta.n_runs;
            self.total.n_faults += delta.n_faults;
            self.total.latency = self.total.latency.and(&delta.latency);
        }
        self.total.at = now;
        self.all.record(self.total, all, before);
    }

    /// The current state of the plugins, and the history of the host; without facts about the host.
    pub fn overview(&self, now: Duration, plugins: &[Counters]) -> Overview {
        Overview {
            plugins: plugins.iter().take(MAX_PLUGINS).map(|plugin| self.plugin(now, plugin)).collect(),
            n_omitted: plugins.len().saturating_sub(MAX_PLUGINS),
            series: self.all.series(now),
            ..Overview::default()
        }
    }

    /// The current state of one plugin.
    pub fn plugin(&self, now: Duration, counters: &Counters) -> PluginOverview {
        let mark = Mark::of(counters, now);
        let last = |window| match self.by_plugin.get(&counters.name) {
            Some(track) => track.last(&mark, window),
            // The plugin was loaded after the last sample.
            None => Delta::between(&Mark { at: self.total.at, ..Mark::default() }, &mark),
        };
        let recent = last(RATE_WINDOW);
        PluginOverview {
            name: counters.name.clone(),
            phase: counters.phase,
            problem: counters.problem.clone(),
            version: counters.version.clone(),
            queue: counters.queue,
            n_workers: counters.n_workers,
            runs: counters.runs,
            runs_per_second: per_second(recent.n_runs, recent.took),
            n_faults: counters.n_faults,
            latency: last(LATENCY_WINDOW).latency.quantiles(),
            n_instances: counters.n_instances,
            instance_bytes: counters.instance_bytes,
            cached_bytes: counters.cached_bytes,
            n_cached: counters.n_cached,
            held_bytes: counters.held_bytes,
            memory_bytes: counters.memory_bytes(),
            last_error: counters.last_error.clone(),
        }
    }

    /// The last minutes of one plugin; empty if it is unknown.
    pub fn series(&self, now: Duration, plugin: &str) -> Series {
        self.by_plugin.get(plugin).map(|track| track.series(now)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lifecycle::Phase;
    use crate::overview::{QueueDepth, RunCounts};

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn counters(name: &str, n_runs: u64, n_faults: u64) -> Counters {
        let mut latency = Latency::default();
        (0..n_runs).for_each(|_| latency.observe(Duration::from_millis(2)));
        Counters {
            name: name.to_owned(),
            phase: Phase::Running,
            problem: None,
            version: "1.0.0".to_owned(),
            queue: QueueDepth { ready: 3, running: 1, ..QueueDepth::default() },
            n_workers: 5,
            runs: RunCounts { success: n_runs - n_faults, fault: n_faults, ..RunCounts::default() },
            n_faults,
            latency,
            n_instances: 1,
            instance_bytes: 100,
            cached_bytes: 20,
            n_cached: 2,
            held_bytes: 3,
            last_error: None,
        }
    }

    #[test]
    fn rates_are_those_of_the_last_seconds_and_of_each_interval() {
        let mut history = History::default();
        history.record(seconds(5), &[counters("a", 10, 0)], 1_000);
        history.record(seconds(10), &[counters("a", 60, 5), counters("b", 5, 0)], 2_000);
        history.record(seconds(15), &[counters("a", 60, 5), counters("b", 5, 0)], 3_000);
        let overview = history.overview(seconds(17), &[counters("a", 72, 5), counters("b", 5, 0)]);
        // Since 5 s, the latest sample that is ten seconds old: 62 runs in 12 s.
        assert!((overview.plugins[0].runs_per_second - 5.167).abs() < 1e-9, "{:?}", overview.plugins[0]);
        assert_eq!(overview.plugins[0].memory_bytes, 123);
        let series = &overview.series;
        assert_eq!(series.seconds_ago, [12.0, 7.0, 2.0]);
        // Runs before the first sample count, and runs of a plugin that was loaded between two samples.
        assert_eq!(series.runs_per_second, [2.0, 11.0, 0.0]);
        assert_eq!(series.faults_per_second, [0.0, 1.0, 0.0]);
        assert_eq!((&series.ready[..], &series.running[..]), (&[3, 6, 6][..], &[1, 2, 2][..]));
        assert_eq!(series.memory_bytes, [1_000, 2_000, 3_000]);
        assert!(series.p99_seconds[1].is_some_and(|p99| p99 > 0.001 && p99 <= 0.0025), "{series:?}");
        assert_eq!(series.p99_seconds[2], None, "nothing ran");
        assert_eq!(history.series(seconds(17), "b").runs_per_second, [1.0, 0.0]);
        assert_eq!(history.series(seconds(17), "c"), Series::default());
    }

    #[test]
    fn latency_forgets_what_is_older_than_a_minute() {
        let mut history = History::default();
        for n in 1..=12 {
            history.record(seconds(n * 5), &[counters("a", 10, 0)], 0);
        }
        let latency = |history: &History, now| history.plugin(seconds(now), &counters("a", 10, 0)).latency;
        assert!(latency(&history, 60).is_some());
        history.record(seconds(65), &[counters("a", 10, 0)], 0);
        assert_eq!(latency(&history, 66), None);
    }

    #[test]
    fn a_plugin_that_is_loaded_again_begins_at_zero() {
        let mut history = History::default();
        history.record(seconds(5), &[counters("a", 100, 3)], 0);
        // Before the next sample.
        let plugin = history.plugin(seconds(6), &counters("a", 2, 0));
        assert!(plugin.runs_per_second < 3.0, "{plugin:?}");
        history.record(seconds(10), &[counters("a", 10, 0)], 0);
        assert_eq!(history.overview(seconds(10), &[]).series.runs_per_second, [20.0, 2.0]);
        // The plugin and its history are removed; the host's history remains.
        history.record(seconds(15), &[], 0);
        assert_eq!(history.series(seconds(15), "a"), Series::default());
        assert_eq!(history.overview(seconds(15), &[]).series.runs_per_second, [20.0, 2.0, 0.0]);
    }

    #[test]
    fn a_sample_that_comes_too_early_is_ignored() {
        let mut history = History::default();
        for millis in [5_000, 5_001, 7_499, 7_500, 7_501] {
            history.record(Duration::from_millis(millis), &[counters("a", 1, 0)], 0);
        }
        assert_eq!(history.all.points.len(), 2);
    }

    #[test]
    fn memory_is_bounded_in_time_and_plugins() {
        let mut history = History::default();
        let plugins: Vec<Counters> = (0..MAX_PLUGINS + 10).map(|n| counters(&format!("p{n:04}"), 1, 0)).collect();
        for n in 1..=MAX_POINTS as u64 + 50 {
            history.record(seconds(n * 5), &plugins, 0);
        }
        assert_eq!(history.by_plugin.len(), MAX_PLUGINS);
        for track in history.by_plugin.values().chain([&history.all]) {
            assert_eq!((track.points.len(), track.marks.len()), (MAX_POINTS, MAX_MARKS));
        }
        let overview = history.overview(seconds(1_000), &plugins);
        assert_eq!((overview.plugins.len(), overview.n_omitted), (MAX_PLUGINS, 10));
        assert_eq!(overview.series.seconds_ago.len(), MAX_POINTS);
    }

    proptest! {
        /// With any sequence of loads and unloads, no rate is negative or infinite, and the points add up to the
        /// counted runs.
        #[test]
        fn points_add_up_to_the_runs_that_were_counted(
            steps in prop::collection::vec((3..20_u64, prop::collection::vec(prop::option::of(0..50_u64), 3)), 1..40),
        ) {
            let (mut history, mut now, mut n_all) = (History::default(), 0, 0_u64);
            let mut loaded: [Option<u64>; 3] = [None; 3];
            let mut before = Duration::ZERO;
            let mut found = 0.0;
            for (pause, changes) in steps {
                now += pause;
                for (plugin, change) in loaded.iter_mut().zip(changes) {
                    // `None` if the plugin is unloaded.
                    *plugin = change.map(|n| plugin.unwrap_or(0) + n);
                    n_all += change.unwrap_or(0);
                }
                let all: Vec<Counters> = loaded.iter().enumerate()
                    .filter_map(|(i, n)| n.map(|n| counters(&format!("p{i}"), n, 0))).collect();
                history.record(seconds(now), &all, 0);
                let point = history.all.points.back().unwrap();
                prop_assert!(point.delta_runs.is_finite() && point.delta_runs >= 0.0);
                found += point.delta_runs * (seconds(now) - before).as_secs_f64();
                before = seconds(now);
            }
            #[allow(clippy::cast_precision_loss, reason = "few runs")]
            let n_all = n_all as f64;
            // Rounding to four digits.
            prop_assert!((found - n_all).abs() <= n_all * 0.001 + 1e-6, "{} is not {}", found, n_all);
        }
    }
}
