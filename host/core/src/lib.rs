//! Decisions of the Pintle host, and the traits between its crates.
//!
//! Invariants:
//! 1. No clock, no I/O, no async runtime: time and randomness are arguments.
//! 2. No dependency on `kube`, `wasmtime` or `tokio`.
//!
//! Not here: the tokio shell (`pintle-runtime`), the API server (`pintle-kube`), the sandbox (`pintle-wasm`).

pub mod contract;
pub mod duration;
pub mod kubernetes;
pub mod lifecycle;
pub mod object;
pub mod overview;
pub mod policy;
pub mod ports;
pub mod text;
