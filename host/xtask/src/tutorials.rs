//! Generates the tutorials in `sdk/docs`: one page for each language, that is read from top to bottom, out of one text.
//!
//! *Flow*: `sdk/docs/tutorial/common.md`, in which `{{part}}` stands for a part of `sdk/docs/tutorial/<language>.md`, where it comes
//! after a line `<!-- part -->` -> `sdk/docs/tutorial-<language>.md`. `sdk/docs/tutorial/defaults.md` has parts for languages without their
//! own. In the same way, `sdk/docs/tutorial/kind` -> `sdk/docs/own-kind-<language>.md`, for the languages of [`WITH_KIND`].
//!
//! *Invariants*: what is committed is what [`generate`] answers (`committed_tutorials_are_up_to_date`); every language has all parts,
//! and none that is not used.
//!
//! *Not here*: whether it is true what they say (`tests/tests/tutorials.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use pintle_build::Language;

use crate::root;

/// The first line of every page.
const NOTE: &str = "<!-- Made by `cargo xtask tutorials` out of sdk/docs/tutorial. -->\n\n";

/// Languages whose page shows a controller with its own kind.
pub const WITH_KIND: [Language; 3] = [Language::Go, Language::TypeScript, Language::Python];

/// That page, from the root of the repository.
pub fn with_kind(language: Language) -> String {
    format!("sdk/docs/own-kind-{}.md", language.to_string().to_lowercase())
}

/// Every page with its text.
///
/// # Errors
/// If a part is missing, or is not used.
pub fn generate() -> anyhow::Result<Vec<(String, String)>> {
    let (common, defaults) = (read("common")?, read("defaults")?);
    let defaults = parse(&defaults).context("defaults.md")?;
    let one = |language: Language| {
        let own = read(&language.to_string().to_lowercase())?;
        let with_defaults = |own: BTreeMap<_, _>| defaults.clone().into_iter().chain(own).collect();
        let text =
            parse(&own).and_then(|own| fill(&common, &with_defaults(own))).with_context(|| language.tutorial())?;
        Ok((language.tutorial(), format!("{NOTE}{text}")))
    };
    let common_of_kind = read("kind/common")?;
    let of_kind = |language: Language| {
        let (page, own) = (with_kind(language), read(&format!("kind/{}", language.to_string().to_lowercase()))?);
        let text = parse(&own).and_then(|own| fill(&common_of_kind, &own)).with_context(|| page.clone())?;
        Ok((page, format!("{NOTE}{text}")))
    };
    Language::ALL.into_iter().map(one).chain(WITH_KIND.into_iter().map(of_kind)).collect()
}

/// Writes them.
///
/// # Errors
/// As [`generate`], or if a file cannot be written.
pub fn write() -> anyhow::Result<()> {
    for (page, text) in generate()? {
        fs::write(root().join(&page), text).with_context(|| format!("write {page}"))?;
    }
    Ok(())
}

fn read(name: &str) -> anyhow::Result<String> {
    let file: PathBuf = root().join("sdk/docs/tutorial").join(format!("{name}.md"));
    fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))
}

/// Name -> text.
fn parse(text: &str) -> anyhow::Result<BTreeMap<&str, String>> {
    let mut parts = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            ensure!(parts.insert(name, String::new()).is_none(), "the part {name} is there twice");
            current = Some(name);
        } else {
            let part = current.and_then(|name| parts.get_mut(name));
            let part = part.with_context(|| format!("{line:?} belongs to no part"))?;
            part.extend([line, "\n"]);
        }
    }
    Ok(parts.into_iter().map(|(name, text)| (name, text.trim_matches('\n').to_owned())).collect())
}

fn fill(common: &str, parts: &BTreeMap<&str, String>) -> anyhow::Result<String> {
    let mut pieces = common.split("{{");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    let mut unused: Vec<&str> = parts.keys().copied().collect();
    for piece in pieces {
        let Some((name, rest)) = piece.split_once("}}") else { bail!("{{{{ without }}}} before {piece:?}") };
        let part = parts.get(name).with_context(|| format!("the part {name} is missing"))?;
        unused.retain(|other| *other != name);
        // A part that is empty leaves no empty lines, and no empty paragraph.
        let rest = match part.is_empty() {
            true if text.ends_with("\n\n") => rest.trim_start_matches('\n'),
            true if text.ends_with('\n') => rest.strip_prefix('\n').unwrap_or(rest),
            _ => rest,
        };
        text += part;
        text += rest;
    }
    ensure!(unused.is_empty(), "no use is made of {}", unused.join(", "));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_tutorials_are_up_to_date() -> anyhow::Result<()> {
        for (page, text) in generate()? {
            let committed = fs::read_to_string(root().join(&page)).with_context(|| format!("read {page}"))?;
            assert!(committed == text, "{page} is old; run `cargo xtask tutorials`");
        }
        Ok(())
    }
}
