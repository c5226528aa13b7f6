//! Progress reports of a command that waits: each stage once, and every ten seconds its current stage.

use std::fmt::Write as _;
use std::time::Duration;

use pintle_core::lifecycle::{Stage, StageProgress};
use pintle_core::text::age;
use pintle_sources::wire::PluginStatus;
use tokio::time::Instant;

/// Interval between two reports of the same stage.
const PERIOD: Duration = Duration::from_secs(10);

/// The current stage of a command.
pub struct Waiting {
    report: fn(&str),
    started: Instant,
    stage: Option<Stage>,
    /// The stage.
    now: String,
    reported: Instant,
}

impl Waiting {
    /// Waits for `what`, until a plugin shows a more specific stage. `report` receives lines for humans.
    pub fn new(what: impl Into<String>, report: fn(&str)) -> Self {
        let started = Instant::now();
        Self { report, started, stage: None, now: what.into(), reported: started }
    }

    /// Changes the stage.
    pub fn begin(&mut self, what: impl Into<String>) {
        self.now = what.into();
    }

    /// The current stage.
    pub fn what(&self) -> &str {
        &self.now
    }

    /// Updates the state of the plugin; reports a new stage.
    pub(crate) fn see(&mut self, plugin: &PluginStatus) {
        let Some(stage) = plugin.stage else { return };
        self.now = text(plugin, stage);
        if self.stage.replace(stage) != Some(stage) {
            self.report_now();
        }
    }

    /// Reports the current stage, if the interval has passed.
    pub(crate) fn tick(&mut self) {
        if self.reported.elapsed() >= PERIOD {
            self.report_now();
        }
    }

    fn report_now(&mut self) {
        self.reported = Instant::now();
        let since = self.started.elapsed();
        let line = if since < PERIOD { self.now.clone() } else { format!("{} ({} so far)", self.now, span(since)) };
        (self.report)(&line);
    }
}

/// Whole seconds, as kubectl prints ages.
fn span(time: Duration) -> String {
    age(i64::try_from(time.as_millis().div_ceil(1000)).unwrap_or(i64::MAX))
}

fn text(plugin: &PluginStatus, stage: Stage) -> String {
    let none = StageProgress::default();
    let progress = plugin.progress.as_ref().unwrap_or(&none);
    let StageProgress { n_runs, wanted_runs, remaining_ms, unsynced } = progress;
    let left = remaining_ms.map(|left| span(Duration::from_millis(left)));
    let mut text = match stage {
        Stage::Validating => "validating".to_owned(),
        Stage::Compiling => "compiling".to_owned(),
        Stage::Syncing if unsynced.is_empty() => "syncing the caches of new watches".to_owned(),
        Stage::Syncing => format!("syncing the caches of {}", unsynced.join(", ")),
        Stage::Shadowing => "running beside the old version".to_owned(),
        Stage::Probation => "on probation".to_owned(),
    };
    // Writing to a String does not fail.
    match (stage, left) {
        (Stage::Syncing, Some(left)) => drop(write!(text, ", for at most {left} more")),
        (Stage::Shadowing, left) if plugin.progress.is_some() => {
            let _ = write!(text, ": {n_runs} of {wanted_runs} runs compared, ");
            text += &left.map_or_else(|| "without a time limit".to_owned(), |left| format!("at most {left} more"));
        }
        (Stage::Probation, Some(left)) => {
            let _ = write!(text, ": {n_runs} of {wanted_runs} runs, ");
            text +=
                &if *remaining_ms == Some(0) { "its time is over".to_owned() } else { format!("at least {left} more") };
        }
        _ => {}
    }
    let counts = stage == Stage::Shadowing || stage == Stage::Probation;
    let is_idle =
        plugin.queues.iter().all(|queue| queue.n_dirty + queue.n_waiting + queue.n_running + queue.n_held == 0);
    if counts && n_runs < wanted_runs && is_idle {
        text += "; the plugin is idle: it runs when its objects change";
    }
    text
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::{Value, json};

    use super::*;

    thread_local! {
        static REPORTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn plugin(stage: &str, progress: Value, n_dirty: usize) -> PluginStatus {
        serde_json::from_value(json!({
            "name": "p", "phase": "Running", "source": "built-in", "stage": stage, "progress": progress,
            "current": {"version": "1", "digest": "aa", "origin": "x", "since": ""},
            "queues": [{"name": "q", "dirty": n_dirty, "waiting": 0, "running": 0, "held": 0}],
        }))
        .unwrap()
    }

    #[test]
    fn each_stage_says_what_it_waits_for() {
        let check = |stage: &str, progress: Value, n_dirty| {
            let plugin = plugin(stage, progress, n_dirty);
            text(&plugin, plugin.stage.unwrap())
        };
        assert_eq!(check("Compiling", Value::Null, 0), "compiling");
        assert_eq!(
            check("Syncing", json!({"unsynced": ["v1/Pod", "v1/Node"], "remainingMs": 41_000}), 0),
            "syncing the caches of v1/Pod, v1/Node, for at most 41s more"
        );
        let shadow = |left: Value| json!({"nRuns": 2, "wantedRuns": 5, "remainingMs": left});
        assert_eq!(
            check("Shadowing", shadow(json!(59_000)), 3),
            "running beside the old version: 2 of 5 runs compared, at most 59s more"
        );
        assert_eq!(
            check("Shadowing", shadow(Value::Null), 0),
            "running beside the old version: 2 of 5 runs compared, without a time limit; the plugin is idle: it runs when its objects change"
        );
        assert_eq!(
            check("Probation", json!({"nRuns": 3, "wantedRuns": 100, "remainingMs": 0}), 0),
            "on probation: 3 of 100 runs, its time is over; the plugin is idle: it runs when its objects change"
        );
        assert_eq!(
            check("Probation", json!({"nRuns": 100, "wantedRuns": 100, "remainingMs": 90_000}), 0),
            "on probation: 100 of 100 runs, at least 90s more"
        );
        assert_eq!(check("Probation", Value::Null, 0), "on probation", "of a host that does not report it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stage_is_reported_once_and_again_after_a_while() {
        let mut waiting = Waiting::new("the host to compile", |line| {
            REPORTS.with_borrow_mut(|reports| reports.push(line.to_owned()))
        });
        let reports = || REPORTS.take();
        waiting.tick();
        assert!(reports().is_empty());
        for _ in 0..2 {
            waiting.see(&plugin("Compiling", Value::Null, 0));
        }
        assert_eq!(reports(), ["compiling"]);
        let probation =
            |n_runs: u32| plugin("Probation", json!({"nRuns": n_runs, "wantedRuns": 9, "remainingMs": 1000}), 1);
        waiting.see(&probation(1));
        waiting.see(&probation(2));
        assert_eq!(
            reports(),
            ["on probation: 1 of 9 runs, at least 1s more"],
            "numbers alone are reported with the next line"
        );
        tokio::time::advance(PERIOD).await;
        waiting.tick();
        waiting.tick();
        assert_eq!(reports(), ["on probation: 2 of 9 runs, at least 1s more (10s so far)"]);
        assert_eq!(waiting.what(), "on probation: 2 of 9 runs, at least 1s more");
    }
}
