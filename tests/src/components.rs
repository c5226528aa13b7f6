//! Components for tests: those of the plugins and of `tests/guests`, the same with another manifest, and core modules written as text.

use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use pintle_core::contract::manifest;
use serde_json::Value;
use wasmparser::{Chunk, Parser, Payload};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;
use xtask::guests::{self, Component, Set};

use crate::workspace_dir;

/// The component of a built-in plugin, by its name.
///
/// # Errors
/// There is none, or the plugins do not build.
pub fn plugin(name: &str) -> Result<Vec<u8>> {
    read(Set::Plugins, name)
}

/// The component of a folder of `tests/guests`.
///
/// # Errors
/// There is none, or the guests do not build.
pub fn guest(folder: &str) -> Result<Vec<u8>> {
    read(Set::TestGuests, folder)
}

fn read(set: Set, name: &str) -> Result<Vec<u8>> {
    let path = &find(built(set)?, name)?.path;
    std::fs::read(path).with_context(|| format!("read {}", path.display()))
}

fn find<'b>(built: &'b [Component], name: &str) -> Result<&'b Component> {
    let found = built.iter().find(|component| component.path.file_stem().is_some_and(|stem| stem == name));
    found.with_context(|| format!("there is no component {name:?}"))
}

/// All components of a set, built once in a process if their sources have changed.
///
/// # Errors
/// They do not build.
pub fn built(set: Set) -> Result<&'static [Component]> {
    static PLUGINS: OnceLock<Result<Vec<Component>>> = OnceLock::new();
    static TEST_GUESTS: OnceLock<Result<Vec<Component>>> = OnceLock::new();
    let cell = match set {
        Set::Plugins => &PLUGINS,
        Set::TestGuests => &TEST_GUESTS,
    };
    cell.get_or_init(|| guests::build(set)).as_deref().map_err(|why| anyhow!("{why:#}"))
}

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
    pintle_build::add_manifest(&mut rest, &data);
    Ok(rest)
}

/// The component of a controller whose core module is written as text, for code that no compiler would produce.
///
/// # Errors
/// The text is not a core module that fits the contract.
pub fn of_text(module: &str, manifest: &Value) -> Result<Vec<u8>> {
    let mut module = wat::parse_str(module)?;
    let mut contract = Resolve::default();
    let (package, _) = contract.push_path(workspace_dir().join("wit")).context("read the contract")?;
    let world = contract.select_world(&[package], Some("controller"))?;
    embed_component_metadata(&mut module, &contract, world, StringEncoding::UTF8, false)?;
    pintle_build::assemble(&module, &serde_json::to_vec(manifest)?)
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
