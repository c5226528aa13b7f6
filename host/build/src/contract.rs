//! The contract: its text, and the names in it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use wit_parser::{Resolve, WorldId};

use crate::Language;

/// The newest contract.
const NEWEST: (&str, &str) = (include_str!("../../../wit/controller.wit"), "wit/controller.wit");
/// Its file.
pub(crate) const FILE: &str = "controller.wit";
/// Its package.
pub(crate) const PACKAGE: &str = "pintle:controller";
/// World of a plugin whose keys are mapped by the rules of its manifest.
pub(crate) const CONTROLLER: &str = "controller";
/// WIT world of a plugin with its own mapping of changes to keys.
pub(crate) const MAPPING_CONTROLLER: &str = "mapping-controller";
/// The function that every plugin exports.
pub(crate) const RECONCILE: &str = "reconcile";
/// The additional interface of plugins in WIT world [`MAPPING_CONTROLLER`].
pub(crate) const MAPPING: &str = "pintle:controller/mapping";
/// The interfaces that a plugin may import.
pub(crate) const IMPORTS: [&str; 3] = ["pintle:controller/log", "pintle:controller/types", "pintle:controller/view"];

/// Whether a folder contains the contract.
pub(crate) fn is_in(folder: &Path) -> bool {
    let declares = |text: &str| text.lines().any(|line| line.trim_start().starts_with("package pintle:controller@"));
    fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).any(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|extension| extension == "wit")
            && fs::read_to_string(path).is_ok_and(|text| declares(&text))
    })
}

/// Parses a folder of the contract.
///
/// # Errors
/// If it is invalid, or does not have this world.
pub(crate) fn parse(folder: &Path, world: &str) -> anyhow::Result<(Resolve, WorldId)> {
    let mut contract = Resolve::default();
    let (package, _) =
        contract.push_dir(folder).with_context(|| format!("read the contract in {}", folder.display()))?;
    let world = contract.select_world(&[package], Some(world))?;
    Ok((contract, world))
}

/// The contract of a language's SDK, and its file below the root of the repository.
#[allow(clippy::match_same_arms, reason = "each SDK moves on its own")]
pub(crate) fn of(language: Language) -> (&'static str, &'static str) {
    match language {
        Language::Rust => NEWEST,
        Language::Go => NEWEST,
        Language::JavaScript | Language::TypeScript => NEWEST,
        Language::Python => NEWEST,
    }
}

/// Version of the contract in a text, for example `0.1.0`.
pub(crate) fn version(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("package pintle:controller@"));
    line.unwrap_or_default().trim_end().trim_end_matches(';')
}

/// The version in the form of a manifest, from that of a text.
pub(crate) fn short(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(short, _)| short)
}
