//! Generates the references: of the manifest out of its types, of the contract out of `wit/`, of metrics out of their definitions.
//!
//! *Invariant*: what is committed is what [`generate`] answers (`committed_references_are_up_to_date`).

mod contract;
mod manifest;
mod metrics;

use std::fs;

use anyhow::Context;

use crate::root;

/// Files of the repository, with their texts.
///
/// # Errors
/// If the contract or a manifest cannot be read.
pub fn generate() -> anyhow::Result<Vec<(&'static str, String)>> {
    let contract = contract::page(&root().join("wit"))?;
    Ok(vec![
        ("sdk/docs/manifest.md", manifest::page(&pintle_build::manifest_schema())),
        ("sdk/docs/contract.md", contract),
        ("host/docs/metrics.md", metrics::page(&metrics::built_in()?)),
    ])
}

/// Writes them.
///
/// # Errors
/// As [`generate`], or if a file cannot be written.
pub fn write() -> anyhow::Result<()> {
    for (name, text) in generate()? {
        let file = root().join(name);
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
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
            let committed = fs::read_to_string(root().join(name)).with_context(|| format!("read {name}"))?;
            assert!(committed == text, "{name} is old; run `cargo xtask reference`");
        }
        Ok(())
    }
}
