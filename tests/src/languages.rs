//! The controllers of `sdk/<language>/examples`, built by `pintle build`; one of them is the same in every language.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::pintle::{self, Answer};
use crate::{target_dir, workspace_dir};

/// An example, built.
#[derive(Debug)]
pub struct Built {
    /// Folder below `sdk`.
    pub language: String,
    /// The component file.
    pub component: PathBuf,
    /// How long `pintle build` took.
    pub build: Duration,
}

/// Languages with an SDK.
fn languages() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(workspace_dir().join("sdk"))? {
        let folder = entry?.path();
        // An SDK has its example; other folders are documentation.
        if folder.join("examples").exists() {
            names.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Every WebApp, by language; built once in a process.
///
/// # Errors
/// One does not build; the text is what the binary says.
pub fn built() -> Result<&'static [Built]> {
    static BUILT: LazyLock<Result<Vec<Built>>> =
        LazyLock::new(|| languages()?.iter().map(|language| build(language, "webapp")).collect());
    BUILT.as_deref().map_err(|why| anyhow::anyhow!("{why:#}"))
}

/// Every Errand, by language.
///
/// # Errors
/// As [`built`].
pub fn errands() -> Result<Vec<Built>> {
    languages()?.iter().map(|language| build(language, "errand")).collect()
}

/// One example, by its folder.
///
/// # Errors
/// It does not build; the text is what the binary says.
pub fn build(language: &str, example: &str) -> Result<Built> {
    let folder = workspace_dir().join("sdk").join(language).join("examples").join(example);
    let component = target_dir().join("languages").join(format!("{example}-{language}.wasm"));
    std::fs::create_dir_all(component.parent().context("no folder")?)?;
    let started = Instant::now();
    pintle(&["build".as_ref(), folder.as_ref(), "-o".as_ref(), component.as_ref()])?;
    Ok(Built { language: language.to_owned(), component, build: started.elapsed() })
}

/// What `pintle test` answers about the cases of a folder, in JSON.
///
/// # Errors
/// The binary fails.
pub fn test(component: &Path, cases: &Path, more: &[&str]) -> Result<Value> {
    let mut arguments: Vec<&Path> = vec!["test".as_ref(), component, "--cases".as_ref(), cases];
    arguments.extend(["-o", "json"].iter().chain(more).map(Path::new));
    Ok(serde_json::from_str(&pintle(&arguments)?)?)
}

/// What the binary prints.
///
/// # Errors
/// It fails.
pub fn pintle(arguments: &[&Path]) -> Result<String> {
    let mut command = pintle::command(arguments)?;
    // All packages in Rust share one build of the standard library for WebAssembly.
    Answer::of(command.env("CARGO_TARGET_DIR", target_dir().join("wasm")))?
        .success()
        .with_context(|| format!("{arguments:?}"))
}
