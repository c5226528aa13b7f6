//! Core module and manifest -> component.

use std::fs;
use std::path::Path;

use anyhow::Context;
use pintle_core::manifest::{self, Manifest};
use wasm_encoder::{ComponentSection, CustomSection};
use wit_component::ComponentEncoder;

/// Reads a `manifest.yaml`: its JSON, and the plugin's name.
///
/// # Errors
/// If it cannot be read or is not a valid manifest.
pub fn manifest_json(path: &Path) -> anyhow::Result<(Vec<u8>, String)> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let in_file = || path.display().to_string();
    let value: serde_json::Value = serde_norway::from_str(&text).with_context(in_file)?;
    let json = serde_json::to_vec(&value)?;
    let manifest = Manifest::parse(&json).with_context(in_file)?;
    Ok((json, manifest.name))
}

/// Makes a component of a core module that was built with wit-bindgen, and writes the manifest into it.
///
/// # Errors
/// If the module does not fit the contract it says it was built for.
pub fn assemble(core: &[u8], manifest: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = ComponentEncoder::default().validate(true).module(core)?.encode()?;
    CustomSection { name: manifest::SECTION.into(), data: manifest.into() }.append_to_component(&mut bytes);
    Ok(bytes)
}
