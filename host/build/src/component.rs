//! Converts a core module and a manifest to a component.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use pintle_core::contract::manifest::{self, Manifest, ManifestError};
use wasm_encoder::{ComponentSection, CustomSection, ProducersField, ProducersSection, Section as _};
use wit_component::{ComponentEncoder, StringEncoding};

use crate::{Language, contract, crds};

/// Replaces the operating system for run-time libraries.
const CLOSED_WASI: &str = include_str!("wasi/closed.wat");
/// The module of its functions.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";

/// Reads a `manifest.yaml`: its JSON, and the plugin's name. Field paths are checked, also with the definitions in the
/// folder `crds` next to it.
///
/// # Errors
/// If it cannot be read or is not a valid manifest.
pub fn manifest_json(path: &Path) -> anyhow::Result<(Vec<u8>, String)> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let in_file = || path.display().to_string();
    let value: serde_json::Value = serde_norway::from_str(&text).with_context(in_file)?;
    let json = serde_json::to_vec(&value)?;
    let manifest = Manifest::parse(&json).or_else(|why| match (why, serde_norway::from_str::<Manifest>(&text)) {
        // This error has line numbers.
        (_, Err(placed)) => Err(anyhow::Error::new(placed)),
        // They are checked below, with those of custom kinds.
        (ManifestError::Path(_), Ok(manifest)) => Ok(manifest),
        // This parser accepts a number for a string, as YAML allows.
        (why, Ok(_)) => Err(wrong_type(&value).unwrap_or_else(|| why.into())),
    });
    let manifest = manifest.with_context(in_file)?;
    let project = path.parent().unwrap_or(path);
    crds::check(&manifest, project, &text, in_file)?;
    Ok((json, manifest.name))
}

/// The error for a manifest field of the wrong type.
fn wrong_type(manifest: &serde_json::Value) -> Option<anyhow::Error> {
    let why = serde_path_to_error::deserialize::<_, Manifest>(manifest).err()?;
    Some(anyhow!("{}: {}; text that looks like a number needs quotes", why.path(), why.inner()))
}

/// Converts a core module built with wit-bindgen to a component, and adds the manifest.
///
/// # Errors
/// If the module does not fit its declared contract.
pub fn assemble(core: &[u8], manifest: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = ComponentEncoder::default().validate(true).module(core)?.encode()?;
    finish(&mut bytes, Language::Rust, manifest);
    Ok(bytes)
}

/// Adds the source language, the tools, and the manifest to a component.
pub(crate) fn finish(component: &mut Vec<u8>, language: Language, manifest: &[u8]) {
    // Strippers and linkers remove the entries of compilers.
    let mut languages = ProducersField::new();
    languages.value(&language.to_string(), "");
    let mut tools = ProducersField::new();
    tools.value("pintle", env!("CARGO_PKG_VERSION"));
    ProducersSection::new().field("language", &languages).field("processed-by", &tools).append_to(component);
    add_manifest(component, manifest);
}

/// Adds the manifest to a component.
pub fn add_manifest(component: &mut Vec<u8>, manifest: &[u8]) {
    CustomSection { name: manifest::SECTION.into(), data: manifest.into() }.append_to_component(component);
}

/// Converts a core module without a declared WIT world into a component. Its WASI imports are satisfied by an embedded module.
///
/// # Errors
/// The module does not fit the WIT world.
pub(crate) fn wrap(mut core: Vec<u8>, contract: &Path, world: &str) -> anyhow::Result<Vec<u8>> {
    let (contract, world) = contract::parse(contract, world)?;
    wit_component::embed_component_metadata(&mut core, &contract, world, StringEncoding::UTF8, false)?;
    let wasi = wat::parse_str(CLOSED_WASI).context("parse the embedded WASI module")?;
    ComponentEncoder::default().validate(true).module(&core)?.adapter(WASI, &wasi)?.encode()
}

#[cfg(test)]
mod tests {
    use pintle_core::contract::manifest::SECTION;
    use wasmparser::{Parser, Payload};

    use super::*;
    use crate::check;

    /// A module with the imports of run-time libraries, and one import from the operating system.
    const MODULE: &str = r#"(module
        (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
        (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "reconcile") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
            (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 8)))
            (drop (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0)))
            i32.const 2048)
        (func (export "pintle:controller/mapping@0.2.0#keys-of")
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) i32.const 2048))"#;

    fn wrapped(module: &str, world: &str) -> anyhow::Result<Vec<u8>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join(contract::FILE), contract::of(Language::Go).0)?;
        wrap(wat::parse_str(module)?, folder.path(), world)
    }

    #[test]
    fn a_module_that_asks_wasi_gets_its_answers_from_inside() {
        for (world, maps) in [(contract::CONTROLLER, false), (contract::MAPPING_CONTROLLER, true)] {
            let component = wrapped(MODULE, world).unwrap();
            let check = |world| check::component(&component, Language::Go, world, "0.2.0");
            check(world).unwrap();
            // The same module serves both WIT worlds: exports that a world lacks are left out.
            let text = String::from_utf8_lossy(&component).into_owned();
            assert!(!maps || text.contains("pintle:controller/mapping@0.2.0"));
            assert_eq!(check(contract::MAPPING_CONTROLLER).is_ok(), maps);
        }
    }

    #[test]
    fn a_module_of_another_shape_is_refused() {
        let other = MODULE.replace("(export \"reconcile\") (param i32", "(export \"reconcile\") (param");
        assert!(wrapped(&other, contract::CONTROLLER).is_err());
    }

    #[test]
    fn the_manifest_is_at_the_top_level() {
        let mut component = wrapped(MODULE, contract::CONTROLLER).unwrap();
        add_manifest(&mut component, b"{}");
        let mut depth = 0;
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(&component) {
            match payload.unwrap() {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::CustomSection(section) if section.name() == SECTION => {
                    found.push((depth, section.data().to_vec()))
                }
                _ => {}
            }
        }
        assert_eq!(found, [(1, b"{}".to_vec())]);
    }
}
