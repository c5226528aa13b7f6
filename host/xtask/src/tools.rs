//! Programs for chores and tests, at versions pinned here. Each is built once for all checkouts ([`cache`]).

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::{cache, process, root};

/// Checks dependencies. Any installed version is accepted.
const CARGO_DENY: &str = "0.20.2";

/// Renders the documentation site. Another version may render other pages, so an installed one is ignored.
const MDBOOK: &str = "0.5.4";

/// Renders and installs charts. Another version may render other texts, so an installed one is ignored.
const HELM: &str = "v3.22.0";

/// The installed cargo-deny, or this version.
///
/// # Errors
/// If it cannot be built.
pub fn cargo_deny() -> anyhow::Result<PathBuf> {
    if process::succeeds(Command::new("cargo-deny").arg("--version")) {
        return Ok("cargo-deny".into());
    }
    built("cargo-deny", CARGO_DENY, &[])
}

/// mdBook, without its web server.
///
/// # Errors
/// If it cannot be built.
pub fn mdbook() -> anyhow::Result<PathBuf> {
    // Unoptimised: it still renders the book in two seconds.
    built("mdbook", MDBOOK, &["--no-default-features", "--features", "search", "--debug"])
}

/// Helm, built with Go.
///
/// # Errors
/// If it cannot be built.
pub fn helm() -> anyhow::Result<PathBuf> {
    let folder = cache::entry(&format!("helm-{HELM}"), |folder| {
        eprintln!("building helm, once");
        let mut install = Command::new("go");
        install.args(["install", "-trimpath", &format!("helm.sh/helm/v3/cmd/helm@{HELM}")]);
        process::run(install.env("GOBIN", folder).env("CGO_ENABLED", "0").env("GOGC", "400")).context("install helm")
    })?;
    Ok(folder.join("helm"))
}

fn built(name: &str, version: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = cache::entry(&format!("{name}-{version}"), |folder| {
        eprintln!("building {name}, once");
        let mut install = process::cargo(&root());
        install.args(["install", name, "--locked", "--version", version]).args(arguments).arg("--root").arg(folder);
        process::run(&mut install).with_context(|| format!("install {name}"))
    })?;
    Ok(folder.join("bin").join(name))
}
