//! The last failed runs of each plugin, with everything they read, for replay.
//!
//! *Flow*: a run ends with a fault or a declared error ([`crate::controller`]) -> its read log returns the objects that
//! it read
//! -> the run is kept here until newer ones replace it -> the manager returns it on request.
//!
//! *Invariants*:
//! 1. Failures are kept in memory only, and bounded: [`MAX_RUNS`] per plugin, [`MAX_BYTES`] for all plugins. The oldest
//!    run is dropped first; at the bound of all plugins, the oldest run of the plugin with the most, so that a
//!    constantly failing plugin displaces only its own runs.
//! 2. A run that fails like an earlier one is only counted, and the first one's input is kept.
//!
//! *Not here*: the file format of a saved run, and the masking of secrets (`pintle`'s `cases`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::MutationFailure;
use pintle_core::lifecycle::read_set::ReadSet;
use pintle_core::object::id::Key;
use pintle_core::ports::guest::{FaultKind, LogLine};
use tokio::sync::watch;

/// Maximum kept runs per plugin.
pub const MAX_RUNS: usize = 20;
/// Maximum bytes of the kept runs of all plugins, counted without sharing with the caches.
pub const MAX_BYTES: usize = 32 << 20;
/// Maximum bytes of a message, which is the plugin's own text.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4 << 10;
/// Bytes of a run in addition to its texts and objects.
const RUN_BYTES: usize = 1 << 10;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A fault of the plugin; only granted mutations of the outcome were executed.
    Fault(FaultKind),
    /// The plugin requested a retry.
    Retry,
    /// The plugin declared a terminal error.
    Terminal,
}

impl Failure {
    /// The failure as one word: the metric label of the fault, `retry` or `terminal`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fault(kind) => kind.as_str(),
            Self::Retry => "retry",
            Self::Terminal => "terminal",
        }
    }
}

/// Identity of a failure: runs with equal values failed in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureIdentity {
    /// Key of the run.
    pub key: Key,
    /// SHA-256 of the component, in hexadecimal; empty if there is none.
    pub digest: String,
    /// Kind of failure.
    pub failure: Failure,
    /// Message for humans; partly untrusted text, truncated.
    pub message: String,
}

/// A failed run with everything it read.
#[derive(Clone, Debug)]
pub struct FailedRun {
    /// Key and failure of the run.
    pub identity: FailureIdentity,
    /// Version of the plugin.
    pub manifest: Arc<Manifest>,
    /// The time in the run's view: RFC 3339 with microseconds, UTC.
    pub now: String,
    /// The uptime of the host in the run's view.
    pub uptime: Duration,
    /// Consecutive failures of the key before this run.
    pub attempt: u32,
    /// Failures of the key's previous outcome.
    pub failures: Vec<MutationFailure>,
    /// The configuration of the run: a JSON object.
    pub config: Arc<str>,
    /// The objects that it read.
    pub read_set: ReadSet,
    /// Its log; of a long log, the last lines.
    pub log: Vec<LogLine>,
}

/// A kept run.
#[derive(Clone, Debug)]
pub struct RecordedFailure {
    /// Number, never reused in this process.
    pub id: u64,
    /// The first run that failed this way.
    pub run: Arc<FailedRun>,
    /// Number of such failures.
    pub n_times: u64,
    /// Time of the last failure.
    pub last: String,
    n_bytes: usize,
}

impl FailedRun {
    /// Upper bound of the bytes that it uses.
    pub fn n_bytes(&self) -> usize {
        let objects = self.read_set.objects.iter().map(|seen| seen.n_bytes());
        let answers = self.read_set.answers.iter().map(|(need, answer)| {
            need.n_bytes()
                + answer.as_ref().map_or_else(|error| error.reason.len() + error.message.len(), |text| text.len())
        });
        let state = self.read_set.state.iter().map(|(name, value)| name.len() + value.len());
        let failures = self.failures.iter().map(|failure| failure.message.len() + size_of::<MutationFailure>());
        let log = self.log.iter().map(|line| line.message.len() + size_of::<LogLine>());
        let texts = objects.chain(answers).chain(state).chain(failures).chain(log);
        texts.sum::<usize>() + self.identity.message.len() + self.config.len() + RUN_BYTES
    }
}

/// The failed runs of all plugins.
#[derive(Debug)]
pub(crate) struct Failures {
    shelf: Mutex<Shelf>,
    changes: watch::Sender<u64>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    n_so_far: u64,
    /// Plugin name -> its runs, the most recently failed one last.
    by_plugin: BTreeMap<Arc<str>, VecDeque<RecordedFailure>>,
}

impl Failures {
    pub(crate) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self { shelf: Mutex::default(), changes: watch::Sender::new(0), max_bytes })
    }

    /// Records a failed run; calls `make` only if no kept run failed the same way.
    pub(crate) fn keep(
        &self,
        plugin: &Arc<str>,
        identity: FailureIdentity,
        now: &str,
        make: impl FnOnce(FailureIdentity) -> FailedRun,
    ) {
        if !self.shelf.lock().count(plugin, &identity, now) {
            // `make` is slow, so it runs without the lock. Only one worker runs a key, so no other caller records the
            // same failure meanwhile.
            let run = make(identity);
            self.shelf.lock().add(plugin, run, self.max_bytes);
        }
        self.changes.send_modify(|n| *n += 1);
    }

    /// The failed runs of a plugin, the latest first.
    pub(crate) fn of(&self, plugin: &str) -> Vec<RecordedFailure> {
        let shelf = self.shelf.lock();
        shelf.by_plugin.get(plugin).into_iter().flatten().rev().cloned().collect()
    }

    pub(crate) fn forget(&self, plugin: &str) {
        self.shelf.lock().by_plugin.remove(plugin);
    }

    /// Changes after every failed run.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl Shelf {
    /// Counts a repeated failure; returns false if it is new.
    fn count(&mut self, plugin: &str, identity: &FailureIdentity, now: &str) -> bool {
        let Some(runs) = self.by_plugin.get_mut(plugin) else { return false };
        let Some(at) = runs.iter().position(|kept| kept.run.identity == *identity) else { return false };
        let Some(mut kept) = runs.remove(at) else { return false };
        kept.n_times += 1;
        now.clone_into(&mut kept.last);
        runs.push_back(kept);
        true
    }

    fn add(&mut self, plugin: &Arc<str>, run: FailedRun, max_bytes: usize) {
        self.n_so_far += 1;
        let (id, n_bytes, last) = (self.n_so_far, run.n_bytes(), run.now.clone());
        let runs = self.by_plugin.entry(plugin.clone()).or_default();
        runs.push_back(RecordedFailure { id, run: Arc::new(run), n_times: 1, last, n_bytes });
        if runs.len() > MAX_RUNS {
            runs.pop_front();
        }
        while self.n_bytes() > max_bytes
            && let Some(runs) = self.by_plugin.values_mut().max_by_key(|runs| bytes_of(runs))
        {
            runs.pop_front();
        }
    }

    fn n_bytes(&self) -> usize {
        self.by_plugin.values().map(bytes_of).sum()
    }
}

fn bytes_of(runs: &VecDeque<RecordedFailure>) -> usize {
    runs.iter().map(|kept| kept.n_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_testing::{key, manifest};

    fn identity(name: &str, message: &str) -> FailureIdentity {
        FailureIdentity {
            key: key(name),
            digest: "d".into(),
            failure: Failure::Fault(FaultKind::Trap),
            message: message.to_owned(),
        }
    }

    fn run(identity: FailureIdentity, n_bytes: usize) -> FailedRun {
        let log = vec![LogLine { level: "info", message: "x".repeat(n_bytes) }];
        FailedRun {
            identity,
            manifest: manifest(|_| ()),
            now: "first".into(),
            uptime: Duration::ZERO,
            attempt: 0,
            failures: Vec::new(),
            config: "{}".into(),
            read_set: ReadSet::default(),
            log,
        }
    }

    fn names(failures: &Failures, plugin: &str) -> Vec<String> {
        failures.of(plugin).iter().map(|kept| kept.run.identity.key.object.name.to_string()).collect()
    }

    #[test]
    fn a_repeated_failure_is_counted_and_built_once() {
        let failures = Failures::new(MAX_BYTES);
        let plugin = Arc::from("p");
        failures.keep(&plugin, identity("a", "m"), "first", |identity| run(identity, 0));
        failures.keep(&plugin, identity("b", "m"), "first", |identity| run(identity, 0));
        failures.keep(&plugin, identity("a", "m"), "second", |_| panic!("made twice"));
        failures.keep(&plugin, FailureIdentity { digest: "e".into(), ..identity("a", "m") }, "third", |identity| {
            run(identity, 0)
        });
        failures.keep(&plugin, identity("a", "other"), "fourth", |identity| run(identity, 0));
        assert_eq!(names(&failures, "p"), ["a", "a", "a", "b"]);
        let kept = &failures.of("p")[2];
        assert_eq!((kept.n_times, kept.last.as_str(), kept.run.now.as_str()), (2, "second", "first"));
        assert_eq!((*failures.changes().borrow(), failures.of("q").len()), (5, 0));
    }

    #[test]
    fn one_run_over_the_limit_displaces_the_oldest() {
        let failures = Failures::new(MAX_BYTES);
        let plugin = Arc::from("p");
        for i in 0..MAX_RUNS {
            failures.keep(&plugin, identity(&i.to_string(), "m"), "", |identity| run(identity, 0));
        }
        assert_eq!(failures.of("p").len(), MAX_RUNS);
        assert_eq!(failures.of("p").last().unwrap().id, 1);
        failures.keep(&plugin, identity("one-more", "m"), "", |identity| run(identity, 0));
        assert_eq!(failures.of("p").len(), MAX_RUNS);
        assert_eq!(failures.of("p").last().unwrap().id, 2);
    }

    #[test]
    fn the_plugin_with_the_most_runs_loses_its_oldest_at_the_total_limit() {
        let each = run(identity("a", "m"), 1_000).n_bytes();
        let failures = Failures::new(each * 4);
        let (quiet, loud) = (Arc::from("quiet"), Arc::from("loud"));
        failures.keep(&quiet, identity("a", "m"), "", |identity| run(identity, 1_000));
        for i in 0..3 {
            failures.keep(&loud, identity(&i.to_string(), "m"), "", |identity| run(identity, 1_000));
        }
        assert_eq!((names(&failures, "quiet").len(), names(&failures, "loud").len()), (1, 3));
        failures.keep(&loud, identity("3", "m"), "", |identity| run(identity, 1_000));
        assert_eq!(names(&failures, "quiet"), ["a"]);
        assert_eq!(names(&failures, "loud"), ["3", "2", "1"]);
        failures.forget("loud");
        assert!(failures.of("loud").is_empty());
    }

    #[test]
    fn a_run_over_the_total_limit_is_not_kept() {
        let failures = Failures::new(10_000);
        failures.keep(&Arc::from("p"), identity("a", "m"), "", |identity| run(identity, 20_000));
        assert!(failures.of("p").is_empty());
    }
}
