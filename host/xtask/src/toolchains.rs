//! Toolchains that build components without Pintle, for the tests of `tests/toolchains`, at pinned versions.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{cache, process, root};

/// The Rust target whose programs are components.
pub const RUST_TARGET: &str = "wasm32-wasip2";

/// Installs Rust's standard library for [`RUST_TARGET`] if it is missing.
///
/// # Errors
/// It cannot be installed.
pub fn rust() -> anyhow::Result<()> {
    let is_there = || -> anyhow::Result<bool> {
        let mut rustc = Command::new("rustc");
        rustc.current_dir(root()).args(["--print", "target-libdir", "--target", RUST_TARGET]);
        Ok(PathBuf::from(process::output(&mut rustc)?.trim()).is_dir())
    };
    if is_there()? {
        return Ok(());
    }
    let added = process::run(Command::new("rustup").current_dir(root()).args(["target", "add", RUST_TARGET]));
    added.with_context(|| format!("there is no standard library of Rust for {RUST_TARGET}"))?;
    ensure!(is_there()?, "rustup installed {RUST_TARGET} for another toolchain than that of {}", root().display());
    Ok(())
}

/// `jco`, from the npm package pinned by `tests/toolchains/package.json`.
///
/// # Errors
/// It cannot be installed.
pub fn jco() -> anyhow::Result<PathBuf> {
    let pinned = root().join("tests/toolchains/package.json");
    let text = fs::read(&pinned).with_context(|| format!("read {}", pinned.display()))?;
    let folder = cache::entry(&format!("jco-{}", cache::digest([text.as_slice()])), |folder| {
        eprintln!("installing jco, once");
        fs::create_dir_all(folder)?;
        fs::write(folder.join("package.json"), &text)?;
        let mut npm = Command::new("npm");
        npm.current_dir(folder).args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
        process::run(&mut npm).context("install jco")
    })?;
    Ok(folder.join("node_modules/.bin/jco"))
}

/// The folder of the Python packages of `tests/toolchains/requirements.txt`, for `PYTHONPATH`: componentize-py, and Zig.
///
/// # Errors
/// They cannot be installed.
pub fn python() -> anyhow::Result<PathBuf> {
    let pinned = root().join("tests/toolchains/requirements.txt");
    let text = fs::read(&pinned).with_context(|| format!("read {}", pinned.display()))?;
    cache::entry(&format!("python-toolchains-{}", cache::digest([text.as_slice()])), |folder| {
        eprintln!("installing componentize-py and Zig, once");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(folder);
        process::run(pip.arg("-r").arg(&pinned)).context("install componentize-py and Zig")
    })
}
