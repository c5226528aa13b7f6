//! The controllers of `sdk/<language>/examples`, built by `pintle build`; one of them is the same in every language.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
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

/// A component that was built for a released contract.
#[derive(Debug)]
pub struct Released {
    /// Version of the contract, for example `0.1`.
    pub contract: String,
    /// The example that it was built from, for example `webapp`.
    pub example: String,
    /// What it is written in.
    pub language: String,
    /// The component file.
    pub component: PathBuf,
}

impl Released {
    /// Runs all cases of its example.
    ///
    /// # Errors
    /// They cannot be run, or one does not give the expected outcome.
    pub fn gives_the_same_outcomes(&self) -> Result<()> {
        let cases = workspace_dir().join("tests").join(&self.example).join("cases");
        let n_cases = std::fs::read_dir(&cases)?.count();
        let answer = test(&self.component, &cases, &[])?;
        let ran = answer["cases"].as_array().context("no cases")?;
        let n_equal = ran.iter().filter(|case| case["ok"] == true).count();
        println!("contract {}, {} in {}: {n_equal} of {n_cases} cases", self.contract, self.example, self.language);
        ensure!((n_equal, ran.len()) == (n_cases, n_cases), "{n_equal} of {} are equal: {self:?}", ran.len());
        Ok(())
    }
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

/// The components of `tests/released`, unpacked.
///
/// # Errors
/// A file cannot be read or written.
pub fn released() -> Result<Vec<Released>> {
    let mut all = Vec::new();
    for contract in std::fs::read_dir(workspace_dir().join("tests/released"))? {
        let contract = contract?;
        if !contract.file_type()?.is_dir() {
            continue;
        }
        let version = contract.file_name().to_string_lossy().into_owned();
        let folder = target_dir().join("released").join(&version);
        std::fs::create_dir_all(&folder)?;
        for file in std::fs::read_dir(contract.path())? {
            let file = file?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = name.strip_suffix(".zst").with_context(|| format!("{name} is not compressed"))?;
            let (example, language) = name
                .strip_suffix(".wasm")
                .and_then(|name| name.split_once('-'))
                .with_context(|| format!("{name} is not EXAMPLE-LANGUAGE.wasm.zst"))?;
            let (example, language) = (example.to_owned(), language.to_owned());
            let mut component = Vec::new();
            ruzstd::decoding::StreamingDecoder::new(std::fs::File::open(&file)?)?.read_to_end(&mut component)?;
            let path = folder.join(name);
            // Another test may read it at this moment.
            if std::fs::read(&path).ok().is_none_or(|there| there != component) {
                std::fs::write(&path, component)?;
            }
            all.push(Released { contract: version.clone(), example, language, component: path });
        }
    }
    all.sort_by(|a, b| a.component.cmp(&b.component));
    Ok(all)
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
