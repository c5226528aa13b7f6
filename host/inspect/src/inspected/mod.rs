//! `pintle inspect`: the metadata of a component, without running it.

mod access;
mod resource;
mod show;

pub use self::resource::Resource;

use pintle_wasm::{WASI_INTERFACES, WasiInterface, wasi_interface};
use serde_json::{Value, json};

/// An inspected component.
#[derive(Clone, Copy, Debug)]
pub struct Inspected<'a> {
    /// Its origin.
    pub file: &'a str,
    /// Its metadata.
    pub found: &'a pintle_wasm::Inspection,
    /// Number of its signatures.
    pub n_signatures: usize,
    /// Whether one of them is by a given key.
    pub is_verified: bool,
}

impl Inspected<'_> {
    /// For humans.
    pub fn text(&self) -> String {
        show::text(self)
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let found = self.found;
        let producers = |all: &[pintle_wasm::Producer]| -> Vec<Value> {
            all.iter().map(|producer| json!({"name": producer.name, "version": producer.version})).collect()
        };
        json!({
            "file": self.file,
            "digest": found.digest,
            "sizeBytes": found.size_bytes,
            "languages": producers(&found.producers.languages),
            "tools": producers(&found.producers.tools),
            "signatures": self.n_signatures,
            "verified": self.is_verified,
            "contract": found.contract,
            "imports": found.imports,
            "acceptedImports": accepted(),
            "exports": found.exports,
            "access": access::of(&found.manifest).iter().map(access::Access::json).collect::<Vec<_>>(),
            "manifest": *found.manifest,
        })
    }
}

/// The imports besides the contract that a host accepts, in every version 0.2.x.
fn accepted() -> Vec<Value> {
    let json =
        |interface: &WasiInterface| json!({"name": interface.name, "versions": "0.2.x", "gives": interface.gives});
    WASI_INTERFACES.iter().map(json).collect()
}

/// The capability of a WASI import for a plugin.
fn gives(import: &str) -> Option<&'static str> {
    wasi_interface(import).map(|interface| interface.gives)
}
