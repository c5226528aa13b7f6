//! Chores that build and run the whole: demo, tests, benchmark.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, anyhow};
use xtask::guests::{self, Set};
use xtask::{controlplane, examples, process, root};

use crate::tiers::{Check, Long, SHARES};
use crate::{checks, languages, packages};

/// Cargo, at the root of the repository.
fn cargo() -> Command {
    process::cargo(&root())
}

/// The target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The binary that [`build_with_tests`] makes.
pub(crate) fn pintle() -> PathBuf {
    target().join("debug/pintle")
}

/// Builds the components, then the binary that carries them and a companion of it; answers the folder of both.
///
/// The whole workspace is named, because cargo chooses the features of dependencies for all that it builds: package by
/// package, most dependencies would be built once for each.
fn build_binaries(release: bool, companion: Option<&str>) -> anyhow::Result<PathBuf> {
    eprintln!("==> components");
    guests::build_named(&[Set::Plugins], &[])?;
    eprintln!("==> pintle");
    let mut build = cargo();
    build.args(["build", "--workspace"]);
    for binary in ["pintle"].into_iter().chain(companion) {
        build.args(["--bin", binary]);
    }
    if release {
        build.args(["--release", "--features", "jemalloc"]);
    }
    process::run(&mut build)?;
    Ok(target().join(if release { "release" } else { "debug" }))
}

/// Builds the components, then the binary that carries them; answers its path.
pub(crate) fn build(release: bool) -> anyhow::Result<PathBuf> {
    Ok(build_binaries(release, None)?.join("pintle"))
}

/// Builds the binary and the tests at once, for the reason of [`build_binaries`], and lints them.
fn build_with_tests() -> anyhow::Result<()> {
    process::run(checks::linted(cargo().args(["build", "--workspace", "--bins", "--tests"])))?;
    // Tests of the long tier are not among `--tests`, which `cargo test` would run.
    process::run(checks::linted(cargo().args(["build", "--workspace", "--test", "long"])))
}

/// Runs the demo in `tests/src/bin/demo.rs`.
pub(crate) fn demo() -> anyhow::Result<()> {
    let binaries = build_binaries(false, Some("demo"))?;
    process::run(Command::new(binaries.join("demo")).current_dir(root()).arg(binaries.join("pintle")))
}

/// A part of `cargo xtask test`: its name, and what it runs.
type Part = (&'static str, fn(&mut Tests) -> anyhow::Result<()>);

const PARTS: &[Part] = &[
    ("programs of the distribution", |_| packages::ensure()),
    ("format", |_| checks::format()),
    ("tools of other languages", |_| languages::install()),
    ("documentation site", |_| xtask::docs::build().map(drop)),
    ("components", |_| guests::build_named(&[Set::Plugins, Set::TestGuests], &[]).map(drop)),
    ("build and lints", |_| build_with_tests()),
    ("lints of test guests", |_| checks::lint_guests()),
    ("the SDK", |tests| tests.of_workspace("sdk/rust", &["--features", "pintle-sdk/cron"])),
    ("the examples of the SDK", |tests| tests.of_examples()),
    ("the SDKs of other languages", |_| languages::test()),
    ("the plugins", |tests| tests.of_workspace("plugins", &[])),
    ("the host, and whole-system tests on the embedded and the real control plane", |tests| tests.of_host()),
    ("the long tier", |tests| tests.of_long_tier()),
];

/// Runs the tests of the default tier, and those of the long one that are asked for. Stops at the first part that fails.
pub(crate) fn test(long: Long, only: &[String]) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut tests = Tests { tally: Tally::default(), long };
    // It takes minutes on a new machine, and little else waits for it. A failure is reported by the tests that need it.
    let whole = only.is_empty();
    let control_plane = whole.then(|| std::thread::spawn(controlplane::ensure));
    let mut times = Vec::new();
    for (number, (name, part)) in PARTS.iter().enumerate() {
        if !whole && !only.iter().any(|word| name.contains(word.as_str())) {
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

/// How many tests there were.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl Tally {
    /// Adds a line of libtest's such as `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; ...`; others are none of its.
    fn add(&mut self, line: &str) {
        let Some(numbers) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else { return };
        for part in numbers.1.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u32>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// Runs tests, shows what they print, and counts them.
    fn run(&mut self, command: &mut Command) -> anyhow::Result<()> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("start cargo test")?;
        let output = child.stdout.take().context("read what cargo test prints")?;
        for line in BufReader::new(output).lines() {
            let line = line.context("read what cargo test prints")?;
            println!("{line}");
            self.add(&line);
        }
        let status = child.wait().context("wait for cargo test")?;
        anyhow::ensure!(status.success(), "cargo test failed: {status}");
        Ok(())
    }
}

/// What `cargo xtask test` runs and counts.
struct Tests {
    tally: Tally,
    long: Long,
}

impl Tests {
    fn of_workspace(&mut self, folder: &str, features: &[&str]) -> anyhow::Result<()> {
        let mut test = process::cargo(&root().join(folder));
        test.args(["test", "--workspace"]).args(features).env("CARGO_TARGET_DIR", examples::target());
        self.tally.run(checks::linted(&mut test))
    }

    fn of_examples(&mut self) -> anyhow::Result<()> {
        let test = |example: &PathBuf| self.tally.run(checks::linted(examples::cargo(example).arg("test")));
        examples::of("rust")?.iter().try_for_each(test)
    }

    /// Tests of the host, with those of the default tier in `tests/`.
    ///
    /// Tests that need the control plane wait for its build, the others run meanwhile.
    fn of_host(&mut self) -> anyhow::Result<()> {
        let mut test = host_tests();
        // `--tests`: no package of the host has examples in its documentation.
        test.args(["--tests", "--no-fail-fast", "--", &threads()]);
        self.tally.run(&mut test)
    }

    fn of_long_tier(&mut self) -> anyhow::Result<()> {
        match self.long {
            Long::None => eprintln!("not asked for: --long runs it, --share a part of it"),
            Long::Share(n) => eprintln!("share {} of {}, which the commit selects", n + 1, SHARES.len()),
            Long::All => eprintln!("all of it"),
        }
        for share in self.long.shares() {
            eprintln!("tests: {}; checks: {:?}", share.tests.concat().join(", "), share.checks);
            // One after the other: some measure memory, others need most of the machine.
            for group in share.tests {
                let mut test = host_tests();
                self.tally.run(test.args(["--test", "long", "--"]).args(*group))?;
            }
            for check in share.checks {
                match check {
                    Check::Documentation => checks::doc()?,
                    Check::Dependencies => checks::deny(false)?,
                }
            }
        }
        Ok(())
    }
}

/// `cargo test` of the host's workspace, with what tests find in the environment.
fn host_tests() -> Command {
    let mut test = cargo();
    test.args(["test", "--workspace"]).env("PINTLE_BIN", pintle()).env("VIRTUAL_ENV", languages::python());
    checks::linted(&mut test);
    test
}

/// More tests at once than processors: most of the time they wait for other processes.
fn threads() -> String {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    format!("--test-threads={}", 2 * processors)
}

/// Measures Pintle and kube-controller-manager side by side.
pub(crate) fn bench(args: &[String]) -> anyhow::Result<()> {
    let binaries = build_binaries(true, Some("bench"))?;
    let mut bench = Command::new(binaries.join("bench"));
    process::run(bench.current_dir(root()).arg("--pintle").arg(binaries.join("pintle")).args(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_test_binaries_add_up() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.05s");
        tally.add("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.05s");
        tally.add("test a ... ok");
        assert_eq!((tally.passed, tally.failed, tally.ignored), (5, 1, 1));
    }
}
