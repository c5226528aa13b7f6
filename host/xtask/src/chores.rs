//! Chores that build and run the whole: demo, tests, benchmark.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use xtask::guests::{self, Set};
use xtask::{process, root};

use crate::checks;

/// Cargo, at the root of the repository.
fn cargo() -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root());
    cargo
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the components, then the binary that carries them; answers its path.
pub(crate) fn build(release: bool) -> anyhow::Result<PathBuf> {
    eprintln!("==> components");
    guests::build_named(&[Set::Plugins], &[])?;
    eprintln!("==> pintle");
    let mut build = cargo();
    build.args(["build", "--package", "pintle"]);
    if release {
        build.arg("--release");
    }
    process::run(&mut build)?;
    Ok(target().join(if release { "release" } else { "debug" }).join("pintle"))
}

/// Plays the story of `tests/src/bin/demo.rs`.
pub(crate) fn demo() -> anyhow::Result<()> {
    let pintle = build(false)?;
    process::run(cargo().args(["run", "--quiet", "--package", "pintle-tests", "--bin", "demo", "--"]).arg(pintle))
}

/// A part of `cargo xtask test`.
type Part = (&'static str, fn() -> anyhow::Result<()>);

const PARTS: &[Part] = &[
    ("format and lints", checks::lint),
    ("components", || guests::build_named(&[Set::Plugins, Set::TestGuests], &[]).map(drop)),
    ("the pintle binary", || build(false).map(drop)),
    ("the SDK", || test_workspace("sdk/rust")),
    ("the plugins", || test_workspace("plugins")),
    ("the host, and whole-system tests on the embedded and the real control plane", test_host),
    ("documentation", checks::doc),
    ("dependencies", || checks::deny(false)),
];

/// Everything that CI runs. Stops at the first part that fails.
pub(crate) fn test(only: &[String]) -> anyhow::Result<()> {
    let begun = Instant::now();
    for (number, (name, part)) in PARTS.iter().enumerate() {
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        eprintln!("\n==> {} of {}: {name}", number + 1, PARTS.len());
        let started = Instant::now();
        part().with_context(|| format!("test {name}"))?;
        eprintln!("==> {name}: passed in {:.0} s", started.elapsed().as_secs_f64());
    }
    eprintln!("\nall parts passed in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn test_workspace(folder: &str) -> anyhow::Result<()> {
    process::run(Command::new("cargo").current_dir(root().join(folder)).args(["test", "--workspace"]))
}

fn test_host() -> anyhow::Result<()> {
    let pintle = target().join("debug/pintle");
    process::run(cargo().args(["test", "--workspace"]).env("PINTLE_BIN", pintle))
}

/// Measures Pintle and kube-controller-manager side by side.
pub(crate) fn bench(args: &[String]) -> anyhow::Result<()> {
    let pintle = build(true)?;
    process::run(
        cargo()
            .args(["run", "--release", "--package", "pintle-tests", "--bin", "bench", "--"])
            .arg("--pintle")
            .arg(pintle)
            .args(args),
    )
}
