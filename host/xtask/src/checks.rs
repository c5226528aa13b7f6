//! Chores that look but change nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use xtask::{process, root};

/// Workspaces with Rust code, the host's first; those that hold no package yet are left out.
fn workspaces() -> Vec<PathBuf> {
    let root = root();
    let others = ["sdk/rust", "plugins", "tests/guests"].map(|folder| root.join(folder));
    let mut all = vec![root];
    all.extend(others.into_iter().filter(|folder| folder.join("Cargo.lock").exists()));
    all
}

fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder);
    cargo
}

pub(crate) fn lint() -> anyhow::Result<()> {
    for folder in workspaces() {
        process::run(cargo(&folder).args(["fmt", "--all", "--check"]))?;
        process::run(cargo(&folder).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    }
    Ok(())
}

pub(crate) fn doc() -> anyhow::Result<()> {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    process::run(cargo(&root()).args(args).env("RUSTDOCFLAGS", "-D warnings"))
}

pub(crate) fn deny() -> anyhow::Result<()> {
    process::run(cargo(&root()).args(["deny", "check"])).context("run cargo-deny (cargo install cargo-deny --locked)")
}
