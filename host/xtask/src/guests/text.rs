//! Guests that are written as the text of a core module.

use std::path::Path;

use anyhow::Context;
use wit_component::StringEncoding;
use wit_parser::Resolve;

/// Reads a core module that is written as text, and says in it that it is a controller.
///
/// # Errors
/// The file is unreadable, or not a module.
pub(super) fn module_of_text(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut module = wat::parse_file(path).with_context(|| format!("read {}", path.display()))?;
    let mut contract = Resolve::default();
    let (package, _) = contract.push_dir(crate::root().join("wit")).context("read the contract")?;
    let world = contract.select_world(&[package], Some("controller"))?;
    wit_component::embed_component_metadata(&mut module, &contract, world, StringEncoding::UTF8, false)?;
    Ok(module)
}
