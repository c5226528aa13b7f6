//! Chores that build and run everything: demo, tests, benchmark.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, anyhow};
use xtask::guests::{self, Set};
use xtask::{controlplane, examples, process, root};

use crate::runner::{self, Job, Tally, Times};
use crate::tiers::{Check, Long};
use crate::{checks, languages, packages};

/// Cargo, at the root of the repository.
fn cargo() -> Command {
    process::cargo(&root())
}

/// The target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The binary built by [`build_with_tests`].
pub(crate) fn pintle() -> PathBuf {
    target().join("debug/pintle")
}

/// Builds the components, then these binaries, one of which embeds them; returns their folder.
///
/// The whole workspace is built, because cargo unifies the features of dependencies over all built packages: package by
/// package, most dependencies would be built several times.
fn build_binaries(release: bool, binaries: &[&str]) -> anyhow::Result<PathBuf> {
    eprintln!("==> components");
    guests::build_named(&[Set::Plugins], &[])?;
    eprintln!("==> pintle");
    let mut build = cargo();
    build.args(["build", "--workspace"]);
    for binary in binaries {
        build.args(["--bin", binary]);
    }
    if release {
        build.args(["--release", "--features", "jemalloc"]);
    }
    process::run(&mut build)?;
    Ok(target().join(if release { "release" } else { "debug" }))
}

/// Builds the components, then the binary that embeds them; returns its path.
pub(crate) fn build(release: bool) -> anyhow::Result<PathBuf> {
    Ok(build_binaries(release, &["pintle"])?.join("pintle"))
}

/// Builds and lints the binary and the tests together, for the reason of [`build_binaries`].
fn build_with_tests() -> anyhow::Result<()> {
    process::run(checks::linted(cargo().args(["build", "--workspace", "--bins", "--tests"])))?;
    // Tests of the long tier are not part of `--tests`, which `cargo test` would run.
    process::run(checks::linted(cargo().args(["build", "--workspace", "--test", "long"])))
}

/// Runs the demo in `tests/src/bin/demo.rs`.
pub(crate) fn demo() -> anyhow::Result<()> {
    let binaries = build_binaries(false, &["pintle", "demo"])?;
    process::run(Command::new(binaries.join("demo")).current_dir(root()).arg(binaries.join("pintle")))
}

/// A part of `cargo xtask test`: its name and function.
type Part = (&'static str, fn(&mut Tests) -> anyhow::Result<()>);

const PARTS: &[Part] = &[
    ("programs of the distribution", |_| packages::ensure()),
    ("format", |_| checks::format()),
    ("tools of other languages", |_| languages::install()),
    ("components", |_| guests::build_named(&[Set::Plugins, Set::TestGuests], &[]).map(drop)),
    ("build and lints", |_| build_with_tests()),
    ("the SDK", |tests| tests.of_workspace("sdk/rust")),
    ("the examples of the SDK", |tests| tests.of_examples()),
    ("the SDKs of other languages", |_| languages::test()),
    ("the plugins", |tests| tests.of_workspace("plugins")),
    ("the host, and whole-system tests on the embedded and the real control plane", |tests| tests.of_host()),
    ("the long tier", |tests| tests.of_long_tier()),
];

/// The tests that [`test()`] runs.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The items of the long tier.
    pub(crate) long: Long,
    /// Whether to run every scenario, not a sample.
    pub(crate) all_scenarios: bool,
    /// Only parts whose names contain one of these words; all if there are none.
    pub(crate) only: Vec<String>,
    /// Whether to record the times of test files.
    pub(crate) record_times: bool,
}

/// Runs the tests of the default tier, and the selected ones of the long tier. Stops at the first failing part.
pub(crate) fn test(selection: &Selection) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut tests =
        Tests { tally: Tally::default(), selection, recorded: runner::recorded_times()?, times: Times::new() };
    // It takes minutes on a new machine, and few other parts wait for it. A failure is reported by the tests that need
    // it.
    let whole = selection.only.is_empty();
    let control_plane = whole.then(|| std::thread::spawn(controlplane::ensure));
    let mut times = Vec::new();
    for (number, (name, part)) in PARTS.iter().enumerate() {
        if !whole && !selection.only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        eprintln!("\n==> {} of {}: {name}", number + 1, PARTS.len());
        let started = Instant::now();
        part(&mut tests).with_context(|| format!("test {name}"))?;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("==> {name}: passed in {seconds:.0} s");
        times.push((name, seconds));
    }
    if let Some(control_plane) = control_plane {
        control_plane.join().map_err(|_| anyhow!("the build of the control plane panicked"))??;
    }
    if selection.record_times {
        runner::record_times(tests.recorded, &tests.times)?;
    }
    eprintln!();
    for (name, seconds) in times {
        eprintln!("{seconds:6.0} s  {name}");
    }
    let Tally { passed, failed, ignored } = tests.tally;
    println!(
        "\ntest result: ok. {passed} passed; {failed} failed; {ignored} ignored; finished in {:.0}s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs the scenarios with kube-controller-manager, and records its behaviour in the repository.
pub(crate) fn record(scenario: Option<&str>) -> anyhow::Result<()> {
    let mut record = cargo();
    record.args(["test", "--workspace", "--test", "long", "recordings", "--", "--nocapture"]).env("RECORD", "1");
    if let Some(words) = scenario {
        record.env("SCENARIO", words);
    }
    process::run(&mut record)
}

/// The tests that `cargo xtask test` runs and counts.
struct Tests<'a> {
    tally: Tally,
    selection: &'a Selection,
    /// The recorded times of jobs, and those of this run.
    recorded: Times,
    times: Times,
}

impl Tests<'_> {
    fn of_workspace(&mut self, folder: &str) -> anyhow::Result<()> {
        let mut test = process::cargo(&root().join(folder));
        test.args(["test", "--workspace"]).env("CARGO_TARGET_DIR", examples::target());
        self.tally.run(checks::linted(&mut test))
    }

    fn of_examples(&mut self) -> anyhow::Result<()> {
        let test = |example: &PathBuf| self.tally.run(checks::linted(examples::cargo(example).arg("test")));
        examples::of("rust")?.iter().try_for_each(test)
    }

    /// Tests of the host, and those of the default tier in `tests/`.
    ///
    /// Tests that need the control plane wait for its build, while the others run.
    fn of_host(&mut self) -> anyhow::Result<()> {
        let mut jobs = Vec::new();
        // `--tests`: no package of the host has doc examples.
        for executable in runner::executables(host_tests(), &["--tests"])? {
            match executable.name.as_str() {
                SYSTEM => jobs.extend(executable.files("system")?),
                _ => jobs.extend(executable.whole()?),
            }
        }
        // More than processors, because whole-system tests mostly wait for other processes.
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        self.run(jobs, 2 * processors)
    }

    fn of_long_tier(&mut self) -> anyhow::Result<()> {
        let mut jobs = Vec::new();
        for executable in runner::executables(host_tests(), &["--test", "long"])? {
            jobs.extend(executable.tests("long")?);
        }
        let checks = Check::ALL.iter().map(|check| check.name().to_owned());
        let all = jobs.iter().map(|job| job.name.clone()).chain(checks).collect();
        let (selected, line) = self.selection.long.select(&all, &self.recorded)?;
        eprintln!("{line}");
        jobs.retain(|job| selected.contains(&job.name));
        // Sequentially: some measure memory, others need most of the machine.
        self.run(jobs, 1)?;
        for check in Check::ALL.into_iter().filter(|check| selected.contains(check.name())) {
            let started = Instant::now();
            match check {
                Check::Documentation => checks::doc()?,
                Check::Dependencies => checks::deny(false)?,
                Check::Site => drop(xtask::docs::build()?),
                Check::Guests => checks::lint_guests()?,
            }
            self.times.insert(check.name().to_owned(), started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn run(&mut self, jobs: Vec<Job>, n_at_once: usize) -> anyhow::Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let mut environment = vec![("PINTLE_BIN", pintle()), ("VIRTUAL_ENV", languages::python())];
        if self.selection.all_scenarios {
            environment.push(("SCENARIOS", "all".into()));
        }
        let results = runner::run(jobs, n_at_once, &self.recorded, &environment)?;
        self.tally.add_all(results.tally);
        eprintln!("{}", results.report(&self.recorded));
        results.check()?;
        self.times.extend(results.times);
        Ok(())
    }
}

/// The name of the executable of whole-system tests.
const SYSTEM: &str = "pintle-tests::system";

/// Cargo with the flags of the compiled tests of the host's workspace.
fn host_tests() -> Command {
    let mut test = cargo();
    checks::linted(&mut test);
    test
}

/// Measures Pintle and kube-controller-manager side by side.
pub(crate) fn bench(args: &[String]) -> anyhow::Result<()> {
    // The build for desks takes long to link, and only these scenarios need it.
    let only = args.iter().skip_while(|arg| *arg != "--only").nth(1);
    let has_desk = only.is_none_or(|word| ["calls", "authors"].iter().any(|name| name.contains(word.as_str())));
    let desk = has_desk.then_some("pintle");
    let binaries = build_binaries(true, &["pintle-host", "bench"].into_iter().chain(desk).collect::<Vec<_>>())?;
    let mut bench = Command::new(binaries.join("bench"));
    bench.current_dir(root()).arg("--pintle").arg(binaries.join("pintle-host"));
    if let Some(name) = desk {
        bench.arg("--desk").arg(binaries.join(name));
    }
    process::run(bench.args(args))
}
