//! Chores that build and run the whole: demo, tests, benchmark.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use xtask::guests::{self, Set};
use xtask::{examples, process, root};

use crate::{checks, languages, packages};

/// Cargo, at the root of the repository.
fn cargo() -> Command {
    process::cargo(&root())
}

fn target() -> PathBuf {
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
        build.arg("--release");
    }
    process::run(&mut build)?;
    Ok(target().join(if release { "release" } else { "debug" }))
}

/// Builds the components, then the binary that carries them; answers its path.
pub(crate) fn build(release: bool) -> anyhow::Result<PathBuf> {
    Ok(build_binaries(release, None)?.join("pintle"))
}

/// Builds the binary and the tests at once, for the reason of [`build_binaries`].
fn build_with_tests() -> anyhow::Result<()> {
    process::run(cargo().args(["build", "--workspace", "--bins", "--tests"]))
}

/// Plays the story of `tests/src/bin/demo.rs`.
pub(crate) fn demo() -> anyhow::Result<()> {
    let binaries = build_binaries(false, Some("demo"))?;
    process::run(Command::new(binaries.join("demo")).current_dir(root()).arg(binaries.join("pintle")))
}

/// A part of `cargo xtask test`: its name, and what it runs.
type Part = (&'static str, fn(&mut Tally) -> anyhow::Result<()>);

const PARTS: &[Part] = &[
    ("programs of the distribution", |_| packages::ensure()),
    ("format and lints", |_| checks::lint()),
    ("tools of other languages", |_| languages::install()),
    ("components", |_| guests::build_named(&[Set::Plugins, Set::TestGuests], &[]).map(drop)),
    ("build", |_| build_with_tests()),
    ("the SDK", |tally| test_workspace("sdk/rust", tally)),
    ("the examples of the SDK", test_examples),
    ("the SDKs of other languages", |_| languages::test()),
    ("the plugins", |tally| test_workspace("plugins", tally)),
    ("the host, and whole-system tests on the embedded and the real control plane", test_host),
    ("documentation", |_| checks::doc()),
    ("dependencies", |_| checks::deny(false)),
];

/// Everything that CI runs. Stops at the first part that fails.
pub(crate) fn test(only: &[String]) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut tally = Tally::default();
    for (number, (name, part)) in PARTS.iter().enumerate() {
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        eprintln!("\n==> {} of {}: {name}", number + 1, PARTS.len());
        let started = Instant::now();
        part(&mut tally).with_context(|| format!("test {name}"))?;
        eprintln!("==> {name}: passed in {:.0} s", started.elapsed().as_secs_f64());
    }
    println!(
        "\ntest result: ok. {} passed; {} failed; {} ignored; finished in {:.0}s",
        tally.passed,
        tally.failed,
        tally.ignored,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
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

fn test_workspace(folder: &str, tally: &mut Tally) -> anyhow::Result<()> {
    tally.run(process::cargo(&root().join(folder)).args(["test", "--workspace"]))
}

fn test_examples(tally: &mut Tally) -> anyhow::Result<()> {
    examples::of("rust")?.iter().try_for_each(|example| tally.run(examples::cargo(example).arg("test")))
}

fn test_host(tally: &mut Tally) -> anyhow::Result<()> {
    tally.run(cargo().args(["test", "--workspace"]).env("PINTLE_BIN", pintle()).env("VIRTUAL_ENV", languages::python()))
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
