//! Components in registries: pushing, pulling and signing them, and which signatures a host demands.
//!
//! ```text
//! push: file ──> layout ──> Session ──> registry <── signature <── keys
//! pull: oci://... ──> Fetcher ──manifest, layer, signatures──> Session | Cache
//!                        └──> Pulled (component + Proof) ──> Trust ──> whoever runs it
//! ```
//!
//! Invariants:
//! 1. What a pull answers has the digests that its reference, its manifest and its descriptor name, wherever it came from.
//! 2. With keys to verify by, nothing runs that is not signed by one of them, whichever way it came: the proof goes with the
//!    component to whoever decides, and is judged there ([`Trust`]).
//! 3. A component is recorded by the digest of its manifest, also if it was asked for by a tag.
//! 4. Nothing is taken that is longer than its limit. Answers that the library reads whole (manifests, tokens, errors) are bounded
//!    by time alone.
//!
//! Not here: where components are named (`plugins`, `plugin`, `resource`, `inspect`).
//!
//! *Source*: CNCF TAG Runtime, "Wasm OCI Artifact layout"; cosign's `SIGNATURE_SPEC.md`.

mod cache;
mod commands;
mod credentials;
mod digest;
mod fetch;
mod keys;
mod layout;
mod problem;
mod progress;
mod reference;
mod registry;
mod signature;
mod trust;

pub(crate) use self::cache::Cache;
pub(crate) use self::commands::{keygen, pull, push, sign, verify};
pub(crate) use self::fetch::{Fetcher, Pulled, read_source};
pub(crate) use self::progress::{log, stderr};
pub(crate) use self::reference::{ArtifactRef, ComponentSource};
pub(crate) use self::trust::{Evidence, Proof, Trust, beside, detached};
