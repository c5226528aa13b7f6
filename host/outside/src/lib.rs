//! Bindings of plugins outside of the API server: keys and authorities in files, endpoints at URLs.
//!
//! ```text
//! need ──> Bindings (by plugin and name) ──> key, authority ──files that may change──> token, certificate
//!                                        └─> endpoint ──HTTPS──> JSON
//! ```
//!
//! *Invariants*:
//! 1. Keys and credentials stay in this crate: neither responses nor errors nor logs contain them.
//! 2. No issued certificate is that of an authority, whatever the request contains.
//! 3. A call is sent once, only to the bound address: no redirects, no proxies, no retries.
//! 4. Files are read again when they are used, at most once in [`LOOK_INTERVAL`]; unusable content changes nothing.
//!
//! Not here: the decisions (`pintle_core::policy::outside`), and authorization (`pintle_runtime`).

mod authority;
mod bindings;
mod endpoint;
mod files;
mod jwt;
mod keys;
mod request;
mod usages;
mod workers;

#[cfg(test)]
mod tests;

pub use bindings::{Bindings, Secret, secret};
pub use endpoint::EndpointConfig;
pub use files::{BindError, LOOK_INTERVAL, MAX_FILE_BYTES};
