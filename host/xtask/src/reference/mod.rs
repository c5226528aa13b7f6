//! Generates the references in `sdk/docs`: of the manifest out of its types, of the contract out of `wit/`.
//!
//! *Invariant*: what is committed is what [`generate`] answers (`committed_references_are_up_to_date`).

mod contract;
mod manifest;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use crate::root;

/// Names of files below `sdk/docs`, with their texts.
///
/// # Errors
/// If the contract cannot be read.
pub fn generate() -> anyhow::Result<Vec<(&'static str, String)>> {
    let contract = contract::page(&root().join("wit"))?;
    Ok(vec![("manifest.md", manifest::page(&pintle_build::manifest_schema())), ("contract.md", contract)])
}

/// Writes them.
///
/// # Errors
/// As [`generate`], or if a file cannot be written.
pub fn write() -> anyhow::Result<()> {
    for (name, text) in generate()? {
        let file = folder().join(name);
        fs::create_dir_all(folder()).with_context(|| format!("make {}", folder().display()))?;
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}

fn folder() -> PathBuf {
    root().join("sdk/docs")
}

/// A doc comment as Markdown: links to Rust items become code.
fn prose(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").trim().to_owned()
}

/// In one line, for a cell of a table.
fn cell(text: &str) -> String {
    prose(text).replace("\n\n", "<br>").replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_references_are_up_to_date() -> anyhow::Result<()> {
        for (name, text) in generate()? {
            let committed = fs::read_to_string(folder().join(name)).with_context(|| format!("read sdk/docs/{name}"))?;
            assert!(committed == text, "sdk/docs/{name} is old; run `cargo xtask reference`");
        }
        Ok(())
    }
}
