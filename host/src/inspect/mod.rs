//! `pintle inspect`: what a component says of itself, without running it.

mod access;
mod show;

use pintle_oci::{Evidence, Fetcher, Pulled, read_source, stderr};
use serde_json::{Value, json};

use crate::cli::{InspectArgs, Output};
use crate::output;

/// What was looked at.
struct Looked<'a> {
    /// Where it is from.
    file: &'a str,
    found: &'a pintle_wasm::Inspection,
    /// Signatures that are there.
    n_signatures: usize,
    /// One of them is by a key that was named.
    is_verified: bool,
}

pub(crate) async fn inspect(args: &InspectArgs) -> anyhow::Result<()> {
    let fetcher = Fetcher::new(&args.registry, None, stderr)?;
    let Pulled { origin: file, bytes, proof } = read_source(&fetcher, &args.component).await?;
    let n_signatures = proof.n_signatures();
    fetcher.trust().check(&file, &bytes, &Evidence::Shown(proof))?;
    let found = pintle_wasm::inspect(&file, &bytes)?;
    let looked = Looked { file: &file, found: &found, n_signatures, is_verified: fetcher.trust().demands() };
    match args.output {
        Output::Json => output::json(&looked.json()),
        Output::Text => output::line(show::text(&looked).trim_end()),
    }
}

impl Looked<'_> {
    fn json(&self) -> Value {
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
