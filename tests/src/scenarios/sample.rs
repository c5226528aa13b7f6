//! The scenarios of one run: all of them, or a sample that fits into a budget of time.
//!
//! ```text
//! changed files since the base -> controllers whose sources changed -> order: one of each controller | changed | others -> Pace
//! ```
//!
//! Invariants:
//! 1. Every built-in controller has a scenario in each sample, whatever the budget.
//! 2. The order depends on the commit (or `SEED`) alone, so that a sample can be repeated, and each scenario has its turn.
//! 3. A budget bounds how many scenarios begin; no scenario that has begun is cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Outcomes, Scenario, recorded, subject};
use crate::workspace_dir;

/// How long the scenarios of a sample may take to begin, on one cluster.
const BUDGET: Duration = Duration::from_secs(150);

/// How long before the last commit the changes of a sample begin.
const CHANGES_SECONDS: u64 = 24 * 60 * 60;

/// Folders and files on which every built-in controller depends.
const OF_ALL: [&str; 10] = [
    "host/core/src/",
    "host/cache/src/",
    "host/runtime/src/",
    "host/kube/src/",
    "host/wasm/src/",
    "host/src/",
    "sdk/rust/src/",
    "sdk/rust/macros/src/",
    "wit/",
    "plugins/Cargo.",
];

/// The scenarios of a run, in the order in which they begin.
#[derive(Debug)]
pub struct Sample {
    /// All that may run.
    pub scenarios: Vec<Scenario>,
    /// Names of those that run whatever the budget.
    required: BTreeSet<&'static str>,
    /// Names of those whose controllers changed.
    changed: BTreeSet<&'static str>,
    budget: Option<Duration>,
    origin: String,
    /// The outcomes that the subject should come to; empty if they are not known.
    pub records: Outcomes,
    /// Version of the API server; the one that is followed by default.
    pub kubernetes: Option<&'static str>,
}

impl Sample {
    /// All of these scenarios, without a budget.
    pub fn whole(scenarios: Vec<Scenario>) -> Self {
        Self {
            scenarios,
            required: BTreeSet::new(),
            changed: BTreeSet::new(),
            budget: None,
            origin: "all scenarios".to_owned(),
            records: Outcomes::new(),
            kubernetes: None,
        }
    }

    /// What the environment asks for, of the scenarios that a cluster can show: those that `SCENARIO=text` names, all of them with
    /// `SCENARIOS=all`, or a sample. The name of the cluster is part of the seed: samples of different clusters differ.
    ///
    /// # Errors
    /// No scenario has that text in its name, or the sources of controllers cannot be read.
    pub fn chosen(cluster: &str, can_show: impl Fn(&Scenario) -> bool) -> Result<Self> {
        let mut scenarios = super::chosen()?;
        scenarios.retain(can_show);
        let is_named = std::env::var("SCENARIO").is_ok_and(|words| !words.is_empty());
        if is_named || all_are_asked_for() {
            return Ok(Self::whole(scenarios));
        }
        let (changes, since) = changed_files();
        let seed = match std::env::var("SEED") {
            Ok(seed) => seed,
            Err(_) => commit().unwrap_or_else(|_| "0".to_owned()),
        };
        let changes = changes.map(|files| Changes::of(&files, &controllers_by_folder()?)).transpose()?;
        let mut sample = Self::of(scenarios, changes.as_ref(), &format!("{cluster} {seed}"));
        sample.origin = format!("SEED={seed}, changes since {since}");
        Ok(sample)
    }

    /// A sample in the order that a seed decides. Without `changes`, everything has changed.
    fn of(mut scenarios: Vec<Scenario>, changes: Option<&Changes>, seed: &str) -> Self {
        scenarios.sort_by_cached_key(|scenario| {
            let mut hash = Sha256::new();
            hash.update(seed);
            hash.update(scenario.name);
            hash.finalize().to_vec()
        });
        let is_changed = |scenario: &Scenario| changes.is_none_or(|changes| changes.concern(scenario));
        let changed = scenarios.iter().filter(|s| is_changed(s)).map(|s| s.name).collect::<BTreeSet<_>>();
        // One that changed comes before others of its controller.
        scenarios.sort_by_key(|scenario| !changed.contains(scenario.name));
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut required = BTreeSet::new();
        for scenario in &scenarios {
            let n_before = seen.len();
            seen.extend(scenario.controllers);
            if seen.len() > n_before {
                required.insert(scenario.name);
            }
        }
        scenarios.sort_by_key(|scenario| !required.contains(scenario.name));
        Self { required, changed, budget: Some(BUDGET), ..Self::whole(scenarios) }
    }

    /// The same sample, whose scenarios end as it is recorded of kube-controller-manager.
    #[must_use]
    pub fn with_records(mut self) -> Self {
        self.records = recorded::outcomes(&self.scenarios);
        self
    }

    /// The clock of a run of this sample, which begins now.
    pub(super) fn pace(&self) -> Pace<'_> {
        let (begun, n_passed) = (Instant::now(), Mutex::new(0));
        Pace { sample: self, begun, n_passed }
    }

    /// Keeps the scenarios that have run.
    ///
    /// # Errors
    /// A scenario that is required has not run.
    pub fn that_ran(&self, outcomes: &Outcomes) -> Result<Vec<Scenario>> {
        let mut ran = self.scenarios.clone();
        ran.retain(|scenario| outcomes.contains_key(scenario.name));
        let is_missing = |name: &&&str| !outcomes.contains_key(**name);
        let missing: Vec<_> = self.required.iter().filter(is_missing).collect();
        ensure!(missing.is_empty(), "these have not run: {missing:?}");
        ensure!(!ran.is_empty(), "no scenario has run");
        Ok(ran)
    }

    /// One line: how many of which scenarios have run.
    pub fn summary(&self, outcomes: &Outcomes) -> String {
        let is_changed = |s: &&Scenario| self.changed.contains(s.name) && !self.required.contains(s.name);
        let is_other = |s: &&Scenario| !self.changed.contains(s.name) && !self.required.contains(s.name);
        let of = |which: &dyn Fn(&&Scenario) -> bool| {
            let all: Vec<_> = self.scenarios.iter().filter(which).collect();
            let n = all.iter().filter(|scenario| outcomes.contains_key(scenario.name)).count();
            format!("{n} of {}", all.len())
        };
        let Some(budget) = self.budget else { return format!("{} scenarios", self.scenarios.len()) };
        format!(
            "{} scenarios of {}: {} for one of each controller, {} others of changed controllers, {} of the rest \
             (budget {} s, {}; SCENARIOS=all runs all)",
            self.scenarios.iter().filter(|scenario| outcomes.contains_key(scenario.name)).count(),
            self.scenarios.len(),
            self.required.len(),
            of(&is_changed),
            of(&is_other),
            budget.as_secs(),
            self.origin
        )
    }
}

/// When the scenarios of a sample may begin.
///
/// The parts of a run come one after the other, on clusters and with neighbours of their own. Each has a share of the budget by the
/// number of its scenarios.
#[derive(Debug)]
pub(super) struct Pace<'a> {
    sample: &'a Sample,
    begun: Instant,
    /// The scenarios of the parts that have begun.
    n_passed: Mutex<u32>,
}

impl Pace<'_> {
    /// The outcome that a scenario should come to, if it is known.
    pub(super) fn record(&self, scenario: &Scenario) -> Option<&Value> {
        self.sample.records.get(scenario.name)?.as_ref().ok()
    }

    /// Begins a part of `n` scenarios. The answer decides whether one of them begins.
    pub(super) fn part(&self, n: usize) -> impl Fn(&Scenario) -> bool + Copy + use<'_> {
        let mut n_passed = self.n_passed.lock().unwrap_or_else(PoisonError::into_inner);
        *n_passed += u32::try_from(n).unwrap_or(u32::MAX);
        let n_all = u32::try_from(self.sample.scenarios.len()).unwrap_or(u32::MAX).max(1);
        let until = self.sample.budget.map(|budget| self.begun + budget * *n_passed / n_all);
        move |scenario| until.is_none_or(|until| self.sample.required.contains(scenario.name) || Instant::now() < until)
    }
}

/// The built-in controllers and scenarios whose sources have changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    all: bool,
    controllers: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Changes {
    /// Of these files, relative to the root of the workspace; `controllers` by folder of `plugins/`.
    fn of(files: &[String], controllers: &BTreeMap<String, String>) -> Result<Self> {
        let mut changes = Self::default();
        for file in files {
            changes.all |= OF_ALL.iter().any(|folder| file.starts_with(folder));
            changes.files.insert(file.clone());
            let Some((folder, rest)) = file.strip_prefix("plugins/").and_then(|rest| rest.split_once('/')) else {
                continue;
            };
            if !["src/", "Cargo.toml", "manifest.yaml"].iter().any(|source| rest.starts_with(source)) {
                continue;
            }
            match controllers.get(folder) {
                Some(controller) => drop(changes.controllers.insert(controller.clone())),
                // A library of plugins, except for their tests.
                None => changes.all |= folder != "tests",
            }
        }
        Ok(changes)
    }

    fn concern(&self, scenario: &Scenario) -> bool {
        let record = recorded::file(scenario);
        let record = record.strip_prefix(workspace_dir()).unwrap_or(&record).to_string_lossy().into_owned();
        self.all
            || self.files.contains(scenario.source)
            || self.files.contains(&record)
            || scenario.controllers.iter().any(|controller| self.controllers.contains(*controller))
    }
}

/// The names of built-in controllers by their folders.
fn controllers_by_folder() -> Result<BTreeMap<String, String>> {
    subject::manifests()?
        .into_iter()
        .map(|(file, name)| {
            let folder = file.parent().and_then(Path::file_name).context("a manifest without a folder")?;
            Ok((folder.to_string_lossy().into_owned(), name))
        })
        .collect()
}

/// The files that differ from the base, which is `PINTLE_TEST_BASE` or the commit of a day before the last one, and the name of the base.
/// `None` if there is no such commit.
fn changed_files() -> (Option<Vec<String>>, String) {
    let base = match std::env::var("PINTLE_TEST_BASE") {
        Ok(base) => Ok(base),
        Err(_) => git(&["log", "-1", "--format=%ct"]).and_then(|time| {
            let time: u64 = time.parse().context("git prints no time")?;
            git(&["rev-list", "-1", &format!("--before={}", time.saturating_sub(CHANGES_SECONDS)), "HEAD"])
        }),
    };
    let found = base.and_then(|base| {
        ensure!(!base.is_empty(), "no commit is a day older");
        let files = git(&["diff", "--name-only", &base])?;
        Ok((files.lines().map(str::to_owned).collect(), base.get(..12).unwrap_or(&base).to_owned()))
    });
    match found {
        Ok((files, base)) => (Some(files), base),
        Err(why) => (None, format!("the beginning ({why:#})")),
    }
}

/// Whether the environment asks for everything of which a run has a sample: `SCENARIOS=all`.
pub fn all_are_asked_for() -> bool {
    std::env::var("SCENARIOS").is_ok_and(|which| which == "all")
}

/// The seed that `SEED` in the environment gives, in hexadecimal digits.
///
/// # Errors
/// It is no such number.
pub fn given_seed() -> Result<Option<u64>> {
    let Ok(seed) = std::env::var("SEED") else { return Ok(None) };
    u64::from_str_radix(&seed, 16).map(Some).with_context(|| format!("SEED={seed} is not hexadecimal"))
}

/// The seed that the environment gives, or the commit.
///
/// # Errors
/// `SEED` is no number, or this is not a clone.
pub fn seed() -> Result<u64> {
    match given_seed()? {
        Some(seed) => Ok(seed),
        None => Ok(u64::from_str_radix(&commit()?, 16)?),
    }
}

/// The commit that is checked out: twelve hexadecimal digits.
///
/// # Errors
/// This is not a clone.
pub fn commit() -> Result<String> {
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git").current_dir(workspace_dir()).args(args).output().context("run git")?;
    ensure!(output.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scenarios::list;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn changes(names: &[&str]) -> Changes {
        Changes::of(&files(names), &controllers_by_folder().unwrap()).unwrap()
    }

    #[test]
    fn every_controller_has_a_scenario_and_every_scenario_names_controllers_that_exist() {
        let controllers: BTreeSet<&str> = subject::CONTROLLERS.iter().copied().collect();
        let named: BTreeSet<&str> = list::all().iter().flat_map(|scenario| scenario.controllers).copied().collect();
        assert_eq!(named, controllers);
    }

    #[test]
    fn a_sample_has_every_controller_first_then_what_changed() {
        let sample = Sample::of(list::all(), Some(&changes(&["plugins/job/src/lib.rs"])), "seed");
        let n = sample.required.len();
        let first: BTreeSet<&str> = sample.scenarios[..n].iter().flat_map(|s| s.controllers).copied().collect();
        assert_eq!(first, subject::CONTROLLERS.iter().copied().collect());
        assert!(n <= subject::CONTROLLERS.len());
        let n_jobs = sample.changed.len();
        assert!(n_jobs > 1);
        let then = &sample.scenarios[n..n + n_jobs - 1];
        assert!(then.iter().all(|scenario| scenario.controllers == ["job-controller"]), "{then:?}");
        assert_eq!(sample.scenarios.len(), list::all().len());
    }

    #[test]
    fn a_seed_decides_the_order() {
        let names = |seed: &str| -> Vec<&str> {
            Sample::of(list::all(), Some(&Changes::default()), seed).scenarios.iter().map(|s| s.name).collect()
        };
        assert_eq!(names("real 1"), names("real 1"));
        assert_ne!(names("real 1"), names("real 2"));
    }

    #[test]
    fn changes_concern_the_controllers_that_are_made_of_them() {
        let job = changes(&["plugins/job/src/end.rs", "plugins/cronjob/cases/a.yaml", "host/docs/faq.md", "README.md"]);
        assert!(!job.all);
        assert_eq!(job.controllers, BTreeSet::from(["job-controller".to_owned()]));
        assert!(!changes(&["plugins/tests/src/lib.rs", "host/xtask/src/main.rs"]).all);
        for of_all in ["host/core/src/lib.rs", "plugins/lib/src/lib.rs", "sdk/rust/src/lib.rs", "wit/a.wit"] {
            assert!(changes(&[of_all]).all, "{of_all}");
        }
        let all = list::all();
        let record = recorded::file(&all[0]);
        let record = record.strip_prefix(workspace_dir()).unwrap().to_str().unwrap();
        for own in [all[0].source, record] {
            assert!(changes(&[own]).concern(&all[0]), "{own}");
            assert!(!changes(&[own]).concern(all.last().unwrap()), "{own}");
        }
    }

    #[test]
    fn what_is_required_begins_after_the_budget_and_nothing_else() {
        let mut sample = Sample::of(list::all(), Some(&Changes::default()), "seed");
        sample.budget = Some(Duration::ZERO);
        let pace = sample.pace();
        let begins = pace.part(sample.scenarios.len());
        let n = sample.scenarios.iter().filter(|scenario| begins(scenario)).count();
        assert_eq!(n, sample.required.len());
        let ran: Outcomes = sample.required.iter().map(|name| (*name, Ok(json!({})))).collect();
        assert_eq!(sample.that_ran(&ran).unwrap().len(), n);
        sample.that_ran(&Outcomes::new()).unwrap_err();
    }

    #[test]
    fn each_part_has_its_share_of_the_budget() {
        let mut sample = Sample::of(list::all(), Some(&Changes::default()), "seed");
        let n = sample.scenarios.len();
        let last = *sample.scenarios.last().unwrap();
        sample.budget = Some(Duration::from_secs(1_000_000));
        let mut pace = sample.pace();
        pace.begun = Instant::now().checked_sub(Duration::from_secs(600_000)).unwrap();
        assert!(!pace.part(n / 2)(&last), "the first half of the budget is over");
        assert!(pace.part(n - n / 2)(&last));
        assert!(Sample::whole(list::all()).pace().part(n)(&last));
    }
}
