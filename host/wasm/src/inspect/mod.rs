//! A component's metadata, read without compiling or running it.

mod bounds;
mod producers;
mod work;

use std::sync::Arc;

use pintle_core::contract::manifest::{self, Manifest, To};
use sha2::{Digest, Sha256};
use wasmparser::{ComponentExternalKind, ComponentTypeRef, Parser, Payload};

pub use self::producers::{Producer, Producers};
use crate::contract;
use crate::error::{LoadError, LoadProblem};
use crate::wasi;

/// Metadata of a component.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// The manifest as contained in the component: JSON.
    pub manifest_json: String,
    /// Names of imported interfaces and functions, without types.
    pub imports: Vec<String>,
    /// Names of exported functions and interfaces.
    pub exports: Vec<String>,
    /// Version of the contract that the component was built with, for example `0.1.0`; empty if it imports nothing from
    /// the contract.
    pub contract: String,
    /// Length of the component in bytes.
    pub size_bytes: usize,
    /// The largest initial memory of its modules, in bytes.
    pub memory_bytes: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub digest: String,
    /// The tools that built it, according to the component itself.
    pub producers: Producers,
}

impl Inspection {
    /// Whether the component exports the mapping.
    pub fn maps(&self) -> bool {
        self.exports.iter().any(|export| export == contract::MAPPING)
    }
}

/// Reads a component's metadata, and checks its manifest, imports and exports. Errors contain `name` (a name or path).
///
/// # Errors
/// [`LoadError`] if the host would reject it, as far as this can be checked without compiling.
pub fn inspect(name: &str, bytes: &[u8]) -> Result<Inspection, LoadError> {
    look(bytes).map_err(|problem| LoadError { name: name.to_owned(), problem })
}

pub(crate) fn look(bytes: &[u8]) -> Result<Inspection, LoadProblem> {
    bounds::component(bytes)?;
    if Parser::is_core_wasm(bytes) {
        return Err(LoadProblem::CoreModule);
    }
    if !Parser::is_component(bytes) {
        return Err(LoadProblem::NotWasm);
    }
    let mut found = Found::default();
    found.read(bytes)?;

    let is_other = |name: &&String| contract::version_of(name).is_some_and(|version| version != contract::VERSION);
    if let Some(interface) = found.imports.iter().chain(&found.exports).find(is_other) {
        return Err(LoadProblem::OtherContract { interface: interface.clone() });
    }
    let ours = [contract::LOG, contract::TYPES, contract::VIEW];
    let foreign = |import: &&String| !ours.contains(&import.as_str()) && wasi::wasi_interface(import).is_none();
    let unknown: Vec<String> = found.imports.iter().filter(foreign).cloned().collect();
    if !unknown.is_empty() {
        return Err(LoadProblem::UnknownImports { imports: unknown });
    }
    let json = match found.manifests.as_slice() {
        [] => return Err(LoadProblem::NoManifest),
        [json] => *json,
        several => return Err(LoadProblem::SeveralManifests(several.len())),
    };
    bounds::manifest(json)?;
    let manifest = Manifest::parse(json).map_err(LoadProblem::Manifest)?;
    if !found.functions.iter().any(|function| function == contract::RECONCILE) {
        return Err(LoadProblem::NoReconcile { exports: found.exports });
    }
    let version = |name: &String| contract::version_of(name).map(str::to_owned);
    let inspection = Inspection {
        contract: found.imports.iter().chain(&found.exports).find_map(version).unwrap_or_default(),
        manifest: Arc::new(manifest),
        manifest_json: String::from_utf8_lossy(json).into_owned(),
        imports: found.imports,
        exports: found.exports,
        size_bytes: bytes.len(),
        memory_bytes: found.size.memory_bytes,
        digest: hex(&Sha256::digest(bytes)),
        producers: found.producers.end(),
    };
    let rules = inspection.manifest.watches.iter().flat_map(|watch| &watch.enqueue);
    if rules.into_iter().any(|rule| rule.to == To::Plugin) && !inspection.maps() {
        return Err(LoadProblem::NoMapping);
    }
    Ok(inspection)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Default)]
struct Found<'a> {
    manifests: Vec<&'a [u8]>,
    imports: Vec<String>,
    exports: Vec<String>,
    functions: Vec<String>,
    producers: producers::Sections,
    size: bounds::Size,
}

impl<'a> Found<'a> {
    /// Reads the names of the outermost component only: sections of nested modules and components do not describe the
    /// plugin.
    fn read(&mut self, bytes: &'a [u8]) -> Result<(), LoadProblem> {
        let damaged = |error: wasmparser::BinaryReaderError| LoadProblem::Damaged(error.message().to_owned());
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(damaged)?;
            self.size.add(&payload)?;
            match payload {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CustomSection(section) if section.name() == producers::SECTION => {
                    self.producers.add(&section, depth == 1);
                }
                _ if depth != 1 => {}
                own => self.own(own).map_err(damaged)?,
            }
        }
        Ok(())
    }

    fn own(&mut self, payload: Payload<'a>) -> wasmparser::Result<()> {
        match payload {
            Payload::CustomSection(section) if section.name() == manifest::SECTION => {
                self.manifests.push(section.data());
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    // A `use` of a type in a WIT world is also an import, but requests nothing.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        self.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export?;
                    match export.kind {
                        ComponentExternalKind::Type => continue,
                        ComponentExternalKind::Func => self.functions.push(export.name.name.to_owned()),
                        _ => {}
                    }
                    self.exports.push(export.name.name.to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }
}
