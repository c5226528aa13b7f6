//! The controllers that are shown in `sdk/<language>/examples`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{process, root};

/// Folders of the examples of a language, as a folder of `sdk` is called, in their order.
///
/// # Errors
/// There is none, or the folder cannot be read.
pub fn of(language: &str) -> anyhow::Result<Vec<PathBuf>> {
    let folder = root().join("sdk").join(language).join("examples");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut examples = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    examples.retain(|example| example.join("manifest.yaml").exists());
    ensure!(!examples.is_empty(), "there is no example in {}", folder.display());
    examples.sort();
    Ok(examples)
}

/// The cases of an example: its own, or those that the examples of this name share in all languages.
pub fn cases(example: &Path) -> PathBuf {
    let own = example.join("cases");
    let name = example.file_name().unwrap_or_default();
    if own.exists() { own } else { root().join("tests").join(name).join("cases") }
}

/// Where the SDK, its examples and the plugins are compiled for their native tests, so that what they share is built once.
pub fn target() -> PathBuf {
    root().join("target/native")
}

/// Cargo in an example in Rust. Each is a separate workspace; they share the SDK's build output.
pub fn cargo(example: &Path) -> Command {
    let mut cargo = process::cargo(example);
    cargo.env("CARGO_TARGET_DIR", target());
    cargo
}
