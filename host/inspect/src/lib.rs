//! Inspection of plugins for operators: metadata and requests of components, RBAC roles for them, and failed runs as
//! cases.
//!
//! ```text
//! component ──> inspected   what it watches and writes, and its ControllerPlugin
//! manifests ──> rbac        roles for what they request
//! failed run ─> cases       what the run saw, in the form of `pintle test`
//! ```
//!
//! *Not here*: tools for authors only (`pintle-author`), and the arguments of commands (`host/src`).

pub mod cases;
mod inspected;
mod outside;
pub mod rbac;

pub use self::inspected::{Inspected, Resource};
