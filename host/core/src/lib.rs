//! Decisions of the Pintle host, and the traits through which its parts meet.
//!
//! Invariants:
//! 1. No clock, no I/O, no async runtime: time and randomness are arguments.
//! 2. Neither `kube` nor `wasmtime` nor `tokio` is known here.
//!
//! Not here: the tokio shell (`pintle-runtime`), the API server (`pintle-kube`), the sandbox (`pintle-wasm`).

pub mod account;
pub mod api;
pub mod check;
pub mod comparison;
pub mod controllers_flag;
pub mod correlator;
pub mod duration;
pub mod field;
pub mod grants;
pub mod guest;
pub mod id;
pub mod ingest;
pub mod lifecycle;
pub mod manifest;
pub mod object;
pub mod outcome;
pub mod pending;
pub mod probation;
mod project;
pub mod queue;
pub mod ratelimit;
pub mod rules;
pub mod seen;
pub mod selector;
pub mod settings;
pub mod supervisor;
pub mod version;
pub mod view;
