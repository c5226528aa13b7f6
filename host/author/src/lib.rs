//! Tools of plugin authors: packages, cases, definitions. None of them needs a cluster.
//!
//! ```text
//! folder ──pintle-build──> component ──┬──> package     a file that a host loads
//!                                      ├──> cases       outcomes, compared with the expected ones
//!                                      └──> rebuild     into a running host, on each save
//! folder ──types──> crds ─────────────────> crds/       definitions, checked against the types
//! crds/ ──────────────────────────────────> definitions into the cluster of `pintle dev`, on each save
//! ```
//!
//! *Invariant*: components are inspected, compiled and run with the host's own code, so that a component that passes
//! here loads in a host.
//!
//! *Not here*: building components (`pintle-build`), inspection for operators (`pintle-inspect`), and the arguments of
//! commands (`host/src`).

pub mod cases;
pub mod crds;
pub mod definitions;
mod drift;
pub mod package;
pub mod rebuild;
