//! What authors of plugins use: packages, cases, definitions. None of it needs a cluster.
//!
//! ```text
//! folder ──pintle-build──> component ──┬──> package     a file that a host loads
//!                                      ├──> cases       outcomes, compared with the expected ones
//!                                      └──> rebuild     into a running host, on each save
//! folder ──types──> crds ─────────────────> crds/       definitions, checked against the types
//! crds/ ──────────────────────────────────> definitions into the cluster of `pintle dev`, on each save
//! ```
//!
//! *Invariant*: a component is looked at, compiled and run with the host's own parts, so that what passes here is what a host loads.
//!
//! *Not here*: how components are made (`pintle-build`), what operators see of them (`pintle-inspect`), and the arguments of commands (`host/src`).

pub mod cases;
pub mod crds;
pub mod definitions;
mod drift;
pub mod package;
pub mod rebuild;
