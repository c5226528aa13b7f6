//! `pintle inspect`: what a component says of itself, without running it.

mod access;
mod show;

use serde_json::{Value, json};

/// A component that was inspected.
#[derive(Clone, Copy, Debug)]
pub struct Inspected<'a> {
    /// Where it is from.
    pub file: &'a str,
    /// What it says of itself.
    pub found: &'a pintle_wasm::Inspection,
    /// Number of its signatures.
    pub n_signatures: usize,
    /// One of them is by a key that was named.
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
            "exports": found.exports,
            "access": access::of(&found.manifest).iter().map(access::Access::json).collect::<Vec<_>>(),
            "manifest": *found.manifest,
        })
    }
}
