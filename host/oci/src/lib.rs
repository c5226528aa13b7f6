//! Components in registries: pull, push, sign, and verify them against the host's trusted keys.
//!
//! ```text
//! push: file ──> layout ──> Session ──> registry <── signature <── keys
//! pull: oci://... ──> Fetcher ──manifest, layer, signatures──> Session | Cache
//!                        └──> Pulled (component + Proof) ──> Trust ──> host
//! ```
//!
//! Invariants:
//! 1. Pulled content, from the registry or the cache, matches the digests in its reference, its manifest and its
//!    descriptor.
//! 2. A host with trusted keys runs only components signed by one of them, whatever their source: the proof accompanies
//!    the component to the decision ([`Trust`]).
//! 3. A component is recorded by the digest of its manifest, even if the request had a tag.
//! 4. Everything has a maximum length, including error responses of registries.
//!
//! Not here: arguments of commands, and which component a host runs (`host/src`, `host/sources`).
//!
//! *Source*: CNCF TAG Runtime, "Wasm OCI Artifact layout"; cosign's `SIGNATURE_SPEC.md`.

mod attached;
mod cache;
mod compression;
mod credentials;
mod digest;
mod error;
mod fetch;
mod file;
mod keys;
mod layout;
mod options;
mod problem;
mod progress;
mod reference;
mod registry;
mod signature;
mod transport;
mod trust;

pub use self::attached::add_signature;
pub use self::cache::Cache;
pub use self::compression::{compressed, decompressed, is_compressed};
pub use self::digest::Digest;
pub use self::error::{Error, Reason, UnknownReason};
pub use self::fetch::{Fetcher, Pulled, read_source};
pub use self::file::{MAX_COMPONENT_BYTES, open, read, read_component, read_opened, write};
pub use self::keys::{SigningKey, generate};
pub use self::layout::{About, Artifact, Layer, component_of};
pub use self::options::{ConnectOptions, Options};
pub use self::progress::{Report, log, stderr};
pub use self::reference::{ArtifactRef, ComponentSource};
pub use self::registry::{Registries, Session};
pub use self::trust::{Evidence, Proof, Trust, beside, detached};
