//! Runs the tests of the host's workspace, dividing whole-system tests by file.
//!
//! ```text
//! cargo --no-run -> executables -> jobs: one for each executable, or for each file of an executable that is divided
//!                               -> the longest first, a few at once -> what they print, the number of tests, the time of each
//! ```
//!
//! *Invariants*
//! 1. A job fails if its process does, or if it has run another number of tests than were listed for it. All jobs run.
//! 2. Times never fail a run. A job that takes a multiple of its recorded time is reported.
//!
//! The tests of a job run sequentially, so that its time depends little on parallel jobs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;
use xtask::root;

/// The recorded times of jobs, relative to the root of the repository.
pub(crate) const TIMES: &str = "tests/times.toml";

/// A job is reported if it takes more than this many times its recorded time,
const SLOW_FACTOR: f64 = 3.0;

/// and this many seconds more: short times vary with other load on the machine.
const SLOW_SECONDS: f64 = 10.0;

/// The assumed time of a job without a recorded one, so that it starts early.
const UNKNOWN_SECONDS: f64 = 120.0;

/// Number of longest jobs shown at the end of a run.
const N_SHOWN: usize = 10;

/// Counts of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) ignored: u32,
}

impl Tally {
    /// Adds a line of libtest's such as `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; ...`. Returns
    /// whether it is one; others are ignored.
    pub(crate) fn add(&mut self, line: &str) -> bool {
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return false;
        };
        for (number, what) in numbers.split("; ").filter_map(|part| part.split_once(' ')) {
            let Ok(number) = number.parse::<u32>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
        true
    }

    /// Adds another tally.
    pub(crate) fn add_all(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Runs tests, shows their output, and counts them.
    pub(crate) fn run(&mut self, command: &mut Command) -> anyhow::Result<()> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("start cargo test")?;
        let output = child.stdout.take().context("read what cargo test prints")?;
        for line in BufReader::new(output).lines() {
            let line = line.context("read what cargo test prints")?;
            println!("{line}");
            self.add(&line);
        }
        let status = child.wait().context("wait for cargo test")?;
        ensure!(status.success(), "cargo test failed: {status}");
        Ok(())
    }
}

/// A test executable.
#[derive(Debug, Clone)]
pub(crate) struct Executable {
    /// Package and target, such as `pintle-wasm::limits`; only the package for unit tests.
    pub(crate) name: String,
    path: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
}

/// Tests that run in one process, sequentially.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// As in [`TIMES`].
    pub(crate) name: String,
    executable: Executable,
    /// The names of its tests; all tests of the executable if there are none.
    pub(crate) tests: Vec<String>,
    n_tests: usize,
}

/// Name of a job -> seconds.
pub(crate) type Times = BTreeMap<String, f64>;

/// The result of all jobs.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) tally: Tally,
    /// How long each job took.
    pub(crate) times: Times,
    /// The output of failed jobs.
    failures: Vec<String>,
}

/// Compiles the tests selected by `cargo` and these arguments, and returns their executables.
pub(crate) fn executables(mut cargo: Command, arguments: &[&str]) -> anyhow::Result<Vec<Executable>> {
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]).args(arguments);
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let output = child.stdout.take().context("read what cargo test prints")?;
    let mut found = Vec::new();
    for line in BufReader::new(output).lines() {
        let message: Value = serde_json::from_str(&line?).context("read a message of cargo test")?;
        let (Some(path), true) = (message["executable"].as_str(), message["profile"]["test"] == true) else { continue };
        let manifest = PathBuf::from(message["manifest_path"].as_str().context("an executable without a package")?);
        let folder = manifest.parent().context("a manifest without a folder")?.to_owned();
        // `path+file:///folder#name@version`, or `...#version` if the folder has the name of the package.
        let id = message["package_id"].as_str().unwrap_or_default();
        let package = match id.rsplit_once('#').map(|(_, package)| package.split('@').next().unwrap_or_default()) {
            Some(package) if !package.starts_with(|first: char| first.is_ascii_digit()) => package.to_owned(),
            _ => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let is_beside_code = message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().all(|k| k == "lib"));
        let target = message["target"]["name"].as_str().unwrap_or_default();
        let name = if is_beside_code { package } else { format!("{package}::{target}") };
        found.push(Executable { name, path: path.into(), folder });
    }
    let status = child.wait().context("wait for cargo test")?;
    ensure!(status.success(), "cargo test --no-run failed: {status}");
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl Executable {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        // As run by `cargo test`.
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// The names of its tests.
    fn list(&self) -> anyhow::Result<Vec<String>> {
        let output = self.command().args(["--list", "--format=terse"]).output();
        let output = output.with_context(|| format!("list the tests of {}", self.name))?;
        ensure!(output.status.success(), "{} does not list its tests", self.name);
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(lines.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// One job with all tests; `None` if there are none.
    pub(crate) fn whole(&self) -> anyhow::Result<Option<Job>> {
        let n_tests = self.list()?.len();
        let job = Job { name: self.name.clone(), executable: self.clone(), tests: Vec::new(), n_tests };
        Ok((n_tests > 0).then_some(job))
    }

    /// A job for each file of the executable, which is a module of its root, with this name prefix.
    pub(crate) fn files(&self, prefix: &str) -> anyhow::Result<Vec<Job>> {
        let mut by_file: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for test in self.list()? {
            let file = test.split_once("::").with_context(|| format!("{test} is in no module"))?.0.to_owned();
            by_file.entry(file).or_default().push(test);
        }
        let job = |(file, tests): (String, Vec<String>)| {
            let n_tests = tests.len();
            Job { name: format!("{prefix}::{file}"), executable: self.clone(), tests, n_tests }
        };
        Ok(by_file.into_iter().map(job).collect())
    }

    /// A job for each test of the executable, with this name prefix.
    pub(crate) fn tests(&self, prefix: &str) -> anyhow::Result<Vec<Job>> {
        let job = |test: String| {
            let (name, tests) = (format!("{prefix}::{test}"), vec![test]);
            Job { name, executable: self.clone(), tests, n_tests: 1 }
        };
        Ok(self.list()?.into_iter().map(job).collect())
    }
}

impl Job {
    fn run(&self, environment: &[(&str, PathBuf)]) -> anyhow::Result<Done> {
        let mut command = self.executable.command();
        command.args(["--test-threads=1"]).envs(environment.iter().map(|(name, value)| (*name, value)));
        if !self.tests.is_empty() {
            command.arg("--exact").args(&self.tests);
        }
        let (reader, writer) = std::io::pipe().context("make a pipe")?;
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(writer.try_clone().context("clone a pipe")?)
            .stderr(writer)
            .spawn()
            .with_context(|| format!("start {}", self.executable.path.display()))?;
        // It holds the ends of the pipe that the process writes to.
        drop(command);
        let mut done = Done::default();
        for line in BufReader::new(reader).split(b'\n') {
            let line = String::from_utf8_lossy(&line.context("read what tests print")?).into_owned();
            done.add(&line);
        }
        let status = child.wait().context("wait for tests")?;
        done.seconds = started.elapsed().as_secs_f64();
        let n_ran = done.tally.passed + done.tally.failed + done.tally.ignored;
        if !status.success() {
            done.error = Some(format!("{}: {status}", self.name));
        } else if n_ran as usize != self.n_tests {
            done.error = Some(format!("{}: {n_ran} tests have run, and not {}", self.name, self.n_tests));
        }
        Ok(done)
    }
}

/// The result of one job.
#[derive(Debug, Default)]
struct Done {
    tally: Tally,
    seconds: f64,
    /// Its complete output.
    text: String,
    /// Its output besides the lines of the test harness: results, such as tables.
    shown: String,
    error: Option<String>,
}

impl Done {
    fn add(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
        if self.tally.add(line) {
            return;
        }
        // The result follows the name of a test, on another line if the test has printed something.
        let own = match line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            Some((_, own)) => own,
            None => line,
        };
        let is_harness = ["", "ok", "FAILED", "ignored"].contains(&own.trim()) || own.starts_with("running ");
        if !is_harness {
            let _ = writeln!(self.shown, "{own}");
        }
    }
}

/// Runs jobs, `n_at_once` at a time, and prints their output when they end.
///
/// # Errors
/// A process cannot be started. Failing tests are results.
pub(crate) fn run(
    mut jobs: Vec<Job>,
    n_at_once: usize,
    recorded: &Times,
    environment: &[(&str, PathBuf)],
) -> anyhow::Result<Results> {
    let seconds = |job: &Job| expected(recorded, &job.name);
    // The next one is taken from the end.
    jobs.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let n_jobs = jobs.len();
    let waiting = Mutex::new(jobs);
    let results = Mutex::new((Results::default(), 0_usize));
    let work = || -> anyhow::Result<()> {
        loop {
            let next = waiting.lock().map_err(|_| anyhow!("another job panicked"))?.pop();
            let Some(job) = next else { return Ok(()) };
            let done = job.run(environment)?;
            let (results, n_done) = &mut *results.lock().map_err(|_| anyhow!("another job panicked"))?;
            *n_done += 1;
            let word = if done.error.is_some() { "FAILED" } else { "ok" };
            let (n, seconds) = (job.n_tests, done.seconds);
            println!("[{n_done}/{n_jobs}] {word:>6} {seconds:6.1} s  {} ({n} tests)", job.name);
            print!("{}", if done.error.is_some() { &done.text } else { &done.shown });
            results.add(&job, done);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_at_once.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a job panicked"))?)
    })?;
    let (results, _) = results.into_inner().map_err(|_| anyhow!("a job panicked"))?;
    Ok(results)
}

impl Results {
    fn add(&mut self, job: &Job, done: Done) {
        self.tally.add_all(done.tally);
        self.times.insert(job.name.clone(), done.seconds);
        if let Some(error) = done.error {
            self.failures.push(format!("==> {error}\n{}", done.text));
        }
    }

    /// The longest jobs, those that take a multiple of their recorded times, and those without one.
    pub(crate) fn report(&self, recorded: &Times) -> String {
        let mut text = String::from("\nThe files of tests that took longest:\n");
        let mut longest: Vec<_> = self.times.iter().collect();
        longest.sort_by(|a, b| b.1.total_cmp(a.1));
        for (name, seconds) in longest.iter().take(N_SHOWN) {
            let _ = writeln!(text, "{seconds:7.1} s  {name}");
        }
        let mut notes = String::new();
        for (name, seconds) in &self.times {
            match recorded.get(name) {
                Some(usual) if *seconds > usual * SLOW_FACTOR && *seconds > usual + SLOW_SECONDS => {
                    let _ = writeln!(notes, "{seconds:7.1} s  {name}: recorded are {usual:.1} s");
                }
                Some(_) => {}
                None => drop(writeln!(notes, "{seconds:7.1} s  {name}: no time is recorded")),
            }
        }
        if !notes.is_empty() {
            let _ = write!(text, "\nMore than {SLOW_FACTOR:.0} times as long as {TIMES} records:\n{notes}");
        }
        text
    }

    /// # Errors
    /// Tests have failed; the message is their output.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.failures.is_empty(), "tests failed:\n{}", self.failures.join("\n"));
        Ok(())
    }
}

/// The recorded times.
///
/// # Errors
/// The file cannot be read, or is not a list of seconds by name.
pub(crate) fn recorded_times() -> anyhow::Result<Times> {
    let text = std::fs::read_to_string(root().join(TIMES)).with_context(|| format!("read {TIMES}"))?;
    toml::from_str(&text).with_context(|| format!("parse {TIMES}"))
}

/// Updates the recorded times with those of a run.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn record_times(mut recorded: Times, times: &Times) -> anyhow::Result<()> {
    recorded.extend(times.iter().map(|(name, seconds)| (name.clone(), *seconds)));
    let mut text = String::from(
        "# Seconds of wall time of each file of tests, its tests one after the other, on two idle cores.\n\
         # `cargo xtask test --record-times` writes them. A file that takes three times as long is reported.\n",
    );
    for (name, seconds) in recorded {
        let _ = writeln!(text, "\"{name}\" = {seconds:.1}");
    }
    std::fs::write(root().join(TIMES), text).with_context(|| format!("write {TIMES}"))
}

/// The expected seconds of a job.
pub(crate) fn expected(recorded: &Times, name: &str) -> f64 {
    recorded.get(name).copied().unwrap_or(UNKNOWN_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(lines: &[&str]) -> Done {
        let mut done = Done::default();
        lines.iter().for_each(|line| done.add(line));
        done
    }

    #[test]
    fn results_of_test_binaries_add_up() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.05s");
        tally.add("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.05s");
        assert!(!tally.add("test a ... ok"));
        assert_eq!((tally.passed, tally.failed, tally.ignored), (5, 1, 1));
    }

    #[test]
    fn results_are_counted_and_tables_shown() {
        let done = done(&[
            "",
            "running 2 tests",
            "test a::b ... ok",
            "test a::c ... a table",
            "of two lines",
            "ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.05s",
        ]);
        assert_eq!(done.tally, Tally { passed: 3, failed: 0, ignored: 1 });
        assert_eq!(done.shown, "a table\nof two lines\n");
        assert!(done.text.contains("test a::b ... ok"), "{}", done.text);
    }

    #[test]
    fn files_that_take_a_multiple_of_their_time_are_reported() {
        let times = |list: &[(&str, f64)]| list.iter().map(|(name, s)| ((*name).to_owned(), *s)).collect::<Times>();
        let recorded = times(&[("slow", 10.0), ("usual", 10.0), ("short", 0.1)]);
        let results = Results {
            times: times(&[("slow", 31.0), ("usual", 29.0), ("short", 9.0), ("new", 1.0)]),
            ..Results::default()
        };
        let report = results.report(&recorded);
        assert!(report.contains("slow: recorded are 10.0 s"), "{report}");
        assert!(report.contains("new: no time is recorded"), "{report}");
        assert!(!report.contains("usual: ") && !report.contains("short: "), "{report}");
        results.check().unwrap();
    }

    #[test]
    fn a_job_that_runs_fewer_tests_than_it_lists_fails() {
        let tests = vec!["there_is_no_such_test".to_owned()];
        let path = std::env::current_exe().unwrap();
        let executable = Executable { name: "xtask".to_owned(), path, folder: root() };
        let job = Job { name: "xtask".to_owned(), executable, tests, n_tests: 1 };
        let done = job.run(&[]).unwrap();
        assert_eq!(done.error.as_deref(), Some("xtask: 0 tests have run, and not 1"));
        let mut results = Results::default();
        results.add(&job, done);
        results.check().unwrap_err();
    }
}
