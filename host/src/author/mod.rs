//! Commands for authors of plugins; they need no cluster.
//!
//! *Not here*: how components are made (`pintle-build`), what a host takes (`pintle-wasm`).

mod build;
mod new;
mod package;

pub(crate) use build::build;
pub(crate) use new::new;
pub(crate) use package::package;
