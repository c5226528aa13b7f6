//! The last runs of each plugin that failed, with what they saw, so that they can be had again.
//!
//! *Flow*: a run that ended with a fault or a declared error ([`crate::controller`]) -> what it read, by the notes of its view -> kept
//! here until something newer takes the place -> whoever asks the manager.
//!
//! *Invariants*:
//! 1. Memory only, and bounded: [`MAX_RUNS`] of a plugin, [`MAX_BYTES`] of all plugins. The oldest run goes first; of all plugins, that
//!    of the plugin that has most, so that one that fails all the time pushes out its own.
//! 2. A run that fails as one before it did is counted, and costs nothing else: the first one's input is kept.
//!
//! *Not here*: the form in which a run is saved, and what of it nobody may see (`pintle`'s `cases`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::MutationFailure;
use pintle_core::lifecycle::seen::Seen;
use pintle_core::object::id::Key;
use pintle_core::ports::guest::{FaultKind, LogLine};
use tokio::sync::watch;

/// Runs of one plugin that are kept.
pub const MAX_RUNS: usize = 20;
/// What the kept runs of all plugins may cost together, as far as the caches do not hold the same objects.
pub const MAX_BYTES: usize = 32 << 20;
/// Longest message; it is the plugin's own text.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4 << 10;
/// What a run costs besides its texts and objects.
const RUN_BYTES: usize = 1 << 10;

/// How a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The plugin broke a rule; nothing of the outcome was carried out, but for what it is granted.
    Fault(FaultKind),
    /// The plugin said that it wants to try again.
    Retry,
    /// The plugin said that trying again is useless.
    Terminal,
}

impl Failure {
    /// One word: the label of the fault's metric, `retry` or `terminal`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fault(kind) => kind.as_str(),
            Self::Retry => "retry",
            Self::Terminal => "terminal",
        }
    }
}

/// Which failures are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct How {
    /// Of the run.
    pub key: Key,
    /// SHA-256 of the component, in hexadecimal; empty if there is none.
    pub digest: String,
    /// What kind of failure.
    pub failure: Failure,
    /// For humans; untrusted text in part, cut.
    pub message: String,
}

/// A run that failed, and what it saw.
#[derive(Clone, Debug)]
pub struct FailedRun {
    /// Its key, and how it failed.
    pub how: How,
    /// Of the version of the plugin.
    pub manifest: Arc<Manifest>,
    /// The time that it saw: RFC 3339 with microseconds, UTC.
    pub now: String,
    /// Failures of the key in a row before it.
    pub attempt: u32,
    /// Of the key's previous outcome.
    pub failures: Vec<MutationFailure>,
    /// The configuration that it saw: a JSON object.
    pub config: Arc<str>,
    /// What it read.
    pub seen: Seen,
    /// What it logged; of very much the end.
    pub log: Vec<LogLine>,
}

/// A kept run.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Never used again in this process.
    pub id: u64,
    /// The first that failed so.
    pub run: Arc<FailedRun>,
    /// How many there were in all.
    pub n_times: u64,
    /// The time of the last one.
    pub last: String,
    n_bytes: usize,
}

impl FailedRun {
    /// What keeping it costs at most.
    pub fn n_bytes(&self) -> usize {
        let objects = self.seen.objects.iter().map(|seen| seen.n_bytes());
        let answers = self.seen.answers.iter().map(|(_, answer)| answer.as_ref().map_or(0, |text| text.len()));
        let state = self.seen.state.iter().map(|(name, value)| name.len() + value.len());
        let failures = self.failures.iter().map(|failure| failure.message.len() + size_of::<MutationFailure>());
        let log = self.log.iter().map(|line| line.message.len() + size_of::<LogLine>());
        let texts = objects.chain(answers).chain(state).chain(failures).chain(log);
        texts.sum::<usize>() + self.how.message.len() + self.config.len() + RUN_BYTES
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
    /// Name of the plugin -> its runs, the one that failed last at the end.
    by_plugin: BTreeMap<Arc<str>, VecDeque<Kept>>,
}

impl Failures {
    pub(crate) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self { shelf: Mutex::default(), changes: watch::Sender::new(0), max_bytes })
    }

    /// Keeps a run; `make` is called only if none that failed like this is there yet.
    pub(crate) fn keep(&self, plugin: &Arc<str>, how: How, now: &str, make: impl FnOnce(How) -> FailedRun) {
        if !self.shelf.lock().count(plugin, &how, now) {
            // Takes a while, and a key is run by one worker at a time: nobody else keeps the same meanwhile.
            let run = make(how);
            self.shelf.lock().add(plugin, run, self.max_bytes);
        }
        self.changes.send_modify(|n| *n += 1);
    }

    /// Of a plugin, the last one first.
    pub(crate) fn of(&self, plugin: &str) -> Vec<Kept> {
        let shelf = self.shelf.lock();
        shelf.by_plugin.get(plugin).into_iter().flatten().rev().cloned().collect()
    }

    pub(crate) fn forget(&self, plugin: &str) {
        self.shelf.lock().by_plugin.remove(plugin);
    }

    /// Changes whenever a run has failed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl Shelf {
    /// Counts a failure that there has been before; says whether there was one.
    fn count(&mut self, plugin: &str, how: &How, now: &str) -> bool {
        let Some(runs) = self.by_plugin.get_mut(plugin) else { return false };
        let Some(at) = runs.iter().position(|kept| kept.run.how == *how) else { return false };
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
        runs.push_back(Kept { id, run: Arc::new(run), n_times: 1, last, n_bytes });
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

fn bytes_of(runs: &VecDeque<Kept>) -> usize {
    runs.iter().map(|kept| kept.n_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_testing::{key, manifest};

    fn how(name: &str, message: &str) -> How {
        How {
            key: key(name),
            digest: "d".into(),
            failure: Failure::Fault(FaultKind::Trap),
            message: message.to_owned(),
        }
    }

    fn run(how: How, n_bytes: usize) -> FailedRun {
        let log = vec![LogLine { level: "info", message: "x".repeat(n_bytes) }];
        FailedRun {
            how,
            manifest: manifest(|_| ()),
            now: "first".into(),
            attempt: 0,
            failures: Vec::new(),
            config: "{}".into(),
            seen: Seen::default(),
            log,
        }
    }

    fn names(failures: &Failures, plugin: &str) -> Vec<String> {
        failures.of(plugin).iter().map(|kept| kept.run.how.key.object.name.to_string()).collect()
    }

    #[test]
    fn the_same_failure_is_counted_and_made_once() {
        let failures = Failures::new(MAX_BYTES);
        let plugin = Arc::from("p");
        failures.keep(&plugin, how("a", "m"), "first", |how| run(how, 0));
        failures.keep(&plugin, how("b", "m"), "first", |how| run(how, 0));
        failures.keep(&plugin, how("a", "m"), "second", |_| panic!("made twice"));
        failures.keep(&plugin, How { digest: "e".into(), ..how("a", "m") }, "third", |how| run(how, 0));
        failures.keep(&plugin, how("a", "other"), "fourth", |how| run(how, 0));
        assert_eq!(names(&failures, "p"), ["a", "a", "a", "b"]);
        let kept = &failures.of("p")[2];
        assert_eq!((kept.n_times, kept.last.as_str(), kept.run.now.as_str()), (2, "second", "first"));
        assert_eq!((*failures.changes().borrow(), failures.of("q").len()), (5, 0));
    }

    #[test]
    fn as_many_as_may_be_are_kept_and_one_more_pushes_out_the_oldest() {
        let failures = Failures::new(MAX_BYTES);
        let plugin = Arc::from("p");
        for i in 0..MAX_RUNS {
            failures.keep(&plugin, how(&i.to_string(), "m"), "", |how| run(how, 0));
        }
        assert_eq!(failures.of("p").len(), MAX_RUNS);
        assert_eq!(failures.of("p").last().unwrap().id, 1);
        failures.keep(&plugin, how("one-more", "m"), "", |how| run(how, 0));
        assert_eq!(failures.of("p").len(), MAX_RUNS);
        assert_eq!(failures.of("p").last().unwrap().id, 2);
    }

    #[test]
    fn who_has_most_gives_way_when_there_is_no_room_for_all() {
        let each = run(how("a", "m"), 1_000).n_bytes();
        let failures = Failures::new(each * 4);
        let (quiet, loud) = (Arc::from("quiet"), Arc::from("loud"));
        failures.keep(&quiet, how("a", "m"), "", |how| run(how, 1_000));
        for i in 0..3 {
            failures.keep(&loud, how(&i.to_string(), "m"), "", |how| run(how, 1_000));
        }
        assert_eq!((names(&failures, "quiet").len(), names(&failures, "loud").len()), (1, 3));
        failures.keep(&loud, how("3", "m"), "", |how| run(how, 1_000));
        assert_eq!(names(&failures, "quiet"), ["a"]);
        assert_eq!(names(&failures, "loud"), ["3", "2", "1"]);
        failures.forget("loud");
        assert!(failures.of("loud").is_empty());
    }

    #[test]
    fn what_is_larger_than_all_room_is_not_kept() {
        let failures = Failures::new(10_000);
        failures.keep(&Arc::from("p"), how("a", "m"), "", |how| run(how, 20_000));
        assert!(failures.of("p").is_empty());
    }
}
