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
//! Not here: the arguments of commands, and which component a host runs (`host/src`).
//!
//! *Source*: CNCF TAG Runtime, "Wasm OCI Artifact layout"; cosign's `SIGNATURE_SPEC.md`.

mod attached;
mod cache;
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
mod trust;

pub use self::attached::add_signature;
pub use self::cache::Cache;
pub use self::digest::Digest;
pub use self::error::{Error, Reason, UnknownReason};
pub use self::fetch::{Fetcher, Pulled, read_source};
pub use self::file::{MAX_COMPONENT_BYTES, read, read_component};
pub use self::keys::{SigningKey, generate};
pub use self::layout::{About, Artifact, component_of};
pub use self::options::{ConnectOptions, Options};
pub use self::progress::{Tell, log, stderr};
pub use self::reference::{ArtifactRef, ComponentSource};
pub use self::registry::{Registries, Session};
pub use self::trust::{Evidence, Proof, Trust, beside, detached};
