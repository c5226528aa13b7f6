//! The manifest inside a component.

use anyhow::{Result, ensure};
use pintle_core::manifest;
use serde_json::Value;
use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::{Chunk, Parser, Payload};

/// The manifest that a component carries.
///
/// # Errors
/// The bytes are no component with a manifest.
pub fn manifest_of(component: &[u8]) -> Result<Value> {
    let (_, manifest) = split(component)?;
    Ok(serde_json::from_slice(&manifest)?)
}

/// The same component with a changed manifest: another build of it.
///
/// # Errors
/// The bytes are no component with a manifest.
pub fn with_manifest(component: &[u8], change: impl FnOnce(&mut Value)) -> Result<Vec<u8>> {
    let (mut rest, manifest) = split(component)?;
    let mut manifest: Value = serde_json::from_slice(&manifest)?;
    change(&mut manifest);
    let data = serde_json::to_vec(&manifest)?;
    CustomSection { name: manifest::SECTION.into(), data: data.into() }.append_to_component(&mut rest);
    Ok(rest)
}

/// A component without its manifest, and the manifest.
fn split(component: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut parser = Parser::new(0);
    let mut rest = Vec::with_capacity(component.len());
    let mut manifests = Vec::new();
    let mut at = 0;
    while at < component.len() {
        let Chunk::Parsed { consumed, payload } = parser.parse(&component[at..], true)? else { break };
        let mut end = at + consumed;
        match &payload {
            Payload::CustomSection(section) if section.name() == manifest::SECTION => {
                manifests.push(section.data().to_vec());
                at = end;
                continue;
            }
            // What is nested goes along unread.
            Payload::ModuleSection { unchecked_range, .. } | Payload::ComponentSection { unchecked_range, .. } => {
                end = usize::try_from(unchecked_range.end)?;
            }
            _ => {}
        }
        rest.extend_from_slice(&component[at..end]);
        at = end;
    }
    ensure!(manifests.len() == 1, "the component has {} manifests", manifests.len());
    Ok((rest, manifests.remove(0)))
}
