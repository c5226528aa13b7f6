//! The controllers in `sdk/<language>/examples`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{process, root};

/// Folders of the examples of a language, named like a folder of `sdk`, in order.
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

/// The cases of an example: its own, or those shared by the examples with this name in all languages.
pub fn cases(example: &Path) -> PathBuf {
    let own = example.join("cases");
    let name = example.file_name().unwrap_or_default();
    if own.exists() { own } else { root().join("tests").join(name).join("cases") }
}

/// Target folder for native tests of the SDK, its examples and the plugins, so that common code is built once.
pub fn target() -> PathBuf {
    root().join("target/native")
}

/// Cargo in a Rust example. Each is a separate workspace; they share the SDK's build output.
pub fn cargo(example: &Path) -> Command {
    let mut cargo = process::cargo(example);
    cargo.env("CARGO_TARGET_DIR", target());
    cargo
}
