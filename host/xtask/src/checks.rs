//! Read-only chores.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use xtask::{examples, process, root, tools};

/// Workspaces with Rust code, the host's first; those without packages yet are left out.
fn workspaces() -> Vec<PathBuf> {
    let root = root();
    let others = ["sdk/rust", "plugins", "tests/guests"].map(|folder| root.join(folder));
    let mut all = vec![root];
    all.extend(others.into_iter().filter(|folder| folder.join("Cargo.lock").exists()));
    all
}

/// Lints the packages of a workspace during compilation. Running `cargo clippy` would check every dependency, too.
pub(crate) fn linted(cargo: &mut Command) -> &mut Command {
    // The settings of `cargo clippy -- -D warnings` for its `cargo check`.
    cargo
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}

/// Formatting of all workspaces.
pub(crate) fn format() -> anyhow::Result<()> {
    let examples = examples::of("rust")?;
    workspaces()
        .iter()
        .chain(&examples)
        .try_for_each(|folder| process::run(process::cargo(folder).args(["fmt", "--all", "--check"])))?;
    format_scenarios()
}

/// Formatting of scenario files: a macro includes them, so rustfmt does not find them.
fn format_scenarios() -> anyhow::Result<()> {
    let folder = root().join("tests/src/scenarios/list");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.current_dir(root()).args(["--check", "--edition", "2024"]);
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_file() {
            rustfmt.arg(path);
        }
    }
    process::run(&mut rustfmt)
}

/// Lints of test guests, which no other test compiles for this machine.
pub(crate) fn lint_guests() -> anyhow::Result<()> {
    process::run(process::cargo(&root().join("tests/guests")).args(CLIPPY))
}

const CLIPPY: [&str; 6] = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

pub(crate) fn lint() -> anyhow::Result<()> {
    format()?;
    for folder in workspaces() {
        process::run(process::cargo(&folder).args(CLIPPY))?;
    }
    examples::of("rust")?.iter().try_for_each(|example| process::run(examples::cargo(example).args(CLIPPY)))
}

pub(crate) fn doc() -> anyhow::Result<()> {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    process::run(
        process::cargo(&root()).args(args).env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"),
    )
}

/// Bans, licences and sources; with `advisories` also advisories, which fetches their database.
pub(crate) fn deny(advisories: bool) -> anyhow::Result<()> {
    let mut checks = vec!["bans", "licenses", "sources"];
    if advisories {
        checks.push("advisories");
    }
    let deny = tools::cargo_deny()?;
    for folder in workspaces() {
        let config = root().join("deny.toml");
        let mut command = Command::new(&deny);
        command.current_dir(&folder).args(["--log-level", "error", "--config"]).arg(config);
        process::run(command.args(["check", "--hide-inclusion-graph"]).args(&checks))?;
    }
    Ok(())
}
