//! Chores that look but change nothing.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use xtask::{examples, process, root};

/// Workspaces with Rust code, the host's first; those that hold no package yet are left out.
fn workspaces() -> Vec<PathBuf> {
    let root = root();
    let others = ["sdk/rust", "plugins", "tests/guests"].map(|folder| root.join(folder));
    let mut all = vec![root];
    all.extend(others.into_iter().filter(|folder| folder.join("Cargo.lock").exists()));
    all
}

const CLIPPY: [&str; 6] = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

/// Version that is built where there is none.
const CARGO_DENY: &str = "0.20.2";

pub(crate) fn lint() -> anyhow::Result<()> {
    for folder in workspaces() {
        process::run(process::cargo(&folder).args(["fmt", "--all", "--check"]))?;
        process::run(process::cargo(&folder).args(CLIPPY))?;
    }
    for example in examples::of("rust")? {
        process::run(examples::cargo(&example).args(["fmt", "--check"]))?;
        process::run(examples::cargo(&example).args(CLIPPY))?;
    }
    Ok(())
}

pub(crate) fn doc() -> anyhow::Result<()> {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    process::run(
        process::cargo(&root()).args(args).env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"),
    )
}

/// Bans, licences and sources; advisories too if asked, which fetches their database.
pub(crate) fn deny(advisories: bool) -> anyhow::Result<()> {
    let mut checks = vec!["bans", "licenses", "sources"];
    if advisories {
        checks.push("advisories");
    }
    let deny = cargo_deny()?;
    for folder in workspaces() {
        let config = root().join("deny.toml");
        let mut command = Command::new(&deny);
        command.current_dir(&folder).args(["--log-level", "error", "--config"]).arg(config);
        process::run(command.args(["check", "--hide-inclusion-graph"]).args(&checks))?;
    }
    Ok(())
}

/// cargo-deny of the machine, or one of our own, built once.
fn cargo_deny() -> anyhow::Result<PathBuf> {
    let on_path = || Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success());
    if on_path() {
        return Ok("cargo-deny".into());
    }
    let tools = root().join("target/tools");
    let ours = tools.join("bin/cargo-deny");
    if !ours.exists() {
        eprintln!("building cargo-deny, once");
        let mut install = process::cargo(&root());
        install.args(["install", "cargo-deny", "--locked", "--version", CARGO_DENY, "--root"]).arg(&tools);
        process::run(&mut install).context("install cargo-deny")?;
    }
    Ok(ours)
}
