//! Commands for authors of plugins; they need no cluster.
//!
//! *Not here*: how components are made (`pintle-build`), what a host takes (`pintle-wasm`).

mod build;

pub(crate) use build::build;
